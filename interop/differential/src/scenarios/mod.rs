//! Fixed scenarios, for what random scripts rarely reach. Each is a list of actions on its own subtree; the
//! sessions of its slots are opened before it starts.

mod acls;
mod creates;
mod ensembles;
mod fields;
mod frames;
mod multis;
mod service;
mod sessions;
mod watches;

use herdsman_proto::{Acl, OpCode, Perms};

use crate::action::{Action, Hello};
use crate::call::{Call, Create};
use crate::roles::{self, Kind};
use crate::side::Layout;

/// A named list of actions.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The number of sessions. In an ensemble the first one starts at the leader, the others at the next
    /// servers by role, if the scenario is about an ensemble; otherwise the first one starts at a follower.
    pub slots: usize,
    /// The actions, for a subtree with this root.
    pub actions: fn(&str) -> Vec<Action>,
}

impl Scenario {
    /// Where its sessions start.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let about_ensembles = ENSEMBLES.iter().any(|scenario| scenario.name == self.name);
        let first_server = if about_ensembles { roles::LEADER } else { roles::FOLLOWER };
        Layout { slots: self.slots, first_server }
    }
}

/// Scenarios about ensembles.
pub const ENSEMBLES: &[Scenario] = ensembles::ALL;

/// Scenarios about a single server that are not for ensembles. A write that Apache's leader cannot decode
/// becomes an error txn with the zxid of the txn before it, and from then on the ensemble commits nothing.
const ALONE: [&str; 1] = [fields::TRUNCATED.name];

/// All scenarios for these servers. With local sessions, Apache executes what it can decode of an
/// undecodable multi, and the other scenarios show nothing new.
#[must_use]
pub fn for_servers(kind: Kind) -> Vec<Scenario> {
    let shared = ALL.iter().filter(|scenario| !ALONE.contains(&scenario.name));
    match kind {
        Kind::Alone => ALL.to_vec(),
        Kind::Ensemble(_) => shared.chain(ENSEMBLES).copied().collect(),
        Kind::WithLocalSessions(_) => ensembles::for_local_sessions(),
    }
}

/// Scenarios about a single server.
pub const ALL: &[Scenario] = &[
    watches::ORDER,
    watches::PERSISTENT,
    watches::AGAIN,
    watches::REMOVAL,
    watches::FILTERED,
    multis::FORMS,
    multis::ROLLBACK,
    multis::READS,
    creates::MODES,
    creates::SEQUENCE,
    creates::EPHEMERALS,
    acls::LISTS,
    acls::PERMISSIONS,
    acls::CREDENTIALS,
    fields::PATHS,
    fields::NULLS,
    fields::TRUNCATED,
    frames::UNKNOWN_OPS,
    frames::LENGTHS,
    frames::FIRST_BYTES,
    frames::LARGE,
    sessions::TIMEOUTS,
    sessions::CLAIMS,
    sessions::MOVED,
    service::OWN_ZNODES,
    service::QUOTAS,
    service::WORDS,
];

/// Requests of one slot, one at a time.
pub(crate) struct Client(pub usize);

impl Client {
    fn call(&self, call: Call) -> Action {
        Action::call(self.0, call)
    }

    fn burst(&self, calls: Vec<Call>) -> Action {
        Action::Send { slot: self.0, calls }
    }

    fn create(&self, path: &str) -> Action {
        self.call(create(path, 0))
    }

    fn delete(&self, path: &str) -> Action {
        self.call(delete(path))
    }

    fn set_data(&self, path: &str, data: &str) -> Action {
        self.call(Call::set_data(raw(path), Some(data.as_bytes()), -1))
    }

    fn read(&self, op: OpCode, path: &str) -> Action {
        self.call(Call::read(op, raw(path), false))
    }

    fn watch(&self, op: OpCode, path: &str) -> Action {
        self.call(Call::read(op, raw(path), true))
    }

    fn add_watch(&self, path: &str, mode: i32) -> Action {
        self.call(Call::numbered(OpCode::AddWatch, raw(path), mode))
    }

    fn hello(&self, hello: Hello) -> Action {
        Action::Hello { slot: self.0, hello }
    }

    /// The client reconnects at another server.
    fn moves(&self, server: usize) -> Action {
        self.hello(Hello::at(server))
    }

    fn drops(&self) -> Action {
        Action::Drop { slot: self.0 }
    }

    fn auth(&self, credentials: &str) -> Action {
        self.call(Call::auth(Some(b"digest"), Some(credentials.as_bytes())))
    }

    fn close(&self) -> Action {
        self.call(Call::close_session())
    }
}

fn raw(path: &str) -> Option<&[u8]> {
    Some(path.as_bytes())
}

fn open_acl() -> Vec<Acl> {
    vec![Acl::world(Perms::ALL)]
}

/// create2 with data and an open ACL.
fn create(path: &str, flags: i32) -> Call {
    create_with(OpCode::Create2, path, flags, Some(&open_acl()), None)
}

fn create_with(
    op: OpCode,
    path: &str,
    flags: i32,
    acl: Option<&[Acl]>,
    ttl_ms: Option<i64>,
) -> Call {
    Call::create(&Create { op, path: raw(path), data: Some(b"data"), acl, flags, ttl_ms })
}

fn delete(path: &str) -> Call {
    Call::numbered(OpCode::Delete, raw(path), -1)
}

fn check(path: &str, version: i32) -> Call {
    Call::numbered(OpCode::Check, raw(path), version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_scenario_does_something() {
        let all: Vec<&Scenario> = ALL.iter().chain(ENSEMBLES).collect();
        for (index, scenario) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other.name != scenario.name));
            assert!(!(scenario.actions)("/s").is_empty(), "{}", scenario.name);
        }
    }
}
