//! Data that was read in one direction and is not written yet: it waits until it is due, for a release, or
//! for the other side to read. Bounded by bytes; when it is full, the proxy stops reading, and the sender's
//! own buffers fill as with a slow server.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::frames::FRAME_BYTES_MAX;
use super::rule::Progress;
use super::shared::{Ending, Verdict};

/// Room for two of the largest frames.
const QUEUE_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
/// The cost of an item besides its bytes.
const ITEM_BYTES: usize = 128;

/// An item of the queue.
pub(super) enum Item {
    /// Bytes to write.
    Pass(Pass),
    /// The connection ends here, possibly because of a rule.
    End(Ending, Option<Arc<Progress>>),
}

/// Bytes to write.
pub(super) struct Pass {
    pub bytes: Bytes,
    /// The earliest time to write them.
    pub due: Instant,
    /// The fault that applies to them.
    pub verdict: Option<Verdict>,
    _room: Option<OwnedSemaphorePermit>,
}

/// The sending end. Dropping it closes the queue.
pub(super) struct QueueSender {
    items: mpsc::UnboundedSender<Item>,
    room: Arc<Semaphore>,
}

pub(super) type QueueReceiver = mpsc::UnboundedReceiver<Item>;

pub(super) fn queue() -> (QueueSender, QueueReceiver) {
    // The channel itself is unbounded; permits of the semaphore bound its bytes.
    let (items, receiver) = mpsc::unbounded_channel();
    (QueueSender { items, room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)) }, receiver)
}

impl QueueSender {
    /// Waits for room.
    pub async fn pass(&self, bytes: Bytes, due: Instant, verdict: Option<Verdict>) {
        let cost = u32::try_from(bytes.len() + ITEM_BYTES).unwrap_or(u32::MAX);
        // The semaphore is never closed, so this returns a permit.
        let room = Arc::clone(&self.room).acquire_many_owned(cost).await.ok();
        self.put(Item::Pass(Pass { bytes, due, verdict, _room: room }));
    }

    pub fn end(&self, ending: Ending, progress: Option<Arc<Progress>>) {
        self.put(Item::End(ending, progress));
    }

    /// If the receiver is closed, the connection has ended.
    fn put(&self, item: Item) {
        _ = self.items.send(item);
    }
}
