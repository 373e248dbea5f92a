//! The txns of the log, decoded ahead of the one who applies them (see [`crate::ahead`]): a record is
//! read, its checksum and its place in the order are checked, and it is decoded, while those before it
//! change the tree.

use std::ops::ControlFlow;

use herdsman_proto::txn::Entry;

use crate::ahead::{HandOn, Place, read_ahead};
use crate::disk::Disk;
use crate::log::walk::{Marks, Walk, WalkError, Walked, walk_marked};

/// A batch is handed on when its payloads are longer.
const BATCH_BYTES: usize = 128 << 10;

/// Walks the log and hands each txn to `apply`, in order. If the walk ends with an error, all txns before
/// the trouble have been handed on.
pub(super) fn walk_entries(
    disk: &dyn Disk,
    walk: Walk<'_>,
    marks: Marks<'_>,
    apply: &mut dyn FnMut(&Entry),
) -> Result<Walked, WalkError> {
    let place = Place::for_bytes(bytes_of(disk, walk));
    let mut fill = |hand_on: &mut HandOn<'_, Vec<Entry>>| fill(disk, walk, marks, hand_on);
    read_ahead(place, &mut fill, &mut |entries: &Vec<Entry>| {
        entries.iter().for_each(&mut *apply);
        ControlFlow::Continue(())
    })
}

fn fill(
    disk: &dyn Disk,
    walk: Walk<'_>,
    marks: Marks<'_>,
    hand_on: &mut HandOn<'_, Vec<Entry>>,
) -> Result<Walked, WalkError> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let walked = walk_marked(disk, walk, marks, &mut |record| {
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
    walked
}

/// How much there is to read at most. A file that cannot be opened is for the walk to report.
fn bytes_of(disk: &dyn Disk, walk: Walk<'_>) -> u64 {
    let files = walk.files.iter().map(|name| disk.open_read(&name.path(walk.dir)));
    files.map(|file| file.and_then(|file| file.bytes()).unwrap_or_default()).sum()
}
