//! One step of a script, free of anything that differs between two sides: sessions are slots, zxids are
//! offsets, servers of an ensemble are numbers by role, so the same value can be carried out on both
//! sides and replayed by `--shrink`.

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
    Word {
        /// What to ask.
        word: String,
        /// Which server; `None`: the one where slot 0 is.
        server: Option<usize>,
    },
    /// The next event of a session, however long it takes: one that nobody's request causes.
    Await {
        /// Which session.
        slot: usize,
    },
    /// Writes, and the connection is cut before they are answered; then the next connection. Only in
    /// an ensemble.
    Cut {
        /// Which session.
        slot: usize,
        /// What is written, and where the session comes back.
        cut: Cut,
    },
    /// Several steps of one session that nothing waits between, so that the servers of an ensemble may
    /// be at different txns.
    Chain(Vec<Action>),
}

/// A connection cut with writes in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// A znode without children, which only this cut is about: they are what it writes.
    pub folder: String,
    /// How many.
    pub writes: usize,
    /// Whether the cut comes after the first reply, or before anything is read.
    pub after_first_reply: bool,
    /// The next connection.
    pub hello: Hello,
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
    /// Which server it goes to, by role: the leader first, then followers, then observers. `None`: the
    /// one where the slot was last.
    pub server: Option<usize>,
    /// How requests on the new connection are numbered.
    pub xids: Xids,
}

/// How a client numbers the requests of a session's next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xids {
    /// From where it was, as the Java client does.
    GoOn,
    /// From 1, as kazoo does.
    Anew,
}

/// Which session a connect request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new one, which the slot will hold.
    New,
    /// The slot's own.
    Own,
    /// That of another slot, which may have a connection too.
    Of(usize),
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
            server: None,
            xids: Xids::GoOn,
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

    /// What a proper client says to come back at this server.
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
            Action::Stranger { bytes, label } => write!(f, "stranger: {label}: {}", hex(bytes)),
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
