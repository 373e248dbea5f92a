//! Txns on their way to being durable, and what hangs on each: an answer to give afterwards.

use std::collections::VecDeque;

use herdsman_proto::txn::Entry;
use herdsman_proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};
use herdsman_zab::Check;

use crate::io::ConnId;

/// The request behind a txn.
#[derive(Clone, Copy, Debug)]
pub struct RequestOrigin {
    /// On which connection.
    pub conn: ConnId,
    /// Its number.
    pub xid: Xid,
    /// What it asked for, for statistics.
    pub op: OpCode,
    /// When it came in.
    pub since_ms: u64,
}

/// What waits for a zxid to be durable.
#[derive(Debug)]
pub enum Pending {
    /// A txn, to be applied. Without an origin it is the server's own.
    Txn {
        /// The txn.
        entry: Box<Entry>,
        /// Who asked for it.
        origin: Option<RequestOrigin>,
    },
    /// A session to be opened.
    Connect {
        /// The createSession txn.
        entry: Box<Entry>,
        /// For whom.
        conn: ConnId,
        /// The client understands the read-only byte.
        read_only: Option<bool>,
    },
    /// A sync, answered in its turn.
    Sync {
        /// Who asked.
        origin: RequestOrigin,
        /// Echoed.
        path: Box<str>,
        /// What has to be passed before, to show that this server still leads.
        check: Check,
    },
    /// A read behind a write of its session.
    Read {
        /// Who asked.
        origin: RequestOrigin,
        /// The request, as it came.
        body: Box<[u8]>,
    },
    /// A client's goodbye to its local session: no txn, but its turn.
    LocalClose {
        /// Who asked.
        origin: RequestOrigin,
        /// Which session ends.
        session: SessionId,
    },
    /// An error that takes no zxid but its turn.
    Refusal {
        /// Who asked.
        origin: RequestOrigin,
        /// What to say.
        code: ErrorCode,
    },
}

impl Pending {
    /// The connection that waits for it.
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
    /// Adds what waits for `zxid`.
    pub fn push(&mut self, zxid: Zxid, waiting: Pending) {
        assert!(self.queue.back().is_none_or(|(last, _)| *last <= zxid), "zxids go up");
        self.queue.push_back((zxid, waiting));
    }

    /// The next one that is durable and, if it is a sync, has passed its check. A sync in front of something durable
    /// needs none: a quorum has acknowledged what came after it.
    pub fn pop_ready(&mut self, durable: Zxid) -> Option<Pending> {
        self.ready(durable)?;
        self.queue.pop_front().map(|(_, waiting)| waiting)
    }

    fn ready(&self, durable: Zxid) -> Option<&Pending> {
        let (zxid, waiting) = self.queue.front()?;
        let is_ready = *zxid < durable || (*zxid == durable && self.has_passed(waiting));
        is_ready.then_some(waiting)
    }

    /// This server still led after the check began, and after all checks before it.
    pub fn check_passed(&mut self, check: Check) {
        self.passed = check;
    }

    /// Whether no check holds it up.
    #[must_use]
    pub fn has_passed(&self, waiting: &Pending) -> bool {
        !matches!(waiting, Pending::Sync { check, .. } if *check > self.passed)
    }

    /// The txn that [`InFlight::pop_ready`] would give next, if it is one.
    #[must_use]
    pub fn next_txn(&self, durable: Zxid) -> Option<&Entry> {
        match self.ready(durable)? {
            Pending::Txn { entry, .. } | Pending::Connect { entry, .. } => Some(entry),
            _ => None,
        }
    }

    /// What the last one waits for.
    #[must_use]
    pub fn last_zxid(&self) -> Option<Zxid> {
        self.queue.back().map(|(zxid, _)| *zxid)
    }

    /// [`InFlight::pop_ready`] would give something.
    #[must_use]
    pub fn has_ready(&self, durable: Zxid) -> bool {
        self.ready(durable).is_some()
    }

    /// Nobody is answered any more; only the txns stay, which may be agreed on one day.
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

    /// The log was cut after this txn: nothing later will be agreed on.
    pub fn cut_after(&mut self, zxid: Zxid) {
        self.queue.retain(|(waiting, _)| *waiting <= zxid);
    }

    /// The history has been replaced: nothing of this will be agreed on.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many are in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// How many of them are syncs.
    #[must_use]
    pub fn syncs(&self) -> usize {
        let waiting = self.queue.iter().map(|(_, waiting)| waiting);
        waiting.filter(|waiting| matches!(waiting, Pending::Sync { .. })).count()
    }

    /// Connections that wait for something.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.queue.iter().filter_map(|(_, waiting)| waiting.conn())
    }
}
