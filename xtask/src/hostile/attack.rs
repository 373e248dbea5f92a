//! The attacks: what each needs, what it does, and its limits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::site::{Site, Target};
use super::{connections, requests, tls, trees};

/// Limit for attackers to start, so that a failure does not block the others.
const BEGIN_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// Without an attack, slow requests take a few milliseconds; the noise of a busy machine takes more.
const FREE: Duration = Duration::from_millis(250);
/// Limit where attackers move hundreds of megabytes per second through the same cores.
const BUSY: Duration = Duration::from_millis(500);
/// Limit where they do so through the same disk, three times: writes of good clients wait behind
/// `herdsman.requestBytesMax` of other writes. What matters there is that the follower keeps its connection.
const DISK: Duration = Duration::from_secs(4);

/// The servers that an attack needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// A standalone server.
    Alone,
    /// The same with a port for TLS.
    AloneWithTls,
    /// The same with a limit on its file descriptors.
    AloneWithDescriptors(u32),
    /// An ensemble of three: the attack is on a follower, which also serves the good clients.
    Three,
}

/// One attack.
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// Lines of the servers' zoo.cfg.
    pub settings: &'static [&'static str],
    /// The servers.
    pub servers: Servers,
    /// The limit of the attacked server's memory.
    pub memory_mib_max: u64,
    /// Latency that is allowed for slow requests of good clients in any case.
    pub p99_free: Duration,
    /// The unit of the count.
    pub unit: &'static str,
    /// The minimum count: an attack that sends less proves nothing and fails.
    pub sent_min: u64,
    /// Creates the znodes that it needs.
    pub prepare: fn(&Site) -> Result<()>,
    /// Runs until [`AttackState::is_over`].
    pub run: fn(&Target, &AttackState),
}

/// The state of a running attack: whether it should stop, and how much it has sent.
#[derive(Debug, Default)]
pub struct AttackState {
    over: AtomicBool,
    sent: AtomicU64,
}

impl AttackState {
    /// Whether the attackers should stop.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends it.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Counts what was sent.
    pub fn note(&self, count: u64) {
        self.sent.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns how much was sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Waits until something was sent.
    pub fn await_begin(&self) {
        let deadline = Instant::now() + BEGIN_MAX;
        while self.sent() == 0 && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }

    /// Repeats an action in this many threads; errors are ignored, because the server should reject
    /// attackers.
    pub fn repeat(&self, threads: usize, act: impl Fn(usize) -> Result<()> + Sync) {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let act = &act;
                scope.spawn(move || {
                    while !self.is_over() {
                        if act(thread).is_err() {
                            std::thread::sleep(POLL);
                        }
                    }
                });
            }
        });
    }
}

fn nothing(_: &Site) -> Result<()> {
    Ok(())
}

/// All attacks.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "ids",
        about: "endless logins with many short and long ids, and requests by clients with many ids",
        settings: &[],
        servers: Servers::Alone,
        memory_mib_max: 128,
        p99_free: FREE,
        unit: "logins",
        sent_min: 200,
        prepare: nothing,
        run: requests::flood_with_ids,
    },
    Attack {
        name: "acls",
        about: "multis of 20,000 checks of the longest ACL, writes guarded by it, long ACLs being set",
        settings: &[],
        servers: Servers::Alone,
        memory_mib_max: 512,
        p99_free: BUSY,
        unit: "checks of an ACL",
        sent_min: 20_000,
        prepare: requests::make_guarded_znode,
        run: requests::flood_with_acls,
    },
    Attack {
        name: "slow-readers",
        about: "requests for large replies that are never read",
        settings: &["herdsman.unreadBytesMax=67108864"],
        servers: Servers::Alone,
        memory_mib_max: 384,
        p99_free: BUSY,
        unit: "requests",
        sent_min: 500,
        prepare: requests::make_large_znode,
        run: requests::read_slowly,
    },
    Attack {
        name: "connections",
        about: "twice as many connections with sessions as there are file descriptors, while log files are rotated",
        settings: &[],
        servers: Servers::AloneWithDescriptors(400),
        memory_mib_max: 128,
        p99_free: FREE,
        unit: "connections",
        sent_min: 400,
        prepare: nothing,
        run: connections::flood,
    },
    Attack {
        name: "half-open",
        about: "connections that send nothing, half a request, or the start of a long frame",
        settings: &["nio.sessionlessCnxnTimeout=500"],
        servers: Servers::Alone,
        memory_mib_max: 128,
        p99_free: FREE,
        unit: "connections",
        sent_min: 400,
        prepare: nothing,
        run: connections::stay_half_open,
    },
    Attack {
        name: "garbage",
        about: "random bytes, impossible lengths, requests of unknown types",
        settings: &[],
        servers: Servers::Alone,
        memory_mib_max: 128,
        p99_free: FREE,
        unit: "connections",
        sent_min: 300,
        prepare: nothing,
        run: connections::send_garbage,
    },
    Attack {
        name: "words",
        about: "repeated four-letter words, and one followed by an endless stream",
        settings: &[],
        servers: Servers::Alone,
        memory_mib_max: 128,
        p99_free: FREE,
        unit: "words",
        sent_min: 50,
        prepare: nothing,
        run: connections::ask_without_end,
    },
    Attack {
        name: "sessions",
        about: "sessions with one ephemeral each, abandoned until they expire",
        settings: &[],
        servers: Servers::Alone,
        memory_mib_max: 128,
        p99_free: FREE,
        unit: "sessions",
        sent_min: 50,
        prepare: nothing,
        run: connections::open_sessions,
    },
    Attack {
        name: "ephemerals",
        about: "sessions with 100,000 ephemerals each that are closed",
        settings: &[],
        servers: Servers::Alone,
        memory_mib_max: 512,
        p99_free: FREE,
        unit: "ephemerals",
        sent_min: 400_000,
        prepare: nothing,
        run: trees::end_sessions,
    },
    Attack {
        name: "counts",
        about: "repeated counts of 200,000 znodes, for replies and for quotas",
        settings: &[],
        servers: Servers::Alone,
        memory_mib_max: 256,
        p99_free: FREE,
        unit: "counts",
        // With a walk over the znodes for each, there are at most 2,000 in a second.
        sent_min: 20_000,
        prepare: trees::make_subtree,
        run: trees::count_subtree,
    },
    Attack {
        name: "events",
        about: "multis of 30,000 changes of a znode with 60 persistent watchers",
        // The good clients come from the same address.
        settings: &["maxClientCnxns=70"],
        servers: Servers::Alone,
        memory_mib_max: 768,
        p99_free: BUSY,
        unit: "changes",
        sent_min: 60_000,
        prepare: trees::make_watched_znode,
        run: trees::cause_events,
    },
    Attack {
        name: "handshakes",
        about: "TLS handshakes that are started, answered and abandoned",
        settings: &["nio.sessionlessCnxnTimeout=500"],
        servers: Servers::AloneWithTls,
        memory_mib_max: 128,
        p99_free: FREE,
        unit: "handshakes",
        sent_min: 100,
        prepare: nothing,
        run: tls::begin_handshakes,
    },
    Attack {
        name: "follower-ids",
        about: "writes at a follower by clients with the maximum number and length of ids",
        settings: &["herdsman.requestBytesMax=33554432"],
        servers: Servers::Three,
        memory_mib_max: 512,
        p99_free: BUSY,
        unit: "writes",
        sent_min: 200,
        prepare: nothing,
        run: requests::write_with_ids,
    },
    Attack {
        name: "follower-data",
        about: "writes of 900 KB at a follower, many in flight",
        settings: &["herdsman.requestBytesMax=33554432"],
        servers: Servers::Three,
        memory_mib_max: 768,
        p99_free: DISK,
        unit: "writes",
        sent_min: 20,
        prepare: requests::make_written_znodes,
        run: requests::write_large_data,
    },
    Attack {
        name: "follower-crowd",
        about: "one write of 60 KB at a time from each of 2,000 sessions at a follower",
        settings: &["herdsman.requestBytesMax=33554432"],
        servers: Servers::Three,
        memory_mib_max: 1024,
        p99_free: DISK,
        unit: "writes",
        sent_min: 1000,
        prepare: requests::make_written_znodes,
        run: requests::write_as_crowd,
    },
];
