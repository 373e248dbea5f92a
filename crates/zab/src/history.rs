//! The end of the log, kept in memory: what a leader can send to a learner that is a little behind.
//!
//! A window over the log: `base`, then entries without a hole up to the last one that was appended.
//! What is older than the window is only in the tree and on disk. Entries are dropped at the front when the
//! window exceeds its limits, but never before they are applied, because a snapshot of the tree does
//! not contain them yet. Apache: `ZKDatabase.committedLog`; ours also holds what is not committed yet,
//! so a learner is never told to cut off a txn that the leader has but does not know to be committed.

use std::collections::VecDeque;

use bytes::Bytes;
use herdsman_proto::Zxid;

/// Limits of the window.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Txns.
    pub txns_max: usize,
    /// Bytes of their payloads.
    pub bytes_max: usize,
}

/// The window over the end of the log.
#[derive(Debug)]
pub struct History {
    limits: HistoryLimits,
    /// The txn before the first entry.
    base: Zxid,
    entries: VecDeque<(Zxid, Bytes)>,
    bytes: usize,
}

impl History {
    /// Returns an empty window that starts after `base`.
    #[must_use]
    pub fn new(limits: HistoryLimits, base: Zxid) -> Self {
        History { limits, base, entries: VecDeque::new(), bytes: 0 }
    }

    /// The last txn.
    #[must_use]
    pub fn last(&self) -> Zxid {
        self.entries.back().map_or(self.base, |(zxid, _)| *zxid)
    }

    /// The txn before the first one in the window.
    #[must_use]
    pub fn base(&self) -> Zxid {
        self.base
    }

    /// Adds a txn, which must continue the last one.
    pub fn push(&mut self, zxid: Zxid, payload: Bytes) {
        assert!(continues(self.last(), zxid), "{zxid} does not continue {}", self.last());
        self.bytes += payload.len();
        self.entries.push_back((zxid, payload));
    }

    /// Drops applied txns while the window exceeds its limits. While a learner is being sent something, only the limit
    /// in bytes counts: txns that arrive meanwhile will be sent to that learner next.
    pub fn trim(&mut self, applied: Zxid, is_sending: bool) {
        while let Some((zxid, payload)) = self.entries.front() {
            let has_too_many = self.entries.len() > self.limits.txns_max && !is_sending;
            let over = has_too_many || self.bytes > self.limits.bytes_max;
            if !over || *zxid > applied {
                return;
            }
            self.base = *zxid;
            self.bytes -= payload.len();
            self.entries.pop_front();
        }
    }

    /// The log was cut after `zxid`.
    pub fn cut_after(&mut self, zxid: Zxid) {
        while let Some((last, payload)) = self.entries.back()
            && *last > zxid
        {
            self.bytes -= payload.len();
            self.entries.pop_back();
        }
        if self.last() != zxid {
            *self = History::new(self.limits, zxid);
        }
    }

    /// Everything was replaced by a tree that contains `zxid`.
    pub fn restart_at(&mut self, zxid: Zxid) {
        *self = History::new(self.limits, zxid);
    }

    /// Whether the window begins after this txn or contains it.
    #[must_use]
    pub fn contains(&self, zxid: Zxid) -> bool {
        self.base == zxid || self.entries.binary_search_by_key(&zxid, |(zxid, _)| *zxid).is_ok()
    }

    /// The last txn of the window, or before it, that is not later than `zxid`.
    #[must_use]
    pub fn floor(&self, zxid: Zxid) -> Option<Zxid> {
        let count = self.entries.partition_point(|(other, _)| *other <= zxid);
        match count.checked_sub(1) {
            Some(index) => Some(self.entries[index].0),
            None => (self.base <= zxid).then_some(self.base),
        }
    }

    /// What follows `zxid`, oldest first.
    pub fn after(&self, zxid: Zxid) -> impl Iterator<Item = &(Zxid, Bytes)> {
        let start = self.entries.partition_point(|(other, _)| *other <= zxid);
        self.entries.range(start..)
    }
}

/// Whether `next` may follow `last` in the log of an ensemble, where no zxid carries over into the next epoch.
#[must_use]
pub fn continues(last: Zxid, next: Zxid) -> bool {
    last.is_continued_by(next) && next.counter() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zxid(epoch: u32, counter: i64) -> Zxid {
        Zxid(Zxid::start_of(epoch).0 | counter)
    }

    fn window() -> History {
        let mut history = History::new(HistoryLimits { txns_max: 3, bytes_max: 1000 }, zxid(1, 7));
        for next in [zxid(1, 8), zxid(1, 9), zxid(3, 1), zxid(3, 2)] {
            history.push(next, Bytes::from_static(b"txn"));
        }
        history
    }

    #[test]
    fn an_epoch_does_not_carry_over() {
        assert!(continues(zxid(1, 9), zxid(2, 1)));
        assert!(!continues(zxid(1, 0xffff_ffff), zxid(2, 0)));
    }

    #[test]
    fn what_is_not_applied_stays() {
        let mut history = window();
        history.trim(zxid(1, 7), false);
        assert_eq!(history.base(), zxid(1, 7));
        history.trim(zxid(3, 2), false);
        assert_eq!(history.base(), zxid(1, 8));
        assert_eq!(history.after(Zxid::ZERO).count(), 3);
    }

    #[test]
    fn while_a_learner_is_sent_something_only_bytes_count() {
        let mut history = window();
        history.trim(zxid(3, 2), true);
        assert_eq!(history.base(), zxid(1, 7));
        history.push(zxid(3, 3), Bytes::from(vec![0; 995]));
        history.trim(zxid(3, 3), true);
        assert_eq!(history.base(), zxid(3, 1));
    }

    #[test]
    fn txns_are_found_by_zxid() {
        let history = window();
        assert!(history.contains(zxid(1, 7)) && history.contains(zxid(3, 1)));
        assert!(!history.contains(zxid(2, 1)) && !history.contains(zxid(1, 6)));
        assert_eq!(history.floor(zxid(2, 5)), Some(zxid(1, 9)));
        assert_eq!(history.floor(zxid(1, 7)), Some(zxid(1, 7)));
        assert_eq!(history.floor(zxid(1, 6)), None);
        assert_eq!(history.after(zxid(1, 9)).count(), 2);
    }

    #[test]
    fn a_cut_before_the_window_leaves_it_empty() {
        let mut history = window();
        history.cut_after(zxid(1, 9));
        assert_eq!((history.base(), history.last()), (zxid(1, 7), zxid(1, 9)));
        history.cut_after(zxid(1, 3));
        assert_eq!((history.base(), history.last()), (zxid(1, 3), zxid(1, 3)));
    }
}
