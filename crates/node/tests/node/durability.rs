//! Any inputs, and a log that lags as it likes: nothing is said before it is durable, each
//! connection gets its answers in order, and no request waits forever.

use std::collections::{BTreeMap, VecDeque};

use herdsman_node::{ClientRequest, ConnId, Input, NodeSettings, Output, StorageState};
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{ConnectRequest, JuteReader, OpCode, SessionId, Txn, Xid, Zxid};
use herdsman_tree::Tree;
use proptest::prelude::*;

use crate::driver::{Driver, address, options, settings};
use crate::words;

const CONNS: usize = 4;

#[derive(Clone, Debug)]
enum Action {
    /// Something on one of the places where a connection may be.
    At(usize, Move),
    /// So many more txns become durable.
    Flush(usize),
    Storage(StorageState),
    /// Time passes, and the node gets a tick.
    Tick(u64),
}

#[derive(Clone, Debug)]
enum Move {
    /// Opens a session, or attaches the given one (counted from the first ever opened).
    Connect(Option<usize>),
    Write(&'static str),
    Sync,
    CloseSession,
    Malformed(OpCode),
    Watch,
    Touch,
    Disconnect,
}

fn action() -> impl Strategy<Value = Action> {
    let write = prop::sample::select(vec![
        "create /a",
        "create /a/n '' flags=3",
        "create /e '' flags=1",
        "create /a x",
        "set /a y",
        "delete /a",
        "delete /e",
        "setacl /a world:anyone:rwcda",
        "multi create /b ; set /b 1 ; delete /b",
        "multi create /a/x ; delete /no",
        "createContainer /c",
        "createTTL /t ttl=500",
        "create /c/kid",
        "delete /c/kid",
    ]);
    let step = prop_oneof![
        2 => Just(Move::Connect(None)),
        2 => (0..6usize).prop_map(|session| Move::Connect(Some(session))),
        16 => write.prop_map(Move::Write),
        3 => Just(Move::Sync),
        1 => Just(Move::CloseSession),
        1 => prop::sample::select(vec![OpCode::Create, OpCode::Multi]).prop_map(Move::Malformed),
        2 => Just(Move::Watch),
        2 => Just(Move::Touch),
        1 => Just(Move::Disconnect),
    ];
    prop_oneof![
        30 => (0..CONNS, step).prop_map(|(place, step)| Action::At(place, step)),
        10 => (0..5usize).prop_map(Action::Flush),
        1 => prop::sample::select(vec![StorageState::Full, StorageState::Writable])
            .prop_map(Action::Storage),
        3 => (0..2500u64).prop_map(Action::Tick),
    ]
}

/// A connection as its client sees it.
#[derive(Default)]
struct Client {
    attached: bool,
    last_xid: i32,
    waiting: VecDeque<Xid>,
}

/// What all clients and the log have seen.
#[derive(Default)]
struct Seen {
    clients: BTreeMap<ConnId, Client>,
    sessions: Vec<SessionId>,
    /// Of new sessions, the txn that opens them.
    opened_by: BTreeMap<SessionId, Zxid>,
    last_appended: Zxid,
    flushed: Zxid,
}

impl Seen {
    fn output(&mut self, output: &Output, bytes: &[u8]) {
        match output {
            Output::Append { zxid, .. } => {
                assert_eq!(*zxid, self.last_appended.next(), "no zxid is left out");
                self.last_appended = *zxid;
            }
            Output::Attached { conn, session, .. } => {
                let opened = self.opened_by.get(session);
                assert!(opened.is_none_or(|&zxid| zxid <= self.flushed), "answered too early");
                if !self.sessions.contains(session) {
                    self.sessions.push(*session);
                }
                if let Some(client) = self.clients.get_mut(conn) {
                    client.attached = true;
                }
            }
            Output::Send { conn, frames, answers } => {
                // Who has left or is being closed may be talked to, but hears nothing.
                let Some(client) = self.clients.get_mut(conn) else { return };
                let mut reader = JuteReader::new(&bytes[frames.start + 4..frames.end]);
                let (xid, zxid, _) = ReplyHeader::decode(&mut reader).expect("a header");
                if let Some(answered) = answers {
                    assert_eq!((answered.xid, answered.zxid), (xid, zxid));
                    assert_eq!(client.waiting.pop_front(), Some(xid), "answers come in order");
                }
                if answers.is_some() || xid == Xid::NOTIFICATION {
                    assert!(client.attached, "{conn:?} has no session");
                    assert!(
                        zxid <= self.flushed,
                        "{zxid} is answered, {} is durable",
                        self.flushed
                    );
                }
            }
            Output::Close { conn, .. } => _ = self.clients.remove(conn),
            Output::Event { .. } => unreachable!("watchers get frames one by one"),
            Output::Peer(_) | Output::DigestMismatch { .. } => unreachable!("it is alone"),
        }
    }
}

struct World {
    driver: Driver,
    seen: Seen,
    /// Which connection is at which place; closed ones until the node is notified.
    places: [Option<ConnId>; CONNS],
    last_conn: u64,
    storage: StorageState,
}

impl World {
    fn new() -> Self {
        let settings = NodeSettings { ephemerals_per_txn_max: 2, ..settings() };
        World {
            driver: Driver::new(settings, Tree::new(options())),
            seen: Seen::default(),
            places: [None; CONNS],
            last_conn: 0,
            storage: StorageState::Writable,
        }
    }

    fn step(&mut self, input: Input<'_>) {
        let World { driver, seen, .. } = self;
        driver.step(input, &mut |output, bytes| seen.output(output, bytes));
        for entry in &driver.log {
            if let Txn::CreateSession { .. } = entry.txn {
                seen.opened_by.insert(entry.header.session, entry.header.zxid);
            }
        }
        if self.storage != StorageState::Writable {
            self.check_all_answered();
        }
    }

    /// Whoever is still connected has its answers.
    fn check_all_answered(&self) {
        for (conn, client) in &self.seen.clients {
            assert!(client.waiting.is_empty(), "{conn:?} waits for {:?}", client.waiting);
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::At(place, step) => self.act_at(*place, step),
            Action::Flush(txns) => self.flush(*txns),
            Action::Storage(state) => self.set_storage(*state),
            Action::Tick(ms) => {
                self.driver.now_ms += ms;
                self.step(Input::Tick);
            }
        }
    }

    fn flush(&mut self, txns: usize) {
        let zxid = Zxid(self.seen.flushed.0 + txns as i64).min(self.seen.last_appended);
        self.seen.flushed = zxid;
        self.step(Input::Flushed { zxid });
    }

    fn set_storage(&mut self, state: StorageState) {
        self.storage = state;
        self.step(Input::Storage(state));
    }

    fn act_at(&mut self, place: usize, step: &Move) {
        if let Move::Connect(session) = step {
            return self.connect(place, *session);
        }
        let Some(conn) = self.places[place] else { return };
        if matches!(step, Move::Disconnect) {
            return self.disconnect(place);
        }
        // A client that was not let in yet, or was closed, says nothing.
        let Some(client) = self.seen.clients.get_mut(&conn).filter(|client| client.attached) else {
            return;
        };
        let request = match step {
            Move::Write(line) => ClientRequest::Write(words::write(line)),
            Move::Sync => ClientRequest::Sync { path: "/".into() },
            Move::CloseSession => ClientRequest::CloseSession,
            Move::Malformed(op) => ClientRequest::Malformed(*op),
            Move::Watch => {
                let mode = herdsman_tree::WatchMode::PersistentRecursive;
                let mut watches = self.driver.tree.watches();
                return watches
                    .add_persistent("/", conn.watcher(), mode)
                    .expect("there is no limit here");
            }
            _ => return self.step(Input::Touch { conn }),
        };
        client.last_xid += 1;
        let xid = Xid(client.last_xid);
        client.waiting.push_back(xid);
        self.step(Input::Request { conn, xid, request, body: &[] });
    }

    fn connect(&mut self, place: usize, session: Option<usize>) {
        self.disconnect(place);
        self.last_conn += 1;
        let conn = ConnId(self.last_conn);
        self.places[place] = Some(conn);
        self.seen.clients.insert(conn, Client::default());
        let session = session.and_then(|at| self.seen.sessions.get(at)).copied();
        let session = session.unwrap_or(SessionId::NONE);
        let request = ConnectRequest {
            last_zxid_seen: Zxid(0),
            timeout_ms: 4000,
            session,
            password: &session.apache_password(),
            read_only: Some(false),
        };
        self.step(Input::Connect { conn, request, ids: address() });
    }

    fn disconnect(&mut self, place: usize) {
        if let Some(conn) = self.places[place].take() {
            self.seen.clients.remove(&conn);
            self.step(Input::Disconnected { conn });
        }
    }

    /// Sessions with more than two ephemerals end in several steps.
    fn end_sessions(&mut self) {
        for _ in 0..1000 {
            if self.seen.clients.values().all(|client| client.waiting.is_empty()) {
                return;
            }
            self.act(&Action::Tick(1));
            self.flush(1_000_000);
        }
    }

    /// With everything durable, the log alone gives the tree and the sessions that the node has.
    fn check_log(&self) {
        let mut tree = Tree::new(options());
        self.driver.log.iter().for_each(|entry| tree.replay(entry));
        let facts = |tree: &Tree| {
            let sessions: Vec<_> = tree.sessions().collect();
            (tree.last_zxid(), tree.digest(), tree.node_count(), sessions)
        };
        assert_eq!(facts(&tree), facts(&self.driver.tree));
        assert_eq!(self.driver.node.sessions().len(), tree.sessions().count());
        assert!(tree.orphan_ephemeral_owners().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nothing_is_said_before_it_is_durable(
        actions in prop::collection::vec(action(), 0..150),
        fails: bool,
    ) {
        let mut world = World::new();
        for action in &actions {
            world.act(action);
        }
        if fails {
            world.set_storage(StorageState::Failed);
            world.set_storage(StorageState::Writable);
            prop_assert_eq!(world.driver.node.storage(), StorageState::Failed);
            world.check_all_answered();
        } else {
            world.set_storage(StorageState::Writable);
            world.flush(1_000_000);
            world.end_sessions();
            world.check_all_answered();
            world.check_log();
        }
    }
}
