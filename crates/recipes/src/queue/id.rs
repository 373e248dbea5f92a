//! A queue whose items have ids and can be removed by them. Layout: Curator's `DistributedIdQueue`.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::Client;

use super::names::{Order, id_of, stored_id, with_id};
use super::work::core::Core;
use super::work::{WorkOptions, consume};
use crate::error::Result;

/// A [`WorkQueue`](super::WorkQueue) whose items have ids. Ids need not be unique; `/` and `|` in them are stored as
/// `_`.
#[derive(Clone, Debug)]
pub struct IdQueue {
    core: Arc<Core>,
}

impl IdQueue {
    /// Creates a handle for the queue at `path`, with locks at `<path>-locks`. No node is created before the first
    /// item.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        IdQueue::with(client, path, WorkOptions::new())
    }

    /// Creates a handle for the queue at `path`, with options.
    pub fn with(client: &Client, path: &str, options: WorkOptions) -> Result<Self> {
        Ok(IdQueue { core: Core::new(client, path, options, Order::Arrival)? })
    }

    /// Puts an item at the end. Waits if the queue is full.
    pub async fn offer(&self, id: &str, payload: impl Into<Bytes>) -> Result<()> {
        self.core.offer(&with_id(id)?, vec![payload.into()]).await
    }

    /// Puts an item at the end; [`Error::Full`](crate::Error::Full) if the queue is full.
    pub async fn try_offer(&self, id: &str, payload: impl Into<Bytes>) -> Result<()> {
        self.core.try_offer(&with_id(id)?, vec![payload.into()]).await
    }

    /// Removes all items with this id, and returns how many. Items that a consumer works on stay. If the future is
    /// dropped, the removal of the current item is still completed.
    pub async fn remove(&self, id: &str) -> Result<usize> {
        let id = stored_id(id)?;
        let mut removed = 0;
        for item in self.core.candidates().await? {
            if id_of(&item.name) == Some(id.as_str()) && self.core.discard(item.name).await? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Returns the ids of all items, in order.
    pub async fn ids(&self) -> Result<Vec<String>> {
        let items = self.core.candidates().await?;
        Ok(items.iter().filter_map(|item| id_of(&item.name)).map(str::to_owned).collect())
    }
}

consume!(IdQueue);
