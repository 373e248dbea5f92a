//! One server's side of a script: carries out actions and writes down what the server said.
//!
//! After each action every attached session sends a ping, and all that comes before its answer
//! belongs to the action: a server answers a connection in order, so events that the action caused,
//! on any session, have arrived by then, and so has the news that a connection was closed.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{ConnectResponse, ErrorCode, JuteWrite, OpCode, Reader, SessionId, Xid, Zxid};

use crate::action::{Action, Hello, Secret, Seen, Target};
use crate::call::{Call, hex};
use crate::canon::{Canon, Event, Learned};
use crate::link::{Incoming, Link};
use crate::words;

/// What a server said to one action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Comparable lines, in order.
    pub lines: Vec<String>,
    /// What a generator may learn.
    pub learned: Vec<Learned>,
}

/// Where a slot's session stands.
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
}

/// A server and the script's sessions on it.
#[derive(Debug)]
pub struct Side {
    address: SocketAddr,
    canon: Canon,
    slots: Vec<Slot>,
    newest_zxid: Zxid,
}

impl Side {
    /// Takes the base zxid, through a session of its own that is closed again.
    pub fn start(address: SocketAddr, slots: usize) -> Result<Self> {
        let mut side = Side {
            address,
            canon: Canon::starting_now(),
            slots: std::iter::repeat_with(Slot::default).take(slots).collect(),
            newest_zxid: Zxid::ZERO,
        };
        let hello = Action::Hello { slot: 0, hello: Hello::new_session() };
        side.perform(&hello)?;
        ensure!(side.state(0) == SlotState::Attached, "{address} gives no session");
        side.perform(&Action::call(0, Call::close_session()))?;
        side.canon.base_zxid = side.newest_zxid;
        side.canon.sessions.clear();
        side.slots[0].last_xid = 0;
        Ok(side)
    }

    /// Where a slot's session stands.
    #[must_use]
    pub fn state(&self, slot: usize) -> SlotState {
        match &self.slots[slot] {
            Slot { session: None, .. } => SlotState::Vacant,
            Slot { link: None, .. } => SlotState::Detached,
            _ => SlotState::Attached,
        }
    }

    /// Number of txns since the script began, as far as this side has been told.
    #[must_use]
    pub fn newest_offset(&self) -> i64 {
        self.newest_zxid.0 - self.canon.base_zxid.0
    }

    /// Counts zxids so that this side is as far as `other` from now on, and detaches sessions that are
    /// detached there. Only to go on after a difference.
    pub fn realign(&mut self, other: &Side) {
        self.canon.base_zxid = Zxid(self.newest_zxid.0 - other.newest_offset());
        for slot in 0..self.slots.len() {
            if other.state(slot) != SlotState::Attached {
                self.slots[slot].link = None;
            }
        }
    }

    /// Carries out an action, then settles.
    pub fn perform(&mut self, action: &Action) -> Result<Observation> {
        let mut said = Observation::default();
        match action {
            Action::Send { slot, calls } => self.send(*slot, calls, &mut said),
            Action::Raw { slot, bytes, .. } => {
                if let Some(link) = &mut self.slots[*slot].link {
                    link.send(bytes);
                }
            }
            Action::Drop { slot } => self.slots[*slot].link = None,
            Action::Hello { slot, hello } => self.hello(*slot, hello, &mut said)?,
            Action::Stranger { bytes, .. } => {
                let mut link = Link::open(self.address)?;
                link.send(bytes);
                link.finish_sending();
                let answer = link.receive_all();
                said.lines.push(format!("stranger hears {}", hex(&answer)));
            }
            Action::Word(word) => {
                let mut link = Link::open(self.address)?;
                link.send(word.as_bytes());
                let answer = link.receive_all();
                let text = String::from_utf8_lossy(&answer);
                said.lines.extend(words::canonical(word, &text, &self.canon));
            }
        }
        self.settle(order_of(action), &mut said);
        Ok(said)
    }

    fn send(&mut self, slot: usize, calls: &[Call], said: &mut Observation) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for call in calls {
            let xid = call.xid.unwrap_or_else(|| {
                self.slots[slot].last_xid += 1;
                Xid(self.slots[slot].last_xid)
            });
            call.encode_frame(xid, self.canon.base_zxid.0, &mut bytes);
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
                self.slots[slot].session = None;
            }
        }
    }

    /// Reads up to the reply to `call`; false when the connection is gone.
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

    /// Reads until the server closes. Apache may still answer a ping that comes between such a
    /// reply and the close, so none is sent.
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
        if let Ok((_, zxid, _)) = ReplyHeader::decode(&mut Reader::new(payload)) {
            self.newest_zxid = self.newest_zxid.max(zxid);
        }
    }

    /// Pings every attached session and collects what comes before the answer.
    fn settle(&mut self, order: Order, said: &mut Observation) {
        let ping = Call::ping();
        let mut bytes = Vec::new();
        ping.encode_frame(Xid::PING, 0, &mut bytes);
        for slot in &mut self.slots {
            if let Some(link) = &mut slot.link {
                link.send(&bytes);
            }
        }
        for slot in 0..self.slots.len() {
            self.settle_slot(slot, &ping, order, said);
        }
    }

    fn settle_slot(&mut self, slot: usize, ping: &Call, order: Order, said: &mut Observation) {
        let mut events = Vec::new();
        let mut frames = Vec::new();
        while let Some(link) = &mut self.slots[slot].link {
            let payload = match link.receive() {
                Incoming::Frame(payload) => payload,
                Incoming::Closed => {
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

    fn hello(&mut self, slot: usize, hello: &Hello, said: &mut Observation) -> Result<()> {
        let mut link = Link::open(self.address)?;
        link.send(&self.encode_hello(slot, hello));
        let payload = match link.receive() {
            Incoming::Frame(payload) => payload,
            Incoming::Closed => {
                said.lines.push("connect: closed".into());
                return Ok(());
            }
            Incoming::Silence => {
                said.lines.push("connect: silent".into());
                return Ok(());
            }
        };
        let Ok(response) = ConnectResponse::decode(&payload) else {
            let text = format!("connect: undecodable {}", hex(&payload));
            said.lines.push(text);
            return Ok(());
        };
        if response.session != SessionId::NONE && hello.target == Target::New {
            self.canon.sessions.push(response.session);
        }
        said.lines.push(self.show_response(&response, payload.len()));
        if response.session == SessionId::NONE {
            let after = link.receive();
            said.lines.push(format!("connect: then {after:?}"));
            return Ok(());
        }
        // The connection that the session had before, if any, is now the server's to close.
        let old = self.slots[slot].link.replace(link);
        self.slots[slot].session = Some(response.session);
        if let Some(mut old) = old {
            said.lines.push(format!("connect: old one {:?}", old.receive()));
        }
        Ok(())
    }

    fn show_response(&self, response: &ConnectResponse, bytes: usize) -> String {
        let password = match response.password {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => "zero",
            password if password == response.session.password() => "right",
            _ => "wrong",
        };
        format!(
            "connect: {} timeout={} password {password} readOnly={:?} in {bytes} bytes",
            self.canon.session(response.session.0),
            response.timeout_ms,
            response.read_only
        )
    }

    fn encode_hello(&self, slot: usize, hello: &Hello) -> Vec<u8> {
        let session = match hello.target {
            Target::New => SessionId::NONE,
            Target::Own => self.slots[slot].session.unwrap_or(SessionId(0x77)),
            Target::Unknown => SessionId(0x0012_3456_789a_bcde),
        };
        let seen = match hello.seen {
            Seen::Zero => 0,
            Seen::Newest => self.newest_zxid.0,
            Seen::Ahead => self.newest_zxid.0 + 1000,
            Seen::Negative => -5,
        };
        let right = session.password();
        let password: Option<&[u8]> = match hello.password {
            Secret::Right => Some(&right),
            Secret::Wrong => Some(&[7; 16]),
            Secret::Short => Some(&right[..9]),
            Secret::Empty => Some(&[]),
            Secret::Null => None,
        };
        let mut bytes = Vec::new();
        herdsman_proto::reply::frame(&mut bytes, |out| {
            out.put_int(hello.protocol);
            out.put_long(seen);
            out.put_int(hello.timeout_ms);
            out.put_long(session.0);
            out.put_buffer(password);
            if let Some(byte) = hello.read_only {
                out.put_byte(byte);
            }
            out.put_raw(&vec![0xee; hello.trailing]);
        });
        bytes
    }

    /// Ends every session, so that none expires in the middle of the next script.
    pub fn finish(&mut self) -> Result<Observation> {
        let mut said = Observation::default();
        for slot in 0..self.slots.len() {
            if self.state(slot) == SlotState::Detached {
                let hello = Hello::again();
                self.hello(slot, &hello, &mut said)?;
            }
            if self.state(slot) == SlotState::Attached {
                let close = Action::call(slot, Call::close_session());
                said.lines.extend(self.perform(&close)?.lines);
            }
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
        _ => Order::AsSent,
    }
}

fn tell(slot: usize, mut events: Vec<Event>, order: Order, said: &mut Observation) {
    if order == Order::ByPath {
        events.sort_by(|a, b| a.path.cmp(&b.path));
    }
    said.lines.extend(events.into_iter().map(|event| format!("slot {slot}: {}", event.text)));
}

/// Behind this reply the server must close the connection.
fn closes_connection(call: &Call, payload: &[u8]) -> bool {
    let Ok((_, zxid, error)) = ReplyHeader::decode(&mut Reader::new(payload)) else {
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
