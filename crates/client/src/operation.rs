//! Operations: the request, the watch it sets, and how its reply is decoded. Sending is elsewhere.

use bytes::Bytes;
use herdsman_proto::{DecodeError, JuteReader, OpCode, Request, path};

use crate::client::Client;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::request_queue::Answer;
use crate::session::{Submission, WatchRequest};
use crate::watches::{ConfirmedWatch, WatchLifetime, WatchTable};

/// An operation of the protocol. Implemented by this crate's operations only.
pub trait Operation: sealed::Sealed {}

impl<T: sealed::Sealed> Operation for T {}

/// Whether an operation may be repeated when it is unknown whether it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeatable {
    /// A second execution changes nothing.
    Yes,
    /// A second execution may change something, or fail because of the first.
    No,
}

pub(crate) mod sealed {
    use super::{OpCode, Repeatable, Request, Result, WatchTable};
    use crate::request_queue::Answer;

    /// The implementation of an operation.
    pub trait Sealed: Send + Sync + 'static {
        /// The result of the operation.
        type Output: Send + 'static;

        /// The op code, for errors.
        fn op(&self) -> OpCode;
        /// The path as its caller wrote it, for errors.
        fn shown_path(&self) -> &str;
        /// The request to send.
        fn request(&self) -> Request<'_>;
        /// The watch that the operation sets: its table and path.
        fn watch(&self) -> Option<(WatchTable, &ZnodePath)> {
            None
        }
        /// Fails if an argument is not valid.
        fn check(&self) -> Result<()>;
        /// See [`Repeatable`].
        fn repeatable(&self) -> Repeatable;
        /// Decodes the reply.
        fn decode(&self, answer: Answer) -> std::result::Result<Self::Output, ReplyError>;
    }

    pub use super::{ReplyError, ZnodePath};
}

/// A path below a chroot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZnodePath {
    full: String,
    chroot_bytes: usize,
    /// The caller wrote an empty string, which is not a path, not even below a chroot.
    is_blank: bool,
}

impl ZnodePath {
    pub(crate) fn new(chroot: &str, path: &str) -> Self {
        let inside = if path == path::ROOT && !chroot.is_empty() { "" } else { path };
        let mut full = String::with_capacity(chroot.len() + inside.len());
        full.push_str(chroot);
        full.push_str(inside);
        ZnodePath { full, chroot_bytes: chroot.len(), is_blank: path.is_empty() }
    }

    /// As the server sees it.
    pub(crate) fn full(&self) -> &str {
        &self.full
    }

    /// As the caller sees it.
    pub(crate) fn shown(&self) -> &str {
        match &self.full[self.chroot_bytes..] {
            "" if !self.is_blank => path::ROOT,
            inside => inside,
        }
    }

    /// Converts a path from a reply to one as the caller sees it.
    pub(crate) fn show(&self, full: &str) -> String {
        match full.get(self.chroot_bytes..) {
            None | Some("") => path::ROOT.to_owned(),
            Some(inside) => inside.to_owned(),
        }
    }

    /// Whether `full`, a path as the server sees it, is this one or below it.
    pub(crate) fn is_prefix_of(&self, full: &str) -> bool {
        self.full == path::ROOT || path::is_prefix(&self.full, full)
    }

    pub(crate) fn chroot_bytes(&self) -> usize {
        self.chroot_bytes
    }

    /// Returns the same path with a prefix before its last component.
    pub(crate) fn with_name_prefix(&self, prefix: &str) -> Self {
        let at = self.full.rfind('/').map_or(0, |slash| slash + 1);
        let full = format!("{}{prefix}{}", &self.full[..at], &self.full[at..]);
        ZnodePath { full, ..*self }
    }

    /// Returns the parent as the caller sees it, and the last component.
    pub(crate) fn parent_and_name(&self) -> (String, String) {
        let (parent, name) = path::split(self.shown()).unwrap_or(("", self.shown()));
        let parent = if parent.is_empty() { path::ROOT } else { parent };
        (parent.to_owned(), name.to_owned())
    }

    /// Checks the rules for znode paths.
    pub(crate) fn check(&self) -> Result<()> {
        // What the caller wrote must be a path by itself, not only below the chroot.
        if path::is_valid(self.shown()) { Ok(()) } else { Err(self.not_valid()) }
    }

    /// Checks the rules for a path whose name the server will append digits to. The name may be empty before that.
    pub(crate) fn check_sequential(&self) -> Result<()> {
        let numbered = format!("{}0", self.shown());
        if !self.is_blank && path::is_valid(&numbered) { Ok(()) } else { Err(self.not_valid()) }
    }

    fn not_valid(&self) -> Error {
        let text = if self.shown().starts_with('/') {
            "components must not be empty, \".\" or \"..\", and must not contain control characters"
        } else {
            "it must start with /"
        };
        let kind = ErrorKind::InvalidPath(format!("{:?}: {text}", self.shown()));
        Error::not_applied(kind)
    }
}

/// Fails unless `path` follows the rules for znode paths. Does not contact a server.
pub fn check_path(path: &str) -> Result<()> {
    ZnodePath::new("", path).check()
}

/// Converts an operation to what is submitted to the session.
pub(crate) fn submission<'a, O: Operation>(op: &'a O, client: &Client) -> Submission<'a> {
    let watch = op.watch().map(|(table, path)| WatchRequest {
        path: path.full(),
        table,
        lifetime: watch_lifetime(table, client),
        chroot_bytes: path.chroot_bytes(),
    });
    Submission { request: op.request(), watch }
}

fn watch_lifetime(table: WatchTable, client: &Client) -> WatchLifetime {
    match table {
        WatchTable::Persistent | WatchTable::Recursive if client.is_managed() => {
            WatchLifetime::Client
        }
        _ => WatchLifetime::Session,
    }
}

/// Adds the operation and the path to an error that has none.
pub(crate) fn locate<O: Operation>(op: &O, error: Error) -> Error {
    error.at(op.op(), op.shown_path())
}

/// Why a reply has no output.
#[derive(Debug)]
pub enum ReplyError {
    /// The operation succeeded, but its reply cannot be decoded.
    Malformed(DecodeError),
    /// The reply contains an error.
    Failure(Error),
}

impl From<DecodeError> for ReplyError {
    fn from(error: DecodeError) -> Self {
        ReplyError::Malformed(error)
    }
}

impl From<ReplyError> for Error {
    fn from(unreadable: ReplyError) -> Self {
        match unreadable {
            ReplyError::Malformed(error) => {
                Error::new(ErrorKind::Protocol(error), Outcome::Applied)
            }
            ReplyError::Failure(error) => error,
        }
    }
}

/// Reads a buffer of the body, without copying it.
pub(crate) fn read_data(
    body: &Bytes,
    reader: &mut JuteReader<'_>,
) -> std::result::Result<Bytes, DecodeError> {
    Ok(reader.buffer()?.map(|data| body.slice_ref(data)).unwrap_or_default())
}

/// Takes the one-shot watch that a read has set.
pub(crate) fn one_shot(answer: &mut Answer) -> std::result::Result<crate::Watch, DecodeError> {
    match answer.watch.take() {
        Some(ConfirmedWatch::OneShot(watch)) => Ok(watch),
        _ => Err(DecodeError::Null),
    }
}
