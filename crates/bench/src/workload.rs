//! The workloads, by name. Those that send independent requests are [`Load`](crate::load::Load)s, one file
//! each; `session`, `watch` and `lock` work differently, as described in their files.

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

/// A workload to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Read values (getData).
    Get,
    /// Replace values (setData).
    Set,
    /// Create znodes.
    Create,
    /// Delete znodes, which are created first.
    Delete,
    /// Check whether znodes exist.
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
    /// Watch fan-out: an operation lasts from a change to the event of the last watcher.
    Watch,
    /// Lock hand-over: an operation lasts from a release to the notification of the next holder.
    Lock,
}

impl Workload {
    /// Returns the name as on the command line.
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

    /// Whether it uses the keys that are created beforehand.
    pub(crate) fn uses_keys(self) -> bool {
        use Workload::{Exists, Get, Mixed, Multi, Set};
        matches!(self, Get | Set | Exists | Multi | Mixed)
    }

    /// Whether it works with the echo server: it needs only replies.
    pub(crate) fn suits_echo(self) -> bool {
        !matches!(self, Workload::Watch | Workload::Lock)
    }

    /// Whether every connection keeps `depth` requests in flight.
    pub(crate) fn is_pipelined(self) -> bool {
        !matches!(self, Workload::Session | Workload::Watch | Workload::Lock)
    }
}
