//! What a node hears and what it asks for: two closed lists.

use std::ops::Range;
use std::sync::Arc;

use herdsman_proto::connect::ConnectRequest;
use herdsman_proto::request::Text;
use herdsman_proto::{Id, OpCode, SessionId, WriteRequest, Xid, Zxid};
use herdsman_tree::Watcher;

use crate::passwords::PasswordFault;

/// A client's connection, unique in the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

impl ConnId {
    /// The connection as the watch tables know it.
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

/// The time, told from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Never goes back; for timeouts.
    pub monotonic_ms: u64,
    /// Since 1970; for what clients see as ctime and mtime.
    pub wall_ms: i64,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A connection's first frame.
    Connect {
        /// Which one.
        conn: ConnId,
        /// What it asks for.
        request: ConnectRequest<'a>,
        /// What its address proves it to be.
        ids: Arc<[Id]>,
    },
    /// A request that has to take its turn among the writes.
    Request {
        /// From whom.
        conn: ConnId,
        /// Its number.
        xid: Xid,
        /// What.
        request: ClientRequest<'a>,
        /// The same as it came, to be handed on to a leader.
        body: &'a [u8],
    },
    /// A connection has proven to be somebody.
    Identified {
        /// Which one.
        conn: ConnId,
        /// Everything it has proven so far.
        ids: Arc<[Id]>,
    },
    /// The session's client is alive.
    Touch {
        /// On this connection.
        conn: ConnId,
    },
    /// A connection is gone.
    Disconnected {
        /// Which one.
        conn: ConnId,
    },
    /// Everything up to here is durable.
    Flushed {
        /// The last durable txn.
        zxid: Zxid,
    },
    /// The log can or cannot be written.
    Storage(StorageState),
    /// Something about the other servers, or about what agreement with them asked of the disk.
    Peer(herdsman_zab::Input),
    /// The whole process was stopped for a while and heard nobody: its clients are not to blame.
    ProcessPaused,
    /// Time has passed.
    Tick,
}

/// A request that has to take its turn among the writes.
#[derive(Clone, Debug)]
pub enum ClientRequest<'a> {
    /// A write.
    Write(WriteRequest<'a>),
    /// A write that could not be decoded.
    Malformed(OpCode),
    /// Answer when everything before it is visible.
    Sync {
        /// Echoed.
        path: Text<'a>,
    },
    /// Goodbye.
    CloseSession,
    /// A read that follows something of the above. It is answered when all of it is.
    Read(OpCode),
}

/// Whether the log takes txns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageState {
    /// It does.
    Writable,
    /// No room. What is in flight waits; new writes are refused until there is room again.
    Full,
    /// Broken for good: only a restart helps.
    Failed,
}

/// Something to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A standalone server's: append a txn to the log and report [`Input::Flushed`] when it is
    /// durable.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its payload, in [`Outputs::bytes`].
        payload: Range<usize>,
    },
    /// Send frames to a client.
    Send {
        /// To whom.
        conn: ConnId,
        /// The frames, in [`Outputs::bytes`].
        frames: Range<usize>,
        /// The request this answers; `None` for a watch event.
        answers: Option<Answered>,
    },
    /// The session of a connection is established; its requests may be read. Comes before the
    /// frame that tells the client.
    Attached {
        /// Which one.
        conn: ConnId,
        /// Its session.
        session: SessionId,
        /// The timeout in force.
        timeout_ms: i32,
    },
    /// Close a connection once what was sent before is out.
    Close {
        /// Which one.
        conn: ConnId,
        /// Why, for the log.
        reason: CloseReason,
    },
    /// What agreement with the other servers asks for. Never `Commit`: that is the node's own
    /// business.
    Peer(herdsman_zab::Output),
    /// After this txn the tree is not what the leader's was.
    DigestMismatch {
        /// Which.
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
    /// When it came in.
    pub since_ms: u64,
    /// The zxid in the reply.
    pub zxid: Zxid,
    /// The reply says that it failed.
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
        /// Which session.
        session: SessionId,
        /// What is wrong with it.
        fault: PasswordFault,
    },
    /// The session expired while the client was connected.
    SessionExpired,
    /// The client said goodbye.
    SessionClosed,
    /// The session continues on another connection.
    SessionMoved,
    /// A write is in flight whose fate is unknown, because the log cannot be written.
    StorageUnavailable,
    /// This server has no leader, or is not meant to serve clients.
    NotServing,
    /// This server serves reads only, and the client wants more.
    NotReadOnlyClient,
    /// This server serves reads only, and a session of the ensemble cannot go on here.
    GlobalSession,
}

/// A list of things to carry out, in order.
#[derive(Debug, Default)]
pub struct Outputs {
    /// What to do.
    pub list: Vec<Output>,
    /// The bytes that the list refers to.
    pub bytes: Vec<u8>,
}

impl Outputs {
    /// Outputs that have become this large are carried out before more is added.
    const BYTES_MAX: usize = 1 << 20;

    /// Forgets everything, and keeps the memory unless it is much.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
        self.bytes.shrink_to(Self::BYTES_MAX);
    }

    /// They should be carried out now: replies may be large, and there may be hundreds of them.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.bytes.len() >= Self::BYTES_MAX
    }

    /// Appends bytes and tells where they are.
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
