//! What was seen, in words.

use std::fmt::Write as _;

use herdsman_node::Output;
use herdsman_node::io::CloseReason;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::txn::Entry;
use herdsman_proto::{ConnectResponse, ErrorCode, JuteReader, OpCode, SessionId, Txn, Xid, Zxid};

use crate::words;

/// What was seen, with sessions by name: S1, S2, … in the order in which they were opened.
#[derive(Default)]
pub struct Transcript {
    pub text: String,
    pub sessions: Vec<SessionId>,
}

impl Transcript {
    pub fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a string takes everything");
    }

    pub fn name(&self, session: SessionId) -> String {
        let at = self.sessions.iter().position(|&known| known == session);
        at.map_or_else(|| session.to_string(), |at| format!("S{}", at + 1))
    }

    pub fn session(&self, name: &str) -> SessionId {
        match name.strip_prefix('S') {
            Some(number) => self.sessions[number.parse::<usize>().expect("a number") - 1],
            None => SessionId(0x7777),
        }
    }

    /// Gives a session its name when it is seen for the first time.
    fn meet(&mut self, session: SessionId) -> String {
        if !self.sessions.contains(&session) {
            self.sessions.push(session);
        }
        self.name(session)
    }

    /// An output that concerns a client or the log.
    pub fn output(&mut self, output: &Output, bytes: &[u8]) -> String {
        match output {
            Output::Append { zxid, payload } => {
                let entry = Entry::decode(&bytes[payload.clone()]).expect("our own bytes");
                format!("append {} {}", short(*zxid), self.txn(&entry))
            }
            Output::Send { conn, frames, answers } => {
                let mut reader = JuteReader::new(&bytes[frames.clone()]);
                let frame = reader.buffer().expect("a frame").expect("a frame");
                assert!(reader.is_empty(), "one frame at a time");
                let op = answers.map(|answered| answered.op);
                format!("{} <- {}", conn.0, self.frame(op, frame))
            }
            Output::Attached { conn, session, timeout_ms } => {
                format!("{} attached {} {timeout_ms}", conn.0, self.meet(*session))
            }
            Output::Close { conn, reason: CloseReason::WrongPassword { .. } } => {
                format!("{} closed WrongPassword", conn.0)
            }
            Output::Close { conn, reason } => format!("{} closed {reason:?}", conn.0),
            Output::Event { .. } => unreachable!("watchers get frames one by one"),
            Output::Peer(_) | Output::DigestMismatch { .. } => unreachable!("it is alone"),
        }
    }

    pub fn txn(&mut self, entry: &Entry) -> String {
        let session = entry.header.session;
        match &entry.txn {
            Txn::CreateSession { timeout_ms } => {
                format!("createSession {} {timeout_ms}", self.meet(session))
            }
            Txn::CloseSession { ephemerals } => {
                let ephemerals = ephemerals.as_deref().unwrap_or_default();
                format!("closeSession {} {ephemerals:?}", self.name(session))
            }
            Txn::Create(create) => format!("{} {}", entry.txn.op().name(), create.path),
            Txn::Delete { path, .. } | Txn::SetData { path, .. } | Txn::SetAcl { path, .. } => {
                format!("{} {path}", entry.txn.op().name())
            }
            Txn::Error(code) => format!("error {}", error(*code)),
            Txn::Multi(txns) => {
                format!("multi {:?}", txns.iter().map(|txn| txn.op().name()).collect::<Vec<_>>())
            }
            Txn::Check { .. } => unreachable!("only inside a multi"),
        }
    }

    /// A reply to `op`, or without one an event or the answer to a connect request.
    fn frame(&self, op: Option<OpCode>, frame: &[u8]) -> String {
        let mut reader = JuteReader::new(frame);
        if op.is_none() && frame.starts_with(&[0, 0, 0, 0]) {
            let response = ConnectResponse::decode(frame).expect("a connect response");
            let old = match response.read_only {
                None => " old",
                Some(false) => "",
                Some(true) => " read-only",
            };
            return match response.session {
                SessionId::NONE => format!("expired{old}"),
                session => {
                    assert_eq!(response.password, session.apache_password());
                    format!("connected {} {}{old}", self.name(session), response.timeout_ms)
                }
            };
        }
        let (xid, zxid, code) = ReplyHeader::decode(&mut reader).expect("a header");
        match op {
            None => {
                assert_eq!(xid, Xid::NOTIFICATION);
                words::late_events(&[&(frame.len() as i32).to_be_bytes(), frame].concat()).concat()
            }
            Some(_) if code != 0 => format!("#{} @{} {}", xid.0, short(zxid), error(code)),
            Some(op) => format!("#{} @{} ok{}", xid.0, short(zxid), body(op, &mut reader)),
        }
    }
}

/// The counter of a zxid, and the epoch before it if there is one.
pub fn short(zxid: Zxid) -> String {
    match zxid.epoch() {
        0 => zxid.0.to_string(),
        epoch => format!("{epoch}.{}", zxid.counter()),
    }
}

/// The text of a body that is a path, and the size of any other.
fn body(op: OpCode, reader: &mut JuteReader<'_>) -> String {
    match op {
        OpCode::Create | OpCode::Sync => {
            format!(" {}", reader.required_string().expect("a path"))
        }
        OpCode::Multi => multi_errors(&mut reader.clone())
            .unwrap_or_else(|| format!(" +{} bytes", reader.rest().len())),
        _ if reader.is_empty() => String::new(),
        _ => format!(" +{} bytes", reader.rest().len()),
    }
}

/// The errors of a multi that failed.
fn multi_errors(reader: &mut JuteReader<'_>) -> Option<String> {
    let mut text = String::new();
    loop {
        let (op, is_end) = (reader.int().ok()?, reader.bool().ok()?);
        reader.int().ok()?;
        match op {
            _ if is_end => return Some(text),
            -1 => match reader.int().ok()? {
                0 => text.push_str(" none"),
                code => text.push_str(&format!(" {}", error(code))),
            },
            _ => return None,
        }
    }
}

fn error(code: i32) -> String {
    format!("{:?}", ErrorCode::from_code(code).expect("a known error"))
}
