//! A server's end of client connections, as `server::connection` serves them: reads at once from the tree
//! if nothing of the connection is ahead of them, everything else through the node.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use herdsman_node::{ClientRequest, ConnId, Input, reads};
use herdsman_proto::request::RequestHeader;
use herdsman_proto::txn::Entry;
use herdsman_proto::{
    ConnectRequest, Id, JuteReader, OpCode, Request, SessionId, TxnHeader, Xid, Zxid, reply,
};
use herdsman_tree::read;

use super::pipe::Pipe;
use super::{Event, ServerIndex, World};
use crate::client::{ids, prove, serial};

/// How often it is looked whether a cut way is free again.
const STALL_MS: u64 = 50;

/// A client's connection to a server.
pub struct Conn {
    /// Whose.
    pub client: usize,
    /// To which server.
    pub place: ServerIndex,
    life: u64,
    /// Frames' payloads to the server; `None` when the client has closed.
    up: Pipe<Option<Vec<u8>>>,
    /// Frames to the client; `None` when the server has closed.
    down: Pipe<Option<Vec<u8>>>,
    session: Option<SessionId>,
    /// Its session is a new one.
    opens: bool,
    asked: bool,
    server_open: bool,
    /// What its client has proven to be.
    ids: Arc<[Id]>,
    /// Requests that the node has and has not answered, in order.
    submitted: VecDeque<i32>,
    /// Of them, those whose txns this server has applied.
    applied: BTreeSet<i32>,
}

impl World {
    /// The server that a connection leads to.
    pub(super) fn place_of_conn(&self, conn: u64) -> Option<ServerIndex> {
        self.conns.get(&conn).map(|conn| conn.place)
    }

    /// A client connects to a server.
    pub(super) fn open_conn(&mut self, client: usize, place: ServerIndex) -> u64 {
        let id = self.fresh_id();
        let conn = Conn {
            client,
            place,
            life: self.servers[place].life,
            up: Pipe::default(),
            down: Pipe::default(),
            session: None,
            opens: self.clients[client].session == SessionId::NONE,
            asked: false,
            server_open: true,
            ids: ids(client, false).into(),
            submitted: VecDeque::new(),
            applied: BTreeSet::new(),
        };
        self.conns.insert(id, conn);
        id
    }

    pub(super) fn send_to_server(&mut self, conn: u64, payload: Option<Vec<u8>>) {
        let at_ms = self.now_ms + self.latency_ms();
        let Some(entry) = self.conns.get_mut(&conn) else { return };
        let at_ms = entry.up.push(at_ms, payload);
        self.at(at_ms, Event::ToServer { conn });
    }

    fn push_down(&mut self, conn: u64, frame: Option<Vec<u8>>) {
        let at_ms = self.now_ms + self.latency_ms();
        let Some(entry) = self.conns.get_mut(&conn) else { return };
        let at_ms = entry.down.push(at_ms, frame);
        self.at(at_ms, Event::ToClient { conn });
    }

    pub(super) fn server_reads(&mut self, conn: u64) {
        if self.is_cut_off(conn) {
            return self.later(STALL_MS, Event::ToServer { conn });
        }
        let Some(entry) = self.conns.get_mut(&conn) else { return };
        let Some(payload) = entry.up.pop(self.now_ms) else { return };
        let (place, life) = (entry.place, entry.life);
        if !entry.server_open || !self.alive(place, life) {
            return;
        }
        let Some(payload) = payload else {
            return self.conn_gone(conn);
        };
        let entry = self.conns.get_mut(&conn).expect("looked up above");
        if !entry.asked {
            entry.asked = true;
            return self.connect(conn, place, &payload);
        }
        if entry.session.is_some() {
            self.step(place, Input::Touch { conn: ConnId(conn) });
            self.serve(conn, &payload);
        }
    }

    fn connect(&mut self, conn: u64, place: ServerIndex, payload: &[u8]) {
        let request = ConnectRequest::decode(payload).expect("our own words");
        let Some(entry) = self.conns.get(&conn) else { return };
        let ids = Arc::clone(&entry.ids);
        self.step(place, Input::Connect { conn: ConnId(conn), request, ids });
    }

    /// The way between the client and the server of a connection is cut: frames stall, as in TCP.
    fn is_cut_off(&self, conn: u64) -> bool {
        let conn = self.conns.get(&conn);
        conn.is_some_and(|conn| self.cut_off.contains(&(conn.client, conn.place)))
    }

    /// A client shows its credentials, as `server::connection::credentials` takes them.
    fn identify(&mut self, conn: u64, xid: Xid, credentials: &[u8]) {
        let Some(entry) = self.conns.get_mut(&conn) else { return };
        entry.ids = entry.ids.iter().cloned().chain(prove(credentials)).collect();
        let (place, ids) = (entry.place, Arc::clone(&entry.ids));
        self.step(place, Input::Identified { conn: ConnId(conn), ids });
        let mut out = Vec::new();
        reply::header_only(&mut out, xid, Zxid::ZERO, None);
        self.push_down(conn, Some(out));
    }

    fn serve(&mut self, conn: u64, payload: &[u8]) {
        let header = RequestHeader::decode(&mut JuteReader::new(payload)).expect("our own words");
        let op = OpCode::from_code(header.op).expect("an op that we know");
        let (xid, body) = (header.xid, &payload[8..]);
        let request = Request::decode(op, &mut JuteReader::new(body)).expect("our own words");
        let Some(entry) = self.conns.get_mut(&conn) else { return };
        let place = entry.place;
        let request = match request {
            Request::Write(write) => ClientRequest::Write(write),
            Request::Sync { path } => ClientRequest::Sync { path },
            Request::CloseSession => ClientRequest::CloseSession,
            Request::Auth { credentials, .. } => {
                return self.identify(conn, xid, credentials.unwrap_or_default());
            }
            _ if entry.submitted.is_empty() => return self.read(conn, op, xid, body),
            _ => ClientRequest::Read(op),
        };
        entry.submitted.push_back(xid.0);
        self.step(place, Input::Request { conn: ConnId(conn), xid, request, body });
    }

    fn read(&mut self, conn: u64, op: OpCode, xid: Xid, body: &[u8]) {
        let Some(entry) = self.conns.get(&conn) else { return };
        let Some(process) = &self.servers[entry.place].process else { return };
        let session = entry.session.unwrap_or(SessionId::NONE);
        let reader = read::ReadCaller { session, watcher: ConnId(conn).watcher(), ids: &entry.ids };
        let mut out = Vec::new();
        _ = reads::answer(&process.tree, reader, op, xid, body, &mut out);
        self.push_down(conn, Some(out));
    }

    pub(super) fn send_to_client(&mut self, conn: ConnId, frames: &[u8], answers: Option<Xid>) {
        let Some(entry) = self.conns.get_mut(&conn.0).filter(|entry| entry.server_open) else {
            return;
        };
        let place = entry.place;
        if let Some(Xid(xid)) = answers {
            let first = entry.submitted.pop_front();
            entry.applied.remove(&xid);
            if first != Some(xid) {
                let why =
                    format!("server {place} answers {xid} on {}, {first:?} was first", conn.0);
                self.fail("session FIFO", why);
            }
        }
        self.note(|| {
            format!(
                "{place} sends to {} {}",
                conn.0,
                if answers.is_some() { "answer" } else { "event" }
            )
        });
        self.push_down(conn.0, Some(frames.to_vec()));
    }

    /// A server has applied a txn: the client that asked for it there is to be answered in its turn.
    /// Requests on the first connection of a session keep their numbers, others are known by their data.
    pub(super) fn note_applied(&mut self, place: ServerIndex, entry: &Entry) {
        let TxnHeader { session, cxid, .. } = entry.header;
        for (id, conn) in &mut self.conns {
            if conn.place != place || !conn.server_open || conn.session != Some(session) {
                continue;
            }
            let client = &self.clients[conn.client];
            let xid = if conn.opens {
                Some(cxid)
            } else if client.conn == Some(*id) && serial(&entry.txn).is_some() {
                let mut pending = client.pending.iter();
                pending.find(|(_, op)| op.may_become(&entry.txn)).map(|(xid, _)| *xid)
            } else {
                None
            };
            conn.applied.extend(xid.filter(|xid| conn.submitted.contains(xid)));
        }
    }

    /// Nobody is first in his line whose txn is applied and who is not answered.
    pub(super) fn check_answered(&mut self, place: ServerIndex) {
        let forgotten = |conn: &Conn| {
            let first = conn.submitted.front().copied().filter(|xid| conn.applied.contains(xid));
            first.filter(|_| conn.place == place && conn.server_open)
        };
        let first = self.conns.iter().find_map(|(id, conn)| Some((*id, forgotten(conn)?)));
        if let Some((conn, xid)) = first {
            let why = format!("server {place} has applied {xid} of connection {conn}, no answer");
            self.fail("every write is answered", why);
        }
    }

    pub(super) fn attached(&mut self, conn: ConnId, session: SessionId) {
        if let Some(entry) = self.conns.get_mut(&conn.0) {
            entry.session = Some(session);
        }
    }

    /// The server closes a connection once what was sent before is out.
    pub(super) fn close_conn(&mut self, conn: ConnId) {
        let Some(entry) = self.conns.get_mut(&conn.0).filter(|entry| entry.server_open) else {
            return;
        };
        entry.server_open = false;
        self.push_down(conn.0, None);
        self.later(0, Event::ConnGone { conn: conn.0 });
    }

    /// The node hears that a connection is gone.
    pub(super) fn conn_gone(&mut self, conn: u64) {
        let Some(entry) = self.conns.get_mut(&conn) else { return };
        entry.server_open = false;
        let (place, life) = (entry.place, entry.life);
        let is_forgotten = self.clients[entry.client].conn != Some(conn);
        if is_forgotten {
            self.conns.remove(&conn);
        }
        if self.alive(place, life) {
            self.step(place, Input::Disconnected { conn: ConnId(conn) });
        }
    }

    pub(super) fn lose_conns_of(&mut self, place: ServerIndex) {
        let of_place = self.conns.iter_mut().filter(|(_, conn)| conn.place == place);
        let mut lost = Vec::new();
        for (id, conn) in of_place {
            conn.server_open = false;
            lost.push((*id, conn.down.len()));
        }
        for (id, on_its_way) in lost {
            let kept = self.random.index(on_its_way + 1);
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.down.lose_after(kept);
            }
            self.push_down(id, None);
        }
    }

    /// The next frame for a client.
    pub(super) fn pop_down(&mut self, conn: u64) -> Option<(usize, Option<Vec<u8>>)> {
        if self.is_cut_off(conn) {
            self.later(STALL_MS, Event::ToClient { conn });
            return None;
        }
        let now_ms = self.now_ms;
        let entry = self.conns.get_mut(&conn)?;
        let frame = entry.down.pop(now_ms)?;
        let client = entry.client;
        if frame.is_none() {
            self.conns.remove(&conn);
        }
        Some((client, frame))
    }
}
