//! The plain queue: first in, first out, each item to at most one consumer.
//!
//! Layout: `<queue>/qn-N`, persistent sequential, the data is the item as it is. That is Curator's
//! `SimpleDistributedQueue` and ZooKeeper's own `DistributedQueue`; [`QueueLayout`] says where the two
//! differ. Beside it `<queue>-receipts`, `-consumers`, `-producers` and `-capacity`, as the module
//! [`queue`](super) says.
//!
//! Whose deletion of the node succeeds has the item. Here that deletion is a transaction with a
//! receipt, so a consumer whose reply was lost learns whether the item is its own; in Curator and in
//! ZooKeeper's recipe such an item is lost.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Op};

use super::ensure;
use super::intake::Intake;
use super::names::QueueLayout;
use super::waiting::{Look, Supply, Wake, goes_on, in_line, line};
use crate::error::{Error, Result};
use crate::line::Line;
use crate::patient::patient;

/// What the names of items begin with.
pub(super) const ITEM: &str = "qn-";

/// Why a queue can be built again from what it was built from.
const CHECKED: &str = "path and capacity were checked when the queue was first built";

/// A first-in first-out queue, each item delivered at most once. Clones are handles to the same one.
///
/// * Two consumers never get the same item.
/// * An item is lost only if its consumer is: if the process dies, or the session ends, between
///   asking for the item and learning of it. The error says
///   [`Outcome::Unknown`](herdsman_client::Outcome::Unknown) in the second case. A connection that
///   breaks loses nothing. Who cannot afford this uses a [`WorkQueue`](super::WorkQueue).
/// * An item that is on its way in or out is not given up at the deadline of the client: the call waits
///   for the server's answer, or for the end of the session.
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
    intake: Intake,
    consumers: Line,
    capacity: Option<usize>,
    layout: QueueLayout,
}

impl Queue {
    /// The queue at `path`. Nothing is made before the first item.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Queue::build(client, path, None, QueueLayout::default())
    }

    /// A queue that never holds more than `capacity` items, if all its producers say so. (Items that
    /// come back because a `take` was dropped in the middle may exceed it.)
    pub fn bounded(client: &Client, path: &str, capacity: usize) -> Result<Self> {
        Queue::build(client, path, Some(capacity), QueueLayout::default())
    }

    /// Whose nodes it shares the path with.
    #[must_use]
    pub fn layout(self, layout: QueueLayout) -> Self {
        let Inner { intake, capacity, .. } = &*self.inner;
        Queue::build(&intake.client, &intake.path, *capacity, layout).expect(CHECKED)
    }

    fn build(
        client: &Client,
        path: &str,
        capacity: Option<usize>,
        layout: QueueLayout,
    ) -> Result<Self> {
        let intake = Intake::new(client, path, layout.lifetime(), capacity)?;
        let consumers = line(client, path, "consumers");
        Ok(Queue { inner: Arc::new(Inner { intake, consumers, capacity, layout }) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.intake.path
    }

    /// Puts an item at the end. A bounded queue that is full makes it wait. If the future is
    /// dropped, the item may be in the queue or not.
    pub async fn offer(&self, item: impl Into<Bytes>) -> Result<()> {
        self.inner.intake.offer(ITEM, item.into()).await
    }

    /// Puts an item at the end, or says [`Error::Full`].
    pub async fn try_offer(&self, item: impl Into<Bytes>) -> Result<()> {
        self.inner.intake.try_offer(ITEM, &item.into()).await
    }

    /// The first item, which stays where it is.
    pub async fn peek(&self) -> Result<Option<Bytes>> {
        for name in self.inner.items().await? {
            if let Some((item, _)) = self.inner.read(&self.inner.intake.client, &name).await? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// The first item, which stays where it is; [`Error::Empty`] if there is none.
    pub async fn element(&self) -> Result<Bytes> {
        self.peek().await?.ok_or(Error::Empty)
    }

    /// Takes the first item, if there is one. If the future is dropped in the middle, the item goes
    /// back to its place.
    pub async fn poll(&self) -> Result<Option<Bytes>> {
        let names = self.inner.items().await?;
        self.take_one_of(names).await
    }

    /// Takes the first item; [`Error::Empty`] if there is none.
    pub async fn remove(&self) -> Result<Bytes> {
        self.poll().await?.ok_or(Error::Empty)
    }

    /// Takes the first item as soon as there is one, through lost connections, and with a managed
    /// client through lost sessions. If the future is dropped in the middle, the item goes back to
    /// its place.
    pub async fn take(&self) -> Result<Bytes> {
        match self.poll().await {
            Ok(Some(item)) => return Ok(item),
            Ok(None) => {}
            Err(error) if goes_on(&self.inner.intake.client, &error) => {}
            Err(error) => return Err(error),
        }
        in_line(&self.inner.consumers, self).await
    }

    /// How many items there are.
    pub async fn len(&self) -> Result<usize> {
        Ok(self.inner.items().await?.len())
    }

    /// Whether there is no item.
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

impl Supply for Queue {
    type Found = Bytes;

    async fn look(&self) -> Result<Look<Bytes>> {
        let (names, watch) = self.inner.intake.watched_names().await?;
        Ok(match self.take_one_of(self.inner.layout.in_order(names)).await? {
            Some(item) => Look::Found(item),
            None => Look::Nothing(Wake { watches: vec![watch], after: None }),
        })
    }
}

impl Inner {
    async fn items(&self) -> Result<Vec<String>> {
        Ok(self.layout.in_order(self.intake.names().await?))
    }

    async fn read(&self, client: &Client, name: &str) -> Result<Option<(Bytes, i32)>> {
        match client.get(&self.intake.child(name)).await {
            Err(error) if error.is_no_node() => Ok(None),
            node => Ok(Some(node.map(|node| (node.data, node.stat.version))?)),
        }
    }

    /// Runs to its end even if nobody waits for it any more: then the item is put back.
    async fn take(self: &Arc<Self>, name: String) -> Result<Option<Taken>> {
        let inner = self.clone();
        let task = tokio::spawn(async move { inner.take_to_the_end(name).await });
        task.await.unwrap_or_else(|_| Err(super::abandoned()))
    }

    async fn take_to_the_end(self: Arc<Self>, name: String) -> Result<Option<Taken>> {
        let client = patient(&self.intake.client);
        let Some((item, version)) = self.read(&client, &name).await? else {
            return Ok(None);
        };
        let delete = Op::delete(&self.intake.child(&name)).version(version);
        match self.intake.receipts.commit(&[delete]).await {
            Ok(_) => Ok(Some(Taken { inner: self, name, item: Some(item) })),
            // Somebody else has it, or has changed it.
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::BadVersion) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn put_back(&self, name: &str, item: Bytes) -> Result<()> {
        let create = Op::create(&self.intake.child(name), item);
        while let Err(error) = self.intake.receipts.commit(std::slice::from_ref(&create)).await {
            match error.kind() {
                ErrorKind::NoNode => {
                    let lifetime = self.layout.lifetime();
                    ensure(&self.intake.client, &self.intake.path, lifetime).await?;
                }
                _ => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// An item that is ours, but that nobody has seen yet.
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
        self.inner.intake.client.spawn(async move {
            if let Err(error) = inner.put_back(&name, item).await {
                tracing::warn!(%error, name, "an item that nobody waited for is lost");
            }
        });
    }
}
