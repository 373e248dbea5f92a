//! The inputs and outputs of a node, each a closed list.

use std::ops::Range;
use std::sync::Arc;

use herdsman_proto::connect::ConnectRequest;
use herdsman_proto::request::Text;
use herdsman_proto::{EventType, Id, OpCode, SessionId, WriteRequest, Xid, Zxid};
use herdsman_tree::Watcher;

use crate::passwords::PasswordFault;

/// A client's connection, unique in the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

impl ConnId {
    /// Returns the connection's id in the watch tables.
    #[must_use]
    pub fn watcher(self) -> Watcher {
        Watcher(self.0)
    }
}

impl From<Watcher> for ConnId {
    fn from(watcher: Watcher) -> Self {
        ConnId(watcher.0)
    }
}

/// The time, passed in by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Never goes back; for timeouts.
    pub monotonic_ms: u64,
    /// Since 1970; for what clients see as ctime and mtime.
    pub wall_ms: i64,
}

/// An event.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A connection's first frame has arrived.
    Connect {
        /// The connection.
        conn: ConnId,
        /// The request in that frame.
        request: ConnectRequest<'a>,
        /// The ids that its address proves.
        ids: Arc<[Id]>,
    },
    /// A request has arrived that has to be ordered with the writes.
    Request {
        /// The connection on which it came.
        conn: ConnId,
        /// Its number.
        xid: Xid,
        /// The decoded request.
        request: ClientRequest<'a>,
        /// Its body as it was received, to be forwarded to a leader.
        body: &'a [u8],
    },
    /// A connection has authenticated.
    Identified {
        /// The connection.
        conn: ConnId,
        /// All ids that it has proven so far.
        ids: Arc<[Id]>,
    },
    /// The session's client is alive.
    Touch {
        /// Its connection.
        conn: ConnId,
    },
    /// A connection is closed or lost.
    Disconnected {
        /// The connection.
        conn: ConnId,
    },
    /// Everything up to this txn is durable.
    Flushed {
        /// The last durable txn.
        zxid: Zxid,
    },
    /// Whether the log can be written has changed.
    Storage(StorageState),
    /// An event for agreement with the other servers, from the network or from the disk.
    Peer(herdsman_zab::Input),
    /// The whole process was paused for a while and received nothing: sessions must not expire because of that.
    ProcessPaused,
    /// Time has passed.
    Tick,
}

/// A request that has to be ordered with the writes.
#[derive(Clone, Debug)]
pub enum ClientRequest<'a> {
    /// A write.
    Write(WriteRequest<'a>),
    /// A write that could not be decoded.
    Malformed(OpCode),
    /// A sync: answered when everything before it is visible.
    Sync {
        /// Echoed in the reply.
        path: Text<'a>,
    },
    /// Ends the session.
    CloseSession,
    /// A read that follows one of the above. It is answered after all of them.
    Read(OpCode),
}

/// Whether the log accepts txns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageState {
    /// It does.
    Writable,
    /// The disk is full. Writes in flight wait; new writes are refused until there is room again.
    Full,
    /// It has failed for good; the server has to be restarted.
    Failed,
}

/// An action for the driver to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Only of a standalone server: append a txn to the log and report [`Input::Flushed`] when it is
    /// durable.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its payload, in [`Outputs::bytes`].
        payload: Range<usize>,
    },
    /// Send frames to a client.
    Send {
        /// The connection.
        conn: ConnId,
        /// The frames, in [`Outputs::bytes`].
        frames: Range<usize>,
        /// The request this answers; `None` for the response to a connect request.
        answers: Option<Answered>,
    },
    /// Send a watch event to its watchers.
    Event {
        /// What happened.
        kind: EventType,
        /// The frame, in [`Outputs::bytes`].
        frame: Range<usize>,
        /// The connections, in [`Outputs::watchers`].
        watchers: Range<usize>,
    },
    /// The session of a connection is established; its requests may be read. Precedes the
    /// frame with the connect response.
    Attached {
        /// The connection.
        conn: ConnId,
        /// Its session.
        session: SessionId,
        /// The timeout in force.
        timeout_ms: i32,
    },
    /// Close a connection once earlier frames are out.
    Close {
        /// The connection.
        conn: ConnId,
        /// The reason, for the log.
        reason: CloseReason,
    },
    /// An action that agreement with the other servers requests. Never `Commit`: the node handles that itself.
    Peer(herdsman_zab::Output),
    /// After this txn the tree's digest differs from the leader's.
    DigestMismatch {
        /// The txn.
        zxid: Zxid,
    },
}

/// The request that an output answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its number.
    pub xid: Xid,
    /// Its op, for statistics.
    pub op: OpCode,
    /// When it arrived.
    pub since_ms: u64,
    /// The zxid in the reply.
    pub zxid: Zxid,
    /// Whether the reply reports an error.
    pub failed: bool,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client has seen a later txn than this server.
    ClientAhead,
    /// The session is over.
    SessionInvalid,
    /// The password of the session is wrong.
    WrongPassword {
        /// The session.
        session: SessionId,
        /// What is wrong with the password.
        fault: PasswordFault,
    },
    /// The session expired while the client was connected.
    SessionExpired,
    /// The session's end is proposed and not committed: it may still go on under another leader.
    SessionEnding,
    /// The client closed its session.
    SessionClosed,
    /// The session continues on another connection.
    SessionMoved,
    /// The log cannot be written, so the outcome of a write in flight is unknown.
    StorageUnavailable,
    /// This server has no leader, or is configured not to serve clients.
    NotServing,
    /// This server serves reads only, and the client does not accept that.
    NotReadOnlyClient,
    /// This server serves reads only, and a session of the ensemble cannot go on here.
    GlobalSession,
    /// One txn caused too many events; the client lost some, and must set its watches again.
    TooManyEvents,
}

/// A list of actions, in order.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The actions.
    pub list: Vec<Output>,
    /// The bytes that the list refers to.
    pub bytes: Vec<u8>,
    /// The watchers that the list refers to.
    pub watchers: Vec<ConnId>,
}

impl Outputs {
    /// Outputs that have become this large are carried out before more is added.
    const BYTES_MAX: usize = 1 << 20;
    /// Outputs for this many watchers are also carried out before more is added.
    const WATCHERS_MAX: usize = 1 << 16;
    /// Entries for which the lists keep memory.
    const LIST_KEPT: usize = 1 << 14;

    /// Clears the lists, and keeps their memory unless it is large.
    pub fn clear(&mut self) {
        self.list.clear();
        self.list.shrink_to(Self::LIST_KEPT);
        self.bytes.clear();
        self.bytes.shrink_to(Self::BYTES_MAX);
        self.watchers.clear();
        self.watchers.shrink_to(Self::LIST_KEPT);
    }

    /// Whether the outputs should be carried out now: replies may be large, and there may be hundreds of them.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.bytes.len() >= Self::BYTES_MAX || self.watchers.len() >= Self::WATCHERS_MAX
    }

    /// Appends bytes and returns their range.
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let start = self.bytes.len();
        fill(&mut self.bytes);
        start..self.bytes.len()
    }

    pub(crate) fn send(
        &mut self,
        conn: ConnId,
        answers: Option<Answered>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let frames = self.fill(fill);
        self.list.push(Output::Send { conn, frames, answers });
    }

    pub(crate) fn close(&mut self, conn: ConnId, reason: CloseReason) {
        self.list.push(Output::Close { conn, reason });
    }
}
