//! A local copy of a whole tree.

use std::sync::Arc;

use herdsman_client::Client;

use super::task::WatchShape;
use super::{CacheEvent, CacheOptions, CachedNode, Mirror, Snapshot};
use crate::error::Result;
use crate::events::Events;

/// A node and all that is below it, kept up to date. Dropping it removes its watch.
///
/// The root need not exist: it may be created, deleted and created again. Paths are those of the client's namespace,
/// from its root on.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::cache::{CacheEvent, TreeCache};
///
/// zk.create("/app/db/url", "postgres://a").parents().await?;
/// let cache = TreeCache::start(&zk, "/app").await?;
/// let snapshot = cache.synced().await?;
/// assert_eq!(snapshot.get("/app/db/url").unwrap().data, "postgres://a");
///
/// let (_, mut events) = cache.subscribe();
/// zk.set("/app/db/url", "postgres://b").await?;
/// match events.next().await {
///     Some(CacheEvent::Changed { before, now }) => {
///         assert_eq!((&before.data[..], &now.data[..]), (&b"postgres://a"[..], &b"postgres://b"[..]));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
pub struct TreeCache {
    mirror: Mirror,
}

impl TreeCache {
    /// Sets the watch, and reads in the background: see [`TreeCache::synced`].
    pub async fn start(client: &Client, path: &str) -> Result<TreeCache> {
        TreeCache::start_with(client, path, CacheOptions::default()).await
    }

    /// Does the same with other settings.
    pub async fn start_with(
        client: &Client,
        path: &str,
        options: CacheOptions,
    ) -> Result<TreeCache> {
        let mirror = Mirror::start(client, path, WatchShape::Tree, options).await?;
        Ok(TreeCache { mirror })
    }

    /// Returns the path of the topmost node.
    #[must_use]
    pub fn root(&self) -> &str {
        self.mirror.root()
    }

    /// Returns the current snapshot. Cheap.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.mirror.snapshot()
    }

    /// Returns one node of the current snapshot.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Arc<CachedNode>> {
        self.snapshot().get(path).cloned()
    }

    /// Returns every change from now on.
    pub fn events(&self) -> Events<CacheEvent> {
        self.subscribe().1
    }

    /// Returns a snapshot, and every change after it: none is missed or repeated; a reader that falls too far behind
    /// gets [`CacheEvent::Lagged`].
    pub fn subscribe(&self) -> (Snapshot, Events<CacheEvent>) {
        self.mirror.subscribe()
    }

    /// Waits until a snapshot meets the condition. Fails when the client is closed. The condition must be quick and
    /// must not call the cache itself.
    pub async fn wait_until(&self, wanted: impl FnMut(&Snapshot) -> bool) -> Result<Snapshot> {
        self.mirror.wait_until(wanted).await
    }

    /// Waits until everything has been read, or compared after an interruption.
    pub async fn synced(&self) -> Result<Snapshot> {
        self.wait_until(Snapshot::is_synced).await
    }
}
