//! The logs of a scrub.
//!
//! The files that a start would need are read together, as recovery reads them: [`plan_log`] says whether they
//! continue the newest valid snapshot. Older ones are read one at a time, because the oldest of them may be purged
//! at any time; only damage counts there, not what is missing.

use std::io;

use herdsman_proto::Zxid;
use herdsman_proto::txn::Entry;

use super::{
    CONFIRMATIONS, DataFile, Finding, LogState, Scrub, ScrubError, ScrubScope, SnapshotName,
    Snapshots,
};
use crate::disk::{IoErrorAt, io_at, is_out_of_descriptors};
use crate::log::chain::{LogFault, LogFaultKind};
use crate::log::pieces::{LogFiles, LogPiece, LogPieces, PieceContent, read_pieces};
use crate::log::table::txns_before;
use crate::log::walk::{LogWalkError, files_needed, plan_log};
use crate::names::{LogName, list_logs};

/// Reads of the same files until a pass is given up because they change all the time.
const READS_MAX: u32 = 10;

/// What the logs turned out to be.
#[derive(Default)]
pub(super) struct LogFindings {
    pub(super) findings: Vec<Finding>,
    pub(super) last_zxid: Zxid,
    pub(super) covered_end: Option<LogName>,
}

/// The files at one moment.
struct Listed {
    files: Vec<LogName>,
    state: LogState,
    /// Everything up to here is in the newest valid snapshot, if there is one.
    base: Option<Zxid>,
    /// Txns that name newer snapshots, or come right before log files.
    known: Vec<Zxid>,
}

impl Listed {
    fn needed(&self) -> &[LogName] {
        self.base.map_or(&[], |base| files_needed(&self.files, base))
    }

    fn older(&self) -> &[LogName] {
        &self.files[..self.files.len() - self.needed().len()]
    }
}

impl Scrub {
    /// Reads the logs. Snapshots that appear meanwhile are read, too, if that explains what is found.
    pub(super) fn read_logs(
        &self,
        snapshots: &mut Snapshots,
        scope: ScrubScope,
    ) -> Result<LogFindings, ScrubError> {
        let (mut found, listed) = self.read_needed(snapshots, scope)?;
        if scope == ScrubScope::All || listed.base.is_none() {
            for (index, name) in listed.older().iter().enumerate() {
                found.findings.extend(self.read_older(&listed, *name, index)?);
            }
        }
        Ok(found)
    }

    /// Reads the files that a start would need, again if something is wrong with them.
    fn read_needed(
        &self,
        snapshots: &mut Snapshots,
        scope: ScrubScope,
    ) -> Result<(LogFindings, Listed), ScrubError> {
        let mut faults = 0;
        for _ in 0..READS_MAX {
            let listed = self.list_files(snapshots)?;
            let found = self.check_needed(&listed)?;
            if let Some(found) = &found
                && found.findings.is_empty()
            {
                return Ok((
                    LogFindings { last_zxid: found.last_zxid, ..LogFindings::default() },
                    listed,
                ));
            }
            self.disk.check_running()?;
            // A file that a newer snapshot has made needless may have been purged.
            let is_outdated = self.read_snapshots(snapshots, scope)?;
            match found {
                Some(_) if is_outdated => faults = 0,
                Some(found) => {
                    faults += 1;
                    if faults == CONFIRMATIONS {
                        return Ok((found, listed));
                    }
                }
                None => faults = 0,
            }
        }
        Err(ScrubError::Unsettled)
    }

    fn list_files(&self, snapshots: &Snapshots) -> Result<Listed, ScrubError> {
        let dir = &self.dirs.log;
        // Before the listing: a file that is begun after this is left out.
        let state = self.log_state()?;
        let mut files = list_logs(&self.disk, dir).map_err(io_at(dir))?;
        files.retain(|file| file.zxid <= state.last_zxid);
        let base = snapshots.newest_valid().map(|name| name.zxid);
        let is_newer = |name: &SnapshotName| base.is_none_or(|base| name.zxid > base);
        let damaged = snapshots.damaged.iter().map(|(name, _)| *name);
        let known = damaged.filter(is_newer).map(|name| name.zxid);
        let known = known.chain(txns_before(&self.disk, dir, &files)).collect();
        Ok(Listed { files, state, base, known })
    }

    /// `None` if a file has vanished since it was listed.
    fn check_needed(&self, listed: &Listed) -> Result<Option<LogFindings>, ScrubError> {
        let Some(base) = listed.base else {
            // Nothing can be started from, whatever the logs have.
            let last_zxid = listed.state.last_zxid;
            return Ok(Some(LogFindings { last_zxid, ..LogFindings::default() }));
        };
        let log = LogFiles {
            dir: &self.dirs.log,
            files: listed.needed(),
            after: base,
            until: None,
            known: &listed.known,
            open: None,
        };
        let pieces = match self.read_files(&log, listed.state) {
            Ok(pieces) => pieces,
            Err(error) => {
                let name = log.files.iter().find(|name| name.path(log.dir) == error.path);
                let finding = self.unreadable(name.copied(), error)?;
                return Ok(finding.map(|finding| LogFindings {
                    covered_end: name.copied().filter(|_| base >= listed.state.last_zxid),
                    findings: vec![finding],
                    last_zxid: listed.state.last_zxid,
                }));
            }
        };
        Ok(Some(self.judge(listed, base, &log, &pieces)))
    }

    /// Decides what the pieces of the needed files mean for a start.
    fn judge(
        &self,
        listed: &Listed,
        base: Zxid,
        log: &LogFiles<'_>,
        pieces: &LogPieces,
    ) -> LogFindings {
        let last_zxid = listed.state.last_zxid;
        let mut findings = self.damages(&pieces.pieces);
        let mut found = LogFindings { last_zxid, ..LogFindings::default() };
        match plan_log(log, pieces, None) {
            Err(fault) => {
                found.covered_end = (base >= last_zxid).then_some(fault.file);
                if !findings.iter().any(|finding| finding.file == DataFile::Log(fault.file)) {
                    findings.push(self.of_fault(&fault));
                }
                // What follows the fault matters as much, once the fault is repaired.
                for finding in &mut findings {
                    finding.is_covered = finding.file < DataFile::Log(fault.file);
                }
            }
            Ok(end) if end.last_zxid < last_zxid => {
                findings.extend(self.too_short(listed, end.last_zxid));
            }
            Ok(_) => {}
        }
        found.findings = findings;
        found
    }

    /// The finding for a fault that is no damage in itself.
    fn of_fault(&self, fault: &LogFault) -> Finding {
        let before = match fault.kind {
            LogFaultKind::Damaged { next_valid, .. } => next_valid.map(|(_, zxid)| zxid),
            LogFaultKind::Gap { found } | LogFaultKind::Backwards { found } => Some(found),
            LogFaultKind::Undecodable { .. } => None,
        };
        Finding {
            file: DataFile::Log(fault.file),
            path: fault.file.path(&self.dirs.log),
            offset: fault.offset,
            what: LogWalkError::of(fault, &self.dirs.log).to_string(),
            places: 1,
            between: Some((fault.last_good, before)),
            is_covered: false,
        }
    }

    /// The finding for a log that ends before the last txn that was written to it.
    fn too_short(&self, listed: &Listed, last: Zxid) -> Option<Finding> {
        let written = listed.state.last_zxid;
        let open = listed.state.open.map(|(name, _)| name);
        let name = open.or(listed.files.last().copied())?;
        Some(Finding {
            file: DataFile::Log(name),
            path: name.path(&self.dirs.log),
            offset: 0,
            what: format!("the log ends with txn {last}, but txn {written} was written to it"),
            places: 1,
            between: Some((last, None)),
            is_covered: false,
        })
    }

    /// Reads a file that a snapshot covers.
    fn read_older(
        &self,
        listed: &Listed,
        name: LogName,
        index: usize,
    ) -> Result<Option<Finding>, ScrubError> {
        // Its continuation is read as far as it shows what may be missing at the end.
        let files = &listed.files[index..listed.files.len().min(index + 2)];
        let until = files.get(1).map(|next| Zxid(next.zxid.0.saturating_sub(1)));
        let after = Zxid(name.zxid.0.saturating_sub(1).max(0));
        let log = LogFiles { dir: &self.dirs.log, files, after, until, known: &[], open: None };
        let mut found = None;
        for _ in 0..CONFIRMATIONS {
            found = match self.read_files(&log, listed.state) {
                Ok(pieces) => {
                    let damages = self.damages(&pieces.pieces);
                    damages.into_iter().find(|finding| finding.file == DataFile::Log(name))
                }
                // Of the next one is reported when it is read itself.
                Err(error) if error.path != name.path(log.dir) => None,
                Err(error) => self.unreadable(Some(name), error)?,
            };
            self.disk.check_running()?;
            if found.is_none() {
                return Ok(None);
            }
        }
        let is_covered = listed.base.is_some();
        Ok(found.map(|finding| Finding { is_covered, ..finding }))
    }

    fn read_files(&self, log: &LogFiles<'_>, state: LogState) -> Result<LogPieces, IoErrorAt> {
        let end = state.open.map(|(name, end)| (name.path(log.dir), end));
        let disk = self.disk.ending(end);
        read_pieces(&disk, log, &mut |record| Entry::decode(record.payload).map(|_| ()))
    }

    /// The finding for a file that cannot be read; `None` if it is gone.
    fn unreadable(
        &self,
        name: Option<LogName>,
        error: IoErrorAt,
    ) -> Result<Option<Finding>, ScrubError> {
        self.disk.check_running()?;
        let (Some(name), false) = (name, is_out_of_descriptors(&error.source)) else {
            return Err(error.into());
        };
        let listed = list_logs(&self.disk, &self.dirs.log).map_err(io_at(&self.dirs.log))?;
        if error.source.kind() == io::ErrorKind::NotFound && !listed.contains(&name) {
            return Ok(None);
        }
        Ok(Some(Finding {
            file: DataFile::Log(name),
            path: error.path,
            offset: 0,
            what: format!("it cannot be read: {}", error.source),
            places: 1,
            between: None,
            is_covered: false,
        }))
    }

    /// The first damaged place of each file, all as if they were covered.
    fn damages(&self, pieces: &[LogPiece]) -> Vec<Finding> {
        let of_file = pieces.chunk_by(|left, right| left.file == right.file);
        of_file.filter_map(|pieces| self.damage(pieces)).collect()
    }

    fn damage(&self, pieces: &[LogPiece]) -> Option<Finding> {
        let name = pieces.first()?.file;
        let mut last = Zxid(name.zxid.0.saturating_sub(1).max(0));
        let mut first: Option<Finding> = None;
        for piece in pieces {
            let (what, before) = match &piece.content {
                PieceContent::Run { last: of_run, .. } => {
                    last = *of_run;
                    continue;
                }
                PieceContent::Damage { why, next_valid, .. } => {
                    ((*why).to_owned(), next_valid.map(|(_, zxid)| zxid))
                }
                PieceContent::Undecodable { zxid, error } => {
                    (format!("the record of txn {zxid} cannot be decoded: {error}"), None)
                }
                _ => continue,
            };
            match &mut first {
                Some(finding) => finding.places += 1,
                None => {
                    first = Some(Finding {
                        file: DataFile::Log(name),
                        path: name.path(&self.dirs.log),
                        offset: piece.start,
                        what,
                        places: 1,
                        between: Some((last, before)),
                        is_covered: true,
                    });
                }
            }
        }
        first
    }
}
