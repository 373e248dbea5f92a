//! `session`: lanes that repeatedly open and close a session. One operation is both, including the connection: from
//! the first packet of the connection to the reply to closeSession.
//!
//! The next session begins when the server has closed the connection. So the server's side is in TCP's TIME_WAIT, and
//! the ports of this side do not run out.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use herdsman_proto::{ConnectResponse, Request, SessionId};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::dial::connect_frame;
use crate::lane::{broken, frame_length, parse_frame};
use crate::load::error_name;
use crate::round::RoundContext;
use crate::tally::{LastReply, Tally, Window};
use crate::target::Target;
use crate::template::frame_of;
use crate::wire::Wire;

const IDLE: Duration = Duration::from_millis(50);
/// How long to wait at the end for unfinished sessions.
const DRAIN: Duration = Duration::from_secs(10);
/// The xid of the only request of a session.
const CLOSE_XID: i32 = 1;
/// Longer than a connect response and the header of a reply together.
const INPUT_BYTES: usize = 256;

/// Opens and closes sessions until the window closes.
pub(crate) fn measure(context: &RoundContext<'_>) -> Result<Tally> {
    let window = context.window();
    let last_reply = LastReply::at(window.opens);
    let mut session_loop = SessionLoop {
        poll: Poll::new()?,
        target: context.target,
        lanes: Vec::new(),
        frames: Frames {
            connect_frame: connect_frame(),
            close_frame: frame_of(CLOSE_XID, &Request::CloseSession),
        },
        window,
        last_reply: &last_reply,
        tally: Tally::new(),
        are_ids_unique: !context.target.is_echo(),
    };
    let addresses = context.target.addresses().iter().copied().cycle();
    for address in addresses.take(context.shape.connections) {
        session_loop.add_lane(address);
    }
    session_loop.run(context)?;
    Ok(session_loop.tally)
}

struct Frames {
    connect_frame: Vec<u8>,
    close_frame: Vec<u8>,
}

/// What a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaiting {
    Connection,
    ConnectResponse,
    CloseReply,
    End,
}

/// One lane, with its current session.
struct SessionLane {
    address: SocketAddr,
    wire: Wire<TcpStream>,
    awaiting: Awaiting,
    began: Instant,
    input: Vec<u8>,
    last_session: SessionId,
}

struct SessionLoop<'a> {
    poll: Poll,
    target: &'a Target,
    /// Empty where a lane failed, or is done.
    lanes: Vec<Option<SessionLane>>,
    frames: Frames,
    window: Window,
    last_reply: &'a LastReply,
    tally: Tally,
    are_ids_unique: bool,
}

impl SessionLoop<'_> {
    /// Adds a lane.
    fn add_lane(&mut self, address: SocketAddr) {
        let token = self.lanes.len();
        let lane = self.connect(address, token, SessionId::NONE);
        let lane = lane.map_err(|error| self.fail(address, &error)).ok();
        self.lanes.push(lane);
    }

    fn connect(
        &self,
        address: SocketAddr,
        token: usize,
        last: SessionId,
    ) -> io::Result<SessionLane> {
        let began = Instant::now();
        let mut stream = TcpStream::connect(address)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(token), interest)?;
        let (awaiting, input) = (Awaiting::Connection, Vec::with_capacity(INPUT_BYTES));
        let wire = self.target.wire(address, stream)?;
        Ok(SessionLane { address, wire, awaiting, began, input, last_session: last })
    }

    fn fail(&mut self, address: SocketAddr, error: &io::Error) {
        self.tally.fail(1, || match error.kind() {
            ErrorKind::UnexpectedEof => {
                format!("{address}: the server closed the connection during a session")
            }
            _ => format!("{address}: {error}"),
        });
    }

    fn run(&mut self, context: &RoundContext<'_>) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut closed_at = None;
        loop {
            let now = Instant::now();
            if closed_at.is_none() && (now >= self.window.closes || context.stop.is_requested()) {
                closed_at = Some(now);
                self.close_window(now.min(self.window.closes));
            }
            let is_empty = self.lanes.iter().all(Option::is_none);
            if is_empty || closed_at.is_some_and(|closed| now >= closed + DRAIN) {
                if closed_at.is_none() {
                    self.close_window(now);
                }
                return Ok(());
            }
            match self.poll.poll(&mut events, Some(IDLE)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                self.step(event.token().0, closed_at.is_none());
            }
        }
    }

    fn close_window(&mut self, closed: Instant) {
        if closed > self.window.opens {
            self.tally.note_reply(self.last_reply, closed);
        }
        self.tally.close(closed.saturating_duration_since(self.window.opens));
    }

    /// Advances a lane, and starts its next session when the current one has ended.
    fn step(&mut self, token: usize, starts_next: bool) {
        let Some(mut lane) = self.lanes.get_mut(token).and_then(Option::take) else {
            return;
        };
        let (address, last) = (lane.address, lane.last_session);
        match self.advance(&mut lane) {
            Ok(Progress::Waiting) => self.lanes[token] = Some(lane),
            Ok(Progress::Ended) if starts_next => match self.connect(address, token, last) {
                Ok(next) => self.lanes[token] = Some(next),
                Err(error) => self.fail(address, &error),
            },
            Ok(Progress::Ended) => {}
            Err(error) => self.fail(address, &error),
        }
    }

    fn advance(&mut self, lane: &mut SessionLane) -> io::Result<Progress> {
        if lane.awaiting == Awaiting::Connection && !self.send_connect_request(lane)? {
            return Ok(Progress::Waiting);
        }
        let mut bytes = [0; INPUT_BYTES];
        loop {
            match lane.wire.read(&mut bytes) {
                Ok(0) if lane.awaiting == Awaiting::End => return Ok(Progress::Ended),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => lane.input.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(Progress::Waiting);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.take_frames(lane)?;
        }
    }

    /// Sends the connect request once the connection is established.
    fn send_connect_request(&self, lane: &mut SessionLane) -> io::Result<bool> {
        if let Some(error) = lane.wire.socket().take_error()? {
            return Err(error);
        }
        match lane.wire.socket().peer_addr() {
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
            result => result?,
        };
        lane.wire.socket().set_nodelay(true)?;
        // A new socket accepts such a small frame completely.
        lane.wire.write_all(&self.frames.connect_frame)?;
        lane.awaiting = Awaiting::ConnectResponse;
        Ok(true)
    }

    fn take_frames(&mut self, lane: &mut SessionLane) -> io::Result<()> {
        while let Some((length, rest)) = lane.input.split_first_chunk::<4>() {
            let length = frame_length(*length)?;
            let Some(frame) = rest.get(..length) else {
                return Ok(());
            };
            match lane.awaiting {
                Awaiting::ConnectResponse => {
                    let session = self.check_connect_response(frame, lane.last_session)?;
                    lane.last_session = session;
                    lane.wire.write_all(&self.frames.close_frame)?;
                    lane.awaiting = Awaiting::CloseReply;
                }
                Awaiting::CloseReply => {
                    check_close_reply(frame)?;
                    self.count(lane.began);
                    lane.awaiting = Awaiting::End;
                }
                Awaiting::Connection | Awaiting::End => {
                    return Err(broken("unexpected frame".to_owned()));
                }
            }
            lane.input.drain(..4 + length);
        }
        Ok(())
    }

    fn check_connect_response(&self, frame: &[u8], last: SessionId) -> io::Result<SessionId> {
        let response = ConnectResponse::decode(frame)
            .map_err(|error| broken(format!("the connect response cannot be decoded: {error}")))?;
        if response.session == SessionId::NONE || response.timeout_ms <= 0 {
            return Err(broken("the server did not open a session".to_owned()));
        }
        if self.are_ids_unique && response.session == last {
            return Err(broken(format!("the session id 0x{:x} was assigned twice", last.0)));
        }
        Ok(response.session)
    }

    fn count(&mut self, began: Instant) {
        let now = Instant::now();
        if self.window.is_open(now) {
            self.tally.note_reply(self.last_reply, now);
            self.tally.record(now - began);
        }
    }
}

/// Whether a lane is ready for its next session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waiting,
    Ended,
}

fn check_close_reply(frame: &[u8]) -> io::Result<()> {
    let frame = parse_frame(frame)?;
    if frame.xid != CLOSE_XID || frame.error != 0 {
        let error = error_name(frame.error);
        return Err(broken(format!("the reply to closeSession has xid {} and {error}", frame.xid)));
    }
    Ok(())
}
