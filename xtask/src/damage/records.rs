//! Records in log files: where they and their slots are, and how to overwrite them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::{POLL, WAITS_MAX};
use crate::rng::Rng;

/// Before the payload of a record: its checksum and its length.
const HEAD_BYTES: usize = 12;
/// Before the first record of a file.
pub const FILE_HEAD_BYTES: usize = 16;
/// At the end of a file with a persist table.
pub const FOOTER_BYTES: usize = 64;
/// A record's entry in the persist table.
pub const SLOT_BYTES: usize = 32;
const FOOTER_MAGIC: &[u8] = b"HRDTABLE";

/// Where a record and its slot are.
#[derive(Clone, Debug)]
pub struct Record {
    /// The name of the log file.
    pub file: String,
    /// Where the record begins.
    pub start: usize,
    /// The byte after its end mark.
    pub end: usize,
    /// Where its slot begins.
    pub slot: usize,
}

impl Record {
    /// The path of its file.
    pub fn path(&self, data_dir: &Path) -> PathBuf {
        data_dir.join("version-2").join(&self.file)
    }
}

/// What of a record is overwritten.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// A bit of the checksum.
    Checksum,
    /// The length, by zeros.
    Length,
    /// A byte of the payload.
    Body,
    /// The mark at the end.
    Mark,
    /// All of it, by zeros, as if a sector could not be written.
    Whole,
}

impl Damage {
    /// All kinds.
    pub const ALL: [Damage; 5] =
        [Damage::Checksum, Damage::Length, Damage::Body, Damage::Mark, Damage::Whole];

    /// Overwrites a record of a server that is down.
    pub fn inflict(self, data_dir: &Path, record: &Record, random: &mut Rng) -> Result<()> {
        let Record { start, end, .. } = *record;
        let path = record.path(data_dir);
        let mut bytes = fs::read(&path)?;
        let payload = start + HEAD_BYTES..end - 1;
        match self {
            Damage::Checksum => bytes[start + 4 + random.below(4)] ^= 1 << random.below(8),
            Damage::Length => bytes[start + 8..start + HEAD_BYTES].fill(0),
            Damage::Body => {
                bytes[payload.start + random.below(payload.len())] ^= 1 << random.below(8);
            }
            Damage::Mark => bytes[end - 1] = 0,
            Damage::Whole => bytes[start..end].fill(0),
        }
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
    }
}

/// Waits until a server's log has all of these records and their slots, and returns where they are. A slot is written
/// right after its record was acknowledged.
pub fn await_all(data_dir: &Path, zxids: &[i64]) -> Result<Vec<Record>> {
    let deadline = Instant::now() + WAITS_MAX;
    loop {
        let found = zxids.iter().map(|zxid| find_record(data_dir, *zxid));
        match found.collect::<Result<Vec<_>>>() {
            Ok(records) => return Ok(records),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

/// Finds a record by reading the files as Apache does.
fn find_record(data_dir: &Path, zxid: i64) -> Result<Record> {
    for entry in fs::read_dir(data_dir.join("version-2"))? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !file.starts_with("log.") {
            continue;
        }
        let bytes = fs::read(&path)?;
        let mut start = FILE_HEAD_BYTES;
        let mut index = 0;
        while let Some((found, end)) = record_at(&bytes, start) {
            if found == zxid {
                let slot = slot_of(&bytes, index, zxid);
                let slot = slot.with_context(|| format!("{zxid:#x} in {}", path.display()))?;
                return Ok(Record { file, start, end, slot });
            }
            (start, index) = (end, index + 1);
        }
    }
    bail!("no record of {zxid:#x} in {}", data_dir.display())
}

/// Where the slot of the record with this index is; fails if it was not written yet.
fn slot_of(bytes: &[u8], index: usize, zxid: i64) -> Result<usize> {
    let footer = bytes.len().saturating_sub(FOOTER_BYTES);
    ensure!(bytes[footer..].starts_with(FOOTER_MAGIC), "there is no persist table");
    let slot = footer.saturating_sub(SLOT_BYTES * (index + 1));
    ensure!(bytes[slot..].starts_with(&zxid.to_be_bytes()), "its slot was not written");
    Ok(slot)
}

/// The zxid and the path of the newest file whose name begins like this.
pub fn newest(data_dir: &Path, prefix: &str) -> Result<(i64, PathBuf)> {
    let folder = data_dir.join("version-2");
    let mut newest = None;
    for entry in fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let zxid = name.strip_prefix(prefix).and_then(|hex| i64::from_str_radix(hex, 16).ok());
        newest = newest.max(zxid.map(|zxid| (zxid, name)));
    }
    let (zxid, name) = newest.with_context(|| format!("no {prefix}* in {}", folder.display()))?;
    Ok((zxid, folder.join(name)))
}

/// Flips a bit in the payload of the last record but one of the newest log; the server must be down.
pub fn damage_newest_log(data_dir: &Path) -> Result<()> {
    let (_, path) = newest(data_dir, "log.")?;
    let mut bytes = fs::read(&path)?;
    let mut starts = vec![FILE_HEAD_BYTES];
    while let Some((_, end)) = record_at(&bytes, starts[starts.len() - 1]) {
        starts.push(end);
    }
    let [.., start, _, _] = starts[..] else {
        bail!("{} has less than two records", path.display())
    };
    bytes[start + HEAD_BYTES] ^= 1;
    fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// The zxid of the record that has this byte; 0 for the header. `None` if no record has it.
pub fn record_with(bytes: &[u8], at: usize) -> Option<i64> {
    let (mut zxid, mut end) = (0, FILE_HEAD_BYTES);
    while end <= at {
        (zxid, end) = record_at(bytes, end)?;
    }
    Some(zxid)
}

/// The zxid of the record that starts here, and where it ends.
fn record_at(bytes: &[u8], start: usize) -> Option<(i64, usize)> {
    let length = bytes.get(start + 8..start + HEAD_BYTES)?;
    let length = usize::try_from(i32::from_be_bytes(length.try_into().ok()?)).ok()?;
    let payload = bytes.get(start + HEAD_BYTES..start + HEAD_BYTES + length)?;
    // Session and cxid before.
    let zxid = payload.get(12..20)?;
    Some((i64::from_be_bytes(zxid.try_into().ok()?), start + HEAD_BYTES + length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_record_belongs_to_it() {
        let mut bytes = vec![1; FILE_HEAD_BYTES];
        for zxid in [7_i64, 8] {
            bytes.extend([0; 8]);
            bytes.extend(20_i32.to_be_bytes());
            bytes.extend([0; 12]);
            bytes.extend(zxid.to_be_bytes());
            bytes.push(b'B');
        }
        bytes.extend([0; 100]);
        assert_eq!(record_with(&bytes, 15), Some(0));
        assert_eq!([16, 48, 49, 81].map(|at| record_with(&bytes, at)), [7, 7, 8, 8].map(Some));
        assert_eq!(record_with(&bytes, 82), None);
    }
}
