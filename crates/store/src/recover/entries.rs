//! Decodes the txns of the log ahead of the thread that applies them (see [`crate::ahead`]): a record is
//! read, its checksum and its position are checked, and it is decoded, while earlier ones
//! are applied to the tree.

use std::ops::ControlFlow;

use herdsman_proto::txn::Entry;

use crate::ahead::{FillThread, PassBatch, read_ahead};
use crate::disk::{Disk, IoErrorAt};
use crate::log::pieces::{LogFiles, LogPieces, read_pieces};

/// A batch is passed on when its payloads are longer.
const BATCH_BYTES: usize = 128 << 10;

/// Reads the log and passes each txn that continues the snapshot to `apply`, in order.
pub(super) fn read_entries(
    disk: &dyn Disk,
    log: &LogFiles<'_>,
    apply: &mut dyn FnMut(&Entry),
) -> Result<LogPieces, IoErrorAt> {
    let place = FillThread::for_bytes(bytes_of(disk, log));
    let mut fill = |hand_on: &mut PassBatch<'_, Vec<Entry>>| fill(disk, log, hand_on);
    read_ahead(place, &mut fill, &mut |entries: &Vec<Entry>| {
        entries.iter().for_each(&mut *apply);
        ControlFlow::Continue(())
    })
}

fn fill(
    disk: &dyn Disk,
    log: &LogFiles<'_>,
    hand_on: &mut PassBatch<'_, Vec<Entry>>,
) -> Result<LogPieces, IoErrorAt> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let found = read_pieces(disk, log, &mut |record| {
        batch.push(Entry::decode(record.payload)?);
        bytes += record.payload.len();
        if bytes >= BATCH_BYTES {
            batch = hand_on(std::mem::take(&mut batch)).unwrap_or_default();
            batch.clear();
            bytes = 0;
        }
        Ok(())
    });
    hand_on(batch);
    found
}

/// The maximum number of bytes to read. A file that cannot be opened is reported by the reading.
fn bytes_of(disk: &dyn Disk, log: &LogFiles<'_>) -> u64 {
    let files = log.files.iter().map(|name| disk.open_read(&name.path(log.dir)));
    files.map(|file| file.and_then(|file| file.bytes()).unwrap_or_default()).sum()
}
