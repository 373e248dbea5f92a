//! Which txns of a log continue a snapshot. Pure: in come the places of a log in order, out comes for each record
//! whether it may be applied, and the first thing that must not be stepped over.
//!
//! The rules:
//! - What the snapshot covers is of no interest, whatever it is: damage, holes, steps back.
//! - A txn may be applied if its zxid is the last one plus one; or if it is the first one of a later epoch and nothing
//!   shows that a txn stood between the two: no damage, no snapshot's name, and not the name of its own file.
//! - Damage is harmless where what follows it is covered by the snapshot or is the very next txn, be it by the name of
//!   the next file: then an earlier start has dropped what is damaged. Anything else behind damage may be behind a
//!   hole.
//! - A write that was never completed is none of these: nobody was told about it.
//!
//! Reading asks these questions record by record, planning asks them again piece by piece, and both come to the same
//! answer because it is given here.

use herdsman_proto::{DecodeError, Zxid};

use super::pieces::{LogPiece, PieceContent};
use super::walk::follows;
use crate::names::LogName;

/// The first thing in a log that must not be stepped over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFault {
    /// In which file.
    pub file: LogName,
    /// Where: up to here that file is good.
    pub offset: u64,
    /// The last txn before it, in the log or in the snapshot.
    pub last_good: Zxid,
    /// What it is.
    pub kind: LogFaultKind,
}

/// What must not be stepped over.
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
        /// The txn behind the gap.
        found: Zxid,
    },
    /// The zxid is not later than the one before.
    Backwards {
        /// The zxid.
        found: Zxid,
    },
    /// A valid record holds no txn that we know.
    Undecodable {
        /// Its zxid.
        zxid: Zxid,
        /// What is wrong.
        error: DecodeError,
    },
}

/// The txns that continue a snapshot, as far as the log was looked at.
pub(crate) struct Chain<'a> {
    /// The snapshot has everything up to here.
    base: Zxid,
    /// The last txn that may be applied, or `base`.
    last: Zxid,
    /// The one before it.
    previous: Zxid,
    known: &'a [Zxid],
    /// The file that is looked at, and whether a record of it was seen.
    file: Option<(LogName, bool)>,
    /// Damage behind `last` that nothing has shown to be harmless yet.
    doubt: Option<LogFault>,
    trouble: Option<LogFault>,
}

impl<'a> Chain<'a> {
    /// Starts behind a snapshot. The txns in `known` have been.
    pub(crate) fn new(base: Zxid, known: &'a [Zxid]) -> Self {
        Chain { base, last: base, previous: base, known, file: None, doubt: None, trouble: None }
    }

    /// The last txn that may be applied.
    pub(crate) fn last(&self) -> Zxid {
        self.last
    }

    /// What must not be stepped over, if there is anything so far.
    pub(crate) fn trouble(&self) -> Option<&LogFault> {
        self.trouble.as_ref()
    }

    /// Everything was looked at: damage that nothing has explained is trouble.
    pub(crate) fn finish(self) -> (Zxid, Option<LogFault>) {
        (self.last, self.trouble.or(self.doubt))
    }

    /// A file begins.
    pub(crate) fn start_file(&mut self, name: LogName) {
        self.file = Some((name, false));
        if name.zxid == self.last.next() {
            self.doubt = None;
        }
    }

    /// A file ends. One without records is named by the txn that it was made for. That one must come next, or
    /// those before it are missing.
    pub(crate) fn end_file(&mut self, name: LogName) {
        let is_empty = matches!(self.file.take(), Some((_, false)));
        if is_empty && name.zxid > self.last && !self.joins(name.zxid, None) {
            self.fail(name, 0, LogFaultKind::Gap { found: name.zxid });
        }
    }

    /// A record. True if it may be applied.
    pub(crate) fn record(&mut self, file: LogName, offset: u64, zxid: Zxid) -> bool {
        let name = self.file.replace((file, true)).filter(|(_, seen)| !seen);
        if self.trouble.is_some() {
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

    /// Something that is no record and no torn write.
    pub(crate) fn damage(
        &mut self,
        file: LogName,
        offset: u64,
        (why, next_valid): (&'static str, Option<(u64, Zxid)>),
    ) {
        let kind = LogFaultKind::Damaged { why, next_valid };
        let doubt = LogFault { file, offset, last_good: self.last, kind };
        self.doubt.get_or_insert(doubt);
    }

    /// The record that was just looked at cannot be decoded.
    pub(crate) fn undecodable(
        &mut self,
        file: LogName,
        offset: u64,
        zxid: Zxid,
        error: DecodeError,
    ) {
        if self.trouble.is_none() && zxid == self.last {
            self.last = self.previous;
            self.fail(file, offset, LogFaultKind::Undecodable { zxid, error });
        }
    }

    /// A whole piece, as reading has seen it.
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
            PieceContent::Damage { why, next_valid } => self.damage(file, start, (why, next_valid)),
            PieceContent::Torn => {}
            PieceContent::End => self.end_file(file),
        }
    }

    /// Records without a gap.
    fn run(&mut self, file: LogName, start: u64, (first, last): (Zxid, Zxid)) {
        let is_covered_in_part = self.last == self.base && first <= self.base && last > self.base;
        let joint = if is_covered_in_part { self.base.next() } else { first };
        if self.record(file, start, joint) {
            self.last = last;
        }
    }

    /// Nothing stands between the last txn and this one, in a file of the given name.
    fn joins(&self, zxid: Zxid, name: Option<Zxid>) -> bool {
        let is_between = |known: Zxid| self.last < known && known < zxid;
        zxid == self.last.next()
            || follows(self.last, zxid)
                && self.doubt.is_none()
                && !self.known.iter().copied().any(is_between)
                && !name.is_some_and(is_between)
    }

    /// Nothing is applied from here on. If there is damage before, that is the reason.
    fn fail(&mut self, file: LogName, offset: u64, kind: LogFaultKind) {
        let trouble = LogFault { file, offset, last_good: self.last, kind };
        let first = self.doubt.take().unwrap_or(trouble);
        self.trouble.get_or_insert(first);
    }
}
