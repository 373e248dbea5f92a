//! Several nodes: scenarios as text.
//!
//! Commands: `settings KEY=VALUE …` (`servers`, `observers`, `observer_masters=SEED`, `local`,
//! `read_only`, `leader_serves`, `epoch_txns`), `open CONN @SERVER [timeout=MS] [xid=FIRST] [ro] [old]`, `reopen CONN
//! @SERVER SESSION [ro] [wrong]`, `CONN REQUEST` (in the notation of `words`, and `sync PATH`,
//! `closeSession`, `malformed OP`), `touch CONN`, `gone CONN`, `hold SERVER` (what it tells the leader waits),
//! `release SERVER`, `delay SERVER` (it applies nothing until `apply SERVER`), `cut SERVER`, `heal`, `heal SERVER`,
//! `restart SERVER`, `wipe SERVER` (it starts again without any files), `damage SERVER` (it starts again with files
//! that it cannot use), `wait MS`, `status`.
//!
//! The transcript tells what clients see, what the leader logs, and what servers tell each other
//! about sessions. Lines begin with the server's number.

use std::collections::BTreeMap;

use herdsman_node::{
    ClientRequest, ConnId, Input, LeaderServes, LocalSessions, NodeSettings, Now, Output, Outputs,
};
use herdsman_proto::txn::Entry;
use herdsman_proto::{ConnectRequest, OpCode, QuorumPacket, Request, SessionId, Xid, Zxid};
use herdsman_zab::settings::ObserverMasters;
use herdsman_zab::{LearnerPort, Output as PeerOutput, RoleStatus};

use crate::cluster::{Cluster, FileEvent, Member, NodeNumber};
use crate::driver::{WALL_MS, address, settings};
use crate::golden::{self, check_folder};
use crate::transcript::{Transcript, short};
use crate::words;

#[test]
fn ensembles() {
    check_folder("ensembles", 10, Play::run);
}

/// Long enough for every election.
const ELECTION_MS: u64 = 5000;

struct Play {
    cluster: Cluster,
    transcript: Transcript,
    /// Where each connection is, and the number of its last request.
    conns: BTreeMap<ConnId, (NodeNumber, i32)>,
}

impl Play {
    fn run(commands: &str) -> String {
        let line = golden::commands(commands).find_map(|line| line.strip_prefix("settings "));
        let (settings, counts, masters) = parse_settings(line.unwrap_or(""));
        let mut transcript = Transcript::default();
        let see = &mut |place, member: &Member, output: &Output, bytes: &[u8]| {
            tell(&mut transcript, place, member, output, bytes);
        };
        let mut cluster = Cluster::with_observers(&settings, counts, masters, see);
        cluster.wait(ELECTION_MS, see);
        let mut play = Play { cluster, transcript, conns: BTreeMap::new() };
        for line in golden::commands(commands).filter(|line| !line.starts_with("settings ")) {
            play.transcript.line(&format!("> {line}"));
            play.command(line);
        }
        play.transcript.text
    }

    fn act(&mut self, act: impl FnOnce(&mut Cluster, crate::cluster::Observe<'_>)) {
        let Play { cluster, transcript, .. } = self;
        act(cluster, &mut |place, member, output, bytes| {
            tell(transcript, place, member, output, bytes);
        });
    }

    fn step(&mut self, place: NodeNumber, input: Input<'_>) {
        self.act(|cluster, see| cluster.step(place, input, see));
    }

    fn command(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[0] {
            "open" => self.connect(conn(words[1]), SessionId::NONE, &words[2..]),
            "reopen" => {
                let session = self.transcript.session(words[3]);
                self.connect(conn(words[1]), session, &words[2..]);
            }
            "touch" => {
                let conn = conn(words[1]);
                self.step(self.conns[&conn].0, Input::Touch { conn });
            }
            "gone" => {
                let conn = conn(words[1]);
                self.step(self.conns[&conn].0, Input::Disconnected { conn });
            }
            "hold" => self.cluster.hold(place(words[1])),
            "release" => self.act(|cluster, see| cluster.release(place(words[1]), see)),
            "delay" => self.cluster.delay(place(words[1])),
            "apply" => self.act(|cluster, see| cluster.apply(place(words[1]), see)),
            "cut" => self.act(|cluster, see| cluster.cut(place(words[1]), see)),
            "restart" | "wipe" | "damage" => {
                let event = match words[0] {
                    "restart" => FileEvent::Kept,
                    "wipe" => FileEvent::Wiped,
                    _ => FileEvent::Damaged,
                };
                self.act(|cluster, see| cluster.restart(place(words[1]), event, see));
            }
            "heal" if words.len() > 1 => self.cluster.heal_one(place(words[1])),
            "heal" => self.cluster.heal(),
            "wait" => {
                let wait_ms = words[1].parse().expect("milliseconds");
                self.act(|cluster, see| cluster.wait(wait_ms, see));
            }
            "status" => self.status(),
            number => self.request(conn(number), &line[number.len() + 1..]),
        }
    }

    fn connect(&mut self, conn: ConnId, session: SessionId, words: &[&str]) {
        let at = place(words[0].strip_prefix('@').expect("a server"));
        let timeout_ms = words.iter().find_map(|word| word.strip_prefix("timeout="));
        let mut password = session.apache_password();
        password[0] ^= u8::from(words.contains(&"wrong"));
        let first_xid = words.iter().find_map(|word| word.strip_prefix("xid="));
        let first_xid = first_xid.map_or(1, |text| text.parse().expect("a number"));
        self.conns.insert(conn, (at, first_xid - 1));
        let request = ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: timeout_ms.map_or(4000, |text| text.parse().expect("milliseconds")),
            session,
            password: &password,
            read_only: (!words.contains(&"old")).then_some(words.contains(&"ro")),
        };
        self.step(at, Input::Connect { conn, request, ids: address() });
    }

    fn request(&mut self, conn: ConnId, line: &str) {
        if let Some(read) = words::read(line) {
            return self.read(conn, &read);
        }
        let (at, last_xid) = self.conns.get_mut(&conn).expect("an open connection");
        *last_xid += 1;
        let (at, xid) = (*at, Xid(*last_xid));
        let mut body = Vec::new();
        let request = match line.split_once(' ').unwrap_or((line, "")) {
            ("sync", path) => ClientRequest::Sync { path: path.into() },
            ("closeSession", _) => ClientRequest::CloseSession,
            ("malformed", op) => {
                let known = OpCode::ALL.iter().find(|known| known.name() == op);
                ClientRequest::Malformed(*known.expect("a known op"))
            }
            _ => {
                let write = words::write(line);
                Request::Write(write.clone()).encode(&mut body);
                ClientRequest::Write(write)
            }
        };
        self.step(at, Input::Request { conn, xid, request, body: &body });
    }

    /// Reads do not pass through the node.
    fn read(&mut self, conn: ConnId, request: &herdsman_proto::ReadRequest<'_>) {
        let tree = &self.cluster.members[&self.conns[&conn].0].tree;
        let (session, watcher) = (SessionId::NONE, conn.watcher());
        let reader = herdsman_tree::read::ReadCaller { session, watcher, ids: &address() };
        let mut out = Vec::new();
        let answer = match tree.read(reader, request, &mut out) {
            Ok(()) => words::body(request, &out),
            Err(code) => format!("{code:?}"),
        };
        self.transcript.line(&format!("  {} <- {answer}", conn.0));
    }

    fn status(&mut self) {
        for (place, Member { node, tree, .. }) in &self.cluster.members {
            let global: Vec<_> =
                tree.sessions().map(|(session, _)| self.transcript.name(session)).collect();
            let line = format!(
                "  {place}: {} zxid={} global={global:?} local={} ephemerals={}",
                node.serves_as().map_or("nothing".to_owned(), |role| format!("{role:?}")),
                short(tree.last_zxid()),
                node.sessions().local_len(),
                tree.ephemeral_count(),
            );
            self.transcript.line(&line);
        }
    }
}

/// Notes an output, unless it is one of the many that keep an ensemble together.
fn tell(
    transcript: &mut Transcript,
    place: NodeNumber,
    member: &Member,
    output: &Output,
    bytes: &[u8],
) {
    let line = match output {
        Output::Peer(output) => tell_for_peers(transcript, member, output),
        other => Some(transcript.output(other, bytes)),
    };
    if let Some(line) = line {
        transcript.line(&format!("  {place}: {line}"));
    }
}

fn tell_for_peers(
    transcript: &mut Transcript,
    member: &Member,
    output: &PeerOutput,
) -> Option<String> {
    let line = match output {
        PeerOutput::RoleChanged(RoleStatus::Looking) => "looks for a leader".to_owned(),
        PeerOutput::RoleChanged(RoleStatus::Leading { epoch }) => format!("leads, epoch {epoch}"),
        PeerOutput::RoleChanged(
            RoleStatus::Following { leader, .. } | RoleStatus::Observing { leader, .. },
        ) => format!("follows {leader}"),
        PeerOutput::Append { zxid, payload, .. } if member.leads() => {
            let entry = Entry::decode(payload).expect("our own bytes");
            format!("append {} {}", short(*zxid), transcript.txn(&entry))
        }
        PeerOutput::Connect { to, port: LearnerPort::ObserverMaster } => {
            format!("goes to {to} as an observer")
        }
        PeerOutput::Send { packet, .. } => format!("-> {}", tell_packet(transcript, packet)?),
        _ => return None,
    };
    Some(line)
}

/// A packet about sessions.
fn tell_packet(transcript: &Transcript, packet: &QuorumPacket) -> Option<String> {
    let line = match packet {
        QuorumPacket::Request { session, cxid, op, .. } => {
            let op = OpCode::from_code(*op).map_or("?", OpCode::name);
            // A number below zero is the server's and not the client's.
            let number = if *cxid < 0 { "own".to_owned() } else { cxid.to_string() };
            format!("request {} #{number} {op}", transcript.name(*session))
        }
        QuorumPacket::Revalidate { session, timeout_ms } => {
            format!("revalidate {} {timeout_ms}", transcript.name(*session))
        }
        QuorumPacket::Revalidated { session, valid } => {
            let verdict = if *valid { "valid" } else { "invalid" };
            format!("{} is {verdict}", transcript.name(*session))
        }
        QuorumPacket::Ping { touched, .. } if !touched.is_empty() => {
            let names: Vec<_> = touched.iter().map(|(id, _)| transcript.name(*id)).collect();
            format!("touched {}", names.join(" "))
        }
        QuorumPacket::Sync => "sync".to_owned(),
        _ => return None,
    };
    Some(line)
}

fn conn(text: &str) -> ConnId {
    ConnId(text.parse().unwrap_or_else(|_| panic!("{text} is no command")))
}

fn place(text: &str) -> NodeNumber {
    text.parse().expect("a server's number")
}

fn parse_settings(line: &str) -> (NodeSettings, [NodeNumber; 2], ObserverMasters) {
    let (mut settings, mut counts) = (settings(), [3, 0]);
    let mut masters = ObserverMasters::Off;
    for (key, value) in line.split(' ').filter_map(|pair| pair.split_once('=')) {
        match (key, value) {
            ("servers", number) => counts[0] = place(number),
            ("observers", number) => counts[1] = place(number),
            ("observer_masters", seed) => {
                masters = ObserverMasters::On { seed: seed.parse().expect("a number") };
            }
            ("local", "kept") => settings.local_sessions = LocalSessions::Kept,
            ("local", "upgraded") => settings.local_sessions = LocalSessions::Upgraded,
            ("epoch_txns", count) => settings.epoch_txns_max = count.parse().expect("a number"),
            ("leader_serves", "no") => settings.leader_serves = LeaderServes::ServersOnly,
            ("read_only", ms) => settings.read_only_after_ms = Some(ms.parse().expect("ms")),
            _ => panic!("{key}={value} is no setting"),
        }
    }
    (settings, counts, masters)
}

/// The log's thread leaves it to others to apply what is committed. A leader that falls meanwhile answers it, and does
/// nothing else that a leader does.
#[test]
fn a_leader_that_leaves_proposes_nothing() {
    let settings = NodeSettings { epoch_txns_max: 1, ..settings() };
    let mut cluster = Cluster::new(&settings, 1, &mut |_, _, _, _| {});
    cluster.wait(1000, &mut |_, _, _, _| {});
    let member = cluster.members.get_mut(&1).unwrap();
    let mut out = Outputs::default();
    let password = SessionId::NONE.apache_password();
    let request = ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 4000,
        session: SessionId::NONE,
        password: &password,
        read_only: None,
    };
    let connect = Input::Connect { conn: ConnId(1), request, ids: address() };
    member.node.step(at(1000), connect, &member.tree, &mut out);
    let zxid = Zxid(Zxid::start_of(1).0 + 1);
    member.node.step(at(1001), Input::Flushed { zxid }, &member.tree, &mut out);
    assert!(member.node.wants_tree());
    // A session is due, and the epoch has no more zxids.
    member.node.step(at(60_000), Input::Tick, &member.tree, &mut out);
    assert!(!member.node.serves_clients());
    member.node.apply(at(60_000), &mut member.tree, 10, &mut out);
}

fn at(ms: u64) -> Now {
    Now { monotonic_ms: ms, wall_ms: WALL_MS + ms as i64 }
}
