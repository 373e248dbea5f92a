//! One step of a script, without anything that differs between two sides: sessions are slots, zxids are
//! offsets, servers of an ensemble are numbers by role, so the same value can be executed on both sides and
//! replayed by `--shrink`.

use std::fmt;

use crate::call::{Call, hex};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends requests on a session's connection in one write, then reads one reply for each.
    Send {
        /// The session.
        slot: usize,
        /// The requests.
        calls: Vec<Call>,
    },
    /// Sends bytes that are not a valid request on a session's connection.
    Raw {
        /// The session.
        slot: usize,
        /// The bytes, including the frame length.
        bytes: Vec<u8>,
        /// A label for the report.
        label: &'static str,
    },
    /// Closes the client's side of the connection.
    Drop {
        /// The session.
        slot: usize,
    },
    /// Opens a connection and sends a connect request.
    Hello {
        /// The slot.
        slot: usize,
        /// The request.
        hello: Hello,
    },
    /// Opens a connection, sends these bytes and stops sending.
    FirstBytes {
        /// The bytes.
        bytes: Vec<u8>,
        /// A label for the report.
        label: &'static str,
    },
    /// Sends a four-letter word.
    Word {
        /// The word.
        word: String,
        /// The server; `None`: the one where slot 0 is.
        server: Option<usize>,
    },
    /// Waits for the next event of a session, however long it takes: one that is not caused by a request.
    Await {
        /// The session.
        slot: usize,
    },
    /// Writes, and cuts the connection before they are answered; then opens the next connection. Only in an
    /// ensemble.
    Cut {
        /// The session.
        slot: usize,
        /// What is written, and where the session reconnects.
        cut: Cut,
    },
    /// Executes several steps of one session without waiting in between, so that the servers of an ensemble
    /// may be at different txns.
    Chain(Vec<Action>),
}

/// A connection cut with writes in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// A znode without children that only this cut uses: the writes create its children.
    pub folder: String,
    /// How many writes.
    pub writes: usize,
    /// Whether the cut is after the first reply, or before anything is read.
    pub after_first_reply: bool,
    /// The next connection.
    pub hello: Hello,
}

/// A connect request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The session that it requests.
    pub target: Target,
    /// The requested timeout.
    pub timeout_ms: i32,
    /// The password field.
    pub password: Secret,
    /// The newest zxid that the client claims to have seen.
    pub seen: Seen,
    /// The protocol version field; clients always send 0.
    pub protocol: i32,
    /// The last byte, which old clients omit.
    pub read_only: Option<u8>,
    /// Bytes after it.
    pub trailing: usize,
    /// The server by role: the leader first, then followers, then observers. `None`: the one where the slot
    /// was last.
    pub server: Option<usize>,
    /// How requests on the new connection are numbered.
    pub xids: Xids,
}

/// How a client numbers the requests of a session's next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xids {
    /// Continues the numbers of the session, like the Java client.
    Continue,
    /// Starts from 1, like kazoo.
    Restart,
}

/// The session that a connect request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new one, which the slot will have.
    New,
    /// The slot's own session.
    Own,
    /// That of another slot, which may have a connection too.
    Of(usize),
    /// One that no server has ever assigned.
    Unknown,
}

/// The content of the password field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// The right one for the named session.
    Right,
    /// Sixteen other bytes.
    Wrong,
    /// Too few bytes.
    Short,
    /// No bytes.
    Empty,
    /// Jute's null.
    Null,
}

/// The zxid that a client claims to have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Zero,
    /// The newest zxid that this side has seen.
    Newest,
    /// One that the server has not reached.
    Ahead,
    /// A negative number.
    Negative,
}

impl Hello {
    /// The connect request of an ordinary client for a new session.
    #[must_use]
    pub fn new_session() -> Self {
        Hello {
            target: Target::New,
            timeout_ms: 30_000,
            password: Secret::Empty,
            seen: Seen::Zero,
            protocol: 0,
            read_only: Some(0),
            trailing: 0,
            server: None,
            xids: Xids::Continue,
        }
    }

    /// The connect request of an ordinary client that reconnects.
    #[must_use]
    pub fn again() -> Self {
        Hello {
            target: Target::Own,
            password: Secret::Right,
            seen: Seen::Newest,
            ..Hello::new_session()
        }
    }

    /// The same at this server.
    #[must_use]
    pub fn at(server: usize) -> Self {
        Hello { server: Some(server), ..Hello::again() }
    }
}

impl Action {
    /// A single request.
    #[must_use]
    pub fn call(slot: usize, call: Call) -> Self {
        Action::Send { slot, calls: vec![call] }
    }

    /// A four-letter word to the server where slot 0 is.
    #[must_use]
    pub fn word(word: &str) -> Self {
        Action::Word { word: word.to_owned(), server: None }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Send { slot, calls } => {
                let labels: Vec<&str> = calls.iter().map(|call| call.label.as_str()).collect();
                write!(f, "slot {slot}: {}", labels.join(" | "))
            }
            Action::Raw { slot, bytes, label } => {
                write!(f, "slot {slot}: raw {label}: {}", hex(bytes))
            }
            Action::Drop { slot } => write!(f, "slot {slot}: drop the connection"),
            Action::Hello { slot, hello } => write!(f, "slot {slot}: connect {hello:?}"),
            Action::FirstBytes { bytes, label } => write!(f, "first bytes {label}: {}", hex(bytes)),
            Action::Word { word, server } => write!(f, "word {word:?} to server {server:?}"),
            Action::Await { slot } => write!(f, "slot {slot}: wait for an event"),
            Action::Cut { slot, cut } => write!(f, "slot {slot}: {cut:?}"),
            Action::Chain(actions) => {
                let shown: Vec<String> = actions.iter().map(ToString::to_string).collect();
                write!(f, "without waiting: {}", shown.join(", then "))
            }
        }
    }
}
