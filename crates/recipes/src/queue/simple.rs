//! The plain queue: first in, first out, each item to at most one consumer.
//!
//! Layout: `<queue>/qn-N`, persistent sequential, whose data is the unchanged item. That is Curator's
//! `SimpleDistributedQueue` and ZooKeeper's own `DistributedQueue`; see [`QueueLayout`] for the differences. Beside
//! it `<queue>-receipts`, `-consumers`, `-producers` and `-capacity`, as described in the module [`queue`](super).
//!
//! The consumer whose deletion of the node succeeds gets the item. Here that deletion is a transaction with a
//! receipt, so a consumer whose reply was lost learns whether it got the item; in Curator and in ZooKeeper's recipe
//! such an item is lost.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Op};

use super::item_store::ItemStore;
use super::names::QueueLayout;
use super::waiting::{Attempt, Source, Wake, in_line, line, should_continue};
use crate::error::{Error, Result};
use crate::line::Line;
use crate::retrying::{is_overtaken, retrying};

/// The prefix of the names of items.
pub(super) const ITEM: &str = "qn-";

/// Why a queue can be built again with the arguments of an existing one.
const CHECKED: &str = "path and capacity were checked when the queue was first built";

/// A first-in first-out queue, each item delivered at most once. Clones are handles to the same queue.
///
/// * Two consumers never get the same item.
/// * An item is lost only with its consumer: if the process dies, or the session ends, between the request for the
///   item and its reply. In the second case the error's outcome is
///   [`Outcome::Unknown`](herdsman_client::Outcome::Unknown). A connection that breaks loses nothing. If this is not
///   acceptable, use a [`WorkQueue`](super::WorkQueue).
/// * An item that is being added or removed is not given up at the client's deadline: the call waits for the server's
///   answer, or for the end of the session.
/// * [`Queue::offer`] puts the item in once, even if the reply is lost; with the same exception.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::queue::Queue;
///
/// let queue = Queue::new(&zk, "/orders")?;
/// queue.offer("first").await?;
/// queue.offer("second").await?;
/// assert_eq!(queue.take().await?, "first");
/// assert_eq!(queue.poll().await?.unwrap(), "second");
/// assert_eq!(queue.poll().await?, None);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: ItemStore,
    consumers: Line,
    capacity: Option<usize>,
    layout: QueueLayout,
}

impl Queue {
    /// Creates a handle for the queue at `path`. No node is created before the first item.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Queue::build(client, path, None, QueueLayout::default())
    }

    /// Creates a handle for a queue that never holds more than `capacity` items, if all its producers use the same
    /// capacity. (Items that are put back because a `take` was dropped half-way may exceed it.)
    pub fn bounded(client: &Client, path: &str, capacity: usize) -> Result<Self> {
        Queue::build(client, path, Some(capacity), QueueLayout::default())
    }

    /// Sets the layout of the nodes.
    #[must_use]
    pub fn layout(self, layout: QueueLayout) -> Self {
        let Inner { store, capacity, .. } = &*self.inner;
        Queue::build(&store.client, &store.path, *capacity, layout).expect(CHECKED)
    }

    fn build(
        client: &Client,
        path: &str,
        capacity: Option<usize>,
        layout: QueueLayout,
    ) -> Result<Self> {
        let store = ItemStore::new(client, path, layout.lifetime(), capacity)?;
        let consumers = line(client, path, "consumers");
        Ok(Queue { inner: Arc::new(Inner { store, consumers, capacity, layout }) })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.store.path
    }

    /// Puts an item at the end. Waits if the queue is bounded and full. If the future is dropped, the item may or may
    /// not be in the queue.
    pub async fn offer(&self, item: impl Into<Bytes>) -> Result<()> {
        self.inner.store.offer(ITEM, item.into()).await
    }

    /// Puts an item at the end; [`Error::Full`] if the queue is full.
    pub async fn try_offer(&self, item: impl Into<Bytes>) -> Result<()> {
        self.inner.store.try_offer(ITEM, &item.into()).await
    }

    /// Returns the first item without taking it.
    pub async fn peek(&self) -> Result<Option<Bytes>> {
        for name in self.inner.items().await? {
            if let Some((item, _)) = self.inner.read(&self.inner.store.client, &name).await? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Returns the first item without taking it; [`Error::Empty`] if there is none.
    pub async fn element(&self) -> Result<Bytes> {
        self.peek().await?.ok_or(Error::Empty)
    }

    /// Takes the first item, if there is one. If the future is dropped half-way, the item is put back in its place.
    pub async fn poll(&self) -> Result<Option<Bytes>> {
        let names = self.inner.items().await?;
        self.take_one_of(names).await
    }

    /// Takes the first item; [`Error::Empty`] if there is none.
    pub async fn remove(&self) -> Result<Bytes> {
        self.poll().await?.ok_or(Error::Empty)
    }

    /// Takes the first item as soon as there is one, through lost connections, and with a managed client through lost
    /// sessions. If the future is dropped half-way, the item is put back in its place.
    pub async fn take(&self) -> Result<Bytes> {
        match self.poll().await {
            Ok(Some(item)) => return Ok(item),
            Ok(None) => {}
            Err(error) if should_continue(&self.inner.store.client, &error) => {}
            Err(error) => return Err(error),
        }
        in_line(&self.inner.consumers, self).await
    }

    /// Returns how many items there are.
    pub async fn len(&self) -> Result<usize> {
        Ok(self.inner.items().await?.len())
    }

    /// Returns whether there is no item.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    async fn take_one_of(&self, names: Vec<String>) -> Result<Option<Bytes>> {
        for name in names {
            if let Some(taken) = self.inner.take(name).await? {
                return Ok(Some(taken.keep()));
            }
        }
        Ok(None)
    }
}

impl Source for Queue {
    type Found = Bytes;

    async fn attempt(&self) -> Result<Attempt<Bytes>> {
        let (names, watch) = self.inner.store.watched_names().await?;
        Ok(match self.take_one_of(self.inner.layout.in_order(names)).await? {
            Some(item) => Attempt::Found(item),
            None => Attempt::Nothing(Wake { watches: vec![watch], after: None }),
        })
    }
}

impl Inner {
    async fn items(&self) -> Result<Vec<String>> {
        Ok(self.layout.in_order(self.store.names().await?))
    }

    async fn read(&self, client: &Client, name: &str) -> Result<Option<(Bytes, i32)>> {
        match client.get(&self.store.child(name)).await {
            Err(error) if error.is_no_node() => Ok(None),
            node => Ok(Some(node.map(|node| (node.data, node.stat.version))?)),
        }
    }

    /// Takes an item. Runs to its end even if the caller no longer waits: then the item is put back.
    async fn take(self: &Arc<Self>, name: String) -> Result<Option<Taken>> {
        let inner = self.clone();
        let task = tokio::spawn(async move { inner.take_to_completion(name).await });
        task.await.unwrap_or_else(|_| Err(super::abandoned()))
    }

    async fn take_to_completion(self: Arc<Self>, name: String) -> Result<Option<Taken>> {
        let client = retrying(&self.store.client);
        let Some((item, version)) = self.read(&client, &name).await? else {
            return Ok(None);
        };
        let delete = Op::delete(&self.store.child(&name)).version(version);
        match self.store.receipts.commit(&[delete]).await {
            Ok(_) => Ok(Some(Taken { inner: self, name, item: Some(item) })),
            // Another consumer has taken it, or it was changed.
            Err(error) if is_overtaken(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn put_back(&self, name: &str, item: Bytes) -> Result<()> {
        let mut create = Op::create(&self.store.child(name), item.clone());
        while let Err(error) = self.store.receipts.commit(std::slice::from_ref(&create)).await {
            match error.kind() {
                ErrorKind::NoNode => self.store.make().await?,
                ErrorKind::NodeExists => {}
                _ => return Err(error.into()),
            }
            // The directory was deleted, and its numbers start again: the name belongs to another item, or will.
            create = Op::create(&self.store.child(ITEM), item.clone()).sequential();
        }
        Ok(())
    }
}

/// An item that was taken, but not received by the caller yet.
struct Taken {
    inner: Arc<Inner>,
    name: String,
    item: Option<Bytes>,
}

impl Taken {
    fn keep(mut self) -> Bytes {
        self.item.take().unwrap_or_default()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(item) = self.item.take() else {
            return;
        };
        let (inner, name) = (self.inner.clone(), std::mem::take(&mut self.name));
        self.inner.store.client.spawn(async move {
            if let Err(error) = inner.put_back(&name, item).await {
                tracing::warn!(%error, name, "an item is lost: it was taken but not received, and not put back");
            }
        });
    }
}
