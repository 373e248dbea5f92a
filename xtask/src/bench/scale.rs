//! How large and how long: the full sizes that the document is about, and small ones that show
//! within minutes that a part works.

/// Sizes and times of all parts.
#[derive(Clone, Debug)]
pub struct Scale {
    /// How many rounds each server is measured.
    pub rounds: usize,
    /// The length of a round.
    pub duration_s: u64,
    /// How long a server is loaded before that.
    pub warmup_s: u64,
    /// Znodes for memory, restart and snapshot.
    pub znodes: usize,
    /// Sessions that watch one znode.
    pub watchers: usize,
    /// Sessions that do nothing.
    pub idle_sessions: usize,
    /// Leaders to kill.
    pub failovers: usize,
    /// Changes after which a server takes a snapshot, where a part is about snapshots.
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
    /// What the document is about.
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

    /// What tries the parts out.
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
