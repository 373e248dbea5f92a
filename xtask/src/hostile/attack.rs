//! The attacks: what each needs, what it does, and what it may cost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::site::{Site, Target};
use super::{connections, requests, tls};

/// Attackers that cannot begin must not keep the others waiting for ever.
const BEGIN_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// Without an attack, slow requests take a few milliseconds; the noise of a busy machine takes more.
const FREE: Duration = Duration::from_millis(250);
/// Where attackers move hundreds of megabytes a second through the same cores.
const BUSY: Duration = Duration::from_millis(500);
/// Where they do so through the same disk, three times: good clients' writes wait behind
/// `herdsman.requestBytesMax` of others' writes. What matters there is that the follower keeps its link.
const DISK: Duration = Duration::from_secs(4);

/// Which servers an attack is made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// A standalone server.
    Alone,
    /// The same with a port for TLS.
    AloneWithTls,
    /// The same with a limit on its file descriptors.
    AloneWithDescriptors(u32),
    /// Three, of which a follower is attacked and serves the good clients.
    Three,
}

/// One attack.
pub struct Attack {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Lines of the servers' zoo.cfg.
    pub settings: &'static [&'static str],
    /// On what.
    pub servers: Servers,
    /// What the attacked server's memory may reach.
    pub memory_mib_max: u64,
    /// Slow requests of good clients may take this long in any case.
    pub p99_free: Duration,
    /// What is counted.
    pub unit: &'static str,
    /// An attack that sends less proves nothing, and fails.
    pub sent_min: u64,
    /// Makes the znodes that it needs.
    pub prepare: fn(&Site) -> Result<()>,
    /// Runs until [`AttackState::is_over`].
    pub run: fn(&Target, &AttackState),
}

/// The state of a running attack: whether it is to stop, and how much it has sent.
#[derive(Debug, Default)]
pub struct AttackState {
    over: AtomicBool,
    sent: AtomicU64,
}

impl AttackState {
    /// Whether the attackers are to stop.
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

    /// How much was done.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Waits until something was done.
    pub fn await_begin(&self) {
        let deadline = Instant::now() + BEGIN_MAX;
        while self.sent() == 0 && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }

    /// Repeats an action in this many threads; errors are ignored, because attackers should get them.
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
        about: "logins without end, many short ones and long ones, and requests by whoever has many ids",
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
        about: "multis of 20,000 checks of the longest ACL, writes that it guards, long ACLs that are set",
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
        about: "requests for large replies that nobody reads",
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
        about: "twice as many connections with sessions as there are file descriptors, while log files roll",
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
        about: "connections that say nothing, half a request, or the beginning of a long frame",
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
        about: "bytes without sense, impossible lengths, requests of unknown kinds",
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
        about: "four-letter words over and over, and one that is followed by a stream without end",
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
        about: "sessions with an ephemeral each that are opened and left alone until they expire",
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
        name: "handshakes",
        about: "TLS handshakes that are begun, answered and left alone",
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
        about: "writes at a follower by clients with as many and as long ids as they may have",
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
