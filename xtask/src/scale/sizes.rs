//! The sizes of the full run, and small ones that check within a minute that the parts work.

use std::time::Duration;

use super::busy::Shape;

/// The sizes of all parts, each from the smallest to the largest.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Sessions with a connection each.
    pub sessions: &'static [usize],
    /// Sessions of which the second half expires at the same time.
    pub expiry: &'static [usize],
    /// Sessions that watch one znode.
    pub watchers: &'static [usize],
    /// Sessions that watch one subtree.
    pub recursive: &'static [usize],
    /// Watches of one session.
    pub watches: &'static [usize],
    /// Children of one znode.
    pub children: &'static [usize],
    /// Znodes of one server.
    pub znodes: &'static [usize],
    /// Znodes of three servers, one of which has to catch up completely.
    pub join: &'static [usize],
    /// Clients that write while sessions expire.
    pub crowd_of_writers: Shape,
    /// Clients that write during everything else.
    pub writers: Shape,
    /// Clients that write while a server joins.
    pub join_writers: Shape,
    /// How long a server may take to join.
    pub join_max: Duration,
    /// The time in which every session pings once. A Java client with a session timeout of 30 s pings every
    /// 10 s.
    pub ping_every: Duration,
    /// How long other clients are measured before something happens.
    pub quiet: Duration,
    /// Number of timed single requests.
    pub calls: usize,
}

impl Sizes {
    /// The sizes for the document.
    pub const FULL: Sizes = Sizes {
        sessions: &[3000, 10_000, 30_000, 100_000],
        expiry: &[10_000, 30_000, 100_000],
        watchers: &[1000, 5000, 10_000, 50_000],
        recursive: &[1000, 3000, 10_000],
        watches: &[10_000, 100_000, 1_000_000],
        children: &[1000, 10_000, 100_000, 1_000_000],
        znodes: &[1_000_000, 5_000_000, 20_000_000],
        join: &[1_000_000, 5_000_000, 20_000_000],
        crowd_of_writers: Shape { connections: 1000, per_second: 1000 },
        writers: Shape { connections: 50, per_second: 500 },
        join_writers: Shape { connections: 64, per_second: 20_000 },
        join_max: Duration::from_secs(600),
        ping_every: Duration::from_secs(10),
        quiet: Duration::from_secs(5),
        calls: 5000,
    };

    /// The sizes for trying the parts out.
    pub const QUICK: Sizes = Sizes {
        sessions: &[200, 1000],
        expiry: &[200, 1000],
        watchers: &[100, 500],
        recursive: &[100, 500],
        watches: &[1000, 10_000],
        children: &[1000, 10_000],
        znodes: &[10_000, 50_000],
        join: &[20_000],
        crowd_of_writers: Shape { connections: 100, per_second: 500 },
        writers: Shape { connections: 10, per_second: 200 },
        join_writers: Shape { connections: 16, per_second: 1000 },
        join_max: Duration::from_secs(60),
        ping_every: Duration::from_secs(1),
        quiet: Duration::from_secs(1),
        calls: 200,
    };
}
