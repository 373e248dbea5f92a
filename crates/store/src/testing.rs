//! What the tests of this crate share: txns to write, and a log to write them to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
use herdsman_proto::{Acl, Perms, SessionId, Txn, TxnHeader, Zxid};

use crate::disk::{Dirs, Disk, MemoryDisk};
use crate::log::record::RecordReader;
use crate::log::writer::{LogOptions, LogWriter, SyncMode};

pub(crate) const DIR: &str = "/data/version-2";

pub(crate) fn dir() -> &'static Path {
    Path::new(DIR)
}

pub(crate) fn dirs() -> Dirs {
    Dirs::below(Path::new("/data"), Path::new("/data"))
}

pub(crate) fn disk() -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_dir(dir()).unwrap();
    disk
}

/// Small files, so that tests are quick.
pub(crate) const OPTIONS: LogOptions =
    LogOptions { pre_alloc_bytes: 16 << 10, file_bytes_max: None, payload_bytes_max: 1 << 20 };

pub(crate) fn writer(disk: &MemoryDisk, last: Zxid) -> LogWriter {
    LogWriter::new(Arc::new(disk.clone()), DIR, last, OPTIONS)
}

/// A txn that creates `/n<zxid>` with `bytes` bytes of data, none of them zero.
pub(crate) fn create(zxid: i64, bytes: usize) -> Entry {
    let byte = u8::try_from(zxid % 200).unwrap() + 1;
    Entry {
        header: TxnHeader {
            session: SessionId(0x1000),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: 1_700_000_000_000 + zxid,
        },
        txn: Txn::Create(CreateTxn {
            kind: CreateKind::Plain { ephemeral: false, with_stat: false },
            path: format!("/n{zxid}").into(),
            data: Some(Arc::from(vec![byte; bytes])),
            acl: vec![Acl::world(Perms::ALL)],
            parent_cversion: i32::try_from(zxid & 0xffff).unwrap(),
        }),
        digest: None,
    }
}

pub(crate) fn payload(entry: &Entry) -> Vec<u8> {
    let mut payload = Vec::new();
    entry.encode(&mut payload);
    payload
}

/// Appends txns `from..=to` as one batch and flushes it.
pub(crate) fn write_batch(writer: &mut LogWriter, from: i64, to: i64) {
    for zxid in from..=to {
        writer.append(Zxid(zxid), &payload(&create(zxid, 40))).unwrap();
    }
    let flushed = writer.flush(SyncMode::Sync).unwrap();
    assert_eq!(flushed.last_zxid, Zxid(to));
}

/// The zxids of all whole records of a file, from its front.
pub(crate) fn zxids(disk: &MemoryDisk, path: &Path) -> Vec<i64> {
    let mut reader = RecordReader::open(disk, path).unwrap();
    let mut zxids = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        zxids.push(record.zxid.0);
    }
    zxids
}

pub(crate) fn log_path(first: i64) -> PathBuf {
    crate::names::LogName { zxid: Zxid(first) }.path(dir())
}

/// Content of a log file that holds these records and nothing else.
pub(crate) fn log_bytes(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = crate::log::HEADER.to_vec();
    for entry in entries {
        crate::log::encode_record(&payload(entry), &mut bytes);
    }
    bytes
}
