//! The world: time, the events that are to come, servers, wires and clients.
//!
//! In: a plan. Out: happenings, one event at a time, and the first property that did not hold. Time is a
//! number that jumps from event to event; events of one moment happen in the order in which they were
//! asked for. The pieces: [`lifecycle`] starts and stops servers, [`drive`] steps them as the server's core
//! does, [`links`] carries what they tell each other, [`disks`] does their disk work, [`conns`] and
//! [`clients`] stand at both ends of client connections, [`faults`] breaks things.

pub mod clients;
pub mod conns;
pub mod disks;
pub mod drive;
pub mod faults;
mod intruders;
pub mod lifecycle;
pub mod links;
pub mod mirror;
pub mod pipe;
pub mod repairs;
mod rot;
mod scripting;
mod sending;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use herdsman_node::{Node, Now};
use herdsman_proto::{Membership, ServerId, Zxid};
use herdsman_store::LogWriter;
use herdsman_store::repair::Repair;
use herdsman_tree::Tree;
use herdsman_zab::{LearnerPort, LinkId};

use crate::checkers::{Checkers, Fact};
use crate::chronicle::Chronicle;
use crate::client::Client;
use crate::plan::{Plan, WALL_MS};
use crate::random::Random;
use crate::storage::Storage;
use conns::Conn;
use disks::{Job, SnapshotTask};
use faults::FaultState;
use links::Link;
pub use mirror::Mirror;
use repairs::SetAside;

/// Lines of the trace that are kept.
const TRACE_LINES_MAX: usize = 4000;

/// A server, by its place in the list of servers.
pub type ServerIndex = usize;

/// Something that will happen.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A server starts.
    Start {
        /// Which.
        place: ServerIndex,
    },
    /// A server is told that time has passed.
    Tick {
        /// Which.
        place: ServerIndex,
        /// In which of its lives.
        life: u64,
    },
    /// A vote arrives.
    Vote {
        /// From.
        from: ServerIndex,
        /// To.
        to: ServerIndex,
    },
    /// A server tries to connect to another.
    Dial {
        /// Who.
        place: ServerIndex,
        /// In which of its lives.
        life: u64,
        /// To whom.
        to: ServerIndex,
        /// For which request to connect, and to which port.
        connect_attempt: (u64, LearnerPort),
        /// How often it has tried.
        tries: u64,
    },
    /// A message arrives at an end of a link.
    Arrive {
        /// Which link.
        link: LinkId,
        /// The end that sent it.
        from_end: usize,
    },
    /// A leader goes on with sending its tree or its log.
    SendPiece {
        /// On which link.
        link: LinkId,
    },
    /// A disk has done its work.
    DiskDone {
        /// Whose.
        place: ServerIndex,
        /// In which of its lives.
        life: u64,
        /// Which queue.
        lane: usize,
    },
    /// A server goes on with its snapshot.
    SnapshotStep {
        /// Which.
        place: ServerIndex,
        /// In which of its lives.
        life: u64,
    },
    /// A frame arrives at a server.
    ToServer {
        /// On which connection.
        conn: u64,
    },
    /// A frame arrives at a client.
    ToClient {
        /// On which connection.
        conn: u64,
    },
    /// A server notices that a connection is gone.
    ConnGone {
        /// Which.
        conn: u64,
    },
    /// A client looks around.
    Client {
        /// Which.
        client: usize,
    },
    /// A server puts into its tree what is committed.
    Apply {
        /// Which.
        place: ServerIndex,
        /// In which of its lives.
        life: u64,
    },
    /// A server that stood still goes on.
    Resume {
        /// Which.
        place: ServerIndex,
    },
    /// Clients ask a server that stands still.
    AskStopped {
        /// Which.
        place: ServerIndex,
    },
    /// Something breaks or is mended.
    Fault,
    /// The power fails in several places.
    PowerFails,
    /// A server that has to be repaired asks another one.
    Repair {
        /// Which.
        place: ServerIndex,
    },
    /// A host that is no member does something.
    Intruder,
}

/// A server's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_ms: u64,
    /// Local milliseconds in a million true ones.
    rate_ppm: u64,
    skew_ms: i64,
}

impl Clock {
    fn monotonic_ms(&self, now_ms: u64) -> u64 {
        self.offset_ms + now_ms * self.rate_ppm / 1_000_000
    }

    /// What the clock shows.
    #[must_use]
    pub fn now(&self, now_ms: u64) -> Now {
        Now {
            monotonic_ms: self.monotonic_ms(now_ms),
            wall_ms: WALL_MS + self.skew_ms + i64::try_from(now_ms).expect("short histories"),
        }
    }

    /// The wall clock is set to another time, up to two hours before or after.
    fn jump(&mut self, random: &mut Random) {
        let two_hours_ms = 7_200_000;
        self.skew_ms = i64::try_from(random.below(2 * two_hours_ms)).expect("a few hours")
            - i64::try_from(two_hours_ms).expect("a few hours");
    }

    /// The wall clock shows the right time.
    fn set_right(&mut self) {
        self.skew_ms = 0;
    }

    /// The first moment at which the clock shows at least this.
    fn when(&self, local_ms: u64) -> u64 {
        let mut now_ms = local_ms.saturating_sub(self.offset_ms) * 1_000_000 / self.rate_ppm;
        while self.monotonic_ms(now_ms) < local_ms {
            now_ms += 1;
        }
        now_ms
    }
}

/// A machine with a disk, on which a server may run.
pub struct Server {
    /// Its number in the ensemble.
    pub id: ServerId,
    /// Its disk.
    pub storage: Storage,
    /// Its clock.
    pub clock: Clock,
    /// How often the server has been started.
    pub life: u64,
    /// The running server.
    pub process: Option<Box<Process>>,
    /// Why it did not start.
    pub refusal: Option<String>,
    /// What it lacks, if it waits for records of others.
    pub repair: Option<Repair>,
    /// What it had before it joined with unusable files.
    pub set_aside: Option<SetAside>,
    /// How many log records its rotten disk may have damaged. If any, it may refuse to start.
    pub rotten: usize,
    /// It has lost its disk, and may not vote yet.
    pub lost: bool,
    /// It has lost more than other servers' records can replace, and has not been brought up to date yet.
    pub needs_leader: bool,
    /// An epoch file was damaged since it last started.
    pub epochs_rot: bool,
    /// A log file may lack the footer that it once had.
    pub footers_rot: bool,
    /// The last epoch that its disk has said to be promised.
    pub promised: u32,
    /// The last epoch whose leader it has followed.
    pub followed: u32,
    /// What it has logged, as the world saw it.
    pub mirror: Mirror,
    /// The last txn that its disk has said to be durable.
    pub flushed: Zxid,
    /// What it would have logged if its last install was done before it crashed.
    pub mirror_installed: Mirror,
    /// Its disk is slow at the moment.
    pub slow: bool,
    /// Its disk does nothing at the moment.
    pub frozen: bool,
    /// It crashes after so many more outputs.
    pub crash_after: Option<u64>,
    /// The others have to do without it.
    pub left_out: bool,
    /// Its process stands still until then.
    pub stopped_until_ms: Option<u64>,
    /// Its disk is full at the moment.
    pub full: bool,
    /// Some sync to come will fail.
    pub sync_fails: bool,
    /// In its next repair the power fails after so many changes of its disk.
    pub power_fails_in_repair: Option<u64>,
    /// The membership in its configuration files.
    pub membership: Arc<Membership>,
    /// For the transcript of a script.
    pub notes: Vec<String>,
}

impl Server {
    /// The membership in its log that is not in force here.
    #[must_use]
    pub fn pending(&self) -> Option<Membership> {
        self.mirror.last_membership().filter(|last| last.version > self.membership.version)
    }

    /// It has all that it has ever logged and promised.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.rotten == 0 && !self.lost && !self.needs_leader
    }
}

/// A running server: what is gone when it stops.
pub struct Process {
    /// Its mind.
    pub node: Node,
    /// Its tree.
    pub tree: Tree,
    writer: LogWriter,
    /// Disk work: 0 for everything, 1 for epochs if they do not wait for the rest.
    jobs: [VecDeque<Job>; 2],
    /// How many jobs of each lane are under way together.
    busy: [usize; 2],
    /// Trees from a leader, with what it had logged.
    received: BTreeMap<LinkId, (Tree, Mirror)>,
    snapshot: Option<SnapshotTask>,
    txns_since_snapshot: u64,
    tick_at_ms: Option<u64>,
    /// What is committed waits for its turn.
    applies_later: bool,
    connect_attempt: u64,
    delivered: herdsman_proto::Zxid,
    storage: herdsman_node::StorageState,
    /// Which lanes wait for room on the disk.
    waits_for_room: [bool; 2],
}

/// A property that did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its name.
    pub property: String,
    /// What happened.
    pub why: String,
}

/// What was seen on the way, for the summary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Servers that stopped.
    pub crashes: u64,
    /// Leaders that were established.
    pub leaders: u64,
    /// Learners that got a DIFF, TRUNC, SNAP.
    pub plans: [u64; 3],
    /// Learners that got txns from log files.
    pub logs_sent: u64,
    /// Snapshots that could not be installed because txns behind NEWLEADER show in them.
    pub fuzzy_installs: u64,
    /// Servers that refused to start from a rotten disk.
    pub refusals: u64,
    /// Servers that found damage which others might repair.
    pub repairs: u64,
    /// Files that were damaged or removed.
    pub rotten_files: u64,
    /// Voters that lost their directories and did not know it.
    pub emptied: u64,
    /// Repairs during which the power failed.
    pub interrupted_repairs: u64,
    /// Memberships that a server has put in force.
    pub memberships: u64,
    /// Answers of servers without a leader.
    pub read_only_answers: u64,
    /// Requests that an ACL did not allow.
    pub not_allowed: u64,
    /// Connections on which watches were set again.
    pub watches_set_again: u64,
    /// Events that clients got.
    pub notifications: u64,
    /// Znodes that a sweep deleted.
    pub swept: u64,
    /// Whether just a quorum had to make progress.
    pub quorum_only: u64,
    /// Epochs that ran out.
    pub epochs_exhausted: u64,
}

/// Everything there is.
pub struct World {
    /// What kind of world.
    pub plan: Plan,
    /// Chance.
    pub random: Random,
    /// The time.
    pub now_ms: u64,
    /// The machines.
    pub servers: Vec<Server>,
    /// The clients.
    pub clients: Vec<Client>,
    /// What has been agreed on.
    pub chronicle: Chronicle,
    /// What went wrong first.
    pub failure: Option<Failure>,
    /// What was seen.
    pub counts: Counts,
    queue: BTreeMap<(u64, u64), Event>,
    asked: u64,
    links: BTreeMap<LinkId, Link>,
    /// Links to hosts that are no members.
    intruders: BTreeMap<LinkId, ServerIndex>,
    votes: BTreeMap<(ServerIndex, ServerIndex), Vec<u8>>,
    conns: BTreeMap<u64, Conn>,
    /// Ordered pairs of servers of which the first cannot reach the second.
    blocked: BTreeSet<(ServerIndex, ServerIndex)>,
    /// Clients and servers that cannot reach each other.
    cut_off: BTreeSet<(usize, ServerIndex)>,
    fault_state: FaultState,
    next_id: u64,
    checkers: Checkers,
    hash: u64,
    trace: Option<VecDeque<String>>,
}

/// Whether the trace is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// It is.
    On,
    /// It is not: nothing is put into words.
    Off,
}

impl World {
    /// A world in which nothing has happened and nobody runs.
    #[must_use]
    pub fn new(plan: Plan, tracing: Tracing) -> Self {
        let mut random = Random::new(plan.seed);
        let ids: Vec<_> = plan.membership.members.keys().copied().collect();
        let servers = ids.iter().map(|id| new_server(*id, &plan, &mut random)).collect();
        World {
            servers,
            clients: (0..plan.clients).map(|_| Client::new()).collect(),
            chronicle: Chronicle::new(plan.tree_options()),
            random,
            now_ms: 0,
            failure: None,
            counts: Counts::default(),
            queue: BTreeMap::new(),
            asked: 0,
            links: BTreeMap::new(),
            intruders: BTreeMap::new(),
            votes: BTreeMap::new(),
            conns: BTreeMap::new(),
            blocked: BTreeSet::new(),
            cut_off: BTreeSet::new(),
            fault_state: FaultState::default(),
            next_id: 0,
            checkers: Checkers::new(plan.local_sessions, plan.ephemerals_per_txn_max)
                .without(plan.unchecked.as_deref()),
            hash: 0,
            trace: (tracing == Tracing::On).then(VecDeque::new),
            plan,
        }
    }

    /// Lets time pass until `until_ms`, or until something is wrong.
    pub fn run_until(&mut self, until_ms: u64) {
        while self.failure.is_none() {
            let Some(entry) = self.queue.first_entry().filter(|next| next.key().0 <= until_ms)
            else {
                self.now_ms = self.now_ms.max(until_ms);
                return;
            };
            let ((at_ms, number), event) = entry.remove_entry();
            self.now_ms = at_ms;
            self.counts.events += 1;
            self.mix(at_ms);
            self.mix(number);
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        if let Some(place) = self.place_of_event(event)
            && let Some(until_ms) = self.servers[place].stopped_until_ms
        {
            // What has come meanwhile is taken up in any order.
            let after_ms = self.random.below(10);
            return self.at(until_ms + after_ms, event);
        }
        match event {
            Event::Start { place } => self.start(place),
            Event::Tick { place, life } => self.tick(place, life),
            Event::Vote { from, to } => self.vote_arrives(from, to),
            Event::Dial { place, life, to, connect_attempt, tries } => {
                self.dial(place, life, to, connect_attempt, tries);
            }
            Event::Arrive { link, from_end } => self.arrive(link, from_end),
            Event::SendPiece { link } => self.send_piece(link),
            Event::DiskDone { place, life, lane } => self.disk_done(place, life, lane),
            Event::SnapshotStep { place, life } => self.snapshot_step(place, life),
            Event::ToServer { conn } => self.server_reads(conn),
            Event::ToClient { conn } => self.client_reads(conn),
            Event::ConnGone { conn } => self.conn_gone(conn),
            Event::Client { client } => self.client_wakes(client),
            Event::Apply { place, life } => self.apply(place, life),
            Event::Resume { place } => self.resume(place),
            Event::AskStopped { place } => self.ask_stopped(place),
            Event::Fault => self.next_fault(),
            Event::PowerFails => self.crash_many(),
            Event::Repair { place } => self.repair_step(place),
            Event::Intruder => self.intruder_acts(),
        }
    }

    /// The server that has to run for this to happen.
    fn place_of_event(&self, event: Event) -> Option<ServerIndex> {
        match event {
            Event::Tick { place, .. }
            | Event::Vote { to: place, .. }
            | Event::Dial { place, .. }
            | Event::DiskDone { place, .. }
            | Event::SnapshotStep { place, .. }
            | Event::Apply { place, .. } => Some(place),
            Event::Arrive { link, from_end } => self.links.get(&link)?.receiver(from_end),
            Event::SendPiece { link } => self.links.get(&link)?.receiver(0),
            Event::ToServer { conn } | Event::ConnGone { conn } => self.place_of_conn(conn),
            Event::Start { .. }
            | Event::ToClient { .. }
            | Event::Client { .. }
            | Event::Resume { .. }
            | Event::Repair { .. }
            | Event::AskStopped { .. }
            | Event::Fault
            | Event::PowerFails
            | Event::Intruder => None,
        }
    }

    /// Lets something happen after a while.
    pub fn later(&mut self, delay_ms: u64, event: Event) {
        self.at(self.now_ms + delay_ms, event);
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.asked += 1;
        self.queue.insert((at_ms.max(self.now_ms), self.asked), event);
    }

    /// Shows the checkers a fact.
    pub fn report(&mut self, fact: &Fact<'_>) {
        if let Err((property, why)) = self.checkers.observe(fact, &self.chronicle) {
            self.fail(&property, why);
        }
    }

    /// Notes the first thing that is wrong.
    pub fn fail(&mut self, property: &str, why: String) {
        if self.plan.unchecked.as_deref() == Some(property) {
            return;
        }
        self.note(|| format!("FAILED {property}: {why}"));
        self.failure.get_or_insert(Failure { property: property.to_owned(), why });
    }

    /// Adds to the hash of everything that happened.
    pub fn mix(&mut self, value: u64) {
        let mixed = (self.hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = mixed ^ (mixed >> 29);
    }

    /// The hash of everything that happened.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Puts something into words, if somebody wants to read it.
    pub fn note(&mut self, words: impl FnOnce() -> String) {
        let now_ms = self.now_ms;
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACE_LINES_MAX {
                trace.pop_front();
            }
            trace.push_back(format!("{now_ms:>8} {}", words()));
        }
    }

    /// The last lines of the trace.
    pub fn trace(&self) -> impl Iterator<Item = &str> {
        self.trace.iter().flatten().map(String::as_str)
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn latency_ms(&mut self) -> u64 {
        let (low, high) = self.plan.latency_ms;
        self.random.between(low, high.max(low))
    }

    fn place_of(&self, id: ServerId) -> Option<ServerIndex> {
        self.servers.iter().position(|server| server.id == id)
    }

    fn alive(&self, place: ServerIndex, life: u64) -> bool {
        self.servers[place].life == life && self.servers[place].process.is_some()
    }
}

fn new_server(id: ServerId, plan: &Plan, random: &mut Random) -> Server {
    let drift = plan.drift_ppm;
    Server {
        id,
        storage: Storage::new(),
        clock: Clock {
            offset_ms: random.below(1_000_000),
            rate_ppm: 1_000_000 - drift + random.below(2 * drift + 1),
            skew_ms: i64::try_from(random.below(1000)).expect("a small number"),
        },
        life: 0,
        process: None,
        refusal: None,
        repair: None,
        set_aside: None,
        rotten: 0,
        lost: false,
        needs_leader: false,
        epochs_rot: false,
        footers_rot: false,
        promised: 0,
        followed: 0,
        mirror: Mirror::default(),
        flushed: Zxid::ZERO,
        mirror_installed: Mirror::default(),
        slow: false,
        frozen: false,
        crash_after: None,
        left_out: false,
        stopped_until_ms: None,
        full: false,
        sync_fails: false,
        power_fails_in_repair: None,
        membership: Arc::new(plan.first_membership(id)),
        notes: Vec::new(),
    }
}
