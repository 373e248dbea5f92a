//! The interface between the closed loop and a workload: creating requests and checking replies.
//!
//! A load has no sockets and reads no clock. It marks its requests with a [`RequestTag`], which is returned with the
//! reply, so the loop stores one word for a request in flight.

use std::fmt::Display;
use std::time::Instant;

use herdsman_proto::{DecodeError, ErrorCode, EventType};

/// The load's own data about a request, returned with the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTag(pub(crate) u64);

/// A reply, still in the receive buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'a> {
    /// The raw error code, 0 for success.
    pub(crate) error: i32,
    /// The bytes after the header.
    pub(crate) body: &'a [u8],
}

/// How a reply or an event is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An operation is complete; its latency is the time from its request to this reply.
    Done,
    /// An operation is complete that began at another moment than this reply's request.
    DoneSince(Instant),
    /// A step of an operation, which is not counted.
    Step,
}

/// Describes a wrong reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongReply(String);

impl WrongReply {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        WrongReply(message.into())
    }

    /// Adds the operation to the message.
    pub(crate) fn during(self, operation: impl Display) -> Self {
        WrongReply(format!("{operation}: {}", self.0))
    }

    pub(crate) fn into_message(self) -> String {
        self.0
    }
}

impl From<DecodeError> for WrongReply {
    fn from(error: DecodeError) -> Self {
        WrongReply(format!("the reply cannot be decoded: {error}"))
    }
}

/// The result of checking a reply.
pub(crate) type Checked<T> = Result<T, WrongReply>;

impl Reply<'_> {
    /// Checks that the operation succeeded.
    pub(crate) fn must_succeed(&self) -> Checked<()> {
        match self.error {
            0 => Ok(()),
            code => Err(WrongReply(format!("the server replied {}", error_name(code)))),
        }
    }
}

/// Returns the name of an error code, or its number if it is unknown.
pub(crate) fn error_name(code: i32) -> String {
    ErrorCode::from_code(code).map_or_else(|| format!("error {code}"), |known| known.to_string())
}

/// Creates requests for a number of lanes, and checks the replies.
pub(crate) trait Load {
    /// Appends the next request of a lane, as one frame, or returns `None` if there is none for now. The loop
    /// tries again after the lane's next reply, or when [`Load::next_woken`] returns the lane.
    fn next_request(&mut self, lane: usize, xid: i32, out: &mut Vec<u8>) -> Option<RequestTag>;

    /// Checks a reply. The replies of a lane are in the order of its requests.
    fn check_reply(&mut self, lane: usize, tag: RequestTag, reply: &Reply<'_>) -> Checked<Outcome>;

    /// Handles a watch event.
    fn take_event(&mut self, _lane: usize, kind: EventType, path: &str) -> Checked<Outcome> {
        Err(WrongReply(format!("unexpected event: {kind:?} of {path}")))
    }

    /// Returns a lane that had no request and has one now. Called until it returns `None`.
    fn next_woken(&mut self) -> Option<usize> {
        None
    }

    /// Whether there are no requests left on any lane: the measurement then ends with the last reply.
    fn is_exhausted(&self) -> bool {
        false
    }
}
