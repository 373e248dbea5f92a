//! Copies one file into the archive under a temporary name, and verifies it.
//!
//! In: a log file that is no longer written, or a complete snapshot. Out: a synced copy and its last txn, or the reason
//! why there is none. The records of a log are checked one by one and written again from what was checked, without the
//! padding; of a snapshot the copy itself is read to its end.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use herdsman_proto::txn::Entry;
use herdsman_proto::{Acl, SessionId, StatPersisted, Zxid};
use herdsman_tree::{LoadError, Loader};

use super::ArchiveStep;
use crate::disk::{Disk, IoErrorAt, WriteFile, io_at, remove_if_there};
use crate::log::ending::{RecordsEnd, classify};
use crate::log::record::RecordReader;
use crate::log::{HEADER, encode_record};
use crate::names::{Compression, SnapshotName};
use crate::snapshot::Trailer;
use crate::snapshot::reader::{
    SnapshotError, SnapshotFault, SnapshotSummary, SnapshotVisitor, read_snapshot_at,
};

/// Bytes that are copied at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes after which the copy is synced, so that no sync is long.
const SYNC_BYTES: u64 = 8 << 20;

/// The reason why a file was not copied.
#[derive(Debug)]
pub(super) enum CopyFault {
    /// The file must not be copied.
    Damaged(String),
    /// The file cannot be read.
    Source(io::Error),
    /// The copy cannot be written.
    Target(IoErrorAt),
    /// The caller stopped the work.
    Stopped,
}

/// A finished copy under its temporary name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copied {
    /// The last txn in it, or of which it shows an effect.
    pub(super) last: Zxid,
    /// Its length.
    pub(super) bytes: u64,
}

/// The copy being written.
struct Target<'a> {
    file: Box<dyn WriteFile>,
    path: &'a Path,
    bytes: u64,
    synced_bytes: u64,
}

impl<'a> Target<'a> {
    fn create((disk, path): (&dyn Disk, &'a Path)) -> Result<Self, CopyFault> {
        let create = || {
            remove_if_there(disk, path)?;
            disk.create(path)
        };
        let file = create().map_err(io_at(path)).map_err(CopyFault::Target)?;
        Ok(Target { file, path, bytes: 0, synced_bytes: 0 })
    }

    fn append(&mut self, bytes: &[u8], step: &mut ArchiveStep<'_>) -> Result<(), CopyFault> {
        let written = self.file.write_at(self.bytes, bytes);
        written.map_err(io_at(self.path)).map_err(CopyFault::Target)?;
        self.bytes += bytes.len() as u64;
        if self.bytes - self.synced_bytes >= SYNC_BYTES {
            self.sync()?;
        }
        match step(bytes.len() as u64) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(CopyFault::Stopped),
        }
    }

    fn sync(&mut self) -> Result<(), CopyFault> {
        self.file.sync_data().map_err(io_at(self.path)).map_err(CopyFault::Target)?;
        self.synced_bytes = self.bytes;
        Ok(())
    }
}

/// Copies the records of a log file: from the txn that names it to at most the last txn before the next file.
pub(super) fn copy_log(
    disk: &dyn Disk,
    from: &Path,
    (first, until): (Zxid, Zxid),
    to: (&dyn Disk, &Path),
    step: &mut ArchiveStep<'_>,
) -> Result<Copied, CopyFault> {
    let mut reader = RecordReader::open(disk, from).map_err(CopyFault::Source)?;
    reader.starts_after(Zxid(first.0.saturating_sub(1)));
    let mut target = Target::create(to)?;
    let mut buffer = HEADER.to_vec();
    let mut last = None;
    while let Some(record) = reader.next_record().map_err(CopyFault::Source)? {
        let zxid = record.zxid;
        check_order(first, until, last, zxid)?;
        if let Err(error) = Entry::decode(record.payload) {
            return Err(CopyFault::Damaged(format!("txn {zxid} cannot be decoded: {error}")));
        }
        last = Some(zxid);
        encode_record(record.payload, &mut buffer);
        if buffer.len() >= CHUNK_BYTES {
            target.append(&buffer, step)?;
            buffer.clear();
        }
    }
    let offset = reader.offset();
    let reason = match classify(&reader).map_err(CopyFault::Source)? {
        RecordsEnd::Clean => None,
        RecordsEnd::Torn { .. } => Some("the record is not complete"),
        RecordsEnd::Damaged(damage) => Some(damage.why),
    };
    if let Some(why) = reason {
        return Err(CopyFault::Damaged(format!("damaged at offset {offset}: {why}")));
    }
    let Some(last) = last else {
        return Err(CopyFault::Damaged("it has no txn".to_owned()));
    };
    target.append(&buffer, step)?;
    target.sync()?;
    Ok(Copied { last, bytes: target.bytes })
}

/// Checks that a txn may come next in a log file.
fn check_order(first: Zxid, until: Zxid, last: Option<Zxid>, zxid: Zxid) -> Result<(), CopyFault> {
    let fault = match last {
        None if zxid != first => format!("its first txn is {zxid}"),
        Some(last) if !last.is_continued_by(zxid) => format!("txn {zxid} follows txn {last}"),
        _ if zxid > until => format!("txn {zxid} should be in a later file"),
        _ => return Ok(()),
    };
    Err(CopyFault::Damaged(fault))
}

/// Copies a snapshot as it is, and reads the copy.
pub(super) fn copy_snapshot(
    disk: &dyn Disk,
    from: &Path,
    name: SnapshotName,
    to: (&dyn Disk, &Path),
    step: &mut ArchiveStep<'_>,
) -> Result<Copied, CopyFault> {
    let file = disk.open_read(from).map_err(CopyFault::Source)?;
    let mut target = Target::create(to)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read_at(target.bytes, &mut buffer).map_err(CopyFault::Source)?;
        if read == 0 {
            break;
        }
        target.append(&buffer[..read], step)?;
    }
    target.sync()?;
    let bytes = target.bytes;
    drop(target);
    let (disk, path) = to;
    let mut effects = Effects::default();
    let mut read = 0;
    let mut report = |bytes: u64| {
        // The reading cannot be stopped, but the next copy will be.
        _ = step(bytes.saturating_sub(read));
        read = read.max(bytes);
    };
    match read_snapshot_at(disk, path, name.compression, &mut effects, &mut report) {
        Ok(SnapshotSummary { trailer, .. }) => {
            Ok(Copied { last: effects.fuzzy_end(trailer, name), bytes })
        }
        Err(error) => match error.fault {
            SnapshotFault::Io(source) if !is_bad_content(&source) => {
                Err(CopyFault::Target(io_at(path)(source)))
            }
            fault => {
                let offset = error.offset;
                Err(CopyFault::Damaged(format!("damaged at offset {offset}: {fault}")))
            }
        },
    }
}

/// Reads a snapshot of any name to its end.
pub(crate) fn read_trailer(
    disk: &dyn Disk,
    path: &Path,
    compression: Compression,
) -> Result<Trailer, SnapshotError> {
    let mut effects = Effects::default();
    Ok(read_snapshot_at(disk, path, compression, &mut effects, &mut |_| {})?.trailer)
}

/// Whether a decompressor, not the disk, has failed.
fn is_bad_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// Notes the last txn of which a snapshot shows an effect, without making a tree of it.
#[derive(Default)]
pub(super) struct Effects {
    newest: Zxid,
}

impl Effects {
    /// The last txn of which the snapshot may show an effect, as far as it says.
    pub(super) fn fuzzy_end(&self, trailer: Trailer, name: SnapshotName) -> Zxid {
        trailer.fuzzy_until(name.zxid).max(self.newest)
    }
}

impl SnapshotVisitor for Effects {
    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn node(
        &mut self,
        path: &str,
        _: Option<&[u8]>,
        _: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        self.newest = self.newest.max(Loader::effect_of(path, &stat));
        Ok(())
    }
}
