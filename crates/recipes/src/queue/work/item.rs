//! An item in the hands of a consumer.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::locked::Locked;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::queue::payload::Content;

/// An item that this consumer works on, and nobody else while its session lives.
///
/// It dereferences to the [lock on the item](crate::Hold): whether it is still ours, a fencing token, and a client
/// whose writes fail once it is not.
///
/// Say [`WorkItem::done`] when the work is done. Dropping the item instead gives it back: it is
/// unlocked in the background, keeps its place, and somebody gets it again.
#[derive(Debug)]
#[must_use = "an item that is dropped is given back to the queue"]
pub struct WorkItem {
    locked: Locked,
    content: Content,
    delivery: u32,
}

impl WorkItem {
    /// `content` has at least one payload.
    pub(super) fn new(locked: Locked, content: Content, delivery: u32) -> Self {
        WorkItem { locked, content, delivery }
    }

    /// What the producer has put in. Of a batch, the first.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        self.content.payloads.first().expect("an item without payload is not handed out")
    }

    /// What the producer has put in as one batch; at least one, in its order.
    #[must_use]
    pub fn payloads(&self) -> &[Bytes] {
        &self.content.payloads
    }

    /// The payload as JSON. An item that is not should be [refused](WorkItem::refuse).
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.payload())
            .map_err(|error| Error::Codec { path: self.locked.path(), reason: error.to_string() })
    }

    /// The name of its node.
    #[must_use]
    pub fn name(&self) -> &str {
        self.locked.name()
    }

    /// The how-manieth delivery this is, from 1 on. Counted only in queues with a dead letter; 1 in
    /// others.
    #[must_use]
    pub fn delivery(&self) -> u32 {
        self.delivery
    }

    /// The work is done: the item is removed. [`Error::Lost`] if the lock was lost before; then the
    /// item was or will be given to somebody else. If the outcome is unknown, because the session
    /// ended at that moment, it may be.
    pub async fn done(self) -> Result<()> {
        self.locked.remove().await
    }

    /// Gives it back, and waits until the server knows. It keeps its place.
    pub async fn give_back(self) -> Result<()> {
        self.locked.unlock().await
    }

    /// Puts it at the end of the queue (where its priority puts it, in a priority queue), as Curator
    /// does when a consumer fails.
    pub async fn requeue(self) -> Result<()> {
        self.locked.requeue().await
    }

    /// Nobody will be able to do this: it goes to the dead letters, or away if the queue has none.
    pub async fn refuse(self) -> Result<()> {
        self.locked.bury().await
    }
}

guard!(WorkItem, locked.hold, give_back);
