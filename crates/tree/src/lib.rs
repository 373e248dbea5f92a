//! The replicated state of a ZooKeeper service, and the two functions that move it:
//! [`Overlay::prepare`] turns a request into a txn, [`Tree::apply`] turns a txn into an outcome.
//!
//! In: requests, txns, and the time and ids that came with them. Out: txns, outcomes, watch events,
//! encoded replies of reads. Deliberately not here: connections, clocks, the order of txns
//! (agreement) and storage (disks).
//!
//! Invariants:
//! - Applying the same txns to two equal trees gives two equal trees, with equal digests.
//! - Applying a txn a second time changes nothing, because a snapshot may already contain it.
//! - A watch is registered under the same guard as the read that set it, so no change can happen in between.

pub mod acl_list;
pub mod acls;
pub mod apply;
pub mod auth;
pub mod changes;
pub mod digest;
pub mod dump;
pub mod events;
pub mod load;
pub mod nodes;
pub mod outcome;
pub mod overlay;
pub mod owner;
pub mod permit;
pub mod prepare;
pub mod quota;
pub mod read;
mod recursive_watches;
pub mod sweep;
pub mod tree;
pub mod visible;
pub mod walk;
pub mod watches;

pub use changes::{SnapshotTables, SnapshotZnode, TooManyChanges};
pub use dump::Dump;
pub use events::{Event, Events};
pub use load::{LoadError, Loader};
pub use outcome::Outcome;
pub use overlay::Overlay;
pub use prepare::{Caller, Prepared};
pub use tree::{Tree, TreeOptions};
pub use visible::{VisibleTree, VisibleZnode};
pub use walk::{ChildListing, StepLimit, TreeWalk, VisitedZnode, WalkAction};
pub use watches::{WatchMode, Watcher, Watches};
