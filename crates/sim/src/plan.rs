//! What kind of ensemble a seed stands for: who is in it, how fast its clocks, disks and wires are, how
//! little it remembers, and which mistakes it makes.
//!
//! In: a seed. Out: numbers, drawn before anything happens. Limits are small on purpose: a history of a
//! handful of txns makes DIFF, TRUNC and SNAP all happen within a minute of simulated time.

use std::sync::Arc;

use herdsman_node::membership_in;
use herdsman_node::node::LocalSessions;
use herdsman_node::sweeper::SweepSettings;
use herdsman_node::{LeaderServes, NodeSettings, SessionPasswords};
use herdsman_proto::{Membership, ServerId};
use herdsman_tree::TreeOptions;
use herdsman_tree::owner::OwnerRules;
use herdsman_zab::history::HistoryLimits;
use herdsman_zab::log::LogStorage;
use herdsman_zab::settings::{ObserverMasters, Reconfig};
use herdsman_zab::{Mistake, ZabSettings};

use crate::client::Xids;
use crate::random::Random;

/// When every world begins.
pub const WALL_MS: i64 = 1_700_000_000_000;

/// What a seed stands for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Everybody who may ever be a member of the ensemble.
    pub membership: Arc<Membership>,
    /// How many of them, the last ones, are not members at the start. They follow as servers that want
    /// to join do: their own configuration lists them, nobody else's does.
    pub joiners: usize,
    /// Whether the membership may change.
    pub reconfig: bool,
    /// How often in a thousand requests a client asks for a change of membership, if it may change.
    pub reconfigs_per_mille: u64,
    /// Length of a tick.
    pub tick_ms: u64,
    /// Ticks to connect and catch up.
    pub init_limit_ticks: u64,
    /// Ticks to be silent.
    pub sync_limit_ticks: u64,
    /// Txns that a leader remembers for learners.
    pub history_txns_max: usize,
    /// And bytes.
    pub history_bytes_max: usize,
    /// Bytes of the log that are sent to a learner instead of a tree.
    pub log_bytes_max: u64,
    /// Txns between two snapshots of a server.
    pub snapshot_txns: u64,
    /// The log grows by so much at a time.
    pub pre_alloc_bytes: u64,
    /// Observers keep a log.
    pub observer_log_storage: LogStorage,
    /// Observers learn from followers.
    pub observer_masters: ObserverMasters,
    /// Fastest and slowest message.
    pub latency_ms: (u64, u64),
    /// The slowest piece of a tree that is sent to a learner.
    pub tree_piece_ms: u64,
    /// Fastest and slowest disk job.
    pub disk_ms: (u64, u64),
    /// Clocks run between this many parts per million slow and fast.
    pub drift_ppm: u64,
    /// Number of clients.
    pub clients: usize,
    /// A client thinks this long at the most.
    pub think_ms: u64,
    /// Session timeout that clients ask for.
    pub session_ms: i32,
    /// Time between two faults, at the most.
    pub fault_gap_ms: u64,
    /// How long faults go on.
    pub fault_phase_ms: u64,
    /// Votes lost, in a thousand.
    pub loss_per_mille: u64,
    /// Which kinds of faults happen.
    pub faults: FaultKinds,
    /// A host that is no member speaks to the servers.
    pub intruders: bool,
    /// How often in a thousand times a client that could ask for something connects anew instead, with
    /// its session and while its requests are on their way.
    pub reconnects_per_mille: u64,
    /// New sessions are local.
    pub local_sessions: LocalSessions,
    /// A server without a leader answers reads after so long; `None`: never.
    pub read_only_after_ms: Option<u64>,
    /// Whether leaders take clients.
    pub leader_serves: LeaderServes,
    /// A leader gives up its epoch after so many txns.
    pub epoch_txns_max: u32,
    /// Ephemerals that one txn deletes when their session ends; the end of a session with more takes several txns.
    pub ephemerals_per_txn_max: usize,
    /// Time between two sweeps of containers and TTL znodes.
    pub sweep_ms: u64,
    /// How often in a thousand times what is committed waits for more inputs before it is applied.
    pub applied_late_per_mille: u64,
    /// What clients ask for besides plain reads and writes.
    pub requests: RequestKinds,
    /// How many faults of a thousand damage records of several servers, beyond those of the kinds.
    pub rot_per_mille: u64,
    /// A known mistake that all servers make.
    pub mistake: Option<Mistake>,
    /// A property that is not checked.
    pub unchecked: Option<String>,
}

/// What clients ask for besides plain reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestKinds {
    /// Every second client logs in, and znodes have ACLs.
    pub acls: bool,
    /// Containers and znodes with a time to live.
    pub lifetimes: bool,
    /// Persistent and recursive watches.
    pub lasting_watches: bool,
    /// Clients set their watches again on a new connection.
    pub set_watches: bool,
}

impl RequestKinds {
    /// Plain reads and writes only.
    pub const PLAIN: RequestKinds =
        RequestKinds { acls: false, lifetimes: false, lasting_watches: false, set_watches: false };

    fn some(random: &mut Random) -> Self {
        RequestKinds {
            acls: random.per_mille(400),
            lifetimes: random.per_mille(400),
            lasting_watches: random.per_mille(500),
            set_watches: random.per_mille(500),
        }
    }
}

/// Which kinds of faults happen. Safety is checked whatever happens; fewer kinds at a time make deeper
/// histories.
#[derive(Clone, Copy, Debug)]
pub struct FaultKinds {
    /// Servers stop.
    pub crashes: bool,
    /// The network splits.
    pub partitions: bool,
    /// Single links and clients' connections break.
    pub breaks: bool,
    /// Disks are full for a while.
    pub full_disks: bool,
    /// Syncs fail.
    pub failed_syncs: bool,
    /// Bits turn over while a server is down.
    pub rot: bool,
    /// Disks are slow for a while.
    pub slow_disks: bool,
    /// Votes for some server are exaggerated on their way for a while, so that it is elected whatever
    /// its history: nothing may be lost by a wrong election.
    pub favourites: bool,
    /// Processes stand still for a while.
    pub pauses: bool,
    /// Wall clocks jump.
    pub clock_jumps: bool,
    /// Clients are cut off from some servers.
    pub client_cuts: bool,
    /// A server that is down loses its disk, and knows it.
    pub lost_disks: bool,
    /// A voter that is down loses its directories, and does not know it. It relies on true votes, so there are no
    /// favourites then.
    pub emptied_voters: bool,
}

impl FaultKinds {
    /// Nothing goes wrong.
    pub const NONE: FaultKinds = FaultKinds {
        crashes: false,
        partitions: false,
        breaks: false,
        full_disks: false,
        failed_syncs: false,
        rot: false,
        slow_disks: false,
        favourites: false,
        pauses: false,
        clock_jumps: false,
        client_cuts: false,
        lost_disks: false,
        emptied_voters: false,
    };

    fn some(random: &mut Random) -> Self {
        FaultKinds {
            crashes: random.per_mille(850),
            partitions: random.per_mille(700),
            breaks: random.per_mille(600),
            full_disks: random.per_mille(200),
            failed_syncs: random.per_mille(200),
            rot: random.per_mille(250),
            slow_disks: random.per_mille(300),
            favourites: random.per_mille(200),
            pauses: random.per_mille(300),
            clock_jumps: random.per_mille(200),
            client_cuts: random.per_mille(300),
            lost_disks: false,
            emptied_voters: false,
        }
    }
}

fn local_sessions(seed: u64) -> LocalSessions {
    match seed % 16 {
        7 => LocalSessions::Kept,
        11 | 14 => LocalSessions::Upgraded,
        _ => LocalSessions::Off,
    }
}

fn leader_serves(servers: usize, random: &mut Random) -> LeaderServes {
    if servers > 1 && random.per_mille(100) {
        LeaderServes::ServersOnly
    } else {
        LeaderServes::Clients
    }
}

/// Log files with tables in more than half of the seeds.
fn pre_alloc_bytes(seed: u64, random: &mut Random) -> u64 {
    let drawn = *random.pick(&[0, 4096, TABLE_BYTES_MIN]);
    if seed % 3 == 1 { TABLE_BYTES_MIN } else { drawn }
}

/// So few that sessions end in several txns, in two of seven seeds.
fn ephemerals_per_txn_max(seed: u64) -> usize {
    if seed % 7 < 2 { 1 + (seed / 7 % 3) as usize } else { 1024 }
}

fn observer_masters(seed: u64) -> ObserverMasters {
    if seed.is_multiple_of(2) { ObserverMasters::On { seed } } else { ObserverMasters::Off }
}

/// Log files at least this large have tables of their records.
const TABLE_BYTES_MIN: u64 = 16 << 10;

impl Plan {
    /// Whether all servers may find damaged records: only where the files say which, and where servers that lack a
    /// record that is nowhere any more are not needed for a quorum.
    #[must_use]
    pub fn rots_everywhere(&self) -> bool {
        self.pre_alloc_bytes >= TABLE_BYTES_MIN && self.membership.voters().count() >= 3
    }

    /// Whether servers may need a leader before they vote again: only while the membership stays, and without local
    /// sessions, which end with a server's role.
    #[must_use]
    pub fn may_lose_votes(&self) -> bool {
        !self.reconfig && self.local_sessions == LocalSessions::Off
    }

    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x706c_616e);
        let tick_ms = *random.pick(&[100, 200, 500, 1000, 2000]);
        let voters = *random.pick(&[1, 2, 3, 3, 3, 3, 4, 5, 5, 7]);
        let observers = *random.pick(&[0, 0, 0, 1, 2]);
        let reconfig = voters >= 3 && random.per_mille(100);
        let joiners = if reconfig { random.index(2) } else { 0 };
        let grouped = voters >= 3 && !reconfig && random.per_mille(150);
        let voting = if grouped { Voting::Groups } else { Voting::Majority };
        let faults = FaultKinds::some(&mut random);
        let mut requests = RequestKinds::some(&mut random);
        // A change of membership needs servers that do not look at ACLs.
        requests.acls &= !reconfig;
        let local_sessions = local_sessions(seed);
        // Local sessions end with their server's role, and with every epoch all roles do.
        let epochs_end = local_sessions == LocalSessions::Off && random.per_mille(100);
        let leader_serves = leader_serves(voters + observers, &mut random);
        let mut plan = Plan {
            seed,
            membership: Arc::new(membership(voters + joiners, observers, voting)),
            joiners,
            reconfig,
            // Where changes are rare, what is wrong with one is not mended by the next.
            reconfigs_per_mille: if seed.is_multiple_of(2) { 30 } else { 4 },
            tick_ms,
            init_limit_ticks: random.between(5, 10),
            sync_limit_ticks: random.between(2, 5),
            history_txns_max: *random.pick(&[1, 3, 10, 50, 500]),
            history_bytes_max: if seed.is_multiple_of(5) { 4_000 } else { 1 << 20 },
            log_bytes_max: [0, 2_000, 20_000, u64::MAX][(seed / 2 % 4) as usize],
            snapshot_txns: *random.pick(&[5, 20, 60, 1000]),
            pre_alloc_bytes: pre_alloc_bytes(seed, &mut random),
            observer_log_storage: *random.pick(&[
                LogStorage::OnDisk,
                LogStorage::OnDisk,
                LogStorage::InMemory,
            ]),
            observer_masters: observer_masters(seed),
            latency_ms: (1, *random.pick(&[1, 5, 30, tick_ms / 4])),
            tree_piece_ms: 4,
            disk_ms: (0, *random.pick(&[1, 5, 20, tick_ms / 2])),
            drift_ppm: *random.pick(&[0, 100, 20_000]),
            clients: random.index(4) + 2,
            think_ms: tick_ms / *random.pick(&[1, 2, 5, 10]),
            session_ms: i32::try_from(tick_ms * random.between(4, 20)).expect("a short timeout"),
            fault_gap_ms: tick_ms * random.between(2, 20),
            fault_phase_ms: tick_ms * random.between(60, 160),
            loss_per_mille: *random.pick(&[0, 0, 20, 200]),
            faults,
            reconnects_per_mille: if matches!(seed % 8, 3 | 5 | 6 | 7) { 30 } else { 0 },
            local_sessions,
            read_only_after_ms: random.per_mille(200).then_some(tick_ms),
            leader_serves,
            epoch_txns_max: if epochs_end { 40 } else { u32::MAX },
            ephemerals_per_txn_max: ephemerals_per_txn_max(seed),
            sweep_ms: tick_ms * random.between(2, 10),
            applied_late_per_mille: *random.pick(&[0, 0, 200, 500]),
            requests,
            intruders: random.per_mille(150),
            rot_per_mille: 0,
            mistake: None,
            unchecked: None,
        };
        // Who is needed for a quorum is known only where the membership stays.
        plan.faults.rot &= !reconfig || plan.rots_everywhere();
        // A quorum must be left, of a membership that stays. Who votes again takes another role, with which his
        // local sessions end.
        let may_lose = !plan.faults.rot && plan.may_lose_votes();
        plan.faults.lost_disks = may_lose && random.per_mille(200);
        plan.faults.emptied_voters = plan.faults.lost_disks && seed.is_multiple_of(2);
        plan.faults.lost_disks &= !plan.faults.emptied_voters;
        plan.faults.favourites &= !plan.faults.emptied_voters;
        // A tree that takes longer than an epoch would never arrive.
        if !epochs_end && random.per_mille(150) {
            plan.tree_piece_ms = 2 * tick_ms;
        }
        plan
    }

    /// The plan of a seed in a world in which mistakes are found out soon: three voters, fast ticks, slow
    /// disks, and the faults that mistakes of agreement need.
    #[must_use]
    pub fn rough(seed: u64) -> Self {
        let tick_ms = 100;
        let plan = Plan::of(seed);
        let has_local_sessions = plan.local_sessions != LocalSessions::Off;
        let has_emptied_voters = seed % 4 == 2 && !has_local_sessions;
        // So that a leader that stands still is replaced, and the next one can serve meanwhile.
        let stands_still = seed.is_multiple_of(3);
        Plan {
            membership: Arc::new(membership(3, 0, Voting::Majority)),
            joiners: 0,
            reconfig: false,
            tick_ms,
            tree_piece_ms: 4,
            latency_ms: (1, 10),
            disk_ms: (0, 40),
            clients: 3,
            think_ms: 20,
            session_ms: 1000,
            fault_gap_ms: 4 * tick_ms,
            fault_phase_ms: 100 * tick_ms,
            faults: FaultKinds {
                crashes: !stands_still,
                partitions: !stands_still,
                favourites: !has_emptied_voters,
                pauses: stands_still,
                lost_disks: seed.is_multiple_of(4) && !has_local_sessions,
                emptied_voters: has_emptied_voters,
                ..FaultKinds::NONE
            },
            leader_serves: LeaderServes::Clients,
            epoch_txns_max: u32::MAX,
            ..plan
        }
    }

    /// The plan of a seed in a rough world in which the membership changes all the time: five or six servers,
    /// each of which may be a voter, an observer or neither for a while.
    #[must_use]
    pub fn changing(seed: u64) -> Self {
        let voters = 3 + usize::from(seed.is_multiple_of(3));
        Plan {
            membership: Arc::new(membership(
                5,
                usize::from(seed.is_multiple_of(2)),
                Voting::Majority,
            )),
            joiners: 5 - voters,
            reconfig: true,
            requests: RequestKinds { acls: false, ..Plan::rough(seed).requests },
            pre_alloc_bytes: if seed.is_multiple_of(4) {
                TABLE_BYTES_MIN
            } else {
                Plan::rough(seed).pre_alloc_bytes
            },
            faults: FaultKinds {
                breaks: true,
                lost_disks: false,
                emptied_voters: false,
                favourites: true,
                rot: seed.is_multiple_of(4),
                ..Plan::rough(seed).faults
            },
            ..Plan::rough(seed)
        }
    }

    /// The plan of a seed in a rough world in which records of several servers are damaged again and again; each of
    /// them is intact somewhere.
    #[must_use]
    pub fn rotting(seed: u64) -> Self {
        let voters = if seed.is_multiple_of(3) { 5 } else { 3 };
        let rough = Plan::rough(seed);
        let has_emptied_voters = seed % 5 == 2 && rough.may_lose_votes();
        Plan {
            membership: Arc::new(membership(
                voters,
                usize::from(seed.is_multiple_of(4)),
                Voting::Majority,
            )),
            pre_alloc_bytes: TABLE_BYTES_MIN,
            rot_per_mille: 300,
            faults: FaultKinds {
                crashes: true,
                partitions: true,
                breaks: true,
                rot: true,
                lost_disks: false,
                emptied_voters: has_emptied_voters,
                favourites: !has_emptied_voters,
                ..rough.faults
            },
            ..rough
        }
    }

    /// How a client numbers its requests: where clients connect anew, every second one begins anew.
    #[must_use]
    pub fn xids(&self, client: usize) -> Xids {
        if self.reconnects_per_mille > 0 && client.is_multiple_of(2) {
            Xids::PerConnection
        } else {
            Xids::PerClient
        }
    }

    /// Whether a client logs in.
    #[must_use]
    pub fn logs_in(&self, client: usize) -> bool {
        self.requests.acls && client.is_multiple_of(2)
    }

    /// Whether a client takes answers from a server that has no leader.
    #[must_use]
    pub fn takes_read_only(&self, client: usize) -> bool {
        self.read_only_after_ms.is_some() && client % 3 == 1
    }

    /// How many servers there are.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.membership.members.len()
    }

    /// The membership in a server's configuration when it is first started.
    #[must_use]
    pub fn first_membership(&self, me: ServerId) -> Membership {
        let mut first = (*self.membership).clone();
        let members = first.members.len() - self.joiners;
        let mut place = 0;
        first.members.retain(|id, _| {
            place += 1;
            place <= members || *id == me
        });
        first
    }

    /// The rules of every tree.
    #[must_use]
    pub fn tree_options(&self) -> TreeOptions {
        TreeOptions {
            hash_seed: self.seed,
            reconfig_enabled: self.reconfig,
            // A change of membership is the super user's otherwise.
            skip_acl: self.reconfig,
            owner_rules: OwnerRules { extended_types: true, ..OwnerRules::default() },
            ..TreeOptions::default()
        }
    }

    /// What a server's node is told.
    #[must_use]
    pub fn node_settings(&self, me: ServerId) -> NodeSettings {
        let tick = i32::try_from(self.tick_ms).expect("a short tick");
        NodeSettings {
            server_id: u8::try_from(me.0).expect("few servers"),
            tick_ms: self.tick_ms,
            session_timeout_ms_min: 2 * tick,
            session_timeout_ms_max: 20 * tick,
            touch_step_ms: 0,
            local_sessions: self.local_sessions,
            read_only_after_ms: self.read_only_after_ms,
            epoch_txns_max: self.epoch_txns_max,
            passwords: SessionPasswords::Apache,
            voters_min: 1,
            ephemerals_per_txn_max: self.ephemerals_per_txn_max,
            sweep: SweepSettings {
                interval_ms: self.sweep_ms,
                per_minute_max: 60_000,
                never_used_ms_max: None,
            },
            leader_serves: self.leader_serves,
            hash_seed: self.seed,
        }
    }

    /// What a server's agreement is told.
    #[must_use]
    pub fn zab_settings(&self, me: ServerId) -> ZabSettings {
        let is_voter = self.membership.voters().any(|voter| voter == me);
        ZabSettings {
            me,
            tick_ms: self.tick_ms,
            init_limit_ticks: self.init_limit_ticks,
            sync_limit_ticks: self.sync_limit_ticks,
            finalize_wait_ms: (self.tick_ms / 10).max(10),
            notification_min_ms: 100,
            notification_max_ms: 2000,
            log_storage: if is_voter { LogStorage::OnDisk } else { self.observer_log_storage },
            history: HistoryLimits {
                txns_max: self.history_txns_max,
                bytes_max: self.history_bytes_max,
            },
            parked_bytes_max: 1 << 20,
            reconfig: if self.reconfig {
                Reconfig::Enabled(membership_in)
            } else {
                Reconfig::Disabled
            },
            observer_masters: self.observer_masters,
            mistake: self.mistake,
        }
    }
}

/// How votes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voting {
    /// Each counts one.
    Majority,
    /// In three groups; at least three voters.
    Groups,
}

/// A server's line in a membership.
#[must_use]
pub fn member_line(id: i64, role: &str) -> String {
    format!("server.{id}=10.0.0.{id}:2888:3888:{role};10.0.0.{id}:2181")
}

/// An ensemble of voters 1, 2, … and observers behind them. They are
/// at least one.
#[must_use]
pub fn membership(voters: usize, observers: usize, voting: Voting) -> Membership {
    let mut text = String::new();
    for id in 1..=voters + observers {
        let role = if id > voters { "observer" } else { "participant" };
        text += &member_line(id as i64, role);
        text.push('\n');
    }
    if voting == Voting::Groups {
        for group in 0..3 {
            let ids = (1..=voters).filter(|id| id % 3 == group).map(|id| id.to_string());
            text += &format!("group.{}={}\n", group + 1, ids.collect::<Vec<_>>().join(":"));
        }
    }
    text += "version=0\n";
    Membership::parse_text(&text).expect("a membership that makes sense")
}
