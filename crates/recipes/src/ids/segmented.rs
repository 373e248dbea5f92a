//! Ids in blocks, each reserved with one change of a shared counter.
//!
//! In: a counter node, and calls for ids. Out: ids; the next block is fetched in the background when a quarter of the
//! current one is left. The arithmetic is in [`segment`](super::segment).
//!
//! ```text
//! <path>    persistent; data: the first id that is not reserved, 8 bytes, big-endian
//! ```
//! That is Curator's `DistributedAtomicLong`, and its `CachedAtomicLong` reserves blocks from it in the same way. If
//! the reply to a reservation is lost, the block is abandoned and another one is reserved: ids are wasted, never
//! repeated.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, Node, Optional};
use parking_lot::Mutex;

use super::{IdGenerator, Segment, SegmentPair};
use crate::counter::{Number, check_version};
use crate::error::{Error, Result};
use crate::retrying::is_overtaken;

/// Ids in blocks: unique, in order within this process, with gaps.
///
/// Clones share their blocks.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::ids::{IdGenerator, SegmentedIds};
///
/// let orders = SegmentedIds::new(&zk, "/ids/orders", 1000)?;
/// assert_eq!((orders.next().await?, orders.next().await?), (0, 1));
/// let elsewhere = SegmentedIds::new(&zk, "/ids/orders", 1000)?;
/// assert_eq!(elsewhere.next().await?, 1000);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SegmentedIds {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    path: String,
    block: NonZeroU64,
    blocks: Mutex<SegmentPair>,
    /// Locked while a block is fetched: one at a time.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

impl SegmentedIds {
    /// Creates a generator of ids from the counter at `path`, `block` of them for each round trip, without any
    /// request. Processes may use blocks of different sizes.
    ///
    /// # Errors
    /// If `block` is 0.
    pub fn new(client: &Client, path: impl Into<String>, block: u64) -> Result<Self> {
        let block = NonZeroU64::new(block)
            .ok_or_else(|| Error::invalid("a block needs at least one id"))?;
        let shared = Shared {
            client: client.clone(),
            path: path.into(),
            block,
            blocks: Mutex::default(),
            fetching: Arc::default(),
        };
        Ok(SegmentedIds { shared: Arc::new(shared) })
    }

    /// Returns how many ids can be issued without a round trip.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.shared.blocks.lock().remaining()
    }

    /// Fetches the next block if it is time and no fetch is running. If that fails, the next caller that finds no id
    /// left tries again and gets the error.
    fn prefetch(&self) {
        if !self.shared.blocks.lock().wants_next() {
            return;
        }
        let Ok(turn) = self.shared.fetching.clone().try_lock_owned() else {
            return;
        };
        let shared = self.shared.clone();
        tokio::spawn(async move {
            if let Err(error) = shared.fetch().await {
                tracing::debug!(%error, path = shared.path, "the next block of ids was not fetched ahead");
            }
            drop(turn);
        });
    }
}

impl IdGenerator for SegmentedIds {
    type Id = u64;

    async fn next(&self) -> Result<u64> {
        let remaining = self.shared.blocks.lock().take();
        let id = match remaining {
            Some(id) => id,
            None => self.shared.fetch_and_take().await?,
        };
        self.prefetch();
        Ok(id)
    }
}

impl Shared {
    async fn fetch_and_take(&self) -> Result<u64> {
        let _turn = self.fetching.lock().await;
        loop {
            // The previous holder of the lock may have fetched a block for all.
            if let Some(id) = self.blocks.lock().take() {
                return Ok(id);
            }
            self.fetch().await?;
        }
    }

    /// Reserves a block and adds it to the others, if one is wanted.
    async fn fetch(&self) -> Result<()> {
        if !self.blocks.lock().wants_next() {
            return Ok(());
        }
        let segment = self.reserve().await?;
        let offered = self.blocks.lock().offer(segment);
        offered.map_err(|error| self.unusable(&error.to_string()))
    }

    async fn reserve(&self) -> Result<Segment> {
        loop {
            let (counter, node) = self.read().await?;
            let segment = Segment::from_counter(counter, self.block)
                .map_err(|error| self.unusable(&error.to_string()))?;
            // A block never ends after the largest i64.
            let end = Bytes::copy_from_slice(&segment.end().to_be_bytes());
            let written = match &node {
                Some(node) => {
                    self.client.set(&self.path, end).version(node.stat.version).await.map(drop)
                }
                None => self.client.create(&self.path, end).parents().await.map(drop),
            };
            match written {
                Ok(()) => return Ok(segment),
                // Another client was faster, or the reply was lost and the block with it.
                Err(error) if is_worth_another_look(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn read(&self) -> Result<(u64, Option<Node>)> {
        let Some(node) = self.client.get(&self.path).await.optional()? else {
            return Ok((0, None));
        };
        check_version(&self.path, Some(&node))?;
        let counter = i64::decode(&self.path, &node.data)?;
        let counter =
            u64::try_from(counter).map_err(|_| self.unusable("the counter is negative"))?;
        Ok((counter, Some(node)))
    }

    fn unusable(&self, reason: &str) -> Error {
        Error::Codec { path: self.path.clone(), reason: reason.to_owned() }
    }
}

fn is_worth_another_look(error: &herdsman_client::Error) -> bool {
    is_overtaken(error) || error.is_retriable()
}
