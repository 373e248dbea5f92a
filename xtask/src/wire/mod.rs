//! A ZooKeeper client for tests, as small as it can be and written apart from the server's own
//! codec.
//!
//! In: an address. Out: blocking requests, one reply each, and the raw error code of every reply.
//! It shares no code with `crates/proto` on purpose: a mistake made once there must not be able to
//! cancel itself out here. Not here: watches (events are dropped), reconnecting, pings (tests are
//! shorter than a session timeout).

mod jute;
mod op;

pub use jute::{Decoder, Encoder};
pub use op::{Acl, Op, Stat};

use op::Kind;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

const IO_TIMEOUT: Duration = Duration::from_secs(30);
const FRAME_BYTES_MAX: usize = 64 << 20;
const XID_EVENT: i32 = -1;
const XID_AUTH: i32 = -4;

/// A connected session.
pub struct Session {
    stream: TcpStream,
    xid: i32,
    in_flight: VecDeque<i32>,
}

/// What came back for one request.
pub struct Reply {
    /// 0 or a ZooKeeper error code.
    pub err: i32,
    /// The record behind the header; empty when `err` is not 0.
    pub body: Vec<u8>,
}

impl Session {
    /// Opens a new session.
    pub fn connect(address: &str, timeout_ms: i32) -> Result<Session> {
        let mut stream =
            TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        let mut request = Encoder::default();
        request.int(0).long(0).int(timeout_ms).long(0).buffer(Some(&[0; 16])).boolean(false);
        send_frame(&mut stream, request.bytes())?;
        let reply = receive_frame(&mut stream).context("no answer to the connect request")?;
        let mut reply = Decoder::new(&reply);
        reply.take(4 + 4)?;
        ensure!(reply.long()? != 0, "the server refused the session");
        Ok(Session { stream, xid: 0, in_flight: VecDeque::new() })
    }

    /// Adds credentials; an error when the server refuses them.
    pub fn add_auth(&mut self, scheme: &str, credentials: &str) -> Result<()> {
        ensure!(self.in_flight.is_empty(), "authentication behind unanswered requests");
        let mut packet = Encoder::default();
        packet
            .int(XID_AUTH)
            .int(Kind::Auth as i32)
            .int(0)
            .string(scheme)
            .buffer(Some(credentials.as_bytes()));
        send_frame(&mut self.stream, packet.bytes())?;
        self.in_flight.push_back(XID_AUTH);
        let reply = self.receive()?;
        ensure!(reply.err == 0, "authentication failed: {}", reply.err);
        Ok(())
    }

    /// Sends a request without waiting; pair it with [`Session::receive`].
    pub fn send(&mut self, op: &Op) -> Result<()> {
        self.xid += 1;
        let mut packet = Encoder::default();
        packet.int(self.xid).int(op.kind() as i32);
        op.encode(&mut packet);
        self.in_flight.push_back(self.xid);
        send_frame(&mut self.stream, packet.bytes())
    }

    /// The reply to the oldest request not yet answered.
    pub fn receive(&mut self) -> Result<Reply> {
        let expected = self.in_flight.pop_front().context("no request is waiting for a reply")?;
        loop {
            let frame = receive_frame(&mut self.stream)?;
            let mut reply = Decoder::new(&frame);
            let xid = reply.int()?;
            reply.long()?;
            let err = reply.int()?;
            if xid == XID_EVENT {
                continue;
            }
            ensure!(xid == expected, "reply to xid {xid} where {expected} was due");
            return Ok(Reply { err, body: reply.rest().to_vec() });
        }
    }

    /// One request and its reply, whatever its error code.
    pub fn call(&mut self, op: &Op) -> Result<Reply> {
        self.send(op)?;
        self.receive()
    }

    /// One request that must be answered with this error code.
    pub fn expect(&mut self, err: i32, op: &Op) -> Result<Reply> {
        let reply = self.call(op)?;
        ensure!(reply.err == err, "{op:?}: expected error code {err}, got {}", reply.err);
        Ok(reply)
    }

    /// One request that must succeed.
    pub fn ok(&mut self, op: &Op) -> Result<Reply> {
        self.expect(0, op)
    }

    /// Ends the session; its ephemeral nodes go with it. Dropping a `Session` only drops the
    /// connection.
    pub fn close(mut self) -> Result<()> {
        self.ok(&Op::CloseSession).map(drop)
    }

    /// The data (absent or bytes) and Stat of a node.
    pub fn data(&mut self, path: &str) -> Result<(Option<Vec<u8>>, Stat)> {
        let reply = self.ok(&Op::get_data(path))?;
        let mut body = Decoder::new(&reply.body);
        Ok((body.buffer()?, Stat::decode(&mut body)?))
    }

    /// The ACL of a node.
    pub fn acl(&mut self, path: &str) -> Result<Vec<Acl>> {
        let reply = self.ok(&Op::get_acl(path))?;
        op::decode_acl(&mut Decoder::new(&reply.body))
    }

    /// The children's names, sorted.
    pub fn children(&mut self, path: &str) -> Result<Vec<String>> {
        let reply = self.ok(&Op::get_children(path))?;
        let mut body = Decoder::new(&reply.body);
        let count = body.int()?;
        let mut names = (0..count).map(|_| body.string()).collect::<Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }
}

fn send_frame(stream: &mut TcpStream, payload: &[u8]) -> Result<()> {
    let mut frame = Encoder::default();
    frame.buffer(Some(payload));
    stream.write_all(frame.bytes()).context("sending a request")
}

fn receive_frame(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).context("waiting for a reply")?;
    let length = usize::try_from(i32::from_be_bytes(length)).context("negative frame length")?;
    ensure!(length <= FRAME_BYTES_MAX, "frame of {length} bytes");
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).context("reading a reply")?;
    Ok(payload)
}
