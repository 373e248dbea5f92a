//! Puts records that were found elsewhere into a server's log files.
//!
//! In: the files as they are, and a [`Repair`]. Out: files in which these records are in their places. Two steps: the
//! plan is made from what is on disk *now*, so a splice can be repeated, and one that was interrupted is finished by
//! the next one; then each file is written beside the old one, read back, and renamed.
//!
//! # A crash between any two steps
//! Each file is replaced by one rename, so it is the old one or the new one. The new one has everything valid of the
//! old one in the same order, and damage that the snapshot covers, byte for byte: it still shows that something was
//! there. Damage is left out only together with all records that fill its gap, except where the zxids around the gap
//! show by themselves what is missing. So after a crash the same txns are missing, or fewer, and none is forgotten.
//! New files are made before damaged ones are replaced, and a damaged snapshot is put aside after everything else: its
//! name shows how far the log must go.
//!
//! A server must not run on the files, and no [`crate::LogWriter`] may be open.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use herdsman_proto::Zxid;

use super::Gap;
use super::assess::ReadLog;
use super::gaps::PieceFate;
use super::state::Repair;
use crate::disk::{Dirs, Disk, IoErrorAt, io_at};
use crate::epoch::note_rewritten_log;
use crate::install::find_installing;
use crate::log::pieces::{LogPiece, PieceContent};
use crate::names::{DAMAGED, LogName, SnapshotName};
use crate::recover::{RecoverError, RecoverOptions, RecoverySource};

mod write;

/// An error of a splice.
#[derive(Debug, thiserror::Error)]
pub enum SpliceError {
    /// The disk failed.
    #[error("cannot write {path}: {source}", path = path.display())]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The files cannot be read as far as it is needed.
    #[error(transparent)]
    Unreadable(#[from] RecoverError),
    /// What was written is not what was read back.
    #[error("{path} was written, but reads back differently: {why}; the file that it was to replace is unchanged", path = path.display())]
    Unverified {
        /// Which file.
        path: PathBuf,
        /// The difference.
        why: String,
    },
}

impl From<IoErrorAt> for SpliceError {
    fn from(IoErrorAt { path, source }: IoErrorAt) -> Self {
        SpliceError::Io { path, source }
    }
}

/// What happens to damaged bytes that are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepDamaged {
    /// A copy is kept as `damaged.log.<zxid>.from.<offset>`, if there is room.
    IfRoom,
    /// Nothing: the caller has kept the whole file.
    No,
}

/// A part of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Valid records of the old file.
    Old(Range<u64>),
    /// Damage of the old file that the snapshot covers.
    Covered(Range<u64>),
    /// Records from elsewhere.
    New(Vec<(Zxid, Bytes)>),
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FilePlan {
    name: LogName,
    /// A file of that name exists.
    replaces: bool,
    parts: Vec<Part>,
    /// What is left out of the old file.
    dropped: Vec<Range<u64>>,
}

impl FilePlan {
    fn new_records(&self) -> usize {
        let count = |part: &Part| match part {
            Part::New(records) => records.len(),
            Part::Old(_) | Part::Covered(_) => 0,
        };
        self.parts.iter().map(count).sum()
    }
}

/// What a splice will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplicePlan {
    dirs: Dirs,
    files: Vec<FilePlan>,
    /// Damaged snapshots that are put aside.
    snapshots: Vec<SnapshotName>,
}

/// What a splice has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spliced {
    /// Log files that were written.
    pub files: Vec<PathBuf>,
    /// Records in them that were missing before.
    pub records: usize,
}

/// Plans a splice from what is on disk and what was found. Changes nothing.
pub fn plan_splice(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
    repair: &Repair,
) -> Result<SplicePlan, SpliceError> {
    let mut plan = SplicePlan { dirs: dirs.clone(), files: Vec::new(), snapshots: Vec::new() };
    if repair.damage().needs_tree.is_some() || find_installing(disk, &dirs.data)?.is_some() {
        return Ok(plan);
    }
    let source = RecoverySource { disk, dirs, options };
    let (snapshots, logs) = source.list()?;
    let base = source.base(&snapshots, &logs)?;
    let read = ReadLog::of(disk, dirs, &base, logs)?;
    if !read.is_damaged() {
        plan.snapshots.clone_from(&read.damaged_snapshots);
    } else {
        let mut planner = Planner::new(&read, repair);
        planner.place_records();
        plan.files = planner.files();
        if planner.fills_everything() {
            plan.snapshots.clone_from(&read.damaged_snapshots);
        }
    }
    Ok(plan)
}

/// Puts what was found into the log files. What may not be written yet, because a part of it is still missing, is left
/// out; the rest is written.
pub fn splice(
    disk: &dyn Disk,
    dirs: &Dirs,
    options: &RecoverOptions,
    repair: &Repair,
) -> Result<Spliced, SpliceError> {
    plan_splice(disk, dirs, options, repair)?.carry_out(disk, KeepDamaged::IfRoom)
}

impl SplicePlan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.snapshots.is_empty()
    }

    /// The files that are replaced or renamed.
    #[must_use]
    pub fn replaced(&self) -> Vec<PathBuf> {
        let logs = self.files.iter().filter(|file| file.replaces);
        let logs = logs.map(|file| file.name.path(&self.dirs.log));
        logs.chain(self.snapshots.iter().map(|name| name.path(&self.dirs.data))).collect()
    }

    /// What will be done, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let file = |file: &FilePlan| {
            let (name, records) = (file.name.file_name(), file.new_records());
            match file.replaces {
                true => format!("write {name} again, with {records} records that were missing"),
                false => format!("write {name}, with {records} records that were missing"),
            }
        };
        let aside = |name: &SnapshotName| {
            let name = name.file_name();
            format!("rename {name} to {DAMAGED}{name}: it cannot be used")
        };
        self.files.iter().map(file).chain(self.snapshots.iter().map(aside)).collect()
    }

    /// Does it. See the module for what a crash leaves.
    pub fn carry_out(&self, disk: &dyn Disk, keep: KeepDamaged) -> Result<Spliced, SpliceError> {
        let mut spliced = Spliced::default();
        let mut last = Zxid::ZERO;
        let is_new = |file: &&FilePlan| !file.replaces;
        let (new, old): (Vec<_>, Vec<_>) = self.files.iter().partition(is_new);
        for file in new.into_iter().chain(old) {
            let end = write::replace(disk, &self.dirs.log, file, keep)?;
            last = last.max(end);
            spliced.files.push(file.name.path(&self.dirs.log));
            spliced.records += file.new_records();
        }
        // A file that was written again has another length. Before that, what is known of it shows what it may lack;
        // from now on, its last txn does.
        if !self.files.is_empty() {
            note_rewritten_log(disk, &self.dirs.data, last).map_err(io_at(&self.dirs.data))?;
        }
        let dir = &self.dirs.data;
        for name in &self.snapshots {
            let aside = dir.join(format!("{DAMAGED}{}", name.file_name()));
            disk.rename(&name.path(dir), &aside).map_err(io_at(&aside))?;
            disk.sync_dir(dir).map_err(io_at(dir))?;
        }
        Ok(spliced)
    }
}

/// The records for a gap.
struct Usable {
    records: Vec<(Zxid, Bytes)>,
    /// They are all that is missing.
    is_all: bool,
}

/// A planned splice.
struct Planner<'a> {
    read: &'a ReadLog,
    /// What may be written of each gap; `None`: its damage must stay.
    usable: Vec<Option<Usable>>,
    /// Files that are written again.
    rewritten: BTreeSet<LogName>,
    /// Files with damage that must stay, because it shows that something is missing.
    fixed: BTreeSet<LogName>,
    /// The records for each file.
    placed: Vec<(LogName, Vec<(Zxid, Bytes)>)>,
}

impl<'a> Planner<'a> {
    fn new(read: &'a ReadLog, repair: &Repair) -> Self {
        let usable: Vec<_> =
            read.found.gaps.iter().map(|gap| usable_records(gap, &read.logs, repair)).collect();
        let (mut rewritten, mut fixed) = (BTreeSet::new(), BTreeSet::new());
        for (piece, fate) in read.pieces.iter().zip(&read.found.fates) {
            match fate {
                PieceFate::Stays if read.is_needed_header(piece) => rewritten.insert(piece.file),
                PieceFate::Stays => false,
                PieceFate::Dropped => rewritten.insert(piece.file),
                PieceFate::FilledBy(gap) => match &usable[*gap] {
                    None => fixed.insert(piece.file),
                    // Without a record for it, the damage stays or goes with the rest of the file.
                    Some(usable) if usable.records.is_empty() && !usable.is_all => false,
                    Some(_) => rewritten.insert(piece.file),
                },
            };
        }
        Planner { read, usable, rewritten, fixed, placed: Vec::new() }
    }

    fn fills_everything(&self) -> bool {
        let is_all = |usable: &Option<Usable>| usable.as_ref().is_some_and(|it| it.is_all);
        self.fixed.is_empty() && self.usable.iter().all(is_all)
    }

    /// Finds the file for each record.
    fn place_records(&mut self) {
        let usable = self.usable.iter().flatten();
        let records: Vec<(Zxid, Bytes)> = usable.flat_map(|it| it.records.clone()).collect();
        // The records after the last one of an undamaged file go to a new one.
        let mut new: Option<(Option<LogName>, LogName)> = None;
        for (zxid, payload) in records {
            let home = self.read.logs.iter().rev().find(|name| name.zxid <= zxid).copied();
            if home.is_some_and(|home| self.fixed.contains(&home)) {
                continue;
            }
            let target = match (home.filter(|home| self.belongs_into(*home, zxid)), new) {
                (Some(home), _) => {
                    self.rewritten.insert(home);
                    home
                }
                (None, Some((of, name))) if of == home => name,
                (None, _) => LogName { zxid },
            };
            if home != Some(target) || target.zxid == zxid {
                new = Some((home, target));
            }
            self.place(target, zxid, payload);
        }
    }

    /// Whether a record must be in this file: it is written again, or has later records.
    fn belongs_into(&self, file: LogName, zxid: Zxid) -> bool {
        let is_later = |piece: &LogPiece| {
            piece.file == file
                && matches!(piece.content, PieceContent::Run { last, .. } if last > zxid)
        };
        self.rewritten.contains(&file) || self.read.pieces.iter().any(is_later)
    }

    fn place(&mut self, file: LogName, zxid: Zxid, payload: Bytes) {
        match self.placed.iter_mut().find(|(name, _)| *name == file) {
            Some((_, records)) => records.push((zxid, payload)),
            None => self.placed.push((file, vec![(zxid, payload)])),
        }
    }

    /// The files to write, oldest first.
    fn files(&mut self) -> Vec<FilePlan> {
        let placed = std::mem::take(&mut self.placed);
        let mut names: BTreeSet<LogName> = &self.rewritten - &self.fixed;
        names.extend(placed.iter().map(|(name, _)| *name));
        let records_of = |name: &LogName| {
            let found = placed.iter().find(|(file, _)| file == name);
            found.map(|(_, records)| records.clone()).unwrap_or_default()
        };
        names.iter().map(|name| self.file(*name, records_of(name))).collect()
    }

    fn file(&self, name: LogName, records: Vec<(Zxid, Bytes)>) -> FilePlan {
        let replaces = self.read.logs.contains(&name);
        let mut file = FilePlan { name, replaces, parts: Vec::new(), dropped: Vec::new() };
        let mut records = records.into_iter().peekable();
        let pieces = self.read.pieces.iter().zip(&self.read.found.fates);
        for (piece, fate) in pieces.filter(|(piece, _)| piece.file == name) {
            let part = piece.start..piece.end;
            let zxid = match piece.content {
                PieceContent::Run { first, .. } => first,
                PieceContent::Undecodable { zxid, .. } if *fate == PieceFate::Stays => zxid,
                PieceContent::Undecodable { .. } => {
                    file.dropped.push(part);
                    continue;
                }
                PieceContent::Damage { .. } => {
                    match fate {
                        PieceFate::Stays => file.parts.push(Part::Covered(part)),
                        PieceFate::Dropped | PieceFate::FilledBy(_) => file.dropped.push(part),
                    }
                    continue;
                }
                PieceContent::Torn | PieceContent::End => continue,
            };
            let mut before = Vec::new();
            while let Some(record) = records.next_if(|(new, _)| *new < zxid) {
                before.push(record);
            }
            if !before.is_empty() {
                file.parts.push(Part::New(before));
            }
            file.parts.push(Part::Old(part));
        }
        let rest: Vec<_> = records.collect();
        if !rest.is_empty() {
            file.parts.push(Part::New(rest));
        }
        file
    }
}

/// The records for a gap, if they may be written: all of them were found, or what is still missing shows without the
/// damage.
fn usable_records(gap: &Gap, logs: &[LogName], repair: &Repair) -> Option<Usable> {
    let (records, is_filled) = repair.found_in(gap);
    let is_found = |zxid: Zxid| records.binary_search_by_key(&zxid, |(zxid, _)| *zxid).is_ok();
    let mut missing = gap.known.iter().map(|id| id.zxid).filter(|zxid| !is_found(*zxid)).peekable();
    if missing.peek().is_none() && (gap.is_complete || is_filled) {
        return Some(Usable { records, is_all: true });
    }
    let epoch = gap.before.filter(|_| gap.is_complete)?.epoch();
    // Zxids of one epoch are consecutive, and a file is named by its first txn.
    let first = LogName { zxid: Zxid::start_of(epoch).next() };
    let is_anchored = gap.after.epoch() == epoch || is_found(first.zxid) || logs.contains(&first);
    let shows = is_anchored && missing.all(|zxid| zxid.epoch() == epoch);
    shows.then_some(Usable { records, is_all: false })
}

#[cfg(test)]
#[path = "splice_tests.rs"]
mod tests;
