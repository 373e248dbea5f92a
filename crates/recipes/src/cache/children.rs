//! A local copy of a node's children.

use std::sync::Arc;

use herdsman_client::Client;

use super::task::WatchShape;
use super::{CacheEvent, CacheOptions, CachedNode, Mirror, Snapshot};
use crate::error::Result;
use crate::events::Events;

/// The children of a node by their names, kept up to date. Dropping it removes its watch.
///
/// The parent need not exist. The filter of [`CacheOptions`] is called with whole paths; the depth is one. Changes
/// further below are sent by the server and ignored here: consider this traffic for a parent of deep and busy trees.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::cache::ChildrenCache;
///
/// let cache = ChildrenCache::start(&zk, "/members").await?;
/// zk.create("/members/a", "10.0.0.1").parents().await?;
/// zk.create("/members/b", "10.0.0.2").await?;
/// let members = cache.wait_until(|members| members.len() == 2).await?;
/// let addresses: Vec<_> = members.iter().map(|node| node.data.clone()).collect();
/// assert_eq!(addresses, ["10.0.0.1", "10.0.0.2"]);
/// assert!(members.get("a").is_some());
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
pub struct ChildrenCache {
    mirror: Mirror,
}

/// The children of a node at one moment, in the order of their names.
#[derive(Clone, Debug)]
pub struct ChildrenSnapshot {
    all: Snapshot,
    parent: Arc<str>,
}

impl ChildrenSnapshot {
    /// See [`Snapshot::is_synced`].
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.all.is_synced()
    }

    /// Returns the parent itself, if it exists.
    #[must_use]
    pub fn parent(&self) -> Option<&Arc<CachedNode>> {
        self.all.get(&self.parent)
    }

    /// Returns a child by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<CachedNode>> {
        self.all.get(&super::Scope::child(&self.parent, name))
    }

    /// Returns all children, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CachedNode>> {
        self.all.iter().filter(|node| node.path != self.parent)
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len() - usize::from(self.parent().is_some())
    }

    /// Returns whether no child is known, or none exists: see [`ChildrenSnapshot::is_synced`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ChildrenCache {
    /// Sets the watch, and reads in the background: see [`ChildrenCache::synced`].
    pub async fn start(client: &Client, path: &str) -> Result<ChildrenCache> {
        ChildrenCache::start_with(client, path, CacheOptions::default()).await
    }

    /// Does the same with other settings.
    pub async fn start_with(
        client: &Client,
        path: &str,
        options: CacheOptions,
    ) -> Result<ChildrenCache> {
        let mirror = Mirror::start(client, path, WatchShape::Tree, options.depth(1)).await?;
        Ok(ChildrenCache { mirror })
    }

    /// Returns the path of the parent.
    #[must_use]
    pub fn path(&self) -> &str {
        self.mirror.root()
    }

    /// Returns the current snapshot. Cheap.
    #[must_use]
    pub fn snapshot(&self) -> ChildrenSnapshot {
        self.seen(self.mirror.snapshot())
    }

    /// Returns one child of the current snapshot, by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<CachedNode>> {
        self.snapshot().get(name).cloned()
    }

    /// Returns every change of the children from now on; those of the parent are left out.
    pub fn events(&self) -> Events<CacheEvent> {
        self.subscribe().1
    }

    /// Returns a snapshot, and every change after it: none is missed or repeated; a reader that falls too far behind
    /// gets [`CacheEvent::Lagged`].
    pub fn subscribe(&self) -> (ChildrenSnapshot, Events<CacheEvent>) {
        let (snapshot, events) = self.mirror.subscribe();
        let parent = self.path().to_owned();
        let of_child = move |event: &CacheEvent| event.path() != Some(&parent);
        let events = Events::of(events, move |event| Some(event).filter(&of_child));
        (self.seen(snapshot), events)
    }

    /// Waits until a snapshot meets the condition. Fails when the client is closed. The condition must be quick and
    /// must not call the cache itself.
    pub async fn wait_until(
        &self,
        mut wanted: impl FnMut(&ChildrenSnapshot) -> bool,
    ) -> Result<ChildrenSnapshot> {
        let found = self.mirror.wait_until(|all| wanted(&self.seen(all.clone()))).await;
        found.map(|all| self.seen(all))
    }

    /// Waits until everything has been read, or compared after an interruption.
    pub async fn synced(&self) -> Result<ChildrenSnapshot> {
        self.wait_until(ChildrenSnapshot::is_synced).await
    }

    fn seen(&self, all: Snapshot) -> ChildrenSnapshot {
        ChildrenSnapshot { all, parent: self.path().into() }
    }
}
