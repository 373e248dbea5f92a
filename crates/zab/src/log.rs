//! The part of the common history that this server has, and how far it is durable, committed and applied.
//!
//! `applied ≤ announced ≤ committed`, `announced ≤ flushed ≤ last` (a server that has just started
//! has applied its whole log, agreed on or not, and serves no clients until it knows which). A txn is announced,
//! and with that applied, only once it is both agreed on and durable here: a tree that is never
//! ahead of its own log survives every crash, and a disk that fails leaves this server behind, never
//! wrong (ZOOKEEPER-4882). Apache applies without waiting for its own disk.

use bytes::Bytes;
use herdsman_proto::Zxid;

use crate::history::{History, HistoryLimits, continues};
use crate::io::{Output, TreeAfterCut};

/// The state of the log, as far as agreement needs it.
#[derive(Debug)]
pub struct Log {
    history: History,
    flushed: Zxid,
    committed: Zxid,
    /// The last zxid up to `committed` that is known to name a txn.
    committed_txn: Zxid,
    announced: Zxid,
    applied: Zxid,
    /// Whether txns are written to disk; an observer may keep its log in memory.
    storage: LogStorage,
}

/// Where the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStorage {
    /// On disk.
    OnDisk,
    /// In memory only.
    InMemory,
}

impl Log {
    /// Returns the log of a server that starts: its tree contains all of it, agreed on or not.
    #[must_use]
    pub fn new(
        storage: LogStorage,
        limits: HistoryLimits,
        base: Zxid,
        tail: Vec<(Zxid, Bytes)>,
    ) -> Self {
        let mut history = History::new(limits, base);
        for (zxid, payload) in tail {
            history.push(zxid, payload);
        }
        let last = history.last();
        Log {
            history,
            flushed: last,
            committed: Zxid::ZERO,
            committed_txn: Zxid::ZERO,
            announced: last,
            applied: last,
            storage,
        }
    }

    /// Returns the window over its end.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the last txn that was appended, durable or not.
    #[must_use]
    pub fn last(&self) -> Zxid {
        self.history.last()
    }

    /// Returns the last durable txn.
    #[must_use]
    pub fn flushed(&self) -> Zxid {
        self.flushed
    }

    /// Returns the zxid up to which everything is known to be agreed on. It may be the start of an epoch, with which a
    /// tree is labelled that contains everything before this epoch.
    #[must_use]
    pub fn committed(&self) -> Zxid {
        self.committed
    }

    /// Returns the last txn that is known to be agreed on. Every later leader has it in its history, which may end
    /// before [`committed`](Log::committed) if that is only the start of an epoch.
    #[must_use]
    pub fn committed_txn(&self) -> Zxid {
        self.committed_txn
    }

    /// Returns a txn that the tree contains; it may contain later ones.
    #[must_use]
    pub fn applied(&self) -> Zxid {
        self.applied
    }

    /// Returns where the log is kept.
    #[must_use]
    pub fn storage(&self) -> LogStorage {
        self.storage
    }

    /// Writes txns to disk from now on. Earlier ones are not there: the caller has to replace everything by a
    /// snapshot first.
    pub fn keep_on_disk(&mut self) {
        self.storage = LogStorage::OnDisk;
    }

    /// Whether a txn may come next.
    #[must_use]
    pub fn continues_with(&self, zxid: Zxid) -> bool {
        continues(self.last(), zxid)
    }

    /// Whether everything that was appended is durable.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.flushed >= self.last()
    }

    /// Appends a txn.
    pub fn append(&mut self, zxid: Zxid, payload: Bytes, out: &mut Vec<Output>) {
        self.history.push(zxid, payload.clone());
        out.push(Output::Append { zxid, payload, storage: self.storage });
        if self.storage == LogStorage::InMemory {
            self.flushed = zxid;
        }
    }

    /// Notes that everything up to this txn is durable.
    pub fn handle_flushed(&mut self, zxid: Zxid, out: &mut Vec<Output>) {
        self.flushed = self.flushed.max(zxid);
        self.announce(out);
    }

    /// Notes that everything up to this txn is agreed on.
    pub fn commit(&mut self, zxid: Zxid, out: &mut Vec<Output>) {
        self.committed = self.committed.max(zxid);
        if zxid.counter() != 0 {
            self.committed_txn = self.committed_txn.max(zxid);
        }
        self.announce(out);
    }

    fn announce(&mut self, out: &mut Vec<Output>) {
        let zxid = self.committed.min(self.flushed);
        if zxid > self.announced {
            self.announced = zxid;
            out.push(Output::Commit { zxid });
        }
    }

    /// Notes that the tree contains everything up to this txn. `is_sending` says whether a learner is being sent
    /// something.
    pub fn handle_applied(&mut self, zxid: Zxid, is_sending: bool) {
        self.applied = self.applied.max(zxid);
        self.history.trim(self.applied, is_sending);
    }

    /// Whether nothing after this txn was announced: the tree contains none of it.
    #[must_use]
    pub fn is_unannounced_after(&self, zxid: Zxid) -> bool {
        self.announced <= zxid
    }

    /// Notes that the log was cut. A tree that was loaded again contains all that is left.
    pub fn handle_truncated(&mut self, zxid: Zxid, tree: TreeAfterCut) {
        self.history.cut_after(zxid);
        self.flushed = zxid;
        if tree == TreeAfterCut::Reloaded {
            self.announced = zxid;
            self.applied = zxid;
        }
    }

    /// Notes that everything was replaced by a snapshot.
    pub fn handle_installed(&mut self, zxid: Zxid) {
        self.history.restart_at(zxid);
        self.flushed = zxid;
        self.announced = zxid;
        self.applied = zxid;
    }
}
