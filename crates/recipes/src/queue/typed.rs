//! Queues of values instead of bytes, with JSON in the payload.
//!
//! A payload that cannot be decoded is reported once, as [`Error::Codec`], and has been removed by then; the next
//! call continues with the next item.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::simple::Queue;
use super::work::{WorkItem, WorkQueue};
use crate::error::{Error, Result};

/// A [`Queue`] of values.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::queue::{Queue, TypedQueue};
///
/// let queue = TypedQueue::<(String, u32)>::new(Queue::new(&zk, "/orders")?);
/// queue.offer(&("apples".into(), 3)).await?;
/// assert_eq!(queue.take().await?, ("apples".into(), 3));
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
pub struct TypedQueue<T> {
    queue: Queue,
    dead_letters: Option<Queue>,
    values: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> TypedQueue<T> {
    /// Creates a queue of values in this queue. Payloads that cannot be decoded are discarded.
    #[must_use]
    pub fn new(queue: Queue) -> Self {
        TypedQueue { queue, dead_letters: None, values: PhantomData }
    }

    /// Moves payloads that cannot be decoded to this queue, unchanged. They have been removed from their own queue
    /// before: if the process dies in between, they are lost like any item of this kind of queue.
    #[must_use]
    pub fn dead_letters(mut self, queue: Queue) -> Self {
        self.dead_letters = Some(queue);
        self
    }

    /// Puts a value at the end; see [`Queue::offer`].
    pub async fn offer(&self, value: &T) -> Result<()> {
        self.queue.offer(to_json(value)?).await
    }

    /// Takes the first value, if there is one; see [`Queue::poll`].
    pub async fn poll(&self) -> Result<Option<T>> {
        match self.queue.poll().await? {
            Some(item) => self.read(item).await.map(Some),
            None => Ok(None),
        }
    }

    /// Takes the first value as soon as there is one; see [`Queue::take`].
    pub async fn take(&self) -> Result<T> {
        let item = self.queue.take().await?;
        self.read(item).await
    }

    /// Returns the queue of bytes below.
    #[must_use]
    pub fn bytes(&self) -> &Queue {
        &self.queue
    }

    async fn read(&self, item: bytes::Bytes) -> Result<T> {
        let reason = match serde_json::from_slice(&item) {
            Ok(value) => return Ok(value),
            Err(error) => error.to_string(),
        };
        if let Some(dead) = &self.dead_letters {
            dead.offer(item).await?;
        }
        Err(Error::Codec { path: self.queue.path().to_owned(), reason })
    }
}

impl<T> Clone for TypedQueue<T> {
    fn clone(&self) -> Self {
        let (queue, dead_letters) = (self.queue.clone(), self.dead_letters.clone());
        TypedQueue { queue, dead_letters, values: PhantomData }
    }
}

impl<T> fmt::Debug for TypedQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedQueue").field(&self.queue).finish()
    }
}

/// A [`WorkQueue`] of values. Payloads that cannot be decoded are moved to the queue's [dead
/// letters](super::WorkOptions::dead_letter), or are discarded if it has none.
pub struct TypedWorkQueue<T> {
    queue: WorkQueue,
    values: PhantomData<fn() -> T>,
}

/// A value to work on, and its item.
#[derive(Debug)]
pub struct TypedWork<T> {
    /// The value.
    pub value: T,
    /// Its item: call [`WorkItem::done`] when the work is done.
    pub item: WorkItem,
}

impl<T: Serialize + DeserializeOwned> TypedWorkQueue<T> {
    /// Creates a queue of values in this queue.
    #[must_use]
    pub fn new(queue: WorkQueue) -> Self {
        TypedWorkQueue { queue, values: PhantomData }
    }

    /// Puts a value at the end; see [`WorkQueue::offer`].
    pub async fn offer(&self, value: &T) -> Result<()> {
        self.queue.offer(to_json(value)?).await
    }

    /// Returns the first value that no consumer works on, if there is one.
    pub async fn poll(&self) -> Result<Option<TypedWork<T>>> {
        match self.queue.poll().await? {
            Some(item) => read(item).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the first value that no consumer works on, as soon as there is one; see [`WorkQueue::take`].
    pub async fn take(&self) -> Result<TypedWork<T>> {
        read(self.queue.take().await?).await
    }

    /// Returns the queue of bytes below.
    #[must_use]
    pub fn bytes(&self) -> &WorkQueue {
        &self.queue
    }
}

impl<T> Clone for TypedWorkQueue<T> {
    fn clone(&self) -> Self {
        TypedWorkQueue { queue: self.queue.clone(), values: PhantomData }
    }
}

impl<T> fmt::Debug for TypedWorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedWorkQueue").field(&self.queue).finish()
    }
}

async fn read<T: DeserializeOwned>(item: WorkItem) -> Result<TypedWork<T>> {
    match item.json() {
        Ok(value) => Ok(TypedWork { value, item }),
        Err(unreadable) => {
            item.refuse().await?;
            Err(unreadable)
        }
    }
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| {
        Error::InvalidArgument(format!("the value cannot be encoded as JSON: {error}"))
    })
}
