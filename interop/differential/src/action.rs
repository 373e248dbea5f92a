//! One step of a script, free of anything that differs between two servers: sessions are slots,
//! zxids are offsets, so the same value can be carried out on both sides and replayed by `--shrink`.

use std::fmt;

use crate::call::{Call, hex};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Requests on a session's connection, all in one write; then one reply to each.
    Send {
        /// Which session.
        slot: usize,
        /// The requests.
        calls: Vec<Call>,
    },
    /// Bytes on a session's connection that are not a proper request.
    Raw {
        /// Which session.
        slot: usize,
        /// What to send, frame length included.
        bytes: Vec<u8>,
        /// For the report.
        label: &'static str,
    },
    /// The client's side of the connection goes away.
    Drop {
        /// Which session.
        slot: usize,
    },
    /// A new connection says hello.
    Hello {
        /// Which session it is about.
        slot: usize,
        /// What it says.
        hello: Hello,
    },
    /// A new connection sends these bytes as its first and stops sending.
    Stranger {
        /// What to send.
        bytes: Vec<u8>,
        /// For the report.
        label: &'static str,
    },
    /// A four-letter word.
    Word(String),
}

/// A connect request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Whose session it asks for.
    pub target: Target,
    /// Wanted timeout.
    pub timeout_ms: i32,
    /// The password field.
    pub password: Secret,
    /// Newest zxid that the client claims to have seen.
    pub seen: Seen,
    /// The protocol version field; everybody sends 0.
    pub protocol: i32,
    /// The last byte, which old clients leave out.
    pub read_only: Option<u8>,
    /// Bytes behind it.
    pub trailing: usize,
}

/// Which session a connect request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new one, which the slot will hold.
    New,
    /// The slot's own.
    Own,
    /// One that no server ever handed out.
    Unknown,
}

/// What stands in the password field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// The right one for the session named.
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

/// What a client claims to have seen.
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
    /// What a proper client says to get a new session.
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
        }
    }

    /// What a proper client says to come back.
    #[must_use]
    pub fn again() -> Self {
        Hello {
            target: Target::Own,
            password: Secret::Right,
            seen: Seen::Newest,
            ..Hello::new_session()
        }
    }
}

impl Action {
    /// A single request.
    #[must_use]
    pub fn call(slot: usize, call: Call) -> Self {
        Action::Send { slot, calls: vec![call] }
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
            Action::Stranger { bytes, label } => write!(f, "stranger: {label}: {}", hex(bytes)),
            Action::Word(word) => write!(f, "word {word:?}"),
        }
    }
}
