//! `herdsman.epochs`: two copies of both epochs with checksums, beside Apache's files.
//!
//! A promise that is forgotten can elect two leaders, so a damaged epoch file must not be guessed, and no other server
//! knows it. Apache's files are decimal text: a flipped bit may make them another number, and nothing shows it.
//! ```text
//! offset 0     one copy:  "HDEPOCH1" │ int acceptedEpoch │ int currentEpoch │ long last zxid
//!                         │ long first zxid of the open log │ long its length │ int CRC-32 of these
//! offset 4096  the same again
//! ```
//! The copies are overwritten, the first one durably before the second, before Apache's file, and all of this before
//! the promise is sent. So they have everything that was promised by this server, and Apache's files are ahead of them
//! only if Apache has run here meanwhile, or if they are damaged.
//!
//! The last zxid is a txn that was durable here: the last one at a start, and then the first one of each new log file.
//! A log that ends before it has lost something. The open log is the file that was begun last, if it has a table: the
//! table is at its end, so a shorter file without one has lost something, too. Both are lowered before the log is cut.

use std::io;
use std::path::Path;

use herdsman_proto::{EPOCH_MAX, Zxid};

use super::EpochFile;
use crate::disk::{Disk, ReadFile, remove_if_there, replace_whole};

/// The file, in the directory of the snapshots.
pub const COPIES_FILE: &str = "herdsman.epochs";
const TEMPORARY_FILE: &str = "herdsman.epochs.tmp";
const MAGIC: [u8; 8] = *b"HDEPOCH1";
const COPY_BYTES: usize = 44;
const CRC_AT: usize = COPY_BYTES - 4;
/// Where the second copy starts: in another block.
const SECOND_COPY: usize = 4096;

/// A copy of the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochCopy {
    pub(crate) accepted: u32,
    pub(crate) current: u32,
    /// The last txn that is known to have been here.
    pub(crate) last_zxid: Zxid,
    /// The log file that was begun last.
    pub(crate) open_log: Option<OpenLog>,
}

/// A log file with a table, as it was when it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLog {
    /// Its first txn.
    pub first: Zxid,
    /// Its length. It becomes shorter only when it is cut; then its table moves with its end.
    pub bytes: u64,
}

impl EpochCopy {
    pub(super) fn epoch(&self, file: EpochFile) -> u32 {
        match file {
            EpochFile::Accepted => self.accepted,
            EpochFile::Current => self.current,
        }
    }

    fn encode(&self) -> [u8; COPY_BYTES] {
        let mut bytes = [0; COPY_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.accepted.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.current.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.last_zxid.0.to_be_bytes());
        if let Some(OpenLog { first, bytes: file_bytes }) = self.open_log {
            bytes[24..32].copy_from_slice(&first.0.to_be_bytes());
            bytes[32..40].copy_from_slice(&file_bytes.to_be_bytes());
        }
        let checksum = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; COPY_BYTES]) -> Option<Self> {
        let int = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| (i64::from(int(at)) << 32) | i64::from(int(at + 4));
        let open = OpenLog { first: Zxid(long(24)), bytes: long(32).cast_unsigned() };
        let copy = EpochCopy {
            accepted: int(8),
            current: int(12),
            last_zxid: Zxid(long(16)),
            open_log: Some(open).filter(|open| open.bytes > 0),
        };
        let is_valid = bytes[..8] == MAGIC
            && int(CRC_AT) == crc32fast::hash(&bytes[..CRC_AT])
            && copy.accepted < EPOCH_MAX
            && copy.current <= copy.accepted;
        is_valid.then_some(copy)
    }
}

/// Reads the copies; `None` if there is no valid one. The first one is written first.
pub(crate) fn read_copies(disk: &dyn Disk, dir: &Path) -> Option<EpochCopy> {
    let file = disk.open_read(&dir.join(COPIES_FILE)).ok()?;
    [0, SECOND_COPY].into_iter().find_map(|offset| read_copy(&*file, offset as u64))
}

fn read_copy(file: &dyn ReadFile, offset: u64) -> Option<EpochCopy> {
    let mut bytes = [0; COPY_BYTES];
    crate::log::ending::read_exactly(file, offset, &mut bytes).ok()?;
    EpochCopy::decode(&bytes)
}

/// Replaces both copies, durably, unless they are both as they should be. A file that is there is overwritten, one copy
/// after the other, which needs no room on the disk.
pub(super) fn write_copies(disk: &dyn Disk, dir: &Path, copy: EpochCopy) -> io::Result<()> {
    let bytes = copy.encode();
    let mut content = vec![0; SECOND_COPY];
    content[..COPY_BYTES].copy_from_slice(&bytes);
    content.extend(bytes);
    let path = dir.join(COPIES_FILE);
    match crate::disk::read_whole(disk, &path, content.len() as u64) {
        Ok(found) if found == content => Ok(()),
        Ok(found) if found.len() == content.len() => {
            let mut file = disk.open_write(&path)?;
            for offset in [0, SECOND_COPY] {
                file.write_at(offset as u64, &bytes)?;
                file.sync_data()?;
            }
            Ok(())
        }
        _ => replace_whole(disk, dir, (TEMPORARY_FILE, COPIES_FILE), &content),
    }
}

/// Removes the copies, durably, before older epochs take effect.
pub(crate) fn remove_copies(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    match disk.remove(&dir.join(COPIES_FILE)) {
        Ok(()) => disk.sync_dir(dir),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // An earlier attempt may not have been durable.
            remove_if_there(disk, &dir.join(TEMPORARY_FILE))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::testing::{dir, disk};

    const COPY: EpochCopy = EpochCopy {
        accepted: 7,
        current: 6,
        last_zxid: Zxid(6 << 32 | 0x8000_0001),
        open_log: Some(OpenLog { first: Zxid(6 << 32 | 0x8000_0000), bytes: 64 << 20 }),
    };

    fn written() -> MemoryDisk {
        let disk = disk();
        write_copies(&disk, dir(), COPY).unwrap();
        disk
    }

    #[test]
    fn one_good_copy_is_enough() {
        let disk = written();
        let path = dir().join(COPIES_FILE);
        assert_eq!(disk.content(&path).unwrap().len(), SECOND_COPY + COPY_BYTES);
        for offset in 0..COPY_BYTES {
            for bit in 0..8 {
                disk.flip_bit(&path, offset, bit);
                assert_eq!(read_copies(&disk, dir()), Some(COPY));
                disk.flip_bit(&path, SECOND_COPY + offset, bit);
                assert_eq!(read_copies(&disk, dir()), None, "{offset}, {bit}");
                disk.flip_bit(&path, offset, bit);
                assert_eq!(read_copies(&disk, dir()), Some(COPY));
                disk.flip_bit(&path, SECOND_COPY + offset, bit);
            }
        }
        // A bad block, or half of the file.
        disk.fail_reads(&path, 10..11);
        assert_eq!(read_copies(&disk, dir()), Some(COPY));
        disk.put(&path, disk.content(&path).unwrap()[..4000].to_vec());
        assert_eq!(read_copies(&disk, dir()), Some(COPY));
        disk.put(&path, Vec::new());
        assert_eq!(read_copies(&disk, dir()), None);
    }

    /// A copy that was damaged is replaced, and a whole file is not written again.
    #[test]
    fn both_copies_are_kept_whole() {
        let disk = written();
        let before = disk.changes();
        write_copies(&disk, dir(), COPY).unwrap();
        assert_eq!(disk.changes(), before);
        disk.flip_bit(&dir().join(COPIES_FILE), 9, 1);
        write_copies(&disk, dir(), COPY).unwrap();
        disk.flip_bit(&dir().join(COPIES_FILE), SECOND_COPY + 9, 1);
        assert_eq!(read_copies(&disk, dir()), Some(COPY));
    }

    /// Numbers that no server writes, with a valid checksum.
    #[test]
    fn impossible_epochs_are_not_believed() {
        for copy in [EpochCopy { current: 8, ..COPY }, EpochCopy { accepted: EPOCH_MAX, ..COPY }] {
            assert_eq!(EpochCopy::decode(&copy.encode()), None);
        }
    }
}
