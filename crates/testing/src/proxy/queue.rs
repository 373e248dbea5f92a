//! What was read in one direction and is not written yet: it waits for its time, for a release, or
//! for the other side to read. Limited by bytes; when it is full, the proxy stops reading, and the
//! sender's own buffers fill as they would with a slow server.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::frames::FRAME_BYTES_MAX;
use super::rule::Progress;
use super::shared::{Ending, Verdict};

/// Room for two of the largest frames.
const QUEUE_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
/// What an item costs beside its bytes.
const ITEM_BYTES: usize = 128;

/// Something to do in order.
pub(super) enum Item {
    /// Bytes to write.
    Pass(Pass),
    /// The connection ends here, perhaps because a rule says so.
    End(Ending, Option<Arc<Progress>>),
}

/// Bytes to write.
pub(super) struct Pass {
    pub bytes: Bytes,
    /// Not before this.
    pub due: Instant,
    /// What else happens to them.
    pub verdict: Option<Verdict>,
    _room: Option<OwnedSemaphorePermit>,
}

/// The end at which things are put in. Dropping it says that no more will come.
pub(super) struct Putter {
    items: mpsc::UnboundedSender<Item>,
    room: Arc<Semaphore>,
}

pub(super) type Taker = mpsc::UnboundedReceiver<Item>;

pub(super) fn queue() -> (Putter, Taker) {
    // Not bounded by itself: every item holds its share of the room.
    let (items, taker) = mpsc::unbounded_channel();
    (Putter { items, room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)) }, taker)
}

impl Putter {
    /// Waits for room.
    pub async fn pass(&self, bytes: Bytes, due: Instant, verdict: Option<Verdict>) {
        let cost = u32::try_from(bytes.len() + ITEM_BYTES).unwrap_or(u32::MAX);
        // Nobody closes the semaphore, so there always is a permit.
        let room = Arc::clone(&self.room).acquire_many_owned(cost).await.ok();
        self.put(Item::Pass(Pass { bytes, due, verdict, _room: room }));
    }

    pub fn end(&self, ending: Ending, progress: Option<Arc<Progress>>) {
        self.put(Item::End(ending, progress));
    }

    /// If nobody takes any more, the connection is over already.
    fn put(&self, item: Item) {
        _ = self.items.send(item);
    }
}
