//! A local copy of one node.

use std::sync::Arc;

use herdsman_client::Client;

use super::task::WatchShape;
use super::{CacheEvent, CacheOptions, CachedNode, Mirror, Snapshot};
use crate::error::Result;
use crate::events::Events;

/// One node, kept up to date. Dropping it removes its watch.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::cache::NodeCache;
///
/// let cache = NodeCache::start(&zk, "/motto").await?;
/// cache.synced().await?;
/// assert!(cache.get().is_none());
/// zk.create("/motto", "festina lente").await?;
/// let node = cache.wait_until(|node| node.is_some()).await?;
/// assert_eq!(node.unwrap().data, "festina lente");
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
pub struct NodeCache {
    mirror: Mirror,
}

impl NodeCache {
    /// Sets the watch, and reads in the background: see [`NodeCache::synced`].
    pub async fn start(client: &Client, path: &str) -> Result<NodeCache> {
        NodeCache::start_with(client, path, CacheOptions::default()).await
    }

    /// Does the same with other settings.
    pub async fn start_with(
        client: &Client,
        path: &str,
        options: CacheOptions,
    ) -> Result<NodeCache> {
        let mirror = Mirror::start(client, path, WatchShape::Node, options.depth(0)).await?;
        Ok(NodeCache { mirror })
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.mirror.root()
    }

    /// Returns the node as it is known now. `None` if it does not exist, or has not been read yet: see
    /// [`NodeCache::is_synced`].
    #[must_use]
    pub fn get(&self) -> Option<Arc<CachedNode>> {
        self.node_of(&self.mirror.snapshot())
    }

    /// See [`Snapshot::is_synced`].
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.mirror.snapshot().is_synced()
    }

    /// Returns every change from now on.
    pub fn events(&self) -> Events<CacheEvent> {
        self.subscribe().1
    }

    /// Returns the node, and every change after it: none is missed or repeated; a reader that falls too far behind
    /// gets [`CacheEvent::Lagged`].
    pub fn subscribe(&self) -> (Option<Arc<CachedNode>>, Events<CacheEvent>) {
        let (snapshot, events) = self.mirror.subscribe();
        (self.node_of(&snapshot), events)
    }

    /// Waits until the node meets the condition. Fails when the client is closed. The condition must be quick and
    /// must not call the cache itself.
    pub async fn wait_until(
        &self,
        mut wanted: impl FnMut(Option<&CachedNode>) -> bool,
    ) -> Result<Option<Arc<CachedNode>>> {
        let found =
            self.mirror.wait_until(|all| wanted(all.get(self.path()).map(|node| &**node))).await?;
        Ok(self.node_of(&found))
    }

    /// Waits until the node has been read, or compared after an interruption.
    pub async fn synced(&self) -> Result<Option<Arc<CachedNode>>> {
        let found = self.mirror.wait_until(Snapshot::is_synced).await?;
        Ok(self.node_of(&found))
    }

    fn node_of(&self, snapshot: &Snapshot) -> Option<Arc<CachedNode>> {
        snapshot.get(self.path()).cloned()
    }
}
