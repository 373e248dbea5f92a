//! Any clients, any cuts, sessions of every kind: an ephemeral never outlives its session, and when
//! everybody has been silent for long enough nothing is left of anyone.

use std::collections::{BTreeMap, BTreeSet};

use herdsman_node::io::CloseReason;
use herdsman_node::{ClientRequest, ConnId, Input, LocalSessions, NodeSettings, Output};
use herdsman_proto::{ConnectRequest, Request, SessionId, Xid, Zxid};
use proptest::prelude::*;

use crate::cluster::{Cluster, Member, NodeNumber};
use crate::driver::{address, settings};
use crate::words;

const SERVERS: NodeNumber = 3;
/// Requests come on the first few connections only, so that they meet.
const CONNS: usize = 2;
/// Longer than every timeout, with an election before it.
const LONG_MS: u64 = 60_000;

#[derive(Clone, Debug)]
enum Action {
    Open(NodeNumber),
    /// Takes up one of the sessions that were ever opened.
    Reopen(NodeNumber, usize),
    /// On one of the connections.
    Write(usize, &'static str),
    Close(usize),
    Gone(usize),
    Touch(usize),
    Hold(NodeNumber),
    Release(NodeNumber),
    Cut(NodeNumber),
    Heal,
    Wait(u64),
}

fn action() -> impl Strategy<Value = Action> {
    let write = prop::sample::select(vec![
        "create /a",
        "create /e x flags=1",
        "create /s x flags=3",
        "multi create /m x flags=1 ; delete /a",
        "multi create /b ; create /b/e x flags=1",
        "set /a y",
        "delete /e",
    ]);
    let place = 1..=SERVERS;
    prop_oneof![
        4 => place.clone().prop_map(Action::Open),
        4 => (place.clone(), 0..8usize).prop_map(|(place, session)| Action::Reopen(place, session)),
        20 => (0..CONNS, write).prop_map(|(conn, write)| Action::Write(conn, write)),
        6 => (0..CONNS).prop_map(Action::Close),
        2 => (0..CONNS).prop_map(Action::Gone),
        2 => (0..CONNS).prop_map(Action::Touch),
        8 => place.clone().prop_map(Action::Hold),
        3 => place.clone().prop_map(Action::Release),
        1 => place.prop_map(Action::Cut),
        2 => Just(Action::Heal),
        4 => (0..2000u64).prop_map(Action::Wait),
    ]
}

/// What the outside has seen.
#[derive(Default)]
struct Seen {
    sessions: Vec<SessionId>,
    /// Connections that are not closed, and where they are.
    open: BTreeMap<ConnId, NodeNumber>,
    /// Those among them whose client may send requests.
    attached: Vec<ConnId>,
    session_of: BTreeMap<ConnId, SessionId>,
    /// Sessions whose end was reported to a client, and where.
    ended: BTreeSet<(NodeNumber, SessionId)>,
}

impl Seen {
    fn see(&mut self, place: NodeNumber, output: &Output) {
        match output {
            Output::Attached { conn, session, .. } => {
                self.session_of.insert(*conn, *session);
                if !self.sessions.contains(session) {
                    self.sessions.push(*session);
                }
                self.attached.push(*conn);
            }
            Output::Close { conn, reason } => {
                let ends = [CloseReason::SessionClosed, CloseReason::SessionExpired];
                if ends.contains(reason) {
                    self.ended.insert((place, self.session_of[conn]));
                }
                self.open.remove(conn);
                self.attached.retain(|other| other != conn);
            }
            _ => {}
        }
    }
}

impl Seen {
    /// Every owner of an ephemeral is a session of the ensemble, and one whose end was reported stays ended.
    fn assert_lifetimes(&self, place: NodeNumber, Member { tree, .. }: &Member) {
        for owner in tree.ephemeral_owners() {
            assert!(tree.has_session(owner), "{owner} owns ephemerals and is not open");
        }
        for (_, session) in self.ended.iter().filter(|(at, _)| *at == place) {
            assert!(!tree.has_session(*session), "{session} is open after its end");
        }
    }
}

struct World {
    cluster: Cluster,
    seen: Seen,
    conns_made: u64,
    xid: i32,
}

impl World {
    fn new(settings: &NodeSettings) -> Self {
        let mut cluster = Cluster::new(settings, SERVERS, &mut |_, _, _, _| {});
        cluster.wait(LONG_MS, &mut |_, _, _, _| {});
        World { cluster, seen: Seen::default(), conns_made: 0, xid: 0 }
    }

    fn act(&mut self, act: impl FnOnce(&mut Cluster, crate::cluster::Observe<'_>)) {
        let World { cluster, seen, .. } = self;
        act(cluster, &mut |place, member: &Member, output, _| {
            seen.see(place, output);
            seen.assert_lifetimes(place, member);
        });
    }

    fn step(&mut self, place: NodeNumber, input: Input<'_>) {
        self.act(|cluster, see| cluster.step(place, input, see));
    }

    fn connect(&mut self, place: NodeNumber, session: SessionId) {
        self.conns_made += 1;
        let conn = ConnId(self.conns_made);
        self.seen.open.insert(conn, place);
        let request = ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 3000,
            session,
            password: &session.apache_password(),
            read_only: Some(true),
        };
        self.step(place, Input::Connect { conn, request, ids: address() });
    }

    fn attached(&self, at: usize) -> Option<(ConnId, NodeNumber)> {
        let conn = *self.seen.attached.get(at)?;
        Some((conn, self.seen.open[&conn]))
    }

    fn request(&mut self, at: usize, request: ClientRequest<'_>, body: &[u8]) {
        let Some((conn, place)) = self.attached(at) else { return };
        self.xid += 1;
        self.step(place, Input::Request { conn, xid: Xid(self.xid), request, body });
    }

    fn gone(&mut self, conn: ConnId) {
        let Some(place) = self.seen.open.remove(&conn) else { return };
        self.seen.attached.retain(|other| *other != conn);
        self.step(place, Input::Disconnected { conn });
    }

    fn take(&mut self, action: &Action) {
        match *action {
            Action::Open(place) => self.connect(place, SessionId::NONE),
            Action::Reopen(place, at) => {
                if let Some(&session) = self.seen.sessions.get(at) {
                    self.connect(place, session);
                }
            }
            Action::Write(at, text) => {
                let write = words::write(text);
                let mut body = Vec::new();
                Request::Write(write.clone()).encode(&mut body);
                self.request(at, ClientRequest::Write(write), &body);
            }
            Action::Close(at) => self.request(at, ClientRequest::CloseSession, &[]),
            Action::Gone(at) => {
                if let Some((conn, _)) = self.attached(at) {
                    self.gone(conn);
                }
            }
            Action::Touch(at) => {
                if let Some((conn, place)) = self.attached(at) {
                    self.step(place, Input::Touch { conn });
                }
            }
            Action::Hold(place) => self.cluster.hold(place),
            Action::Release(place) => self.act(|cluster, see| cluster.release(place, see)),
            Action::Cut(place) => self.act(|cluster, see| cluster.cut(place, see)),
            Action::Heal => self.cluster.heal(),
            Action::Wait(ms) => self.act(|cluster, see| cluster.wait(ms, see)),
        }
    }

    /// Nobody says anything any more.
    fn fall_silent(&mut self) {
        self.cluster.heal();
        for place in 1..=SERVERS {
            self.act(|cluster, see| cluster.release(place, see));
        }
        self.act(|cluster, see| cluster.wait(LONG_MS, see));
        for conn in self.seen.open.keys().copied().collect::<Vec<_>>() {
            self.gone(conn);
        }
        self.act(|cluster, see| cluster.wait(LONG_MS, see));
    }
}

fn check(local_sessions: LocalSessions, ephemerals_per_txn_max: usize, actions: &[Action]) {
    let read_only_after_ms = Some(2000);
    let settings =
        NodeSettings { local_sessions, read_only_after_ms, ephemerals_per_txn_max, ..settings() };
    let mut world = World::new(&settings);
    for action in actions {
        world.take(action);
    }
    world.fall_silent();
    let first = &world.cluster.members[&1].tree;
    for (place, Member { node, tree, .. }) in &world.cluster.members {
        assert!(node.serves_as().is_some(), "server {place} is back");
        assert_eq!(tree.last_zxid(), first.last_zxid(), "server {place} has all");
        assert_eq!(tree.ephemeral_count(), 0, "server {place}");
        assert_eq!(tree.sessions().count(), 0, "server {place}");
        assert_eq!(node.sessions().len(), 0, "server {place}");
        assert_eq!(node.in_flight(), 0, "server {place}");
    }
}

proptest! {
    #[test]
    fn no_ephemeral_outlives_its_session(
        local in prop::sample::select(vec![
            LocalSessions::Off,
            LocalSessions::Kept,
            LocalSessions::Upgraded,
        ]),
        ephemerals_per_txn_max in 1..3_usize,
        actions in prop::collection::vec(action(), 1..60),
    ) {
        check(local, ephemerals_per_txn_max, &actions);
    }
}
