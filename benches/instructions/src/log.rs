//! The log: a batch of txns → one write and one sync. The disk is in memory, so the instructions counted are those of
//! framing, checksums and copying, not of system calls.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use herdsman_proto::Zxid;
use herdsman_store::{Disk, LogOptions, LogWriter, MemoryDisk, SyncMode};

use crate::cases::Operation;
use crate::{encode, fixture};

/// Txns of a batch.
const BATCH_TXNS: usize = 64;
/// Space for all batches of a run: the file grows in the setup and never again.
const PRE_ALLOC_BYTES: u64 = 4 << 20;

/// Appends and flushes a batch.
pub fn append_batch() -> Operation {
    let disk = MemoryDisk::new();
    let dir = Path::new("/log");
    disk.create_dir(dir).expect("a disk in memory takes everything");
    let options = LogOptions { pre_alloc_bytes: PRE_ALLOC_BYTES, ..LogOptions::default() };
    let mut log = LogWriter::new(Arc::new(disk), dir, Zxid::ZERO, options);
    let mut payload = Vec::new();
    encode::a_txn().encode(&mut payload);
    let mut append = move |first: usize| {
        for index in first..first + BATCH_TXNS {
            let appended = log.append(fixture::txn_header(index).zxid, black_box(&payload));
            appended.expect("smaller than the limit");
        }
        let flushed = log.flush(SyncMode::Sync).expect("a disk in memory takes everything");
        assert_eq!(flushed.records, BATCH_TXNS);
    };
    append(0);
    Box::new(move |index| append((index + 1) * BATCH_TXNS))
}
