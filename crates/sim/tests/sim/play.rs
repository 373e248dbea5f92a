//! Plays a script: a whole ensemble in which nothing happens by chance.
//!
//! Commands; servers by their numbers:
//! - `ensemble VOTERS [observers=N] [joiners=N] [leader=ID] [history=TXNS] [snapshot=TXNS] [slowtree=MS] [reconfig]
//!   [forgetful] [direct]` starts an ensemble and waits until all serve. `joiners` follow without being members,
//!   `reconfig` lets the membership change, `forgetful` observers keep no log, `direct` ones learn from the leader
//!   only.
//! - `partition 1 | 2 3` cuts sides off from each other; `heal`; `break ID` breaks all links of a server.
//! - `crash ID…`, `restart ID…`; `lose ID`: a server that is down has lost its disk, and knows it.
//! - `freeze ID`, `thaw ID`: a disk does nothing, and reports nothing, until it is thawed; `full ID`, `room ID`.
//! - `elect ID`: votes for it are exaggerated until it leads; `favour ID`: only that.
//! - `write ID OP PATH [DATA] [ephemeral]`; `send …`: the same, without waiting for an answer. OP may be `reconfig`
//!   with the numbers of all voters, as in `write 1 reconfig 1,2,4`, observers marked as in `4o`.
//! - `read ID PATH`; `move CLIENT TO`: the client of one server goes to another with its session; `leave ID`: the
//!   client of a server is gone without a word.
//! - `wait MS`; `stabilize`: until all that run serve and have the same tree; `status`.
//!
//! Each server has one client, which is connected to it when it is first needed. All properties are
//! checked all the time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use herdsman_proto::ErrorCode;
use herdsman_sim::chronicle::view;
use herdsman_sim::client::{Create, Op, Stage};
use herdsman_sim::plan::{Voting, member_line, membership};
use herdsman_sim::run::describe;
use herdsman_sim::world::{ServerIndex, Tracing};
use herdsman_sim::{FaultKinds, Plan, World};
use herdsman_zab::log::LogStorage;
use herdsman_zab::settings::ObserverMasters;

const TICK_MS: u64 = 1000;
/// How long an answer is waited for.
const ANSWER_MS: u64 = 3000;
/// How often and how long a client tries to connect.
const CONNECT_TRIES: usize = 10;
const CONNECT_MS: u64 = 300;
/// How long stability is waited for.
const STABLE_MS: u64 = 30_000;

/// A script being played.
pub struct ScriptRun {
    world: World,
    text: String,
}

impl ScriptRun {
    /// The transcript of a script.
    pub fn run(commands: &str) -> String {
        let mut play = ScriptRun { world: World::new(plan("3"), Tracing::On), text: String::new() };
        let lines = commands.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        for line in lines {
            play.line(&format!("> {line}"));
            play.command(line);
            if let Some(failure) = &play.world.failure {
                let words = format!("  FAILED {}: {}", failure.property, failure.why);
                play.line(&words);
                break;
            }
        }
        play.text
    }

    fn line(&mut self, words: &str) {
        writeln!(self.text, "{words}").expect("a string takes everything");
    }

    fn command(&mut self, line: &str) {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "ensemble" => self.ensemble(rest),
            "partition" => self.partition(rest),
            "heal" => self.world.heal_network(),
            "crash" => self.each(rest, |world, place| world.crash_hard(place)),
            "restart" => self.each(rest, |world, place| world.start(place)),
            "freeze" => self.each(rest, |world, place| world.freeze_disk(place)),
            "thaw" => self.each(rest, |world, place| world.thaw_disk(place)),
            "break" => self.each(rest, |world, place| world.break_links(place)),
            "lose" => self.each(rest, |world, place| world.lose_disk(place)),
            "full" => self.each(rest, |world, place| world.set_room(place, Some(0))),
            "room" => self.each(rest, |world, place| world.set_room(place, None)),
            "favour" => self.world.favour(rest.parse().ok().map(|id: ServerIndex| id - 1)),
            "elect" => self.elect(place(rest)),
            "write" => {
                let before = self.send(rest);
                self.answer(place(rest), before);
            }
            "send" => _ = self.send(rest),
            "read" => self.read(rest),
            "move" => self.move_client(rest),
            "leave" => self.world.client_leaves(place(rest)),
            "wait" => self.pass(rest.parse().expect("milliseconds")),
            "stabilize" => self.stabilize(),
            "status" => self.status(),
            _ => panic!("{name} is no command"),
        }
    }

    fn each(&mut self, ids: &str, act: impl Fn(&mut World, ServerIndex)) {
        for id in ids.split(' ') {
            act(&mut self.world, place(id));
        }
    }

    fn pass(&mut self, ms: u64) {
        self.world.run_until(self.world.now_ms + ms);
    }

    /// Lets time pass until something is so; says so if it never is.
    fn until(&mut self, ms: u64, done: impl Fn(&World) -> bool) -> bool {
        for _ in 0..ms / 10 {
            if done(&self.world) || self.world.failure.is_some() {
                return true;
            }
            self.pass(10);
        }
        done(&self.world)
    }

    fn ensemble(&mut self, words: &str) {
        self.world = World::new(plan(words), Tracing::On);
        let leader = number(words, "leader=").map(|id| id as ServerIndex - 1);
        self.world.favour(leader);
        for place in 0..self.world.servers.len() {
            // An exaggerated vote would tell it that it has lost something.
            if leader.is_some() {
                self.world.initialize(place);
            }
            self.world.start(place);
        }
        self.stabilize();
        self.world.favour(None);
    }

    fn partition(&mut self, words: &str) {
        let sides: Vec<Vec<ServerIndex>> =
            words.split('|').map(|side| side.split_whitespace().map(place).collect()).collect();
        let mut pairs = BTreeSet::new();
        for (index, side) in sides.iter().enumerate() {
            let others = sides.iter().enumerate().filter(|(other, _)| *other != index);
            for other in others.flat_map(|(_, side)| side) {
                pairs.extend(side.iter().map(|place| (*place, *other)));
            }
        }
        self.world.block(pairs);
    }

    fn elect(&mut self, place: ServerIndex) {
        self.world.favour(Some(place));
        let elected =
            self.until(STABLE_MS, |world| world.state(place) == "leading" && world.serves(place));
        self.world.favour(None);
        self.line(if elected { "  elected" } else { "  not elected" });
    }

    /// Sends a request through a server; gives how many writes were answered there before.
    fn send(&mut self, words: &str) -> u64 {
        let client = place(words);
        for _ in 0..CONNECT_TRIES {
            if self.world.clients[client].stage == Stage::Connected {
                break;
            }
            self.world.client_connects(client, client);
            self.until(CONNECT_MS, |world| world.clients[client].stage != Stage::Connecting);
        }
        self.world.client_sends(client, op(words));
        self.world.clients[client].answers.len() as u64
    }

    fn answer(&mut self, client: ServerIndex, before: u64) {
        let answered = |world: &World| world.clients[client].answers.len() as u64 > before;
        let words = if self.until(ANSWER_MS, answered) {
            let (zxid, code) = *self.world.clients[client].answers.last().expect("an answer");
            match ErrorCode::from_code(code) {
                None => format!("  ok {zxid}"),
                Some(code) => format!("  {code:?} {zxid}"),
            }
        } else {
            "  no answer".to_owned()
        };
        self.line(&words);
    }

    /// What a server would show, whether it serves or not.
    fn read(&mut self, words: &str) {
        let place = place(words);
        let path = words.split(' ').nth(1).expect("a path");
        let words = match &self.world.servers[place].process {
            Some(process) if !process.node.serves_clients() => "  does not serve".to_owned(),
            Some(process) => match view(&process.tree, path) {
                Some(view) => format!("  is there, children {:?}", view.children),
                None => "  is not there".to_owned(),
            },
            None => "  down".to_owned(),
        };
        self.line(&words);
    }

    fn move_client(&mut self, words: &str) {
        let (client, to) = words.split_once(' ').expect("a client and a server");
        let (client, to) = (place(client), place(to));
        self.world.client_connects(client, to);
        let connected = |world: &World| world.clients[client].stage != Stage::Connecting;
        self.until(ANSWER_MS, connected);
        let stage = self.world.clients[client].stage;
        self.line(&format!(
            "  {}",
            if stage == Stage::Connected { "connected" } else { "refused" }
        ));
    }

    fn stabilize(&mut self) {
        // Nobody has noticed yet what has just happened.
        self.pass(50);
        let stable = self.until(STABLE_MS, |world| {
            let running = || world.servers.iter().filter_map(|server| server.process.as_ref());
            let last = world.chronicle.last();
            let ends = |process: &herdsman_sim::world::Process| {
                process.node.serves_clients() && process.tree.last_zxid() == last
            };
            running().all(|process| ends(process))
        });
        if !stable {
            self.line("  not stable");
        }
        self.pass(100);
    }

    fn status(&mut self) {
        for place in 0..self.world.servers.len() {
            let state = self.world.state(place);
            let server = &mut self.world.servers[place];
            let notes = std::mem::take(&mut server.notes).join(", ");
            let mut line = format!("  {} {state:<9}", place + 1);
            if let Some(process) = &server.process {
                let epochs = process.node.zab().expect("an ensemble").epochs();
                let serves = if process.node.serves_clients() { "" } else { " (does not serve)" };
                let last = process.tree.last_zxid();
                let log = server.mirror.last();
                line += &format!(" epoch={} last={last}", epochs.current);
                if log != last {
                    line += &format!(" log={log}");
                }
                line += serves;
            }
            if !notes.is_empty() {
                line += &format!("   {notes}");
            }
            self.line(line.trim_end());
        }
        if std::env::var_os("HERDSMAN_EXPLAIN").is_some() {
            let trace: Vec<_> = self.world.trace().map(str::to_owned).collect();
            eprintln!("{}\n{}", trace.join("\n"), describe(&self.world).join("\n"));
        }
    }
}

/// The plan of an ensemble in which nothing happens by chance.
fn plan(words: &str) -> Plan {
    let voters = words.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(3);
    let observers = number(words, "observers=").unwrap_or(0);
    let joiners = number(words, "joiners=").unwrap_or(0) as usize;
    let members = membership(voters + joiners, observers as usize, Voting::Majority);
    let has = |wanted| words.split(' ').any(|word| word == wanted);
    Plan {
        clients: members.members.len(),
        membership: Arc::new(members),
        joiners,
        reconfig: has("reconfig"),
        observer_masters: if has("direct") {
            ObserverMasters::Off
        } else {
            ObserverMasters::On { seed: 0 }
        },
        observer_log_storage: if has("forgetful") {
            LogStorage::InMemory
        } else {
            LogStorage::OnDisk
        },
        tick_ms: TICK_MS,
        init_limit_ticks: 5,
        sync_limit_ticks: 2,
        history_txns_max: number(words, "history=").unwrap_or(500) as usize,
        snapshot_txns: number(words, "snapshot=").unwrap_or(1000),
        tree_piece_ms: number(words, "slowtree=").unwrap_or(4),
        latency_ms: (1, 1),
        disk_ms: (1, 1),
        drift_ppm: 0,
        session_ms: 20_000,
        loss_per_mille: 0,
        faults: FaultKinds::NONE,
        ..Plan::of(0)
    }
}

fn number(words: &str, key: &str) -> Option<u64> {
    let value = words.split(' ').find_map(|word| word.strip_prefix(key))?;
    Some(value.parse().expect("a number"))
}

fn place(words: &str) -> ServerIndex {
    let id = words.split(' ').next().expect("a number");
    id.parse::<ServerIndex>().unwrap_or_else(|_| panic!("{id} is no server")) - 1
}

/// A whole membership, from numbers such as `1,2,4o`.
fn members(ids: &str) -> String {
    let line = |word: &str| {
        let (id, role) = match word.strip_suffix('o') {
            Some(id) => (id, "observer"),
            None => (word, "participant"),
        };
        member_line(id.parse().expect("a number"), role)
    };
    ids.split(',').map(line).collect::<Vec<_>>().join(",")
}

fn op(words: &str) -> Op {
    let words: Vec<_> = words.split(' ').collect();
    let path = || words[2].to_owned();
    let data = words.get(3).copied().unwrap_or_default().to_owned();
    match words[1] {
        "create" if data == "ephemeral" => Op::Create(Create::open(&path(), 1, &data)),
        "create" => Op::Create(Create::open(&path(), 0, &data)),
        "set" => Op::SetData { path: path(), data, version: -1 },
        "delete" => Op::Delete { path: path(), version: -1 },
        "reconfig" => Op::Reconfig { members: members(words[2]) },
        "sync" => Op::Sync,
        "close" => Op::CloseSession,
        other => panic!("{other} is no request"),
    }
}
