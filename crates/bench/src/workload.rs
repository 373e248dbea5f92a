//! The workloads, by name. Those that ask request after request are [`Load`](crate::load::Load)s, one file
//! each; `session`, `watch` and `lock` have another shape and say so in their files.

pub(crate) mod children;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod ephemeral;
pub(crate) mod exists;
pub(crate) mod get;
pub(crate) mod lock;
pub(crate) mod mixed;
pub(crate) mod multi;
pub(crate) mod session;
pub(crate) mod set;
pub(crate) mod watch;

use clap::ValueEnum;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Read values (getData).
    Get,
    /// Replace values (setData).
    Set,
    /// Create znodes.
    Create,
    /// Delete znodes, which are created before.
    Delete,
    /// Ask whether znodes exist.
    Exists,
    /// List children, with stat (getChildren2).
    Children,
    /// Check and replace a value in one txn.
    Multi,
    /// Reads and writes of values, see --read-percent.
    Mixed,
    /// Create and delete ephemeral znodes.
    Ephemeral,
    /// Open and close sessions: one operation is both.
    Session,
    /// Watch fan-out: one operation is a change and the last watcher's event.
    Watch,
    /// Lock hand-over: one operation is a release and the next holder knowing it.
    Lock,
}

impl Workload {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Workload::Get => "get",
            Workload::Set => "set",
            Workload::Create => "create",
            Workload::Delete => "delete",
            Workload::Exists => "exists",
            Workload::Children => "children",
            Workload::Multi => "multi",
            Workload::Mixed => "mixed",
            Workload::Ephemeral => "ephemeral",
            Workload::Session => "session",
            Workload::Watch => "watch",
            Workload::Lock => "lock",
        }
    }

    /// It works on the keys that are filled in beforehand.
    pub(crate) fn uses_keys(self) -> bool {
        use Workload::{Exists, Get, Mixed, Multi, Set};
        matches!(self, Get | Set | Exists | Multi | Mixed)
    }

    /// An echo server can stand in: nothing but a reply is expected.
    pub(crate) fn suits_echo(self) -> bool {
        !matches!(self, Workload::Watch | Workload::Lock)
    }

    /// Every connection keeps `depth` requests in flight.
    pub(crate) fn is_pipelined(self) -> bool {
        !matches!(self, Workload::Session | Workload::Watch | Workload::Lock)
    }
}
