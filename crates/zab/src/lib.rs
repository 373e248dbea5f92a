//! Agreement on order: election, discovery, synchronization and broadcast, as Apache ZooKeeper's
//! servers speak them among each other.
//!
//! In: [`Input`], one at a time, with the time. Out: a list of [`Output`]. A txn is opaque bytes
//! with a zxid; what is in it, who asked for it and who is answered is somebody else's business. No
//! clock, socket, file or randomness: a test or the simulator drives the same code as the server.
//!
//! The way of a server through a term: it looks for a leader ([`mod@election`]), leads (`leader`) or
//! learns (`learner`; a follower may then serve observers, `observer_master`), until the term ends and
//! it looks again ([`zab`]). What it has of the common history and how sure it is of it stands in
//! [`log`]; how a learner catches up is decided in [`sync`]; who has a say, and whether that is about to
//! change, in `memberships`.
//!
//! The promises, each with its argument where it is kept:
//! - What one server has committed, every later leader has.
//! - Servers commit the same txns in the same order.
//! - No word is given that depends on a write that is not durable.

pub mod election;
pub mod history;
pub mod io;
mod leader;
mod learner;
mod learner_peer;
pub mod log;
mod memberships;
mod observer_master;
pub mod quorum;
mod replica;
pub mod settings;
pub mod sync;
#[cfg(test)]
mod testing;
pub mod zab;

pub use io::{EpochKind, Input, LearnerPort, LinkId, Output, RoleStatus, TreeAfterCut};
pub use leader::checks::Check;
pub use replica::{Epochs, StepDownReason, Voting};
pub use settings::{Mistake, ZabSettings};
pub use zab::{InitialState, Zab};
