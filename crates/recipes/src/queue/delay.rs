//! A queue whose items are each due at a certain time. Layout: Curator's `DistributedDelayQueue`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use herdsman_client::Client;

use super::names::{Order, with_due_time};
use super::work::core::Core;
use super::work::{WorkOptions, consume};
use crate::error::{Error, Result};

/// A [`WorkQueue`](super::WorkQueue) whose items cannot be taken before they are due; items that are due are
/// delivered in the order of their times.
///
/// The servers' clock decides, on both sides, so the clocks of producers and consumers do not matter: by that clock
/// an item is never early, and late by no more than a few round trips. After a change of leader the difference
/// between two servers' clocks can show for up to a minute. Curator's producers and consumers use their own clocks.
#[derive(Clone, Debug)]
pub struct DelayQueue {
    core: Arc<Core>,
}

impl DelayQueue {
    /// Creates a handle for the queue at `path`, with locks at `<path>-locks`. No node is created before the first
    /// item.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        DelayQueue::with(client, path, WorkOptions::new())
    }

    /// Creates a handle for the queue at `path`, with options.
    pub fn with(client: &Client, path: &str, options: WorkOptions) -> Result<Self> {
        Ok(DelayQueue { core: Core::new(client, path, options, Order::Due)? })
    }

    /// Puts an item in that is due after `delay`, which must be at least a millisecond. Waits if the queue is full;
    /// the delay starts before the wait.
    pub async fn offer(&self, delay: Duration, payload: impl Into<Bytes>) -> Result<()> {
        let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        if delay_ms == 0 {
            return Err(Error::invalid("a delay must be at least a millisecond"));
        }
        let due_ms = self.core.clock.now_ms().await?.checked_add(delay_ms);
        let due_ms = due_ms.ok_or_else(|| Error::invalid("the delay is too long"))?;
        self.core.offer(&with_due_time(due_ms), vec![payload.into()]).await
    }

    /// Puts an item in that is due at a time of the servers' clock; at once if that has passed. Waits if the queue is
    /// full.
    pub async fn offer_at(&self, due: SystemTime, payload: impl Into<Bytes>) -> Result<()> {
        let since_1970 = due.duration_since(UNIX_EPOCH).ok();
        let due_ms = since_1970.and_then(|time| i64::try_from(time.as_millis()).ok());
        let due_ms = due_ms.ok_or_else(|| Error::invalid("the time must be after 1970"))?;
        self.core.offer(&with_due_time(due_ms), vec![payload.into()]).await
    }
}

consume!(DelayQueue);
