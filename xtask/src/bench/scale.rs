//! Sizes and durations: the full ones for the document, and small ones that show within minutes that a part
//! works.

/// Sizes and durations of all parts.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Number of rounds for each server.
    pub rounds: usize,
    /// The length of a round.
    pub duration_s: u64,
    /// Duration of the warm-up.
    pub warmup_s: u64,
    /// Znodes for memory, restart and snapshot.
    pub znodes: usize,
    /// Sessions that watch one znode.
    pub watchers: usize,
    /// Idle sessions.
    pub idle_sessions: usize,
    /// Number of leaders to kill.
    pub failovers: usize,
    /// Number of changes after which a server takes a snapshot, in parts about snapshots.
    pub snap_count: usize,
    /// How often a single request is timed.
    pub calls: usize,
    /// Sizes of trees.
    pub trees: &'static [usize],
    /// Sizes of lists of children.
    pub children: &'static [usize],
    /// Numbers of watches of one session.
    pub watches: &'static [usize],
    /// Numbers of sessions that watch one znode.
    pub fan_outs: &'static [usize],
}

impl Scale {
    /// The sizes for the document.
    pub const FULL: Scale = Scale {
        rounds: 5,
        duration_s: 5,
        warmup_s: 2,
        znodes: 1_000_000,
        watchers: 1000,
        idle_sessions: 10_000,
        failovers: 10,
        snap_count: 20_000,
        calls: 300,
        trees: &[10_000, 100_000, 1_000_000, 5_000_000],
        children: &[10, 100, 1000, 10_000, 100_000, 1_000_000],
        watches: &[1000, 10_000, 100_000, 1_000_000],
        fan_outs: &[10, 100, 1000, 4000],
    };

    /// The sizes for trying the parts out.
    pub const QUICK: Scale = Scale {
        rounds: 1,
        duration_s: 1,
        warmup_s: 1,
        znodes: 20_000,
        watchers: 100,
        idle_sessions: 300,
        failovers: 1,
        snap_count: 500,
        calls: 20,
        trees: &[1000, 10_000, 20_000],
        children: &[10, 100, 1000, 10_000],
        watches: &[100, 1000, 10_000],
        fan_outs: &[10, 100],
    };
}
