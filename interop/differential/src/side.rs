//! One side of a script, a server or an ensemble: executes actions and records the results.
//!
//! After each action every attached session sends a ping, and everything that arrives before the reply
//! belongs to the action: a server answers a connection in order, so events that the action caused, on any
//! session, have arrived by then, and so have closed connections.
//!
//! In an ensemble, servers apply a txn at different times. So each server first answers a sync, on a
//! session for this purpose only: then it has applied everything that the action caused, and the next
//! action finds all servers in the same state.

mod cut;
mod handshake;

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{ErrorCode, JuteReader, OpCode, SessionId, Xid, Zxid};

use crate::action::{Action, Hello};
use crate::call::{Call, hex};
use crate::canon::{Canon, Event, Learned};
use crate::client::Client;
use crate::link::{Incoming, Link};
use crate::words;

/// The results of one action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Comparable lines, in order.
    pub lines: Vec<String>,
    /// What a generator may learn.
    pub learned: Vec<Learned>,
}

/// The state of a slot's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// No session.
    Vacant,
    /// A session without a connection.
    Detached,
    /// A session with a connection.
    Attached,
}

#[derive(Debug, Default)]
struct Slot {
    session: Option<SessionId>,
    link: Option<Link>,
    last_xid: i32,
    /// The server of its last connection, or of its first one.
    server: usize,
    /// The session has ended, according to a server.
    over: bool,
    /// The session has moved to another slot.
    moved: bool,
}

/// How long a session may take to expire, in time limits of a read.
const AWAIT_READS_MAX: usize = 6;

/// A server or an ensemble, and the script's sessions on it.
#[derive(Debug)]
pub struct Side {
    /// In order of their roles.
    servers: Vec<SocketAddr>,
    /// One for each server of an ensemble.
    probes: Vec<Client>,
    canon: Canon,
    slots: Vec<Slot>,
    newest_zxid: Zxid,
}

/// The sessions of a script, and where they start.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// How many.
    pub slots: usize,
    /// The server where slot 0 starts; the others use the next ones.
    pub first_server: usize,
}

impl Side {
    /// Gets the base zxid, through a separate session that is closed again.
    pub fn start(servers: &[SocketAddr], layout: Layout) -> Result<Self> {
        let slot = |index: usize| Slot {
            server: (layout.first_server + index) % servers.len(),
            ..Slot::default()
        };
        let mut side = Side {
            servers: servers.to_vec(),
            probes: Vec::new(),
            canon: Canon::starting_now(),
            slots: (0..layout.slots).map(slot).collect(),
            newest_zxid: Zxid::ZERO,
        };
        if servers.len() > 1 {
            side.probes =
                servers.iter().map(|&server| Client::open(server)).collect::<Result<_>>()?;
            side.canon.probes = side.probes.iter().map(|probe| probe.session).collect();
            // Until an epoch has a txn, Apache's servers report the start of the epoch, and Herdsman's the
            // end of the previous one. A write that fails is a txn, too.
            side.probes[0].ask(&Call::set_data(Some(b"/"), None, i32::MAX))?;
        }
        let hello = Action::Hello { slot: 0, hello: Hello::new_session() };
        side.perform(&hello)?;
        ensure!(side.state(0) == SlotState::Attached, "{servers:?}: no session");
        side.perform(&Action::call(0, Call::close_session()))?;
        side.canon.count_from(side.newest_zxid);
        side.canon.sessions.clear();
        side.slots[0] = slot(0);
        Ok(side)
    }

    /// The state of a slot's session.
    #[must_use]
    pub fn state(&self, slot: usize) -> SlotState {
        match &self.slots[slot] {
            Slot { session: None, .. } => SlotState::Vacant,
            Slot { link: None, over: true, .. } => SlotState::Vacant,
            Slot { link: None, .. } => SlotState::Detached,
            _ => SlotState::Attached,
        }
    }

    /// Whether another slot has taken the session of this one.
    #[must_use]
    pub fn has_moved(&self, slot: usize) -> bool {
        self.slots[slot].moved
    }

    /// The number of txns since the script started, as far as this side has seen.
    #[must_use]
    pub fn newest_offset(&self) -> i64 {
        self.canon.offset(self.newest_zxid)
    }

    /// Counts zxids so that this side is equal to `other` from now on, and detaches sessions that are
    /// detached there. Only to continue after a difference.
    pub fn realign(&mut self, other: &Side) {
        self.canon.count_from(Zxid(self.newest_zxid.0 - other.newest_offset()));
        for slot in 0..self.slots.len() {
            if other.state(slot) != SlotState::Attached {
                self.slots[slot].link = None;
            }
        }
    }

    /// Executes an action, then settles.
    pub fn perform(&mut self, action: &Action) -> Result<Observation> {
        let mut said = Observation::default();
        self.execute(action, &mut said)?;
        self.settle(order_of(action), &mut said)?;
        if let Action::Cut { cut, .. } = action {
            said.lines.retain(|line| !line.contains(&cut.folder));
        }
        Ok(said)
    }

    fn execute(&mut self, action: &Action, said: &mut Observation) -> Result<()> {
        match action {
            Action::Send { slot, calls } => self.send(*slot, calls, said),
            Action::Raw { slot, bytes, .. } => {
                if let Some(link) = &mut self.slots[*slot].link {
                    link.send(bytes);
                }
            }
            Action::Drop { slot } => self.slots[*slot].link = None,
            Action::Hello { slot, hello } => self.hello(*slot, hello, said)?,
            Action::FirstBytes { bytes, .. } => {
                let mut link = Link::open(self.address(None))?;
                link.send(bytes);
                link.finish_sending();
                let answer = link.receive_all();
                said.lines.push(format!("answer to first bytes: {}", hex(&answer)));
            }
            Action::Word { word, server } => {
                let mut link = Link::open(self.address(*server))?;
                link.send(word.as_bytes());
                let answer = link.receive_all();
                let text = String::from_utf8_lossy(&answer);
                said.lines.extend(words::canonical(word, &text, &self.canon));
            }
            Action::Await { slot } => self.await_event(*slot, said),
            Action::Cut { slot, cut } => self.cut(*slot, cut, said)?,
            Action::Chain(actions) => {
                for action in actions {
                    self.execute(action, said)?;
                }
            }
        }
        Ok(())
    }

    /// A server's address; without a number, that of the server where slot 0 is.
    fn address(&self, server: Option<usize>) -> SocketAddr {
        self.servers[server.unwrap_or(self.slots[0].server) % self.servers.len()]
    }

    fn send(&mut self, slot: usize, calls: &[Call], said: &mut Observation) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for call in calls {
            let xid = call.xid.unwrap_or_else(|| self.next_xid(slot));
            let zxid = call.zxid_offset.map(|offset| self.canon.zxid_at(offset));
            call.encode_frame(xid, zxid, &mut bytes);
            expected.push((call, xid));
        }
        let Some(link) = &mut self.slots[slot].link else {
            said.lines.push("not attached".into());
            return;
        };
        link.send(&bytes);
        for (call, xid) in expected {
            if !self.await_reply(slot, call, xid, said) {
                return;
            }
            if call.op == OpCode::CloseSession.code() {
                self.end_session(slot);
            }
        }
    }

    fn next_xid(&mut self, slot: usize) -> Xid {
        self.slots[slot].last_xid += 1;
        Xid(self.slots[slot].last_xid)
    }

    /// The session of a slot has ended, for all slots that have it.
    fn end_session(&mut self, slot: usize) {
        let session = self.slots[slot].session.take();
        for other in self.slots.iter_mut().filter(|other| other.session == session) {
            other.over = true;
        }
    }

    fn await_event(&mut self, slot: usize, said: &mut Observation) {
        let Some(link) = &mut self.slots[slot].link else {
            said.lines.push("not attached".into());
            return;
        };
        let mut incoming = link.receive();
        for _ in 1..AWAIT_READS_MAX {
            if incoming != Incoming::Silence {
                break;
            }
            incoming = link.receive();
        }
        let text = match incoming {
            Incoming::Frame(payload) => match self.canon.event(&payload) {
                Some(event) => event.text,
                None => format!("unexpected {}", hex(&payload)),
            },
            other => format!("{other:?}"),
        };
        said.lines.push(format!("slot {slot}: {text}"));
    }

    /// Reads up to the reply to `call`; false if the connection is closed.
    fn await_reply(&mut self, slot: usize, call: &Call, xid: Xid, said: &mut Observation) -> bool {
        let mut events = Vec::new();
        let order = order_after(call);
        while let Some(link) = &mut self.slots[slot].link {
            let incoming = link.receive();
            if let Incoming::Frame(payload) = &incoming
                && let Some(event) = self.canon.event(payload)
            {
                events.push(event);
                continue;
            }
            tell(slot, std::mem::take(&mut events), order, said);
            let payload = match incoming {
                Incoming::Frame(payload) => payload,
                Incoming::Closed => return self.lose(slot, "closed", said),
                Incoming::Silence => return self.lose(slot, "silent", said),
            };
            self.note_zxid(&payload);
            let reply = self.canon.reply(call, xid, &payload);
            said.lines.push(format!("slot {slot}: {}", reply.text));
            said.learned.extend(reply.learned);
            if closes_connection(call, &payload) {
                self.await_close(slot, said);
            }
            return true;
        }
        false
    }

    /// Reads until the server closes. Apache may still answer a ping between such a reply and the close, so
    /// none is sent.
    fn await_close(&mut self, slot: usize, said: &mut Observation) {
        while let Some(link) = &mut self.slots[slot].link {
            link.expect_close();
            match link.receive() {
                Incoming::Frame(payload) => {
                    let text = match self.canon.event(&payload) {
                        Some(event) => event.text,
                        None => format!("unexpected {}", hex(&payload)),
                    };
                    said.lines.push(format!("slot {slot}: {text}"));
                }
                Incoming::Closed => _ = self.lose(slot, "closed", said),
                Incoming::Silence => _ = self.lose(slot, "not closed", said),
            }
        }
    }

    fn lose(&mut self, slot: usize, how: &str, said: &mut Observation) -> bool {
        said.lines.push(format!("slot {slot}: {how}"));
        self.slots[slot].link = None;
        false
    }

    fn note_zxid(&mut self, payload: &[u8]) {
        if let Ok((_, zxid, _)) = ReplyHeader::decode(&mut JuteReader::new(payload)) {
            self.newest_zxid = self.newest_zxid.max(zxid);
        }
    }

    /// Waits until all servers of an ensemble are in the same state.
    fn await_servers(&mut self) -> Result<()> {
        for probe in &mut self.probes {
            self.newest_zxid = self.newest_zxid.max(probe.sync()?);
        }
        Ok(())
    }

    /// Waits until all servers are in the same state, then pings every attached session and collects what
    /// arrives before the reply.
    fn settle(&mut self, order: Order, said: &mut Observation) -> Result<()> {
        self.await_servers()?;
        let ping = Call::ping();
        let mut bytes = Vec::new();
        ping.encode_frame(Xid::PING, None, &mut bytes);
        for slot in &mut self.slots {
            if let Some(link) = &mut slot.link {
                link.send(&bytes);
            }
        }
        for slot in 0..self.slots.len() {
            self.settle_slot(slot, &ping, order, said);
        }
        Ok(())
    }

    fn settle_slot(&mut self, slot: usize, ping: &Call, order: Order, said: &mut Observation) {
        let mut events = Vec::new();
        let mut frames = Vec::new();
        while let Some(link) = &mut self.slots[slot].link {
            let payload = match link.receive() {
                Incoming::Frame(payload) => payload,
                Incoming::Closed => {
                    // The end of a session through another server may overtake its events.
                    if self.slots[slot].over {
                        events.clear();
                    }
                    self.lose(slot, "closed", said);
                    break;
                }
                Incoming::Silence => {
                    self.lose(slot, "silent", said);
                    break;
                }
            };
            if let Some(event) = self.canon.event(&payload) {
                events.push(event);
                continue;
            }
            self.note_zxid(&payload);
            let reply = self.canon.reply(ping, Xid::PING, &payload);
            frames.push(format!("slot {slot}: settled: {}", reply.text));
            if is_ping(&payload) {
                break;
            }
        }
        tell(slot, events, order, said);
        said.lines.extend(frames);
    }

    /// Ends every session, so that none expires in the middle of the next script.
    pub fn finish(&mut self) -> Result<Observation> {
        let mut said = Observation::default();
        for slot in 0..self.slots.len() {
            // The slot that has taken its session ends it.
            if self.slots[slot].moved {
                self.slots[slot].link = None;
                continue;
            }
            if self.state(slot) == SlotState::Detached {
                let hello = Hello::again();
                self.hello(slot, &hello, &mut said)?;
            }
            if self.state(slot) == SlotState::Attached {
                let close = Action::call(slot, Call::close_session());
                said.lines.extend(self.perform(&close)?.lines);
            }
        }
        for mut probe in std::mem::take(&mut self.probes) {
            probe.ask(&Call::close_session())?;
        }
        Ok(said)
    }
}

/// How events of one action are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    AsSent,
    ByPath,
}

/// Apache deletes the ephemerals of a closed session in the order of a hash set, so their events
/// are compared by path.
fn order_after(call: &Call) -> Order {
    if call.op == OpCode::CloseSession.code() { Order::ByPath } else { Order::AsSent }
}

fn order_of(action: &Action) -> Order {
    match action {
        Action::Send { calls, .. } => calls.last().map_or(Order::AsSent, order_after),
        Action::Chain(actions) => actions.last().map_or(Order::AsSent, order_of),
        _ => Order::AsSent,
    }
}

fn tell(slot: usize, mut events: Vec<Event>, order: Order, said: &mut Observation) {
    if order == Order::ByPath {
        events.sort_by(|a, b| a.path.cmp(&b.path));
    }
    said.lines.extend(events.into_iter().map(|event| format!("slot {slot}: {}", event.text)));
}

/// Whether the server must close the connection after this reply.
fn closes_connection(call: &Call, payload: &[u8]) -> bool {
    let Ok((_, zxid, error)) = ReplyHeader::decode(&mut JuteReader::new(payload)) else {
        return false;
    };
    let error = ErrorCode::from_code(error);
    let unknown_op = error == Some(ErrorCode::Unimplemented) && zxid.0 == -1;
    let failed_auth = error == Some(ErrorCode::AuthFailed);
    unknown_op || failed_auth || call.op == OpCode::CloseSession.code()
}

fn is_ping(payload: &[u8]) -> bool {
    payload.starts_with(&Xid::PING.0.to_be_bytes())
}
