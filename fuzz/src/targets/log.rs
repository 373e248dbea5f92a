//! Log files: raw bytes, and records with valid checksums but invalid contents.
//!
//! The recovered txns must be records of the file in their order, and a second recovery of the repaired files must give
//! the same tree.

use std::path::Path;

use herdsman_proto::Zxid;
use herdsman_proto::txn::Entry;
use herdsman_store::log::pieces::LogFiles;
use herdsman_store::log::walk::walk;
use herdsman_store::log::{HEADER, encode_record};
use herdsman_store::{Dirs, LogName, MemoryDisk, RecoverOptions, Recovered, recover};

const DIR: &str = "/fuzz";
const NAME: LogName = LogName { zxid: Zxid(1) };

/// In: a byte that says how to read the rest. Even: a log file. Odd: payloads, each after two bytes of
/// length, to be put into records.
pub fn run(bytes: &[u8]) {
    let Some((&mode, rest)) = bytes.split_first() else {
        return;
    };
    let file = if mode.is_multiple_of(2) { rest.to_vec() } else { records(rest) };
    walk_file(&file);
    recover_file(file);
}

fn records(mut rest: &[u8]) -> Vec<u8> {
    let mut file = HEADER.to_vec();
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (payload, behind) = behind.split_at(length);
        encode_record(payload, &mut file);
        rest = behind;
    }
    file
}

fn walk_file(file: &[u8]) {
    let disk = MemoryDisk::new();
    disk.put(&NAME.path(Path::new(DIR)), file.to_vec());
    let (mut last, mut end) = (Zxid::ZERO, 0);
    let (dir, after) = (Path::new(DIR), Zxid::ZERO);
    let log = LogFiles { dir, files: &[NAME], after, until: None, known: &[], open: None };
    let walked = walk(&disk, &log, &mut |record| {
        let entry = Entry::decode(record.payload)?;
        assert_eq!(entry.header.zxid, record.zxid);
        assert!(record.zxid > last, "zxids rise");
        last = record.zxid;
        let start = usize::try_from(record.offset).expect("an offset in the file");
        assert!(start >= end, "records do not overlap");
        let mut copy = Vec::new();
        encode_record(record.payload, &mut copy);
        end = start + copy.len();
        assert_eq!(file[start..end], copy);
        Ok(())
    });
    if let Ok(walked) = walked {
        assert_eq!(walked.last_zxid, last);
    }
}

fn recover_file(file: Vec<u8>) {
    let disk = MemoryDisk::new();
    disk.put(&NAME.path(Path::new(DIR)), file);
    let Some(first) = recovered(&disk) else {
        return;
    };
    let second = recovered(&disk).expect("repaired files can be read");
    assert_eq!(first.tree.last_zxid(), second.tree.last_zxid());
    assert_eq!(first.tree.digest(), second.tree.digest());
    assert_eq!(first.tree.node_count(), second.tree.node_count());
    assert!(second.cut.is_none(), "nothing is left to repair");
}

fn recovered(disk: &MemoryDisk) -> Option<Recovered> {
    let dirs = Dirs { data: DIR.into(), log: DIR.into() };
    let options = RecoverOptions { trust_empty: true, ..RecoverOptions::default() };
    recover(disk, &dirs, &options, &mut |_| {}).ok()
}
