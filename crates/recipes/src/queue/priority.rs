//! A queue in which the most urgent item is delivered first. Layout: Curator's `DistributedPriorityQueue`.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::Client;

use super::names::{Order, with_priority};
use super::work::core::Core;
use super::work::{WorkOptions, consume};
use crate::error::Result;

/// A [`WorkQueue`](super::WorkQueue) in which items with the smallest priority are delivered first, and items with
/// the same priority in the order of arrival.
///
/// An item that a Curator consumer has put back has lost its priority and is delivered before all items with a
/// non-negative one; an item that [`WorkItem::requeue`](super::WorkItem::requeue) has put back keeps its priority.
#[derive(Clone, Debug)]
pub struct PriorityQueue {
    core: Arc<Core>,
}

impl PriorityQueue {
    /// Creates a handle for the queue at `path`, with locks at `<path>-locks`. No node is created before the first
    /// item.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        PriorityQueue::with(client, path, WorkOptions::new())
    }

    /// Creates a handle for the queue at `path`, with options.
    pub fn with(client: &Client, path: &str, options: WorkOptions) -> Result<Self> {
        Ok(PriorityQueue { core: Core::new(client, path, options, Order::Name)? })
    }

    /// Puts an item in; the smallest priority is delivered first. Waits if the queue is full.
    pub async fn offer(&self, priority: i32, payload: impl Into<Bytes>) -> Result<()> {
        self.core.offer(&with_priority(priority), vec![payload.into()]).await
    }

    /// Puts an item in; [`Error::Full`](crate::Error::Full) if the queue is full.
    pub async fn try_offer(&self, priority: i32, payload: impl Into<Bytes>) -> Result<()> {
        self.core.try_offer(&with_priority(priority), vec![payload.into()]).await
    }
}

consume!(PriorityQueue);
