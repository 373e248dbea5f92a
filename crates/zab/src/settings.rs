//! The settings of agreement.

use herdsman_proto::{Membership, ServerId};

use crate::history::HistoryLimits;
use crate::log::LogStorage;

/// The settings of agreement; they do not change while the server runs.
#[derive(Clone, Debug)]
pub struct ZabSettings {
    /// This server.
    pub me: ServerId,
    /// Length of a tick.
    pub tick_ms: u64,
    /// Ticks that a learner may take to connect and catch up.
    pub init_limit_ticks: u64,
    /// Ticks that a learner or leader may be silent.
    pub sync_limit_ticks: u64,
    /// How long to wait for better votes when some voters have not answered.
    pub finalize_wait_ms: u64,
    /// The shortest time between two broadcasts of a vote.
    pub notification_min_ms: u64,
    /// The longest time between two broadcasts of a vote.
    pub notification_max_ms: u64,
    /// Whether an observer keeps its log on disk.
    pub log_storage: LogStorage,
    /// How much history to keep for learners.
    pub history: HistoryLimits,
    /// Bytes of packets that may wait while a learner's disk works; beyond that the link is closed.
    pub parked_bytes_max: usize,
    /// Whether the membership may change while servers run.
    pub reconfig: Reconfig,
    /// Whether followers serve observers.
    pub observer_masters: ObserverMasters,
    /// Known mistakes, for tests of the simulator's checkers.
    pub mistake: Option<Mistake>,
}

impl ZabSettings {
    /// Returns the time that a learner may take to connect and catch up.
    #[must_use]
    pub fn init_limit_ms(&self) -> u64 {
        self.init_limit_ticks * self.tick_ms
    }

    /// Returns the time that a learner or leader may be silent.
    #[must_use]
    pub fn sync_limit_ms(&self) -> u64 {
        self.sync_limit_ticks * self.tick_ms
    }
}

/// Whether the membership may change while servers run.
#[derive(Clone, Copy, Debug)]
pub enum Reconfig {
    /// It may not: each server uses its own configuration.
    Disabled,
    /// It may. Txns are opaque here, so this function extracts the new membership from those that carry one.
    Enabled(fn(&[u8]) -> Option<Membership>),
}

/// Whether followers serve observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserverMasters {
    /// Observers learn from the leader.
    Off,
    /// Followers serve observers, and observers connect to followers.
    On {
        /// Decides in which order an observer tries them.
        seed: u64,
    },
}

/// A mistake that implementations of this protocol have made. Tests switch one on to show that it
/// is detected; no setting of the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A follower acknowledges a proposal before it is durable.
    AckBeforeFlush,
    /// A follower saves its epoch, and acknowledges NEWLEADER, before the history is durable
    /// (ZOOKEEPER-4643, 4646).
    EpochBeforeHistory,
    /// The leader commits as soon as it has logged a txn itself.
    CommitWithoutQuorum,
    /// A leader does not check whether a follower is ahead of it.
    IgnoreFollowerAhead,
    /// A learner that should cut its log goes on without (ZOOKEEPER-3701).
    SkipTruncate,
    /// A follower applies what was only proposed (ZOOKEEPER-4394).
    ApplyBeforeCommit,
    /// A leader answers syncs without checking that it still leads, as Apache's does (ZOOKEEPER-1675).
    SyncWithoutCheck,
}
