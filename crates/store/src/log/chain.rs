//! Decides which txns of a log continue a snapshot. Pure. In: the parts of a log in order. Out: for each record
//! whether it may be applied, and the first fault that must not be skipped.
//!
//! The rules:
//! - What the snapshot covers does not matter: damage, gaps, steps back.
//! - A txn may be applied if its zxid is the last one plus one; or if it is the first one of a later epoch and nothing
//!   shows that there was a txn between the two: no damage, no snapshot's name, and not the name of its own file.
//! - Damage is harmless if what follows it is covered by the snapshot or is the very next txn, also if only the name of
//!   the next file shows it: then an earlier start has dropped what is damaged. Anything else after damage may be after
//!   a gap.
//! - A write that was never completed is not a fault: it was never acknowledged.
//! - Records that repeat a zxid do not come here ([`super::record`]). They may name a file, with counter 0.
//!
//! Reading applies these rules record by record, planning again piece by piece, and both get the same
//! result because the rules are here.

use herdsman_proto::{DecodeError, Zxid};

use super::ending::LogDamage;
use super::lost::LostRecords;
use super::pieces::{LogPiece, PieceContent};
use crate::names::LogName;

/// The first fault in a log that must not be skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFault {
    /// In which file.
    pub file: LogName,
    /// Its offset: the file is good up to here.
    pub offset: u64,
    /// The last txn before it, in the log or in the snapshot.
    pub last_good: Zxid,
    /// The kind of fault.
    pub kind: LogFaultKind,
    /// Of damage: the records that were there.
    pub lost: LostRecords,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFaultKind {
    /// Damage that no snapshot covers.
    Damaged {
        /// What is wrong.
        why: &'static str,
        /// Offset and zxid of the next valid record in the file.
        next_valid: Option<(u64, Zxid)>,
    },
    /// Txns are missing before this one.
    Gap {
        /// The txn after the gap.
        found: Zxid,
    },
    /// The zxid is not later than the one before.
    Backwards {
        /// The zxid.
        found: Zxid,
    },
    /// The txn in a valid record cannot be decoded.
    Undecodable {
        /// Its zxid.
        zxid: Zxid,
        /// What is wrong.
        error: DecodeError,
    },
}

/// The txns that continue a snapshot, as far as the log was read.
pub(crate) struct Chain<'a> {
    /// The snapshot has everything up to here.
    base: Zxid,
    /// The last txn that may be applied, or `base`.
    last: Zxid,
    /// The one before it.
    previous: Zxid,
    known: &'a [Zxid],
    /// The current file, and whether a record of it was read.
    file: Option<(LogName, bool)>,
    /// Damage after `last` that nothing has shown to be harmless yet.
    doubt: Option<LogFault>,
    fault: Option<LogFault>,
}

impl<'a> Chain<'a> {
    /// Starts after a snapshot. The txns in `known` have existed.
    pub(crate) fn new(base: Zxid, known: &'a [Zxid]) -> Self {
        Chain { base, last: base, previous: base, known, file: None, doubt: None, fault: None }
    }

    /// The last txn that may be applied.
    pub(crate) fn last(&self) -> Zxid {
        self.last
    }

    /// The fault that must not be skipped, if there is one so far.
    pub(crate) fn fault(&self) -> Option<&LogFault> {
        self.fault.as_ref()
    }

    /// Ends the log: damage that nothing has shown to be harmless is a fault.
    pub(crate) fn finish(self) -> (Zxid, Option<LogFault>) {
        (self.last, self.fault.or(self.doubt))
    }

    /// Begins a file.
    pub(crate) fn start_file(&mut self, name: LogName) {
        self.file = Some((name, false));
        if name.zxid == self.last.next() {
            self.doubt = None;
        }
    }

    /// Ends a file. A file without records is named by the txn that it was created for. That one must come next, or
    /// those before it are missing.
    pub(crate) fn end_file(&mut self, name: LogName) {
        let is_empty = matches!(self.file.take(), Some((_, false)));
        let names_txn = name.zxid.counter() > 0;
        if is_empty && names_txn && name.zxid > self.last && !self.joins(name.zxid, None) {
            self.fail(name, 0, LogFaultKind::Gap { found: name.zxid });
        }
    }

    /// Adds a record. Returns whether it may be applied.
    pub(crate) fn record(&mut self, file: LogName, offset: u64, zxid: Zxid) -> bool {
        let name = self.file.replace((file, true)).filter(|(_, seen)| !seen);
        if self.fault.is_some() {
            return false;
        }
        if zxid <= self.last {
            if self.last == self.base {
                self.doubt = None;
            } else {
                self.fail(file, offset, LogFaultKind::Backwards { found: zxid });
            }
            return false;
        }
        if !self.joins(zxid, name.map(|(name, _)| name.zxid)) {
            self.fail(file, offset, LogFaultKind::Gap { found: zxid });
            return false;
        }
        self.previous = std::mem::replace(&mut self.last, zxid);
        self.doubt = None;
        true
    }

    /// Adds bytes that are neither a record nor a torn write.
    pub(crate) fn damage(&mut self, file: LogName, offset: u64, damage: &LogDamage) {
        let &LogDamage { why, next_valid, .. } = damage;
        let kind = LogFaultKind::Damaged { why, next_valid };
        let last_good = self.last;
        self.doubt.get_or_insert_with(|| {
            let lost = damage.lost.clone();
            LogFault { file, offset, last_good, kind, lost }
        });
    }

    /// Reports that the last record cannot be decoded.
    pub(crate) fn undecodable(
        &mut self,
        file: LogName,
        offset: u64,
        zxid: Zxid,
        error: DecodeError,
    ) {
        if self.fault.is_none() && zxid == self.last {
            self.last = self.previous;
            self.fail(file, offset, LogFaultKind::Undecodable { zxid, error });
        }
    }

    /// Adds a whole piece, as it was read.
    pub(crate) fn piece(&mut self, piece: &LogPiece) {
        let LogPiece { file, start, .. } = *piece;
        if self.file.is_none() {
            self.start_file(file);
        }
        match piece.content {
            PieceContent::Run { first, last, .. } => self.run(file, start, (first, last)),
            PieceContent::Undecodable { zxid, error } => {
                if self.record(file, start, zxid) {
                    self.undecodable(file, start, zxid, error);
                }
            }
            PieceContent::Damage { why, next_valid } => {
                let (ids, is_complete) = (piece.lost.clone(), piece.lost_is_complete);
                let lost = LostRecords { ids, is_complete };
                self.damage(file, start, &LogDamage { why, next_valid, lost });
            }
            PieceContent::Torn => {}
            PieceContent::End => self.end_file(file),
        }
    }

    /// Adds a run of records without gaps.
    fn run(&mut self, file: LogName, start: u64, (first, last): (Zxid, Zxid)) {
        let is_covered_in_part = self.last == self.base && first <= self.base && last > self.base;
        let joint = if is_covered_in_part { self.base.next() } else { first };
        if self.record(file, start, joint) {
            self.last = last;
        }
    }

    /// Whether there is nothing between the last txn and this one, in a file of the given name.
    fn joins(&self, zxid: Zxid, name: Option<Zxid>) -> bool {
        let is_between = |known: Zxid| self.last < known && known < zxid;
        zxid == self.last.next()
            || self.last.is_continued_by(zxid)
                && self.doubt.is_none()
                && !self.known.iter().copied().any(is_between)
                && !name.is_some_and(|name| name.counter() > 0 && is_between(name))
    }

    /// Stops: nothing is applied from here on. If there is damage before, that is the fault.
    fn fail(&mut self, file: LogName, offset: u64, kind: LogFaultKind) {
        let lost = LostRecords::none();
        let fault = LogFault { file, offset, last_good: self.last, kind, lost };
        let first = self.doubt.take().unwrap_or(fault);
        self.fault.get_or_insert(first);
    }
}
