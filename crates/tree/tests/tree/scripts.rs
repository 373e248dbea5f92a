//! Random histories: the requests of several sessions, their order, and how far the log lags behind.

use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, Id, SessionId, TxnHeader, Zxid};
use herdsman_tree::owner::OwnerRules;
use herdsman_tree::{Caller, Events, Outcome, Overlay, Tree, TreeOptions};
use proptest::prelude::*;
use std::collections::VecDeque;

use crate::model::{Model, ModelCaller, USUAL_SESSIONS};
use crate::words;

/// One step of a history.
#[derive(Clone, Debug)]
pub struct Step {
    /// The session that acts.
    pub who: usize,
    pub action: Action,
    /// The number of txns that may stay in flight after it.
    pub lag: usize,
}

#[derive(Clone, Debug)]
pub enum Action {
    /// A request in the notation of `words`.
    Write(String),
    /// The same from a session that may not write.
    Refused(String),
    /// The session ends, and another one replaces it.
    Reopen,
    /// The sweep requests a deletion.
    Sweep(String),
}

/// Sessions that act at the same time: an anonymous one, a user, the super user.
pub const ACTORS: usize = 3;

pub fn ids(who: usize) -> Vec<Id> {
    match who {
        0 => vec![Id::new("ip", "10.0.0.1")],
        1 => vec![Id::new("ip", "10.0.0.1"), Id::new("digest", "u:h")],
        _ => vec![Id::new("super", "")],
    }
}

/// Paths that often collide.
fn good_path() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "/a", "/a/a", "/a/b", "/a/a/a", "/a/a/b", "/b", "/b/a", "/b/a/a", "/b/b",
    ])
    .prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    let odd = vec!["/", "a", "/a/", "//a", "/zookeeper", "/zookeeper/a", "/a/.", "''"];
    prop_oneof![
        20 => good_path(),
        1 => prop::sample::select(odd).prop_map(str::to_owned),
    ]
}

fn acl() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        20 => Just("world:anyone:rwcda"),
        1 => Just("world:anyone:r"),
        1 => Just("digest:u:h:rwcda"),
        1 => Just("digest:u:h:cd,world:anyone:rwa"),
        1 => Just("auth::rwcda"),
        1 => Just("-"),
    ]
}

fn version() -> impl Strategy<Value = i32> {
    prop_oneof![8 => Just(-1), 3 => 0..3i32]
}

fn single() -> impl Strategy<Value = String> {
    let data = || prop::sample::select(vec!["-", "''", "x", "yy"]);
    let plain = prop::sample::select(vec!["create", "create2"]);
    let odd = prop::sample::select(vec!["create", "createContainer", "createTTL"]);
    prop_oneof![
        4 => (plain, path(), data(), acl(), 0..4)
            .prop_map(|(op, path, data, acl, flags)| format!("{op} {path} {data} flags={flags} acl={acl}")),
        1 => (odd, path(), data(), -1..8, prop::sample::select(vec![-1, 0, 7]))
            .prop_map(|(op, path, data, flags, ttl)| format!("{op} {path} {data} flags={flags} ttl={ttl}")),
        1 => good_path().prop_map(|path| format!("createContainer {path}")),
        1 => good_path().prop_map(|path| format!("createTTL {path} ttl=9")),
        4 => (path(), version()).prop_map(|(path, version)| format!("delete {path} v={version}")),
        3 => (path(), data(), version())
            .prop_map(|(path, data, version)| format!("set {path} {data} v={version}")),
        1 => (path(), version()).prop_map(|(path, version)| format!("check {path} v={version}")),
    ]
}

fn write() -> impl Strategy<Value = String> {
    prop_oneof![
        10 => single(),
        1 => (path(), acl(), version())
            .prop_map(|(path, acl, version)| format!("setacl {path} {acl} v={version}")),
        3 => prop::collection::vec(single(), 0..5)
            .prop_map(|writes| format!("multi {}", writes.join(" ; "))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let action = prop_oneof![
        30 => write().prop_map(Action::Write),
        1 => write().prop_map(Action::Refused),
        2 => Just(Action::Reopen),
        2 => good_path().prop_map(Action::Sweep),
    ];
    (0..ACTORS, action, 0..6usize).prop_map(|(who, action, lag)| Step { who, action, lag })
}

/// A history of at most this many steps.
pub fn steps(max: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..max)
}

/// A history in which most requests succeed and few paths are created and deleted all the time, so that a
/// snapshot taken meanwhile contains many changes.
pub fn churn(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let path = || prop::sample::select(vec!["/a", "/a/a", "/a/a/a", "/a/b", "/b", "/b/a"]);
    let acl = || {
        let reader = (0..4).prop_map(|reader| format!("digest:u{reader}:h:r,world:anyone:rwcda"));
        prop_oneof![Just("world:anyone:rwcda".to_owned()), reader]
    };
    let write = prop_oneof![
        6 => (path(), acl(), prop::sample::select(vec![0, 0, 0, 1, 2]))
            .prop_map(|(path, acl, flags)| format!("create {path} x flags={flags} acl={acl}")),
        1 => path().prop_map(|path| format!("createContainer {path}")),
        1 => path().prop_map(|path| format!("createTTL {path} ttl=9")),
        4 => path().prop_map(|path| format!("delete {path}")),
        2 => (path(), 0..9).prop_map(|(path, data)| format!("set {path} {data}{data}")),
        1 => (path(), acl()).prop_map(|(path, acl)| format!("setacl {path} {acl}")),
        2 => (path(), path())
            .prop_map(|(old, new)| format!("multi delete {old} ; create {new} y ; set {new} zz")),
    ];
    let action = prop_oneof![15 => write.prop_map(Action::Write), 1 => Just(Action::Reopen)];
    let step = (0..ACTORS, action).prop_map(|(who, action)| Step { who, action, lag: 0 });
    prop::collection::vec(step, 0..max)
}

pub fn options(extended_types: bool) -> TreeOptions {
    TreeOptions {
        owner_rules: OwnerRules { extended_types, ..OwnerRules::default() },
        ..TreeOptions::default()
    }
}

/// A txn in flight, and the result of the model.
pub struct InFlight {
    pub entry: Entry,
    pub expected: Outcome,
    /// The model right after it.
    pub after: Model,
}

/// Runs a history through a tree, its overlay and the model.
pub struct Run {
    pub tree: Tree,
    overlay: Overlay,
    model: Model,
    sessions: [SessionId; ACTORS],
    last_zxid: Zxid,
    in_flight: VecDeque<InFlight>,
}

impl Run {
    /// An empty tree in which the sessions are open.
    pub fn new(options: TreeOptions, check: &mut dyn FnMut(&Tree, &InFlight, &Outcome)) -> Self {
        let extended_types = options.owner_rules.extended_types;
        let mut run = Run {
            overlay: Overlay::new(0),
            tree: Tree::new(options),
            model: Model::new(extended_types),
            sessions: [SessionId::NONE; ACTORS],
            last_zxid: Zxid::ZERO,
            in_flight: VecDeque::new(),
        };
        for who in 0..ACTORS {
            run.open(who);
        }
        run.drain(0, check);
        run
    }

    /// Prepares a step, then applies until only its lag is left in flight.
    pub fn step(&mut self, step: &Step, check: &mut dyn FnMut(&Tree, &InFlight, &Outcome)) {
        match &step.action {
            Action::Write(line) => self.write(step.who, line, None),
            Action::Refused(line) => {
                self.write(step.who, line, Some(ErrorCode::SessionExpired));
            }
            Action::Reopen => {
                self.close(step.who);
                self.open(step.who);
            }
            Action::Sweep(path) => {
                let header = self.header(SessionId::NONE);
                let entry = self.overlay.prepare_sweep(&self.tree, header, path, None);
                let expected = self.model.sweep(path, &header);
                self.propose(entry, expected);
            }
        }
        self.drain(step.lag, check);
    }

    fn header(&mut self, session: SessionId) -> TxnHeader {
        self.last_zxid = self.last_zxid.next();
        TxnHeader { session, cxid: 1, zxid: self.last_zxid, time_ms: 7 * self.last_zxid.0 }
    }

    fn write(&mut self, who: usize, line: &str, refused: Option<ErrorCode>) {
        let request = words::write(line);
        let header = self.header(self.sessions[who]);
        let ids = ids(who);
        let caller = Caller { ids: &ids, refused, ephemerals_refused: None };
        let entry = self.overlay.prepare(&self.tree, header, caller, &request);
        let asking = ModelCaller {
            session: header.session,
            ids: &ids,
            refused,
            zxid: header.zxid,
            time_ms: header.time_ms,
        };
        let expected = self.model.write(asking, &request);
        self.propose(entry, expected);
    }

    fn open(&mut self, who: usize) {
        let session = SessionId(USUAL_SESSIONS.start + self.last_zxid.0);
        self.sessions[who] = session;
        let header = self.header(session);
        let timeout_ms = 1000 + who as i32;
        let entry = self.overlay.prepare_create_session(&self.tree, header, timeout_ms);
        self.model.open_session(session, timeout_ms);
        self.propose(entry, Outcome::Session);
    }

    fn close(&mut self, who: usize) {
        let header = self.header(self.sessions[who]);
        let entry = self.overlay.prepare_close_session(&self.tree, header);
        self.model.close_session(header.session, header.zxid);
        self.propose(entry, Outcome::Session);
    }

    /// Encodes and decodes the txn, as on the way to a log.
    fn propose(&mut self, entry: Entry, expected: Outcome) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(Entry::decode(&bytes), Ok(entry.clone()));
        self.in_flight.push_back(InFlight { entry, expected, after: self.model.clone() });
    }

    /// Applies until this many are left.
    pub fn drain(&mut self, left: usize, check: &mut dyn FnMut(&Tree, &InFlight, &Outcome)) {
        while self.in_flight.len() > left {
            let next = self.in_flight.pop_front().expect("more than are left");
            let outcome = self.tree.apply(&next.entry, &mut Events::new());
            self.overlay.applied(next.entry.header.zxid);
            check(&self.tree, &next, &outcome);
        }
    }

    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }
}

impl Step {
    /// A write of the super user, applied at once.
    pub fn by_super(line: &str) -> Self {
        Step { who: ACTORS - 1, action: Action::Write(line.to_owned()), lag: 0 }
    }
}
