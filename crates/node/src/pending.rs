//! Txns that are not committed yet, and the replies to send afterwards.

use std::collections::VecDeque;

use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};
use herdsman_zab::Check;

use crate::io::ConnId;

/// The client's request that a reply answers.
#[derive(Clone, Copy, Debug)]
pub struct RequestOrigin {
    /// Its connection.
    pub conn: ConnId,
    /// Its number.
    pub xid: Xid,
    /// Its op, for statistics.
    pub op: OpCode,
    /// When it arrived.
    pub since_ms: u64,
}

/// A txn or a reply that waits for a zxid to be committed.
#[derive(Debug)]
pub enum Pending {
    /// A txn, to be applied. Without an origin it is the server's own.
    Txn {
        /// The txn.
        entry: Box<Entry>,
        /// The client's request.
        origin: Option<RequestOrigin>,
    },
    /// A session to be opened.
    Connect {
        /// The createSession txn.
        entry: Box<Entry>,
        /// The connection that opens it.
        conn: ConnId,
        /// The read-only flag of the response, if the client understands it.
        read_only: Option<bool>,
    },
    /// A sync, answered in its turn.
    Sync {
        /// The client's request.
        origin: RequestOrigin,
        /// Echoed in the reply.
        path: Box<str>,
        /// The check that has to pass first, to show that this server still leads.
        check: Check,
    },
    /// A read that follows a write of its session.
    Read {
        /// The client's request.
        origin: RequestOrigin,
        /// Its body, as it was received.
        body: Box<[u8]>,
    },
    /// The end of a local session: needs no txn, but is answered in its turn.
    LocalClose {
        /// The client's request.
        origin: RequestOrigin,
        /// The session that ends.
        session: SessionId,
    },
    /// An error that takes no zxid, but is answered in its turn.
    Refusal {
        /// The client's request.
        origin: RequestOrigin,
        /// The error in the reply.
        code: ErrorCode,
    },
}

impl Pending {
    /// Returns the connection that waits for it.
    #[must_use]
    pub fn conn(&self) -> Option<ConnId> {
        match self {
            Pending::Txn { origin, .. } => origin.map(|origin| origin.conn),
            Pending::Connect { conn, .. } => Some(*conn),
            Pending::Sync { origin, .. }
            | Pending::Read { origin, .. }
            | Pending::Refusal { origin, .. }
            | Pending::LocalClose { origin, .. } => Some(origin.conn),
        }
    }
}

/// Everything in flight, in order.
#[derive(Debug, Default)]
pub struct InFlight {
    queue: VecDeque<(Zxid, Pending)>,
    /// The last check that was passed.
    passed: Check,
}

impl InFlight {
    /// Appends an item that waits for `zxid`.
    pub fn push(&mut self, zxid: Zxid, waiting: Pending) {
        assert!(self.queue.back().is_none_or(|(last, _)| *last <= zxid), "zxids go up");
        self.queue.push_back((zxid, waiting));
    }

    /// Takes the next item that is durable and, if it is a sync, has passed its check. A sync before something durable
    /// needs no check: a quorum has acknowledged what came after it.
    pub fn pop_ready(&mut self, durable: Zxid) -> Option<Pending> {
        self.ready(durable)?;
        self.queue.pop_front().map(|(_, waiting)| waiting)
    }

    fn ready(&self, durable: Zxid) -> Option<&Pending> {
        let (zxid, waiting) = self.queue.front()?;
        let is_ready = *zxid < durable || (*zxid == durable && self.has_passed(waiting));
        is_ready.then_some(waiting)
    }

    /// Notes that this server still led after this check began, and after all checks before it.
    pub fn check_passed(&mut self, check: Check) {
        self.passed = check;
    }

    /// Whether it does not wait for a check.
    #[must_use]
    pub fn has_passed(&self, waiting: &Pending) -> bool {
        !matches!(waiting, Pending::Sync { check, .. } if *check > self.passed)
    }

    /// Returns the txn that [`InFlight::pop_ready`] would return next, if the next item is one.
    #[must_use]
    pub fn next_txn(&self, durable: Zxid) -> Option<&Entry> {
        match self.ready(durable)? {
            Pending::Txn { entry, .. } | Pending::Connect { entry, .. } => Some(entry),
            _ => None,
        }
    }

    /// Returns the zxid that the last item waits for.
    #[must_use]
    pub fn last_zxid(&self) -> Option<Zxid> {
        self.queue.back().map(|(zxid, _)| *zxid)
    }

    /// Whether [`InFlight::pop_ready`] would return something.
    #[must_use]
    pub fn has_ready(&self, durable: Zxid) -> bool {
        self.ready(durable).is_some()
    }

    /// Drops all replies; only the txns stay, which may be agreed on later.
    pub fn forget_origins(&mut self) {
        let txns = std::mem::take(&mut self.queue).into_iter();
        let txns = txns.filter_map(|(zxid, waiting)| match waiting {
            Pending::Txn { entry, .. } | Pending::Connect { entry, .. } => {
                Some((zxid, Pending::Txn { entry, origin: None }))
            }
            Pending::Sync { .. }
            | Pending::Read { .. }
            | Pending::LocalClose { .. }
            | Pending::Refusal { .. } => None,
        });
        self.queue = txns.collect();
    }

    /// Drops everything after this txn: the log was cut there, so nothing later will be agreed on.
    pub fn cut_after(&mut self, zxid: Zxid) {
        self.queue.retain(|(waiting, _)| *waiting <= zxid);
    }

    /// Drops everything: the history has been replaced, so none of it will be agreed on.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns how many items are in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns how many of them are syncs.
    #[must_use]
    pub fn syncs(&self) -> usize {
        let waiting = self.queue.iter().map(|(_, waiting)| waiting);
        waiting.filter(|waiting| matches!(waiting, Pending::Sync { .. })).count()
    }

    /// Returns the connections that wait for something.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.queue.iter().filter_map(|(_, waiting)| waiting.conn())
    }
}
