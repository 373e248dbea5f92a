//! Opens and closes sessions with blocking calls, before and after the measurement.
//!
//! Many sessions are opened in parallel: all connect requests of a group are sent before the first response is
//! read. Nothing here is measured: the workload `session` has its own loop.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use herdsman_proto::{ConnectRequest, ConnectResponse, Request, SessionId, Zxid};

use crate::lane::{Lane, frame_length, parse_frame};
use crate::load::error_name;
use crate::target::Target;
use crate::template::{append_frame, frame_of};
use crate::wire::Wire;

/// The session timeout to request. The loops are never idle for nearly as long.
const SESSION_TIMEOUT_MS: i32 = 30_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for the server to close a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How many connect requests are sent before the first response is read: fewer than any server's backlog.
const CONNECTS_AT_ONCE: usize = 50;

/// A session on a blocking connection.
pub(crate) struct Session {
    wire: Wire<TcpStream>,
    xid: i32,
}

/// Encodes the request that opens a new session.
pub(crate) fn connect_frame() -> Vec<u8> {
    let mut frame = Vec::new();
    ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: SESSION_TIMEOUT_MS,
        session: SessionId::NONE,
        password: &[0; 16],
        read_only: Some(false),
    }
    .encode_frame(&mut frame);
    frame
}

/// Opens `count` sessions, spread over the target's servers in turn.
pub(crate) fn open_lanes(target: &Target, count: usize) -> Result<Vec<Lane>> {
    let mut lanes = Vec::with_capacity(count);
    let addresses: Vec<SocketAddr> =
        target.addresses().iter().copied().cycle().take(count).collect();
    for group in addresses.chunks(CONNECTS_AT_ONCE) {
        let wires: Result<Vec<_>> =
            group.iter().map(|address| send_connect(target, *address)).collect();
        for (wire, address) in wires?.into_iter().zip(group) {
            lanes.push(Session::accepted(target, *address, wire)?.into_lane()?);
        }
    }
    Ok(lanes)
}

fn send_connect(target: &Target, address: SocketAddr) -> Result<Wire<TcpStream>> {
    let name = target.name();
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
        .with_context(|| format!("target {name}: cannot connect to {address}; is it running?"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let mut wire = target.wire(address, stream)?;
    wire.write_all(&connect_frame())
        .with_context(|| format!("target {name}: writing to {address}"))?;
    Ok(wire)
}

impl Session {
    /// Opens one session on the target's first server.
    pub(crate) fn open(target: &Target) -> Result<Self> {
        let address = target.addresses()[0];
        Self::accepted(target, address, send_connect(target, address)?)
    }

    /// Reads the response to the connect request.
    fn accepted(target: &Target, address: SocketAddr, mut wire: Wire<TcpStream>) -> Result<Self> {
        let answer = read_connect_response(&mut wire);
        let at = || format!("target {} at {address}", target.name());
        match answer {
            Ok(response) if response.session == SessionId::NONE || response.timeout_ms <= 0 => {
                bail!("{}: the server did not open a session", at())
            }
            Ok(response) if response.read_only == Some(true) => {
                bail!("{}: the server is read-only: it has lost its quorum", at())
            }
            Ok(_) => Ok(Session { wire, xid: 0 }),
            Err(error) if is_gone(&error) => bail!(
                "{}: the server closed the connection instead of opening a session; it is not serving \
                 (no quorum?), or accepts no more connections from this address (maxClientCnxns)",
                at()
            ),
            Err(error) if is_late(&error) => {
                bail!(
                    "{}: timed out after {} s; the server is not serving",
                    at(),
                    ANSWER_TIMEOUT.as_secs()
                )
            }
            Err(error) => Err(error).with_context(|| format!("{}: opening a session", at())),
        }
    }

    /// Sends one request and waits for the reply: returns the raw error code and the body.
    pub(crate) fn call(&mut self, request: &Request<'_>) -> Result<(i32, Vec<u8>)> {
        self.xid += 1;
        let op = request.op().name();
        self.wire
            .write_all(&frame_of(self.xid, request))
            .with_context(|| format!("sending {op}"))?;
        let bytes = read_frame(&mut self.wire).with_context(|| format!("waiting for {op}"))?;
        let frame = parse_frame(&bytes)?;
        if frame.xid != self.xid {
            bail!("{op}: a reply with xid {} instead of {}", frame.xid, self.xid);
        }
        Ok((frame.error, frame.body.to_vec()))
    }

    /// Like [`Session::call`], but fails if the server returns an error.
    pub(crate) fn must(&mut self, request: &Request<'_>) -> Result<Vec<u8>> {
        match self.call(request)? {
            (0, body) => Ok(body),
            (code, _) => bail!("{}: the server replied {}", request.op().name(), error_name(code)),
        }
    }

    /// Ends the session.
    pub(crate) fn close(mut self) {
        // A session that cannot be closed expires.
        let _ = self.call(&Request::CloseSession);
    }

    fn into_lane(self) -> Result<Lane> {
        let wire = self.wire.with_socket(|socket| {
            socket.set_nonblocking(true)?;
            Ok(mio::net::TcpStream::from_std(socket))
        })?;
        Ok(Lane::new(wire))
    }
}

/// Closes the sessions of lanes that have nothing in flight: sends all requests, then waits for each server.
pub(crate) fn close_lanes(lanes: Vec<Lane>) {
    let wires: Vec<Wire<TcpStream>> =
        lanes.into_iter().filter_map(|lane| send_close(lane).ok()).collect();
    for mut wire in wires {
        // The server closes the connection after its reply.
        let _ = wire.read_to_end(&mut Vec::new());
    }
}

fn send_close(lane: Lane) -> io::Result<Wire<TcpStream>> {
    let mut wire = lane.wire.with_socket(|socket| {
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(false)?;
        socket.set_write_timeout(Some(CLOSE_TIMEOUT))?;
        socket.set_read_timeout(Some(CLOSE_TIMEOUT))?;
        Ok(socket)
    })?;
    let mut frame = Vec::new();
    append_frame(i32::MAX, &Request::CloseSession, &mut frame);
    wire.write_all(&frame)?;
    Ok(wire)
}

fn read_connect_response(wire: &mut Wire<TcpStream>) -> io::Result<ConnectResponse> {
    let payload = read_frame(wire)?;
    ConnectResponse::decode(&payload)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))
}

fn read_frame(wire: &mut Wire<TcpStream>) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    wire.read_exact(&mut length)?;
    let mut frame = vec![0; frame_length(length)?];
    wire.read_exact(&mut frame)?;
    Ok(frame)
}

fn is_gone(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
