//! An item that was delivered to a consumer.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::locked::Locked;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::queue::payload::Content;

/// An item that this consumer works on, and no other while its session lives.
///
/// It dereferences to the [lock on the item](crate::Hold): whether it is still held, a fencing token, and a client
/// whose writes fail once it is not.
///
/// Call [`WorkItem::done`] when the work is done. If the item is dropped instead, it is given back: it is unlocked in
/// the background, keeps its place, and is delivered again.
#[derive(Debug)]
#[must_use = "an item that is dropped is given back to the queue"]
pub struct WorkItem {
    locked: Locked,
    content: Content,
    delivery: u32,
}

impl WorkItem {
    /// Creates an item. `content` has at least one payload.
    pub(super) fn new(locked: Locked, content: Content, delivery: u32) -> Self {
        WorkItem { locked, content, delivery }
    }

    /// Returns the payload; the first one of a batch.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        self.content.payloads.first().expect("an item without payload is not delivered")
    }

    /// Returns all payloads of a batch, at least one, in the producer's order.
    #[must_use]
    pub fn payloads(&self) -> &[Bytes] {
        &self.content.payloads
    }

    /// Returns the payload as JSON. An item that is not JSON should be [refused](WorkItem::refuse).
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.payload())
            .map_err(|error| Error::Codec { path: self.locked.path(), reason: error.to_string() })
    }

    /// Returns the name of its node.
    #[must_use]
    pub fn name(&self) -> &str {
        self.locked.name()
    }

    /// Returns the number of this delivery, from 1. Counted only in queues with a dead letter; 1 in others.
    #[must_use]
    pub fn delivery(&self) -> u32 {
        self.delivery
    }

    /// Removes the item, because the work is done. [`Error::Lost`] if the lock was lost before; the item then was or
    /// will be delivered to another consumer. If the outcome is unknown, because the session ended at that moment, it
    /// may be delivered again.
    pub async fn done(self) -> Result<()> {
        self.locked.remove().await
    }

    /// Gives the item back, and waits until the server has confirmed that. It keeps its place.
    pub async fn give_back(self) -> Result<()> {
        self.locked.unlock().await
    }

    /// Puts the item at the end of the queue (in a priority queue, at the end of its priority), as Curator does when
    /// a consumer fails.
    pub async fn requeue(self) -> Result<()> {
        self.locked.requeue().await
    }

    /// Removes the item because no consumer can process it: it is moved to the dead letters, or deleted if the queue
    /// has none.
    pub async fn refuse(self) -> Result<()> {
        self.locked.move_to_dead_letters().await
    }
}

guard!(WorkItem, locked.hold, give_back);
