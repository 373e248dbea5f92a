//! Many queues behind one interface.
//!
//! A server returns all children at once in a listing, so a directory should not hold more than about ten thousand
//! items: beyond that every listing of the queue transfers megabytes. A sharded queue spreads its items over
//! directories, and gives up their common order.
//!
//! Layout: `<queue>`, persistent, the number of shards as decimal text; `<queue>/shard-0000` and so on, each with the
//! layout of a [`WorkQueue`](super::WorkQueue), so Curator's consumers can read single shards. Curator's
//! `QueueSharder` has the same idea and other names.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::Client;

use super::item_store::check_path;
use super::names::{ITEM, Order};
use super::waiting::{Attempt, Source, Wake, in_line, line, should_continue};
use super::work::core::Core;
use super::work::{WorkItem, WorkOptions};
use crate::error::{Error, Result};
use crate::line::Line;
use crate::retrying::reply_lost;

/// This many shards are enough for ten million items; a waiting consumer watches all of them.
const SHARDS_MAX: usize = 1000;

/// A [`WorkQueue`](super::WorkQueue) in several directories. Items keep their order within a shard; there is no order
/// between shards. Clones are handles to the same queue.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::queue::{ShardedQueue, WorkOptions};
///
/// let queue = ShardedQueue::open(&zk, "/jobs", 4, WorkOptions::new()).await?;
/// queue.offer("one of very many").await?;
/// queue.take().await?.done().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ShardedQueue {
    shards: Arc<[Arc<Core>]>,
    consumers: Line,
}

impl ShardedQueue {
    /// Opens the queue at `path`, with 1 to 1000 shards. All its users must agree on the number, which is stored with
    /// the queue; a different number is an [`Error::InvalidArgument`]. The capacity is that of each shard; locks are
    /// beside each shard, or below the lock path.
    pub async fn open(
        client: &Client,
        path: &str,
        shards: usize,
        options: WorkOptions,
    ) -> Result<Self> {
        check_path(path)?;
        if !(1..=SHARDS_MAX).contains(&shards) {
            let text = format!("a queue can have 1 to {SHARDS_MAX} shards, not {shards}");
            return Err(Error::InvalidArgument(text));
        }
        let client = &options.holder(client).client;
        let shard = |index: usize| {
            let name = format!("shard-{index:04}");
            let options = options.clone().for_shard(&name);
            Core::new(client, &format!("{path}/{name}"), options, Order::Name)
        };
        let queue = ShardedQueue {
            shards: (0..shards).map(shard).collect::<Result<_>>()?,
            consumers: line(client, path, "consumers"),
        };
        agree(client, path, shards).await?;
        Ok(queue)
    }

    /// Puts an item into one of the shards. Waits if that is bounded and full.
    pub async fn offer(&self, payload: impl Into<Bytes>) -> Result<()> {
        let shard = &self.shards[fastrand::usize(..self.shards.len())];
        shard.offer(ITEM, vec![payload.into()]).await
    }

    /// Returns an item that no consumer works on, if there is one.
    pub async fn poll(&self) -> Result<Option<WorkItem>> {
        for shard in self.in_any_order() {
            if let Some(item) = shard.poll().await? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Returns an item that no consumer works on, as soon as there is one; like
    /// [`WorkQueue::take`](super::WorkQueue::take).
    pub async fn take(&self) -> Result<WorkItem> {
        match self.poll().await {
            Ok(Some(item)) => return Ok(item),
            Ok(None) => {}
            Err(error) if should_continue(&self.consumers.holder.client, &error) => {}
            Err(error) => return Err(error),
        }
        in_line(&self.consumers, self).await
    }

    /// Returns how many items there are in all shards together.
    pub async fn len(&self) -> Result<usize> {
        let mut items = 0;
        for shard in self.shards.iter() {
            items += shard.candidates().await?.len();
        }
        Ok(items)
    }

    /// Returns whether there is no item.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns all shards, beginning with a random one, so that none is always the last.
    fn in_any_order(&self) -> impl Iterator<Item = &Arc<Core>> {
        let start = fastrand::usize(..self.shards.len());
        self.shards[start..].iter().chain(&self.shards[..start])
    }
}

impl Source for ShardedQueue {
    type Found = WorkItem;

    async fn attempt(&self) -> Result<Attempt<WorkItem>> {
        let mut all = Wake::default();
        for shard in self.in_any_order() {
            match shard.attempt().await? {
                Attempt::Found(item) => return Ok(Attempt::Found(item)),
                Attempt::Nothing(wake) => all.watches.extend(wake.watches),
            }
        }
        Ok(Attempt::Nothing(all))
    }
}

/// Stores the number of shards, or checks the number that is stored already.
async fn agree(client: &Client, path: &str, shards: usize) -> Result<()> {
    let stored = loop {
        match client.get(path).await {
            Err(error) if error.is_no_node() => {}
            node => break node?.data,
        }
        match client.create(path, shards.to_string()).parents().await {
            Ok(_) => return Ok(()),
            // Another client was faster, or this one was and its reply was lost: read again.
            Err(error) if error.is_node_exists() => {}
            Err(error) if reply_lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    };
    if stored == shards.to_string() {
        return Ok(());
    }
    let stored = String::from_utf8_lossy(&stored);
    Err(Error::InvalidArgument(format!("{path}: the number of shards is {stored:?}, not {shards}")))
}
