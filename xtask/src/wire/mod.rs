//! A minimal ZooKeeper client for tests, independent of the server's own codec.
//!
//! In: an address. Out: blocking requests, one reply each, the raw error code of every reply, and the
//! events received in between. It shares no code with `crates/proto` on purpose: a mistake there must not
//! be hidden by the same mistake here. A session can be moved to another server with its [`Ticket`]; the
//! caller decides when and where. Not here: pings (tests are shorter than a session timeout, or never
//! idle).

mod jute;
mod op;

pub use jute::{Decoder, Encoder};
pub use op::{Acl, Kind, Op, Stat, Watches, decode_acl};

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

const IO_TIMEOUT: Duration = Duration::from_secs(30);
const FRAME_BYTES_MAX: usize = 64 << 20;
const XID_EVENT: i32 = -1;
const XID_AUTH: i32 = -4;
/// The error code for a missing node.
pub const NO_NODE: i32 = -101;
/// The error code for a wrong version.
pub const BAD_VERSION: i32 = -103;
/// The error code for an existing node.
pub const NODE_EXISTS: i32 = -110;
/// The error code for a session that has ended.
pub const SESSION_EXPIRED: i32 = -112;
/// The error code for a session that has moved.
pub const SESSION_MOVED: i32 = -118;
/// The kind of an event: the node was created.
pub const CREATED: i32 = 1;
/// The kind of an event: the node was deleted.
pub const DELETED: i32 = 2;
/// The kind of an event: the node's data was set.
pub const DATA_CHANGED: i32 = 3;
/// The kind of an event: a child was created or deleted.
pub const CHILDREN_CHANGED: i32 = 4;
/// Flag of create: the node is deleted with its session.
pub const EPHEMERAL: i32 = 1;
/// Flag of create: the parent's counter is appended to the name.
pub const SEQUENTIAL: i32 = 2;

/// A connected session.
pub struct Session {
    stream: TcpStream,
    xid: i32,
    in_flight: VecDeque<i32>,
    ticket: Ticket,
    events: VecDeque<Event>,
}

/// What a client presents to continue its session on another connection.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The session's id; 0 requests a new session.
    pub id: i64,
    /// The newest zxid that the client has seen; a server that lags behind it rejects the client.
    pub last_zxid: i64,
    timeout_ms: i32,
    password: Vec<u8>,
}

impl Ticket {
    /// Requests a new session.
    pub fn new(timeout_ms: i32) -> Ticket {
        Ticket { id: 0, last_zxid: 0, timeout_ms, password: vec![0; 16] }
    }
}

/// The reply to one request.
pub struct Reply {
    /// The newest zxid of the server that replied, or that of the write itself.
    pub zxid: i64,
    /// 0 or a ZooKeeper error code.
    pub err: i32,
    /// The record after the header; empty if `err` is not 0.
    pub body: Vec<u8>,
}

/// A watch has fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The zxid of the change; -1 if setWatches2 found it later.
    pub zxid: i64,
    /// [`CREATED`], [`DELETED`], [`DATA_CHANGED`] or [`CHILDREN_CHANGED`].
    pub kind: i32,
    /// The path of the node.
    pub path: String,
}

impl Session {
    /// Opens a new session.
    pub fn connect(address: &str, timeout_ms: i32) -> Result<Session> {
        let opened = Session::open(address, &Ticket::new(timeout_ms), IO_TIMEOUT)?;
        opened.context("the server refused the session")
    }

    /// Opens a new session or continues one, according to the ticket; `None` if the server reports that the
    /// session has ended. `patience` limits how long this connection waits for a reply.
    pub fn open(address: &str, ticket: &Ticket, patience: Duration) -> Result<Option<Session>> {
        let mut stream = TcpStream::connect_timeout(&address.parse()?, patience)
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut request = Encoder::default();
        request.int(0).long(ticket.last_zxid).int(ticket.timeout_ms).long(ticket.id);
        request.buffer(Some(&ticket.password)).boolean(false);
        send_frame(&mut stream, request.bytes())?;
        let reply = receive_frame(&mut stream).context("no answer to the connect request")?;
        let mut reply = Decoder::new(&reply);
        reply.take(4 + 4)?;
        let id = reply.long()?;
        let password = reply.buffer()?.context("a session without a password")?;
        if id == 0 {
            return Ok(None);
        }
        let ticket = Ticket { id, password, ..ticket.clone() };
        let (in_flight, events) = (VecDeque::new(), VecDeque::new());
        Ok(Some(Session { stream, xid: 0, in_flight, ticket, events }))
    }

    /// Returns what is needed to continue this session at another server.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Adds credentials; fails if the server rejects them.
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

    /// Whether the server has not closed the connection.
    pub fn is_connected(&self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return false;
        }
        let peeked = self.stream.peek(&mut [0]);
        let is_open = match &peeked {
            Ok(bytes) => *bytes > 0,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        };
        self.stream.set_nonblocking(false).is_ok() && is_open
    }

    /// Sends bytes that need not be a request.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("sending bytes")
    }

    /// Returns the reply to the oldest unanswered request.
    pub fn receive(&mut self) -> Result<Reply> {
        let expected = self.in_flight.pop_front().context("no request is waiting for a reply")?;
        loop {
            let frame = receive_frame(&mut self.stream)?;
            let mut reply = Decoder::new(&frame);
            let xid = reply.int()?;
            let zxid = reply.long()?;
            let err = reply.int()?;
            if xid == XID_EVENT {
                self.events.push_back(decode_event(zxid, &mut reply)?);
                continue;
            }
            ensure!(xid == expected, "reply to xid {xid} where {expected} was due");
            self.ticket.last_zxid = self.ticket.last_zxid.max(zxid);
            return Ok(Reply { zxid, err, body: reply.rest().to_vec() });
        }
    }

    /// Returns the oldest event that was not returned yet; waits for one if there is none.
    pub fn next_event(&mut self) -> Result<Event> {
        if let Some(event) = self.events.pop_front() {
            return Ok(event);
        }
        ensure!(self.in_flight.is_empty(), "waiting for an event behind unanswered requests");
        let frame = receive_frame(&mut self.stream).context("waiting for an event")?;
        let mut reply = Decoder::new(&frame);
        ensure!(reply.int()? == XID_EVENT, "a reply where an event was due");
        let zxid = reply.long()?;
        reply.take(4)?;
        decode_event(zxid, &mut reply)
    }

    /// Returns the events received before the last reply that were not returned yet.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    /// Sends a request and returns its reply, whatever its error code.
    pub fn call(&mut self, op: &Op) -> Result<Reply> {
        self.send(op)?;
        self.receive()
    }

    /// Sends a request that must fail with this error code.
    pub fn expect(&mut self, err: i32, op: &Op) -> Result<Reply> {
        let reply = self.call(op)?;
        ensure!(reply.err == err, "{op:?}: expected error code {err}, got {}", reply.err);
        Ok(reply)
    }

    /// Sends a request that must succeed.
    pub fn ok(&mut self, op: &Op) -> Result<Reply> {
        self.expect(0, op)
    }

    /// Ends the session; its ephemeral nodes are deleted with it. Dropping a `Session` only closes the
    /// connection.
    pub fn close(mut self) -> Result<()> {
        self.ok(&Op::CloseSession).map(drop)
    }

    /// The data (absent or bytes) and Stat of a node.
    pub fn data(&mut self, path: &str) -> Result<(Option<Vec<u8>>, Stat)> {
        let reply = self.ok(&Op::get_data(path))?;
        decode_data(&reply)
    }

    /// The Stat of a node, `None` if there is no such node.
    pub fn exists(&mut self, path: &str) -> Result<Option<Stat>> {
        let reply = self.call(&Op::exists(path))?;
        match reply.err {
            0 => Stat::decode(&mut Decoder::new(&reply.body)).map(Some),
            NO_NODE => Ok(None),
            err => bail!("exists {path}: error code {err}"),
        }
    }

    /// Waits until this server has applied everything that was committed before.
    pub fn sync(&mut self) -> Result<()> {
        self.ok(&Op::sync("/")).map(drop)
    }

    /// The children's names, sorted.
    pub fn children(&mut self, path: &str) -> Result<Vec<String>> {
        let reply = self.ok(&Op::get_children(path))?;
        decode_children(&reply)
    }
}

/// The data and Stat in the reply to a getData.
pub fn decode_data(reply: &Reply) -> Result<(Option<Vec<u8>>, Stat)> {
    let mut body = Decoder::new(&reply.body);
    Ok((body.buffer()?, Stat::decode(&mut body)?))
}

/// The names in the reply to a getChildren, sorted.
pub fn decode_children(reply: &Reply) -> Result<Vec<String>> {
    let mut body = Decoder::new(&reply.body);
    let count = body.int()?;
    let mut names = (0..count).map(|_| body.string()).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn decode_event(zxid: i64, from: &mut Decoder) -> Result<Event> {
    let kind = from.int()?;
    // The state, which servers always send as "connected".
    from.take(4)?;
    Ok(Event { zxid, kind, path: from.string()? })
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
