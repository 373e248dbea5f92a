//! The copies of the epochs, `herdsman.epochs`: any bytes, and copies with valid checksums but impossible contents.
//!
//! Only possible epochs are believed, the first valid copy counts, and after the file is written again each copy alone
//! says the same.

use std::path::Path;

use herdsman_proto::{EPOCH_MAX, Zxid};
use herdsman_store::{COPIES_FILE, EpochFile, MemoryDisk, copied_epoch, lower_last_known};

const DIR: &str = "/fuzz";
/// Bytes of a copy.
pub(crate) const COPY_BYTES: usize = 44;
/// Where the second one starts.
pub(crate) const SECOND_COPY: usize = 4096;

/// In: a byte that says how to read the rest. 0: the file. Otherwise two copies, of which the first one (bit 0) and the
/// second one (bit 1) get valid checksums.
pub fn run(bytes: &[u8]) {
    let Some((&mode, rest)) = bytes.split_first() else {
        return;
    };
    let file = if mode == 0 { rest.to_vec() } else { copies(mode, rest) };
    let disk = MemoryDisk::new();
    let path = Path::new(DIR).join(COPIES_FILE);
    disk.put(&path, file.clone());
    let Some(epochs) = epochs(&disk) else {
        return;
    };
    let (accepted, current) = epochs;
    assert!(current <= accepted && accepted < EPOCH_MAX);
    let valid = [0, SECOND_COPY].map(|at| file.get(at..at + COPY_BYTES).and_then(alone));
    assert_eq!(valid[0].or(valid[1]), Some(epochs));
    lower_last_known(&disk, Path::new(DIR), Zxid(1)).expect("a disk in memory takes everything");
    let written = disk.content(&path).expect("it was written");
    assert_eq!(written.len(), SECOND_COPY + COPY_BYTES);
    for at in [0, SECOND_COPY] {
        assert_eq!(alone(&written[at..at + COPY_BYTES]), Some(epochs));
    }
}

/// The file with these copies, filled with zeros or cut.
fn copies(mode: u8, bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0; SECOND_COPY + COPY_BYTES];
    for (at, bit) in [(0, 1), (SECOND_COPY, 2)] {
        let copy = &mut file[at..at + COPY_BYTES];
        let from = bytes.get(if at == 0 { 0 } else { COPY_BYTES }..).unwrap_or_default();
        let count = from.len().min(COPY_BYTES);
        copy[..count].copy_from_slice(&from[..count]);
        if mode & bit != 0 {
            let checksum = crc32fast::hash(&copy[..COPY_BYTES - 4]);
            copy[COPY_BYTES - 4..].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    file
}

/// The epochs in a copy.
fn alone(copy: &[u8]) -> Option<(u32, u32)> {
    let disk = MemoryDisk::new();
    disk.put(&Path::new(DIR).join(COPIES_FILE), copy.to_vec());
    epochs(&disk)
}

fn epochs(disk: &MemoryDisk) -> Option<(u32, u32)> {
    let [accepted, current] = [EpochFile::Accepted, EpochFile::Current]
        .map(|file| copied_epoch(disk, Path::new(DIR), file));
    assert_eq!(accepted.is_some(), current.is_some());
    accepted.zip(current)
}
