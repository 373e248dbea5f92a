//! What the closed loop drives: something that makes requests, and judges the replies.
//!
//! A load knows no socket and reads no clock that the loop does not hand it. It numbers its own requests
//! with a [`Ticket`], which comes back with the reply, so the loop keeps one word for a request in flight.

use std::fmt::Display;
use std::time::Instant;

use herdsman_proto::{DecodeError, ErrorCode, EventType};

/// What a load wants to know about a request when its reply comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u64);

/// A reply, cut out of the stream: still in the receive buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'a> {
    /// The raw error number, 0 when all is well.
    pub(crate) error: i32,
    /// What follows the header.
    pub(crate) body: &'a [u8],
}

/// What a reply or an event means for the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An operation is done; it took from its request to this reply.
    Done,
    /// An operation is done that began at another moment than this reply's request.
    DoneSince(Instant),
    /// Only a step of an operation.
    Step,
}

/// A reply that is not what it should be, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong(String);

impl Wrong {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Wrong(words.into())
    }

    /// Says which operation it was.
    pub(crate) fn during(self, operation: impl Display) -> Self {
        Wrong(format!("{operation}: {}", self.0))
    }

    pub(crate) fn into_words(self) -> String {
        self.0
    }
}

impl From<DecodeError> for Wrong {
    fn from(error: DecodeError) -> Self {
        Wrong(format!("the reply cannot be read: {error}"))
    }
}

/// The answer to "is this reply right?".
pub(crate) type Checked<T> = Result<T, Wrong>;

impl Reply<'_> {
    /// The server says that it was done.
    pub(crate) fn must_succeed(&self) -> Checked<()> {
        match self.error {
            0 => Ok(()),
            code => Err(Wrong(format!("the server answers {}", error_name(code)))),
        }
    }
}

/// A code as its name, or as its number if it has none.
pub(crate) fn error_name(code: i32) -> String {
    ErrorCode::from_code(code).map_or_else(|| format!("error {code}"), |known| known.to_string())
}

/// Requests for a number of lanes, and the judgement of their replies.
pub(crate) trait Load {
    /// Appends the next request of a lane, as one frame, or says that it has none for now. A lane that
    /// got `None` is asked again after its next reply, or when [`Load::next_woken`] names it.
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<Ticket>;

    /// Judges a reply. On one lane they come in the order of the requests.
    fn check_reply(&mut self, lane: usize, ticket: Ticket, reply: &Reply<'_>) -> Checked<Outcome>;

    /// Takes a watch event.
    fn take_event(&mut self, _lane: usize, kind: EventType, path: &str) -> Checked<Outcome> {
        Err(Wrong(format!("an event that nobody asked for: {kind:?} of {path}")))
    }

    /// A lane that had nothing to do and has now. Asked until there is none.
    fn next_woken(&mut self) -> Option<usize> {
        None
    }

    /// There is nothing left to ask, on any lane: what is measured ends with the last reply.
    fn is_dry(&self) -> bool {
        false
    }
}
