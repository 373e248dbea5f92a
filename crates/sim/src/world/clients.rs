//! A client's end of its connections: it connects, asks, listens, gives up and tries elsewhere.

use bytes::Bytes;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{
    ConnectRequest, ConnectResponse, ErrorCode, JuteReader, SessionId, WatchedEvent, Xid, Zxid,
};

use super::{Event, ServerIndex, World};
use crate::checkers::{Fact, Reply};
use crate::client::{Client, Op, Stage, credentials, ids};
use crate::plan::member_line;

/// How long a client waits when all is well.
const CALM_PATIENCE_TICKS: u64 = 60;
/// Requests on their way at the most.
const PENDING_MAX: usize = 4;

impl World {
    /// Lets all clients begin.
    pub fn start_clients(&mut self) {
        for client in 0..self.clients.len() {
            let delay_ms = self.random.below(self.plan.tick_ms);
            self.later(delay_ms, Event::Client { client });
        }
    }

    pub(super) fn client_wakes(&mut self, client: usize) {
        let delay_ms = self.random.between(1, self.plan.think_ms.max(1));
        self.later(delay_ms, Event::Client { client });
        let Client { stage, heard_ms, sent_ms, timeout_ms, quiet, .. } = self.clients[client];
        let mut patience_ms = timeout_ms.max(2 * self.plan.tick_ms) * 2 / 3;
        if stage == Stage::Connecting {
            // A client gives each of its servers a part of the time. A new session has to be logged, and
            // disks are slow.
            patience_ms = (patience_ms / self.servers.len() as u64).max(6 * self.plan.tick_ms);
        }
        // When all is well, every request is answered.
        let is_calm = stage == Stage::Connected && self.fault_state.is_calm();
        if is_calm {
            patience_ms = CALM_PATIENCE_TICKS * self.plan.tick_ms;
        }
        // Client 0 only reads, so that `ask_stopped` can test it: a replaced leader never answers what is queued behind
        // a write.
        let reads_only = client == 0 && self.plan.faults.pauses && !self.calm();
        let waits = reads_only && self.is_stopped(client);
        let is_late = self.now_ms > heard_ms + patience_ms && !waits;
        match stage {
            Stage::Idle => {
                let place = self.random.index(self.servers.len());
                self.client_connects(client, place);
            }
            _ if is_late && is_calm => {
                let pending = &self.clients[client].pending;
                let why = format!("client {client} waits in vain for {pending:?}");
                self.fail("liveness", why);
            }
            _ if is_late => self.client_gives_up(client),
            Stage::Connecting => {}
            Stage::Connected => {
                let pending = &self.clients[client].pending;
                let closing = pending.iter().any(|(_, op)| *op == Op::CloseSession);
                let may_ask = !quiet && !closing && !waits && pending.len() < PENDING_MAX;
                if !quiet && !waits && self.is_time_to_reconnect() {
                    self.client_reconnects(client);
                } else if may_ask && self.random.per_mille(700) {
                    let times = self.plan.reconfigs_per_mille;
                    let changes =
                        self.plan.reconfig && !self.calm() && self.random.per_mille(times);
                    let op = if changes {
                        Op::Reconfig { members: self.some_members() }
                    } else {
                        self.clients[client].next_op(&mut self.random, client, &self.plan)
                    };
                    let op = if reads_only && op.is_write() { Op::Sync } else { op };
                    self.client_sends(client, op);
                } else if !waits && self.now_ms > sent_ms + timeout_ms / 3 {
                    self.client_sends(client, Op::Ping);
                }
            }
        }
    }

    fn calm(&self) -> bool {
        self.fault_state.is_over()
    }

    /// Some of the servers as voters and observers, at least two voters, for a change of membership.
    fn some_members(&mut self) -> String {
        let ids: Vec<_> = self.plan.membership.members.keys().map(|id| id.0).collect();
        // At least two vote.
        let first = self.random.index(ids.len());
        let second = (first + 1) % ids.len();
        let mostly = if self.random.per_mille(250) { "observer" } else { "participant" };
        let mut lines = Vec::new();
        for (index, id) in ids.into_iter().enumerate() {
            let role = match self.random.below(10) {
                _ if index == first || index == second => "participant",
                0..7 => mostly,
                7 => "observer",
                _ => continue,
            };
            lines.push(member_line(id, role));
        }
        lines.join(",")
    }

    fn is_time_to_reconnect(&mut self) -> bool {
        let times = self.plan.reconnects_per_mille;
        times > 0 && self.random.per_mille(times)
    }

    /// A client connects anew while its requests are on their way, most often to the same server. That
    /// server may hear of the new connection before it has read all that the client sent on the old one.
    fn client_reconnects(&mut self, client: usize) {
        let same = self.clients[client].conn.and_then(|conn| self.place_of_conn(conn));
        let other = self.random.index(self.servers.len());
        // When all is well, a client stays: another server may not take clients, and a local session ends there.
        let is_tied = self.fault_state.is_calm();
        let place = same.filter(|_| is_tied || self.random.per_mille(600)).unwrap_or(other);
        let has_moved = same != Some(place) && !self.clients[client].pending.is_empty();
        self.client_gives_up(client);
        self.client_connects(client, place);
        self.clients[client].has_moved = has_moved;
    }

    /// A client connects to a server, with its session if it has one.
    pub fn client_connects(&mut self, client: usize, place: ServerIndex) {
        let conn = self.open_conn(client, place);
        let now_ms = self.now_ms;
        let timeout_ms = self.plan.session_ms;
        let xids = self.plan.xids(client);
        let takes_read_only = self.plan.takes_read_only(client);
        let me = &mut self.clients[client];
        me.connect(xids);
        me.conn = Some(conn);
        me.stage = Stage::Connecting;
        (me.heard_ms, me.sent_ms) = (now_ms, now_ms);
        let password = me.session.apache_password();
        let request = ConnectRequest {
            last_zxid_seen: me.seen,
            timeout_ms,
            session: me.session,
            password: &password,
            read_only: Some(takes_read_only),
        };
        let mut frame = Vec::new();
        request.encode_frame(&mut frame);
        self.send_to_server(conn, Some(frame.split_off(4)));
    }

    /// The client's server stands still.
    fn is_stopped(&self, client: usize) -> bool {
        let place = self.clients[client].conn.and_then(|conn| self.place_of_conn(conn));
        place.is_some_and(|place| self.servers[place].stopped_until_ms.is_some())
    }

    /// A client sends a request.
    pub fn client_sends(&mut self, client: usize, op: Op) {
        let Some(conn) = self.clients[client].conn else { return };
        self.note(|| format!("client {client} asks {op:?}"));
        let me = &mut self.clients[client];
        me.sent_ms = self.now_ms;
        let session = me.session;
        let asked = op.clone();
        let (xid, payload) = me.send(op);
        self.report(&Fact::Invoked { client, session, xid, op: &asked });
        self.send_to_server(conn, Some(payload));
    }

    /// A client closes its connection and will try another server.
    pub fn client_gives_up(&mut self, client: usize) {
        if let Some(conn) = self.clients[client].conn {
            self.note(|| format!("client {client} gives up connection {conn}"));
            self.send_to_server(conn, None);
        }
        self.clients[client].disconnect();
        self.report(&Fact::Disconnected { client });
    }

    /// A client leaves without a word; its session has to end by itself. Its machine may be gone, so that nothing
    /// tells the server of it.
    pub fn client_leaves(&mut self, client: usize) {
        if self.random.per_mille(500) {
            self.clients[client].disconnect();
            self.report(&Fact::Disconnected { client });
        }
        self.client_gives_up(client);
        let me = &mut self.clients[client];
        if me.session != SessionId::NONE {
            me.left.push(me.session);
        }
        me.forget_session();
    }

    pub(super) fn client_reads(&mut self, conn: u64) {
        let Some((client, frames)) = self.pop_down(conn) else { return };
        if self.clients[client].conn != Some(conn) {
            return;
        }
        let Some(frames) = frames else {
            self.note(|| format!("client {client} loses connection {conn}"));
            self.clients[client].disconnect();
            return self.report(&Fact::Disconnected { client });
        };
        self.clients[client].heard_ms = self.now_ms;
        self.mix(crate::chronicle::fingerprint(&frames));
        let mut reader = JuteReader::new(&frames);
        while !reader.is_empty() {
            let frame = reader.buffer().expect("whole frames").expect("whole frames");
            match self.clients[client].stage {
                Stage::Connecting => self.client_answered(client, frame),
                _ => self.client_receives(client, frame),
            }
        }
    }

    fn client_answered(&mut self, client: usize, frame: &[u8]) {
        let response = ConnectResponse::decode(frame).expect("our own words");
        self.note(|| format!("client {client} has session {}", response.session));
        let me = &mut self.clients[client];
        if response.session == SessionId::NONE {
            let (session, seen) = (me.session, me.seen);
            me.forget_session();
            me.disconnect();
            if me.calm_session == Some(session) && me.closed_session != Some(session) {
                self.fault_state.expired_in_calm.push((client, session));
            }
            self.report(&Fact::Expired { client, session, seen });
            return self.report(&Fact::Disconnected { client });
        }
        let asked = std::mem::replace(&mut me.session, response.session);
        me.timeout_ms = u64::try_from(response.timeout_ms).unwrap_or(0);
        me.stage = Stage::Connected;
        me.read_only = response.read_only == Some(true);
        let fact = Fact::Connected {
            client,
            asked,
            session: response.session,
            timeout_is_right: response.timeout_ms == self.plan.session_ms,
            read_only_unasked: me.read_only && !self.plan.takes_read_only(client),
        };
        self.report(&fact);
        self.client_introduces_itself(client);
    }

    /// What a client sends before all else on a new connection: credentials, and its watches.
    fn client_introduces_itself(&mut self, client: usize) {
        if self.plan.logs_in(client) {
            self.client_sends(client, Op::Auth { credentials: credentials(client) });
        }
        let me = &mut self.clients[client];
        if !self.plan.requests.set_watches {
            me.watches.clear();
        }
        if !me.watches.is_empty() {
            let op =
                Op::SetWatches { seen: me.seen, watches: me.watches.iter().cloned().collect() };
            self.client_sends(client, op);
        }
    }

    fn client_receives(&mut self, client: usize, frame: &[u8]) {
        let mut reader = JuteReader::new(frame);
        let (xid, zxid, code) = ReplyHeader::decode(&mut reader).expect("our own words");
        if xid == Xid::NOTIFICATION {
            let (kind, path) = WatchedEvent::decode(&mut reader).expect("our own words");
            self.note(|| format!("client {client} hears {kind:?} {path} {zxid}"));
            self.counts.notifications += 1;
            let me = &mut self.clients[client];
            me.spend_watches(kind, &path);
            me.heard = me.heard.max(zxid);
            let read_only = me.read_only;
            let ids = &ids(client, self.plan.logs_in(client));
            let fact = Fact::Notified { client, kind, path: &path, zxid, ids, read_only };
            return self.report(&fact);
        }
        let body = Bytes::copy_from_slice(reader.rest());
        let me = &mut self.clients[client];
        let Some((expected, op)) = me.pending.pop_front() else {
            return self.fail("session FIFO", format!("client {client} asked for no {}", xid.0));
        };
        if expected != xid.0 {
            let why = format!("client {client} got answer {} before {expected}", xid.0);
            return self.fail("session FIFO", why);
        }
        self.note_reply(client, xid.0, &op, zxid, code, &body);
    }

    fn note_reply(
        &mut self,
        client: usize,
        xid: i32,
        op: &Op,
        zxid: Zxid,
        code: i32,
        body: &Bytes,
    ) {
        self.note(|| format!("client {client} gets {xid} {zxid} {code} for {op:?}"));
        self.counts.not_allowed += u64::from(code == ErrorCode::NoAuth.code());
        self.counts.watches_set_again += u64::from(matches!(op, Op::SetWatches { .. }));
        let me = &mut self.clients[client];
        self.counts.read_only_answers += u64::from(me.read_only);
        let Client { session, seen, heard, read_only, .. } = *me;
        me.seen = me.seen.max(zxid);
        me.note_watches(op, code);
        if let Op::Create(create) = op
            && create.is_sequential()
            && code == 0
        {
            me.note_path(JuteReader::new(body).required_string().unwrap_or_default().into_owned());
        }
        me.calm_session = Some(session).filter(|_| self.fault_state.is_calm());
        if op.is_write() && code == 0 {
            me.writes_done += 1;
        }
        if op.is_write() || *op == Op::Sync {
            me.answers.push((zxid, code));
        }
        if *op == Op::CloseSession && code == 0 {
            me.forget_session();
        }
        let ids = ids(client, self.plan.logs_in(client));
        self.report(&Fact::Replied(Reply {
            client,
            session,
            xid,
            op,
            zxid,
            code,
            body,
            seen,
            heard,
            ids: &ids,
            read_only,
        }));
    }
}
