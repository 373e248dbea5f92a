//! Agreement on the order of txns: election, discovery, synchronization and broadcast, in the protocol that Apache
//! ZooKeeper's servers use among each other.
//!
//! In: [`Input`], one at a time, with the time. Out: a list of [`Output`]. A txn is opaque bytes with a zxid; its
//! content, the client that requested it and the reply are not known here. There is no clock, socket, file or
//! randomness: a test or the simulator drives the same code as the server.
//!
//! During a term a server looks for a leader ([`mod@election`]), then leads (`leader`) or learns (`learner`; a
//! follower may also serve observers, `observer_master`), until the term ends and it looks again ([`zab`]). [`log`]
//! tracks which part of the common history this server has, and which part is durable and committed. [`sync`]
//! decides how a learner catches up. `memberships` knows the voters, and whether they are about to change.
//!
//! Guarantees; the modules that enforce them say why they hold:
//! - Every later leader has what any server has committed.
//! - Servers commit the same txns in the same order.
//! - Nothing is acknowledged or promised that depends on a write that is not durable.

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
pub use zab::{InitialFiles, InitialState, Zab};
