//! `session`: lanes that open a session and close it, over and over. One operation is both, with the
//! connection: from the first packet of the connection to the reply to closeSession.
//!
//! The next session begins when the server has ended the connection. So the side that waits out TCP's
//! TIME_WAIT is the server's, and the ports of this side do not run out.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use herdsman_proto::{ConnectResponse, Request, SessionId};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::dial::hello;
use crate::lane::{broken, frame_length, parse_frame};
use crate::load::error_name;
use crate::round::Setting;
use crate::tally::{LastReply, Tally, Window};
use crate::target::Target;
use crate::template::frame_of;
use crate::wire::Wire;

const IDLE: Duration = Duration::from_millis(50);
/// How long sessions that are under way at the end are waited for.
const DRAIN: Duration = Duration::from_secs(10);
/// The only request of a session is its last.
const CLOSE_XID: i32 = 1;
/// Longer than a handshake's answer and a reply's header together.
const INPUT_BYTES: usize = 256;

/// Opens and closes sessions until the window closes.
pub(crate) fn measure(setting: &Setting<'_>) -> Result<Tally> {
    let window = setting.window();
    let last_reply = LastReply::at(window.opens);
    let mut turnstile = Turnstile {
        poll: Poll::new()?,
        target: setting.target,
        visitors: Vec::new(),
        frames: Frames { hello: hello(), goodbye: frame_of(CLOSE_XID, &Request::CloseSession) },
        window,
        last_reply: &last_reply,
        tally: Tally::new(),
        are_ids_unique: !setting.target.is_echo(),
    };
    let addresses = setting.target.addresses().iter().copied().cycle();
    for address in addresses.take(setting.shape.connections) {
        turnstile.admit(address);
    }
    turnstile.run(setting)?;
    Ok(turnstile.tally)
}

struct Frames {
    hello: Vec<u8>,
    goodbye: Vec<u8>,
}

/// What a visitor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaiting {
    Connection,
    Welcome,
    Goodbye,
    End,
}

/// One lane: the session that it has now.
struct Visitor {
    address: SocketAddr,
    wire: Wire<TcpStream>,
    awaiting: Awaiting,
    began: Instant,
    input: Vec<u8>,
    last_session: SessionId,
}

struct Turnstile<'a> {
    poll: Poll,
    target: &'a Target,
    /// Empty where a lane failed, or is done.
    visitors: Vec<Option<Visitor>>,
    frames: Frames,
    window: Window,
    last_reply: &'a LastReply,
    tally: Tally,
    are_ids_unique: bool,
}

impl Turnstile<'_> {
    /// Adds a lane.
    fn admit(&mut self, address: SocketAddr) {
        let token = self.visitors.len();
        let visitor = self.connect(address, token, SessionId::NONE);
        let visitor = visitor.map_err(|error| self.fail(address, &error)).ok();
        self.visitors.push(visitor);
    }

    fn connect(&self, address: SocketAddr, token: usize, last: SessionId) -> io::Result<Visitor> {
        let began = Instant::now();
        let mut stream = TcpStream::connect(address)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(token), interest)?;
        let (awaiting, input) = (Awaiting::Connection, Vec::with_capacity(INPUT_BYTES));
        let wire = self.target.wire(address, stream)?;
        Ok(Visitor { address, wire, awaiting, began, input, last_session: last })
    }

    fn fail(&mut self, address: SocketAddr, error: &io::Error) {
        self.tally.fail(1, || match error.kind() {
            ErrorKind::UnexpectedEof => {
                format!("{address}: the server closed the connection in the middle of a session")
            }
            _ => format!("{address}: {error}"),
        });
    }

    fn run(&mut self, setting: &Setting<'_>) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut closed_at = None;
        loop {
            let now = Instant::now();
            if closed_at.is_none() && (now >= self.window.closes || setting.stop.is_asked()) {
                closed_at = Some(now);
                self.close_window(now.min(self.window.closes));
            }
            let is_empty = self.visitors.iter().all(Option::is_none);
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

    /// Lets a visitor go on, and the next one in when it has left.
    fn step(&mut self, token: usize, lets_in: bool) {
        let Some(mut visitor) = self.visitors.get_mut(token).and_then(Option::take) else {
            return;
        };
        let (address, last) = (visitor.address, visitor.last_session);
        match self.advance(&mut visitor) {
            Ok(Progress::Waits) => self.visitors[token] = Some(visitor),
            Ok(Progress::Left) if lets_in => match self.connect(address, token, last) {
                Ok(next) => self.visitors[token] = Some(next),
                Err(error) => self.fail(address, &error),
            },
            Ok(Progress::Left) => {}
            Err(error) => self.fail(address, &error),
        }
    }

    fn advance(&mut self, visitor: &mut Visitor) -> io::Result<Progress> {
        if visitor.awaiting == Awaiting::Connection && !self.greet(visitor)? {
            return Ok(Progress::Waits);
        }
        let mut bytes = [0; INPUT_BYTES];
        loop {
            match visitor.wire.read(&mut bytes) {
                Ok(0) if visitor.awaiting == Awaiting::End => return Ok(Progress::Left),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => visitor.input.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::Waits),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.take_frames(visitor)?;
        }
    }

    /// Says hello once the connection stands.
    fn greet(&self, visitor: &mut Visitor) -> io::Result<bool> {
        if let Some(error) = visitor.wire.socket().take_error()? {
            return Err(error);
        }
        match visitor.wire.socket().peer_addr() {
            Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(false),
            result => result?,
        };
        visitor.wire.socket().set_nodelay(true)?;
        // A fresh socket takes such a small frame whole.
        visitor.wire.write_all(&self.frames.hello)?;
        visitor.awaiting = Awaiting::Welcome;
        Ok(true)
    }

    fn take_frames(&mut self, visitor: &mut Visitor) -> io::Result<()> {
        while let Some((length, rest)) = visitor.input.split_first_chunk::<4>() {
            let length = frame_length(*length)?;
            let Some(frame) = rest.get(..length) else {
                return Ok(());
            };
            match visitor.awaiting {
                Awaiting::Welcome => {
                    let session = self.check_welcome(frame, visitor.last_session)?;
                    visitor.last_session = session;
                    visitor.wire.write_all(&self.frames.goodbye)?;
                    visitor.awaiting = Awaiting::Goodbye;
                }
                Awaiting::Goodbye => {
                    check_goodbye(frame)?;
                    self.count(visitor.began);
                    visitor.awaiting = Awaiting::End;
                }
                Awaiting::Connection | Awaiting::End => {
                    return Err(broken("a frame that nobody asked for".to_owned()));
                }
            }
            visitor.input.drain(..4 + length);
        }
        Ok(())
    }

    fn check_welcome(&self, frame: &[u8], last: SessionId) -> io::Result<SessionId> {
        let response = ConnectResponse::decode(frame)
            .map_err(|error| broken(format!("the answer to a hello cannot be read: {error}")))?;
        if response.session == SessionId::NONE || response.timeout_ms <= 0 {
            return Err(broken("a new session is over before it began".to_owned()));
        }
        if self.are_ids_unique && response.session == last {
            return Err(broken(format!("the session id 0x{:x} was given twice", last.0)));
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
    Waits,
    Left,
}

fn check_goodbye(frame: &[u8]) -> io::Result<()> {
    let frame = parse_frame(frame)?;
    if frame.xid != CLOSE_XID || frame.error != 0 {
        let error = error_name(frame.error);
        return Err(broken(format!("closeSession is answered with xid {} and {error}", frame.xid)));
    }
    Ok(())
}
