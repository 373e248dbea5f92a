//! Connect requests, and the state of a slot after their answers.

use anyhow::Result;
use herdsman_proto::{ConnectResponse, JuteWrite, SessionId};

use super::{Observation, Side};
use crate::action::{Hello, Secret, Seen, Target, Xids};
use crate::call::hex;
use crate::link::{Incoming, Link};

/// How often a server of an ensemble may reject a client that has seen more than the server. Each time all
/// servers answer a sync first, so once is enough for correct servers.
const REFUSALS_MAX: usize = 3;

impl Side {
    pub(super) fn hello(
        &mut self,
        slot: usize,
        hello: &Hello,
        said: &mut Observation,
    ) -> Result<()> {
        let server = hello.server.unwrap_or(self.slots[slot].server) % self.servers.len();
        if server != self.slots[slot].server {
            // What it had stays with a server that does not learn of the new connection.
            self.slots[slot].link = None;
            self.slots[slot].server = server;
        }
        let (mut link, mut first) = self.send_hello(slot, hello)?;
        for _ in 0..REFUSALS_MAX {
            if first != Incoming::Closed || hello.seen != Seen::Newest || self.probes.is_empty() {
                break;
            }
            self.await_servers()?;
            (link, first) = self.send_hello(slot, hello)?;
        }
        let payload = match first {
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
            if matches!(hello.target, Target::Own | Target::Of(_))
                && hello.password == Secret::Right
            {
                self.slots[slot].over = true;
            }
            return Ok(());
        }
        // The previous connection of the session, if any, must now be closed by the server.
        let old = self.slots[slot].link.replace(link);
        self.slots[slot].session = Some(response.session);
        self.slots[slot].over = false;
        for (index, other) in self.slots.iter_mut().enumerate() {
            if other.session == Some(response.session) {
                other.moved = index != slot;
            }
        }
        if hello.xids == Xids::Restart {
            self.slots[slot].last_xid = 0;
        }
        if let Some(mut old) = old {
            said.lines.push(format!("connect: old one {:?}", old.receive()));
        }
        Ok(())
    }

    fn send_hello(&self, slot: usize, hello: &Hello) -> Result<(Link, Incoming)> {
        let mut link = Link::open(self.servers[self.slots[slot].server])?;
        link.send(&self.encode_hello(slot, hello));
        let first = link.receive();
        Ok((link, first))
    }

    fn show_response(&self, response: &ConnectResponse, bytes: usize) -> String {
        let password = match response.password {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => "zero",
            password if password == response.session.apache_password() => "right",
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
            Target::Of(other) => self.slots[other].session.unwrap_or(SessionId(0x77)),
            Target::Unknown => SessionId(0x0012_3456_789a_bcde),
        };
        let seen = match hello.seen {
            Seen::Zero => 0,
            Seen::Newest => self.newest_zxid.0,
            Seen::Ahead => self.newest_zxid.0 + 1000,
            Seen::Negative => -5,
        };
        let right = session.apache_password();
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
}
