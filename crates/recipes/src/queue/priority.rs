//! The queue in which the most urgent item comes first. Layout: Curator's `DistributedPriorityQueue`.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::Client;

use super::names::{Order, with_priority};
use super::work::core::Core;
use super::work::{WorkOptions, consume};
use crate::error::Result;

/// A [`WorkQueue`](super::WorkQueue) in which items with the smallest priority go first, and those of
/// the same priority in the order of arrival.
///
/// An item that a Curator consumer has put back has lost its priority and goes before all that are
/// not negative; one that [`WorkItem::requeue`](super::WorkItem::requeue) has put back keeps it.
#[derive(Clone, Debug)]
pub struct PriorityQueue {
    core: Arc<Core>,
}

impl PriorityQueue {
    /// The queue at `path`, with locks at `<path>-locks`. Nothing is made before the first item.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        PriorityQueue::with(client, path, WorkOptions::new())
    }

    /// The queue at `path`, with settings.
    pub fn with(client: &Client, path: &str, options: WorkOptions) -> Result<Self> {
        Ok(PriorityQueue { core: Core::new(client, path, options, Order::Name)? })
    }

    /// Puts an item in; the smallest priority goes first. Waits for room.
    pub async fn offer(&self, priority: i32, payload: impl Into<Bytes>) -> Result<()> {
        self.core.offer(&with_priority(priority), vec![payload.into()]).await
    }

    /// Puts an item in, or says [`Error::Full`](crate::Error::Full).
    pub async fn try_offer(&self, priority: i32, payload: impl Into<Bytes>) -> Result<()> {
        self.core.try_offer(&with_priority(priority), vec![payload.into()]).await
    }
}

consume!(PriorityQueue);
