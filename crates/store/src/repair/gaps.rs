//! Finds the gaps in a log from its pieces. Pure. In: the pieces, what the snapshot covers, and txns that are known to
//! have existed. Out: [`FoundGaps`]: where txns are missing, which ones, and what becomes of each damaged piece.
//!
//! The log is a chain of points: valid records, records that are missing and known, and the txns that name files.
//! Between two points there is a *region*, with or without damage. What a region held:
//! - nothing, if the second zxid is the first one plus one, whatever the bytes between them are;
//! - in one epoch, all zxids between the two;
//! - before a new epoch, without damage: nothing but the first txns of the new epoch, unless a txn is known that lies
//!   between the two. Zxids do not show more, and recovery of an undamaged log relies on that, too;
//! - before a new epoch, with damage: what the persist table lists, if it is complete, and otherwise nobody knows.
//!
//! A file is named by its first txn, so damage at its beginning is in the region after that txn, not before it.

use herdsman_proto::Zxid;

use super::{Gap, RecordId};
use crate::log::chain::{LogFault, LogFaultKind};
use crate::log::lost::{LOST_MAX, LostRecords};
use crate::log::pieces::{LogPiece, PieceContent};
use crate::names::LogName;

/// What is known about a log besides its pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogFacts<'a> {
    /// The snapshot has everything up to here.
    pub(super) base: Zxid,
    /// Txns that have existed, because snapshots are named by them, or the footer of a file says that they come before
    /// it: the log may not step over one.
    pub(super) known: &'a [Zxid],
    /// A txn that the log must reach.
    pub(super) reach: Zxid,
    /// The last file. If its pieces are not there, it was not read.
    pub(super) last_file: Option<LogName>,
}

/// What becomes of a piece when the log is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceFate {
    /// It stays: it is valid, or the snapshot covers it.
    Stays,
    /// It is dropped: it holds nothing that is missing.
    Dropped,
    /// It is dropped once the gap with this index is filled.
    FilledBy(usize),
}

/// The gaps of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundGaps {
    pub(super) gaps: Vec<Gap>,
    /// The fate of each piece.
    pub(super) fates: Vec<PieceFate>,
    /// The last txn that was there, if that is known.
    pub(super) end: Option<Zxid>,
    /// The last txn before the first gap.
    pub(super) good: Zxid,
}

/// Finds the gaps. Fails if zxids go back: no record of another server can repair that.
pub(super) fn find_gaps(pieces: &[LogPiece], facts: LogFacts<'_>) -> Result<FoundGaps, LogFault> {
    let mut finder = Finder::new(facts, pieces.len());
    for (index, piece) in pieces.iter().enumerate() {
        finder.piece(index, piece)?;
    }
    let is_read = pieces.last().map(|piece| piece.file) == facts.last_file;
    Ok(finder.finish(is_read))
}

/// Damage in a region.
#[derive(Clone, Debug)]
struct Doubt {
    lost: LostRecords,
    /// Its pieces.
    pieces: Vec<usize>,
}

impl Doubt {
    fn none() -> Self {
        Doubt { lost: LostRecords::none(), pieces: Vec::new() }
    }

    fn is_none(&self) -> bool {
        self.pieces.is_empty()
    }

    fn add(&mut self, mut other: Doubt) {
        self.lost.ids.append(&mut other.lost.ids);
        self.lost.is_complete &= other.lost.is_complete;
        self.pieces.append(&mut other.pieces);
    }
}

/// A gap whose end was not seen yet.
struct OpenGap {
    after: Zxid,
    lost: LostRecords,
    pieces: Vec<usize>,
}

/// The file that is being read.
struct CurrentFile {
    name: LogName,
    /// A record of it was seen.
    has_record: bool,
}

struct Finder<'a> {
    facts: LogFacts<'a>,
    found: FoundGaps,
    /// The last valid txn.
    valid: Zxid,
    /// The last point: a txn, valid or missing, or the start of an epoch of which a file shows that it began here.
    last: Zxid,
    file: Option<CurrentFile>,
    /// Damage since the last point, in earlier files.
    earlier: Doubt,
    /// Damage since the last point, in the current file.
    here: Doubt,
    open: Option<OpenGap>,
}

impl<'a> Finder<'a> {
    fn new(facts: LogFacts<'a>, pieces: usize) -> Self {
        let fates = vec![PieceFate::Stays; pieces];
        Finder {
            facts,
            found: FoundGaps { fates, ..FoundGaps::default() },
            valid: facts.base,
            last: facts.base,
            file: None,
            earlier: Doubt::none(),
            here: Doubt::none(),
            open: None,
        }
    }

    fn piece(&mut self, index: usize, piece: &LogPiece) -> Result<(), LogFault> {
        if self.file.as_ref().is_none_or(|file| file.name != piece.file) {
            self.start_file(piece.file);
        }
        match piece.content {
            PieceContent::Run { first, last, .. } => {
                let base = self.facts.base;
                let covers_base = self.last == base && first <= base && base < last;
                let first = if covers_base { base.next() } else { first };
                if self.record(piece, first)? {
                    self.present(first);
                    (self.valid, self.last) = (last, last);
                }
            }
            PieceContent::Undecodable { zxid, .. } => {
                if self.record(piece, zxid)? {
                    self.missing(RecordId::of(zxid));
                    self.open.as_mut().expect("a txn is missing").pieces.push(index);
                }
            }
            PieceContent::Damage { .. } => {
                let LogPiece { lost: ids, lost_is_complete, .. } = piece;
                let lost = LostRecords { ids: ids.clone(), is_complete: *lost_is_complete };
                self.here.add(Doubt { lost, pieces: vec![index] });
            }
            PieceContent::Torn => {}
            PieceContent::End => self.end_file(),
        }
        Ok(())
    }

    fn start_file(&mut self, name: LogName) {
        let before = std::mem::replace(&mut self.here, Doubt::none());
        self.earlier.add(before);
        if name.zxid == self.last.next() {
            // An earlier start has dropped what is damaged there.
            self.drop_earlier();
        }
        self.file = Some(CurrentFile { name, has_record: false });
    }

    /// The damage in earlier files holds nothing that is missing.
    fn drop_earlier(&mut self) {
        let is_covered = self.last == self.facts.base;
        let doubt = std::mem::replace(&mut self.earlier, Doubt::none());
        self.settle(&doubt, is_covered);
    }

    /// The damage holds nothing that is missing after the last point. It is a part of the gap before, if there is one.
    fn settle(&mut self, doubt: &Doubt, is_covered: bool) {
        if let Some(open) = &mut self.open {
            open.pieces.extend(&doubt.pieces);
            return;
        }
        for piece in &doubt.pieces {
            self.found.fates[*piece] =
                if is_covered { PieceFate::Stays } else { PieceFate::Dropped };
        }
    }

    /// Adds a record up to its own zxid. Returns whether it is after all others, and not covered.
    fn record(&mut self, piece: &LogPiece, zxid: Zxid) -> Result<bool, LogFault> {
        let file = self.file.as_mut().expect("a file was started");
        let is_first = !std::mem::replace(&mut file.has_record, true);
        let name = file.name;
        if zxid <= self.last {
            if self.last > self.facts.base {
                let (last_good, lost) = (self.last, LostRecords::none());
                let kind = LogFaultKind::Backwards { found: zxid };
                return Err(LogFault { file: name, offset: piece.start, last_good, kind, lost });
            }
            for doubt in [&mut self.earlier, &mut self.here] {
                *doubt = Doubt::none();
            }
            return Ok(false);
        }
        if is_first && name.zxid.counter() > 0 && self.last < name.zxid && name.zxid <= zxid {
            let here = std::mem::replace(&mut self.here, Doubt::none());
            if name.zxid < zxid && zxid != self.last.next() {
                self.missing(RecordId::of(name.zxid));
                self.here = here;
            } else {
                // What is damaged before the file's first txn is its header.
                self.settle(&here, self.last == self.facts.base);
            }
        }
        Ok(true)
    }

    /// The next point is a valid record.
    fn present(&mut self, zxid: Zxid) {
        self.region(zxid);
        if let Some(OpenGap { after, lost, pieces }) = self.open.take() {
            self.close(
                Gap { after, before: Some(zxid), known: lost.ids, is_complete: lost.is_complete },
                &pieces,
            );
        }
        (self.valid, self.last) = (zxid, zxid);
    }

    /// The next point is a record that was there and is not valid.
    fn missing(&mut self, id: RecordId) {
        self.region(id.zxid);
        let open = self.open_gap();
        open.lost.push(id);
        self.last = id.zxid;
    }

    /// Ends the region before the next point.
    fn region(&mut self, next: Zxid) {
        let mut doubt = std::mem::replace(&mut self.earlier, Doubt::none());
        doubt.add(std::mem::replace(&mut self.here, Doubt::none()));
        let lost = self.between(next, &doubt);
        if lost.ids.is_empty() && lost.is_complete {
            self.settle(&doubt, self.last == self.facts.base);
        } else {
            self.extend(lost, doubt.pieces);
        }
    }

    fn open_gap(&mut self) -> &mut OpenGap {
        let after = self.valid;
        let new = || OpenGap { after, lost: LostRecords::none(), pieces: Vec::new() };
        self.open.get_or_insert_with(new)
    }

    fn extend(&mut self, lost: LostRecords, mut pieces: Vec<usize>) {
        let open = self.open_gap();
        for id in lost.ids {
            open.lost.push(id);
        }
        open.lost.is_complete &= lost.is_complete;
        open.pieces.append(&mut pieces);
    }

    /// The txns between the last point and the next one.
    fn between(&self, next: Zxid, doubt: &Doubt) -> LostRecords {
        let last = self.last;
        if next == last.next() {
            return LostRecords::none();
        }
        let mut listed = doubt.lost.ids.clone();
        listed.retain(|id| last < id.zxid && id.zxid < next);
        listed.sort_by_key(|id| id.zxid);
        listed.dedup_by_key(|id| id.zxid);
        let is_between = |known: &&Zxid| last < **known && **known < next;
        let known: Vec<Zxid> = self.facts.known.iter().filter(is_between).copied().collect();
        let mut lost = LostRecords::none();
        if last.epoch() == next.epoch() {
            lost.push_between(Some(last), next, None);
        } else {
            lost.ids.clone_from(&listed);
            let own = known.iter().filter(|known| known.counter() > 0);
            lost.ids.extend(own.map(|zxid| RecordId::of(*zxid)));
            let first = Zxid::start_of(next.epoch()).next();
            let count = (next.0 - first.0).cast_unsigned();
            if count <= LOST_MAX as u64 {
                lost.ids.extend((first.0..next.0).map(|zxid| RecordId::of(Zxid(zxid))));
            }
            let points: Vec<Zxid> = listed.iter().map(|id| id.zxid).chain([next]).collect();
            let starts = std::iter::once(&last).chain(&points);
            lost.is_complete = (doubt.is_none() || doubt.lost.is_complete)
                && starts.zip(&points).all(|(left, right)| left.is_continued_by(*right))
                && known.iter().all(|known| points.contains(known));
        }
        // Stable: the ones with a length and a checksum come first.
        lost.ids.sort_by_key(|id| id.zxid);
        lost.ids.dedup_by_key(|id| id.zxid);
        describe(&mut lost.ids, &listed);
        lost
    }

    /// Ends a file. Without a record, its name says for which txn it was made.
    fn end_file(&mut self) {
        let file = self.file.as_ref().expect("a file was started");
        let name = file.name.zxid;
        // Counter 0: a record without a zxid of its own was the first one.
        if file.has_record || name <= self.last || name.counter() == 0 {
            return;
        }
        let here = std::mem::replace(&mut self.here, Doubt::none());
        let lists_others = here.lost.is_complete && here.lost.ids.iter().all(|id| id.zxid != name);
        if here.is_none() || lists_others {
            // It was never completed, but what comes before it was there.
            let point = Zxid(name.0 - 1);
            if point > self.last {
                self.region(name);
                self.last = point;
            }
        } else {
            let listed = here.lost.ids.iter().find(|id| id.zxid == name);
            self.missing(listed.copied().unwrap_or(RecordId::of(name)));
        }
        self.here = here;
    }

    fn finish(mut self, is_read: bool) -> FoundGaps {
        let mut doubt = std::mem::replace(&mut self.earlier, Doubt::none());
        doubt.add(std::mem::replace(&mut self.here, Doubt::none()));
        let mut ids = std::mem::take(&mut doubt.lost.ids);
        ids.retain(|id| id.zxid > self.last);
        ids.sort_by_key(|id| id.zxid);
        let is_complete = doubt.lost.is_complete && is_read;
        if !ids.is_empty() || !is_complete {
            let lost = LostRecords { ids: Vec::new(), is_complete };
            self.extend(lost, doubt.pieces);
        } else {
            self.settle(&doubt, false);
        }
        for id in ids {
            self.missing(id);
        }
        if self.facts.reach > self.last {
            self.missing(RecordId::of(self.facts.reach));
            let open = self.open.as_mut().expect("a txn is missing");
            open.lost.is_complete = false;
            open.lost.ids.retain(|id| id.zxid.counter() > 0);
        }
        let missing = self.open.as_ref().and_then(|open| open.lost.ids.last());
        let mut end = Some(missing.map_or(self.valid, |id| id.zxid.max(self.valid)));
        if let Some(OpenGap { after, lost, pieces }) = self.open.take() {
            end = end.filter(|_| lost.is_complete);
            let gap = Gap { after, before: None, known: lost.ids, is_complete: lost.is_complete };
            self.close(gap, &pieces);
        }
        self.found.end = end;
        self.found.good = self.found.gaps.first().map_or(self.valid, |gap| gap.after);
        self.found
    }

    fn close(&mut self, gap: Gap, pieces: &[usize]) {
        for piece in pieces {
            self.found.fates[*piece] = PieceFate::FilledBy(self.found.gaps.len());
        }
        self.found.gaps.push(gap);
    }
}

/// Adds lengths and checksums from a table.
fn describe(ids: &mut [RecordId], listed: &[RecordId]) {
    for id in ids {
        if let Ok(index) = listed.binary_search_by_key(&id.zxid, |id| id.zxid) {
            *id = listed[index];
        }
    }
}

#[cfg(test)]
#[path = "gaps_tests.rs"]
mod tests;
