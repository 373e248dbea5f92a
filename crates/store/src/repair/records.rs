//! Reads a part of a server's log for another server that lacks it, through damage.
//!
//! In: the txns around the part. Out: every valid record between them, in order, and whether the part is whole here.
//! Nothing is changed, and nothing is decided: a server answers from its files in every role, also while it is damaged
//! itself, or has not started yet. Files of Apache are read as well.
//!
//! Memory: one record and one window of a file.
//!
//! The log of a running server may be written and rolled meanwhile. A record that is valid is the record, whether it is
//! durable here already or not; a file that is purged meanwhile makes the part broken.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::Zxid;

use crate::disk::{Dirs, Disk, IoErrorAt, TolerantDisk, io_at};
use crate::log::ending::{LogDamage, RecordsEnd, classify};
use crate::log::pieces::DAMAGES_PER_FILE_MAX;
use crate::log::range::RangeError;
use crate::log::record::RecordReader;
use crate::log::repeats::txn_before;
use crate::log::table::txns_before;
use crate::log::walk::{files_needed, follows_through};
use crate::names::{LogName, list_logs, list_snapshots};

/// Bytes of records that are read between two checks whether they are still wanted.
const PIECE_BYTES: usize = 1 << 20;

/// The valid records between two txns.
pub struct RecordsBetween {
    disk: Arc<dyn Disk>,
    dirs: Dirs,
    /// Files that are not open yet, the next one last.
    files: Vec<LogName>,
    file: Option<OpenFile>,
    /// Txns that have existed: snapshots and log files are named by them, or come right after them.
    names: Vec<Zxid>,
    after: Zxid,
    before: Zxid,
    /// The last txn that was seen, if everything from `after` up to it was.
    chain: Chain,
    /// The last record that was seen.
    last: Option<Zxid>,
    is_done: bool,
    /// Bytes that were read since the last check whether they are wanted.
    unchecked_bytes: usize,
}

/// How far the log is known to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chain {
    /// The txn before the part was not seen yet.
    Before,
    /// From there up to this txn nothing is missing. Only the very next txn may follow if there was damage since.
    Whole { last: Zxid, exactly_next: bool },
    /// Something is missing, or may be.
    Broken,
    /// The txn after the part was reached.
    Proven,
}

struct OpenFile {
    reader: RecordReader,
    damages: usize,
}

/// Opens the part of a server's log after `after` and before `before`, neither of which is in it.
pub fn read_records(
    disk: Arc<dyn Disk>,
    dirs: &Dirs,
    after: Zxid,
    before: Zxid,
) -> Result<RecordsBetween, RangeError> {
    let snapshots = list_snapshots(&*disk, &dirs.data).map_err(io_at(&dirs.data))?;
    let logs = list_logs(&*disk, &dirs.log).map_err(io_at(&dirs.log))?;
    let of_logs = logs.iter().map(|name| name.zxid).filter(|zxid| zxid.counter() > 0);
    let names = snapshots.iter().map(|name| name.zxid).chain(of_logs);
    let tolerant = TolerantDisk::new(&*disk);
    let names: Vec<Zxid> = names.chain(txns_before(&tolerant, &dirs.log, &logs)).collect();
    // The file with the txn before the part proves that this server has it.
    let files = files_needed(&logs, Zxid(after.0.saturating_sub(1)));
    // Every history begins with nothing.
    let begins =
        after == Zxid::ZERO && snapshots.first().is_some_and(|name| name.zxid == Zxid::ZERO);
    let chain = match begins {
        true => Chain::Whole { last: Zxid::ZERO, exactly_next: false },
        false => Chain::Before,
    };
    Ok(RecordsBetween {
        files: files.iter().rev().copied().collect(),
        names,
        disk,
        dirs: dirs.clone(),
        file: None,
        after,
        before,
        chain,
        last: None,
        is_done: false,
        unchecked_bytes: 0,
    })
}

impl RecordsBetween {
    /// The next record; `None` after the last one.
    pub fn next_record(&mut self) -> Result<Option<(Zxid, Bytes)>, RangeError> {
        self.next_wanted(&|| true)
    }

    /// The next record; `None` after the last one. Fails with [`RangeError::Stopped`] when it is no longer wanted,
    /// which is checked before each file and at intervals in it.
    pub fn next_wanted(
        &mut self,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Option<(Zxid, Bytes)>, RangeError> {
        while !self.is_done {
            if self.file.is_none() || self.unchecked_bytes >= PIECE_BYTES {
                self.unchecked_bytes = 0;
                if !is_wanted() {
                    return Err(RangeError::Stopped);
                }
            }
            let Some(file) = &mut self.file else {
                self.open_next()?;
                continue;
            };
            let path = file.reader.path().to_owned();
            let record = file.reader.next_record().map_err(io_at(&path))?;
            let Some(record) = record else {
                self.pass_end()?;
                continue;
            };
            let (zxid, payload) = (record.zxid, record.payload);
            self.unchecked_bytes += payload.len();
            let is_inside = self.after < zxid && zxid < self.before && Some(zxid) > self.last;
            let found = is_inside.then(|| (zxid, Bytes::copy_from_slice(payload)));
            self.see(zxid);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Whether this server has the txns on both sides, and nothing is missing between them. Known once
    /// [`RecordsBetween::next_record`] has returned `None`.
    #[must_use]
    pub fn is_unbroken(&self) -> bool {
        self.chain == Chain::Proven
    }

    /// Follows the chain to a record.
    fn see(&mut self, zxid: Zxid) {
        let follows_after = zxid == self.after.next() && zxid.counter() > 1;
        self.chain = match self.chain {
            _ if zxid <= self.after => match zxid == self.after {
                true => Chain::Whole { last: zxid, exactly_next: false },
                false => self.chain,
            },
            // A history with a txn of an epoch has all earlier ones of that epoch.
            Chain::Before if follows_after => Chain::Whole { last: zxid, exactly_next: false },
            Chain::Whole { last, exactly_next } if zxid > last => {
                let is_next = match exactly_next {
                    true => zxid == last.next(),
                    false => follows_through(&self.names, last, zxid),
                };
                match is_next {
                    true => Chain::Whole { last: zxid, exactly_next: false },
                    false => Chain::Broken,
                }
            }
            Chain::Before => Chain::Broken,
            chain => chain,
        };
        if zxid >= self.before {
            let ends = matches!(self.chain, Chain::Whole { last, .. } if last == self.before);
            self.chain = if ends { Chain::Proven } else { Chain::Broken };
            self.is_done = true;
        }
        self.last = self.last.max(Some(zxid));
    }

    fn open_next(&mut self) -> Result<(), RangeError> {
        let Some(name) = self.files.pop() else {
            self.is_done = true;
            return Ok(());
        };
        let path = name.path(&self.dirs.log);
        match RecordReader::open(&TolerantDisk::new(&*self.disk), &path) {
            Ok(mut reader) => {
                let tolerant = TolerantDisk::new(&*self.disk);
                let before = txn_before(&tolerant, &self.dirs.log, name)?;
                before.into_iter().for_each(|before| reader.starts_after(before));
                self.file = Some(OpenFile { reader, damages: 0 });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.doubt(),
            Err(error) => return Err(IoErrorAt { path, source: error }.into()),
        }
        Ok(())
    }

    /// Passes the end of the records of a file: goes on after damage, or with the next file.
    fn pass_end(&mut self) -> Result<(), RangeError> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let next_name = self.files.last().map(|name| name.zxid);
        if file.reader.last_zxid().is_some_and(|last| next_name == Some(last.next())) {
            // An earlier start dropped what follows here.
            return Ok(());
        }
        let end = classify(&file.reader).map_err(io_at(file.reader.path()))?;
        if let RecordsEnd::Damaged(LogDamage { next_valid, .. }) = end {
            self.doubt();
            file.damages += 1;
            if let Some((offset, _)) = next_valid.filter(|_| file.damages < DAMAGES_PER_FILE_MAX) {
                file.reader.resume_at(offset);
                self.file = Some(file);
            }
        }
        Ok(())
    }

    /// There may have been txns here.
    fn doubt(&mut self) {
        if let Chain::Whole { exactly_next, .. } = &mut self.chain {
            *exactly_next = true;
        }
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
