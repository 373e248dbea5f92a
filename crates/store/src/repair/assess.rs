//! Reads a server's files, as recovery does, and says what is damaged or missing. Changes nothing.

use std::ops::Range;

use herdsman_proto::Zxid;

use super::gaps::{FoundGaps, LogFacts, PieceFate, find_gaps};
use super::{Assessment, Damage, DamagedPlace, Gap, Irreparable};
use crate::disk::{Dirs, Disk, TolerantDisk};
use crate::epoch::{self, KnownLog};
use crate::install::find_installing;
use crate::log::pieces::{LogFiles, LogPiece, PieceContent, read_pieces};
use crate::log::repeats::files_with;
use crate::log::table::txns_before;
use crate::log::walk::LogWalkError;
use crate::names::{LogName, SnapshotName};
use crate::recover::{RecoverError, RecoverOptions, RecoverySource, ReplayBase};
use crate::snapshot::reader::SnapshotError;

/// Places that are described; of more, only the number is.
const PLACES_MAX: usize = 100;
/// What is said of damage that a device reports.
const UNREADABLE: &str = "a part of it cannot be read (I/O error)";

/// Finds out what is damaged or missing in a server's files, beyond what its newest valid snapshot covers.
///
/// # Errors
/// The disk fails in another way than by unreadable blocks, or files are in the wrong directory. Nothing of another
/// server helps then.
pub fn assess(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
) -> Result<Assessment, RecoverError> {
    let source = RecoverySource { disk, dirs, options };
    if let Some(name) = find_installing(disk, &dirs.data)? {
        return Ok(match source.installing(name, &mut |_| {}) {
            Ok(_) => Assessment::Whole,
            Err(RecoverError::InstallingDamaged(error)) => needs_tree(&[error]),
            Err(error) => return Err(error),
        });
    }
    let (snapshots, logs) = source.list()?;
    match source.base(&snapshots, &logs) {
        Ok(base) => match ReadLog::of(disk, dirs, &base, logs) {
            Ok(read) => Ok(read.assessment(dirs, &base.damaged)),
            Err(RecoverError::Log {
                source: LogWalkError::Backwards { path, offset, last_good, found },
                ..
            }) => {
                let why = format!("txn {found} comes after txn {last_good}");
                let place = DamagedPlace { path, offset, why };
                Ok(without_tree(Irreparable::MixedHistories, vec![place]))
            }
            Err(error) => Err(error),
        },
        Err(RecoverError::SnapshotsDamaged { damaged, .. }) => Ok(needs_tree(&damaged)),
        Err(RecoverError::NoSnapshot { dir, log }) => {
            let path = SnapshotName { zxid: Zxid::ZERO, compression: crate::Compression::None };
            let why = format!("there is no snapshot, but a txn log, {}", log.display());
            let place = DamagedPlace { path: path.path(&dir), offset: 0, why };
            Ok(without_tree(Irreparable::NoSnapshot, vec![place]))
        }
        Err(error) => Err(error),
    }
}

/// Finds out what of other servers can end a refusal of recovery; `None` if that has another reason than damaged or
/// missing data.
///
/// # Errors
/// As [`assess`].
pub fn assess_refusal(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
    refusal: &RecoverError,
) -> Result<Option<Damage>, RecoverError> {
    let is_about_data = matches!(
        refusal,
        RecoverError::NoSnapshot { .. }
            | RecoverError::SnapshotsDamaged { .. }
            | RecoverError::InstallingDamaged(_)
            | RecoverError::Log { .. }
            | RecoverError::LogTooShort { .. }
            | RecoverError::LogLost { .. }
            | RecoverError::Digest { .. }
            | RecoverError::Io { .. }
    );
    if !is_about_data {
        return Ok(None);
    }
    match (assess(disk, dirs, options)?, refusal) {
        // Records come first: what is damaged may be what the digest misses.
        (Assessment::Damaged(damage), _) => Ok(Some(damage)),
        (Assessment::Whole, RecoverError::Digest { mismatch, snapshot }) => {
            let path = snapshot.clone().unwrap_or_else(|| dirs.log.clone());
            let place = DamagedPlace { path, offset: 0, why: mismatch.to_string() };
            Ok(Some(damage_without_tree(Irreparable::WrongTree, vec![place])))
        }
        (Assessment::Whole, _) => Ok(None),
    }
}

fn needs_tree(damaged: &[SnapshotError]) -> Assessment {
    without_tree(Irreparable::NoSnapshot, damaged.iter().map(place_of).collect())
}

fn without_tree(reason: Irreparable, places: Vec<DamagedPlace>) -> Assessment {
    Assessment::Damaged(damage_without_tree(reason, places))
}

fn damage_without_tree(reason: Irreparable, places: Vec<DamagedPlace>) -> Damage {
    Damage { good: Zxid::ZERO, gaps: Vec::new(), end: None, needs_tree: Some(reason), places }
}

fn place_of(error: &SnapshotError) -> DamagedPlace {
    let SnapshotError { path, offset, fault } = error;
    DamagedPlace { path: path.clone(), offset: *offset, why: fault.to_string() }
}

impl RecoverySource<'_> {
    /// The state from which replay would start.
    pub(crate) fn base(
        &self,
        snapshots: &[SnapshotName],
        logs: &[LogName],
    ) -> Result<ReplayBase, RecoverError> {
        match snapshots.is_empty() {
            true => self.without_snapshot(logs),
            false => self.newest_snapshot(snapshots, &mut |_| {}),
        }
    }
}

/// The log after a snapshot, as it was read.
pub(super) struct ReadLog {
    /// The last txn that the snapshot covers.
    pub(super) base: Zxid,
    /// All log files.
    pub(super) logs: Vec<LogName>,
    pub(super) pieces: Vec<LogPiece>,
    pub(super) found: FoundGaps,
    /// Snapshots that are newer than the one that was used, and cannot be.
    pub(super) damaged_snapshots: Vec<SnapshotName>,
}

impl ReadLog {
    /// Reads the log after a snapshot.
    pub(super) fn of(
        disk: &dyn Disk,
        dirs: &Dirs,
        base: &ReplayBase,
        logs: Vec<LogName>,
    ) -> Result<Self, RecoverError> {
        let after = base.tree.last_zxid();
        let files = files_with(disk, &dirs.log, &logs, after);
        let KnownLog { last: known_last, open } = epoch::known_log(disk, &dirs.data);
        let known: Vec<Zxid> =
            base.known.iter().copied().chain(txns_before(disk, &dirs.log, files)).collect();
        let log = LogFiles { dir: &dirs.log, files, after, until: None, known: &known, open };
        let tolerant = TolerantDisk::new(disk);
        // Decoding finds the txns that recovery could not apply.
        let mut pieces = read_pieces(&tolerant, &log, &mut |record| {
            herdsman_proto::txn::Entry::decode(record.payload).map(|_| ())
        })?
        .pieces;
        name_unreadable(&tolerant, dirs, &mut pieces);
        let reach = base.reach().max(known_last.unwrap_or(Zxid::ZERO));
        let last_file = files.last().copied();
        let facts = LogFacts { base: after, known: &known, reach, last_file };
        let found = find_gaps(&pieces, facts).map_err(|fault| RecoverError::Log {
            source: LogWalkError::of(&fault, &dirs.log),
            passed_over: Vec::new(),
        })?;
        let damaged_snapshots = base.damaged.iter().map(|(name, _)| *name).collect();
        Ok(ReadLog { base: after, logs, pieces, found, damaged_snapshots })
    }

    /// Whether a piece is damage over the header of a file that has txns after the snapshot.
    pub(super) fn is_needed_header(&self, piece: &LogPiece) -> bool {
        let is_needed = |other: &LogPiece| {
            other.file == piece.file
                && matches!(other.content, PieceContent::Run { last, .. } if last > self.base)
        };
        matches!(piece.content, PieceContent::Damage { .. })
            && piece.start == 0
            && self.pieces.iter().any(is_needed)
    }

    /// Whether something has to be repaired.
    pub(super) fn is_damaged(&self) -> bool {
        let is_dropped = |fate: &PieceFate| *fate != PieceFate::Stays;
        !self.found.gaps.is_empty()
            || self.found.fates.iter().any(is_dropped)
            || self.pieces.iter().any(|piece| self.is_needed_header(piece))
    }

    fn assessment(self, dirs: &Dirs, snapshots: &[(SnapshotName, SnapshotError)]) -> Assessment {
        if !self.is_damaged() {
            return Assessment::Whole;
        }
        let mut places: Vec<DamagedPlace> =
            snapshots.iter().map(|(_, error)| place_of(error)).collect();
        places.extend(self.places(dirs));
        let FoundGaps { gaps, end, good, .. } = self.found;
        Assessment::Damaged(Damage { good, gaps, end, needs_tree: None, places })
    }

    /// Describes what is damaged, and what is missing without a trace.
    fn places(&self, dirs: &Dirs) -> Vec<DamagedPlace> {
        let pieces = || self.pieces.iter().zip(&self.found.fates);
        let mut has_piece = vec![false; self.found.gaps.len()];
        for (_, fate) in pieces() {
            if let PieceFate::FilledBy(gap) = fate {
                has_piece[*gap] = true;
            }
        }
        let is_damaged = |(piece, fate): &(&LogPiece, &PieceFate)| {
            **fate != PieceFate::Stays || self.is_needed_header(piece)
        };
        let damaged = pieces().filter(is_damaged);
        let damaged = damaged.filter_map(|(piece, _)| damaged_place(piece, dirs));
        let missing = self.found.gaps.iter().zip(&has_piece).filter(|(_, has_piece)| !**has_piece);
        let mut all = damaged.chain(missing.map(|(gap, _)| missing_place(gap, dirs)));
        let mut places: Vec<DamagedPlace> = all.by_ref().take(PLACES_MAX).collect();
        if let (Some(last), more @ 1..) = (places.last_mut(), all.count()) {
            last.why.push_str(&format!(" (and {more} more places)"));
        }
        places
    }
}

/// Describes a damaged piece.
fn damaged_place(piece: &LogPiece, dirs: &Dirs) -> Option<DamagedPlace> {
    let why = match piece.content {
        PieceContent::Damage { why, .. } => why.to_owned(),
        PieceContent::Undecodable { zxid, error } => {
            format!("txn {zxid} cannot be decoded: {error}")
        }
        _ => return None,
    };
    Some(DamagedPlace { path: piece.file.path(&dirs.log), offset: piece.start, why })
}

/// Describes a gap without a damaged place: a file is missing, or was cut.
fn missing_place(gap: &Gap, dirs: &Dirs) -> DamagedPlace {
    let Gap { after, before, .. } = gap;
    let why = match before {
        Some(before) => format!("txns are missing between {after} and {before}"),
        None => format!("txns after {after} are missing, which snapshots or names show"),
    };
    DamagedPlace { path: LogName { zxid: after.next() }.path(&dirs.log), offset: 0, why }
}

/// Says of damage that it cannot be read, where that is the reason.
pub(crate) fn name_unreadable(disk: &TolerantDisk<'_>, dirs: &Dirs, pieces: &mut [LogPiece]) {
    for piece in pieces {
        let LogPiece { file, start, end, .. } = *piece;
        let part: Range<u64> = start..end;
        if let PieceContent::Damage { why, .. } = &mut piece.content
            && disk.is_unreadable(&file.path(&dirs.log), &part)
        {
            *why = UNREADABLE;
        }
    }
}

#[cfg(test)]
#[path = "assess_tests.rs"]
mod tests;
