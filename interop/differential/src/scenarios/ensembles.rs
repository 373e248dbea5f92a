//! Sessions that move between the servers of an ensemble, and the answers of each role. A scenario's slot 0
//! starts at the leader, slots 1 and 2 at followers, slot 3 at an observer.

mod local;
mod moves;
mod requests;
mod roles;
mod watches;

use super::Scenario;
use crate::action::{Action, Hello, Target};
use crate::roles::{FOLLOWER, LEADER, OBSERVER, OTHER_FOLLOWER};

/// All of them.
pub(super) const ALL: &[Scenario] = &[
    moves::EPHEMERALS,
    moves::OLD_CONNECTION,
    moves::CLAIMS,
    moves::EXPIRED,
    moves::AT_ONCE,
    moves::CREDENTIALS,
    watches::AGAIN,
    watches::REMOVAL,
    watches::ACROSS,
    requests::CREATES,
    requests::MULTIS,
    requests::BURSTS,
    requests::QUOTAS,
    requests::SYNCS,
    roles::HANDSHAKES,
    roles::CONFIG,
    roles::WORDS,
    local::UPGRADES,
    local::MOVES,
];

/// Scenarios that also run with local sessions: all except the one about an old connection, because a local
/// session cannot be taken over at another server.
pub(super) fn for_local_sessions() -> Vec<Scenario> {
    let goes = |scenario: &&Scenario| scenario.name != moves::OLD_CONNECTION.name;
    ALL.iter().filter(goes).copied().collect()
}

/// Every role.
const ROLES: [usize; 4] = [LEADER, FOLLOWER, OTHER_FOLLOWER, OBSERVER];
/// Two different servers, for every combination of roles.
const PAIRS: [(usize, usize); 7] = [
    (LEADER, FOLLOWER),
    (FOLLOWER, LEADER),
    (FOLLOWER, OTHER_FOLLOWER),
    (LEADER, OBSERVER),
    (OBSERVER, LEADER),
    (FOLLOWER, OBSERVER),
    (OBSERVER, FOLLOWER),
];

/// A new session for a slot, at this server.
fn opens(slot: usize, server: usize) -> Action {
    Action::Hello { slot, hello: Hello { server: Some(server), ..Hello::new_session() } }
}

/// A slot takes the session of another one, whose connection stays open.
fn takes(slot: usize, other: usize, server: usize) -> Action {
    Action::Hello { slot, hello: Hello { target: Target::Of(other), ..Hello::at(server) } }
}
