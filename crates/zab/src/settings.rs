//! What agreement is told once.

use herdsman_proto::{Membership, ServerId};

use crate::history::HistoryLimits;
use crate::log::LogStorage;

/// What agreement is told once.
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
    /// How long to wait for better votes when some voters have not been heard of.
    pub finalize_wait_ms: u64,
    /// The shortest time between two broadcasts of a vote.
    pub notification_min_ms: u64,
    /// The longest time between two broadcasts of a vote.
    pub notification_max_ms: u64,
    /// Whether an observer keeps a log.
    pub log_storage: LogStorage,
    /// How much history to keep for learners.
    pub history: HistoryLimits,
    /// Bytes of packets that may wait while a learner's disk works; more ends the link.
    pub parked_bytes_max: usize,
    /// Whether the membership may change while servers run.
    pub reconfig: Reconfig,
    /// Whether followers serve observers.
    pub observer_masters: ObserverMasters,
    /// Known mistakes, for tests of the simulator's checkers.
    pub mistake: Option<Mistake>,
}

impl ZabSettings {
    /// Time to connect and catch up.
    #[must_use]
    pub fn init_limit_ms(&self) -> u64 {
        self.init_limit_ticks * self.tick_ms
    }

    /// Time to be silent.
    #[must_use]
    pub fn sync_limit_ms(&self) -> u64 {
        self.sync_limit_ticks * self.tick_ms
    }
}

/// Whether the membership may change while servers run.
#[derive(Clone, Copy, Debug)]
pub enum Reconfig {
    /// Each server goes by its own configuration.
    Disabled,
    /// It may. A txn is opaque here, so this tells which ones carry a new membership.
    Enabled(fn(&[u8]) -> Option<Membership>),
}

/// Whether followers serve observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserverMasters {
    /// Observers learn from the leader.
    Off,
    /// A follower serves observers, an observer goes to followers.
    On {
        /// Decides in which order an observer tries them.
        seed: u64,
    },
}

/// A mistake that implementations of this protocol have made. A test turns one on to show that it
/// would be noticed; no setting of the server reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A follower acknowledges a proposal before it is durable.
    AckBeforeFlush,
    /// A follower saves its epoch, and acknowledges NEWLEADER, before the history is durable
    /// (ZOOKEEPER-4643, 4646).
    EpochBeforeHistory,
    /// The leader commits as soon as it has logged a txn itself.
    CommitWithoutQuorum,
    /// A leader does not look whether a follower is ahead of it.
    IgnoreFollowerAhead,
    /// A learner that should cut its log goes on without (ZOOKEEPER-3701).
    SkipTruncate,
    /// A follower applies what was only proposed (ZOOKEEPER-4394).
    ApplyBeforeCommit,
    /// A leader answers syncs without asking whether it still leads, as Apache's does (ZOOKEEPER-1675).
    SyncWithoutCheck,
}
