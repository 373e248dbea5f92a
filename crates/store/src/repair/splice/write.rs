//! Writes a log file of old and new records beside the one that it replaces, reads it back, and renames it.

use std::io;
use std::ops::Range;
use std::path::Path;

use herdsman_proto::Zxid;

use super::{FilePlan, KeepDamaged, Part, SpliceError};
use crate::disk::{Disk, ReadFile, TolerantDisk, WriteFile, io_at, remove_if_there};
use crate::log::ending::{LogDamage, RecordsEnd, classify, read_exactly};
use crate::log::record::RecordReader;
use crate::log::table::{add_table, txn_before_table};
use crate::log::{HEADER, HEADER_BYTES, checksum, encode_record};
use crate::names::{DAMAGED, TEMPORARY};

/// Bytes that are written or copied at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// The zxid and the checksum of each record.
type Contents = Vec<(Zxid, i64)>;

/// Writes a file and puts it in its place, durably. Returns its last txn. If it fails, the old file is unchanged.
pub(super) fn replace(
    disk: &dyn Disk,
    dir: &Path,
    plan: &FilePlan,
    keep: KeepDamaged,
) -> Result<Zxid, SpliceError> {
    let path = plan.name.path(dir);
    let temporary = dir.join(format!("{TEMPORARY}{}", plan.name.file_name()));
    let last = write_verified(disk, &path, &temporary, plan).inspect_err(|_| {
        // What cannot be removed is removed by the next start.
        let _ = remove_if_there(disk, &temporary);
    })?;
    if plan.replaces && keep == KeepDamaged::IfRoom {
        keep_damaged(disk, dir, plan);
    }
    disk.rename(&temporary, &path).map_err(io_at(&path))?;
    disk.sync_dir(dir).map_err(io_at(dir))?;
    tracing::info!(
        path = %path.display(), records = plan.new_records(),
        "replaced what was damaged or missing by records from elsewhere"
    );
    Ok(last)
}

fn write_verified(
    disk: &dyn Disk,
    path: &Path,
    temporary: &Path,
    plan: &FilePlan,
) -> Result<Zxid, SpliceError> {
    let expected = write(disk, path, temporary, plan).map_err(io_at(temporary))?;
    let has_damage = plan.parts.iter().any(|part| matches!(part, Part::Covered(_)));
    if !has_damage {
        // Without a table it is a file like Apache's; one of records around damage would be wrong about its end.
        let previous = if plan.replaces { previous_txn(disk, path) } else { None };
        add_table(disk, temporary, (previous, plan.name.zxid)).map_err(io_at(temporary))?;
    }
    let (found, is_clean) = read_back(disk, temporary).map_err(io_at(temporary))?;
    if found == expected && (is_clean || has_damage) {
        return Ok(expected.last().map_or(Zxid::ZERO, |(zxid, _)| *zxid));
    }
    let difference = found.iter().zip(&expected).position(|(left, right)| left != right);
    let at = difference.unwrap_or(found.len().min(expected.len()));
    let name = |contents: &Contents| {
        contents.get(at).map_or("nothing".to_owned(), |(zxid, _)| format!("txn {zxid}"))
    };
    let why = format!("{} instead of {}", name(&found), name(&expected));
    Err(SpliceError::Unverified { path: path.to_owned(), why })
}

/// The txn right before the file that is replaced, as far as its footer can be read.
fn previous_txn(disk: &dyn Disk, path: &Path) -> Option<Zxid> {
    txn_before_table(&TolerantDisk::new(disk), path).ok().flatten()
}

/// Writes the new file, durably. Returns its records.
fn write(disk: &dyn Disk, path: &Path, temporary: &Path, plan: &FilePlan) -> io::Result<Contents> {
    remove_if_there(disk, temporary)?;
    let mut output = Output {
        file: disk.create(temporary)?,
        at: 0,
        buffer: HEADER.to_vec(),
        contents: Vec::new(),
    };
    for part in &plan.parts {
        match part {
            Part::New(records) => {
                for (zxid, payload) in records {
                    output.record(*zxid, payload)?;
                }
            }
            Part::Old(range) => output.old_records(disk, path, range)?,
            Part::Covered(range) => output.bytes(disk, path, range)?,
        }
    }
    output.flush()?;
    output.file.sync_data()?;
    Ok(output.contents)
}

/// The new file.
struct Output {
    file: Box<dyn WriteFile>,
    /// Where the buffer goes.
    at: u64,
    buffer: Vec<u8>,
    contents: Contents,
}

impl Output {
    fn record(&mut self, zxid: Zxid, payload: &[u8]) -> io::Result<()> {
        encode_record(payload, &mut self.buffer);
        self.contents.push((zxid, checksum(payload)));
        if self.buffer.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Copies valid records.
    fn old_records(&mut self, disk: &dyn Disk, path: &Path, range: &Range<u64>) -> io::Result<()> {
        let mut reader = RecordReader::open(&TolerantDisk::new(disk), path)?;
        if range.start > reader.offset() || !reader.header_valid() {
            reader.resume_at(range.start);
        }
        while reader.offset() < range.end {
            let Some(record) = reader.next_stored()? else {
                return Err(io::Error::other("the file has changed since it was read"));
            };
            self.record(record.zxid, record.payload)?;
        }
        Ok(())
    }

    /// Copies damage, which may contain records that nobody needs.
    fn bytes(&mut self, disk: &dyn Disk, path: &Path, range: &Range<u64>) -> io::Result<()> {
        self.flush()?;
        let start = range.start.max(HEADER_BYTES);
        let source = TolerantDisk::new(disk).open_read(path)?;
        copy(&*source, start..range.end, &mut *self.file, self.at)?;
        self.at += range.end.saturating_sub(start);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_at(self.at, &self.buffer)?;
            self.at += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// Copies a part of a file, without padding.
fn copy(
    source: &dyn ReadFile,
    range: Range<u64>,
    target: &mut dyn WriteFile,
    to: u64,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = range.start;
    while at < range.end {
        let rest = usize::try_from(range.end - at).unwrap_or(CHUNK_BYTES);
        let piece = &mut chunk[..rest.min(CHUNK_BYTES)];
        read_exactly(source, at, piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            target.write_at(to + (at - range.start), piece)?;
        }
        at += piece.len() as u64;
    }
    Ok(())
}

/// Reads all valid records of a file, and whether there is nothing else in it.
fn read_back(disk: &dyn Disk, path: &Path) -> io::Result<(Contents, bool)> {
    let mut reader = RecordReader::open(disk, path)?;
    let (mut contents, mut is_clean) = (Vec::new(), true);
    loop {
        while let Some(record) = reader.next_stored()? {
            contents.push((record.zxid, checksum(record.payload)));
        }
        match classify(&reader)? {
            RecordsEnd::Damaged(LogDamage { next_valid: Some((offset, _)), .. }) => {
                is_clean = false;
                reader.resume_at(offset);
            }
            end => return Ok((contents, is_clean && end == RecordsEnd::Clean)),
        }
    }
}

/// Keeps a copy of the damaged bytes, for whoever wants to know what happened. If it cannot be written, there is none.
fn keep_damaged(disk: &dyn Disk, dir: &Path, plan: &FilePlan) {
    for range in &plan.dropped {
        let name = plan.name.file_name();
        let aside = dir.join(format!("{DAMAGED}{name}.from.{}", range.start));
        let kept = has_room(disk, dir, range)
            .and_then(|()| copy_aside(disk, &plan.name.path(dir), range, &aside));
        if let Err(error) = kept {
            tracing::warn!(path = %aside.display(), %error, "no copy of the damaged bytes is kept");
            let _ = remove_if_there(disk, &aside);
        }
    }
}

fn has_room(disk: &dyn Disk, dir: &Path, range: &Range<u64>) -> io::Result<()> {
    // The server needs the rest for its log.
    if disk.free_bytes(dir)? / 4 < range.end - range.start {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

fn copy_aside(disk: &dyn Disk, path: &Path, range: &Range<u64>, aside: &Path) -> io::Result<()> {
    remove_if_there(disk, aside)?;
    let source = TolerantDisk::new(disk).open_read(path)?;
    let mut target = disk.create(aside)?;
    copy(&*source, range.clone(), &mut *target, 0)?;
    target.sync_data()
}
