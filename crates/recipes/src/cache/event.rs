//! What a cache tells its subscribers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError::Lagged;

use super::snapshot::CachedNode;

/// A change of a cache. When it is told, the cache's snapshot has it already.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent {
    /// A node is there that was not known before.
    Added(Arc<CachedNode>),
    /// A node has new data. Several changes in a row may be told as one.
    Changed {
        /// What was known of it.
        before: Arc<CachedNode>,
        /// What is known now.
        now: Arc<CachedNode>,
    },
    /// A node is gone; this is the last that was known of it. One that was created anew at once is
    /// told as `Removed`, then `Added`.
    Removed(Arc<CachedNode>),
    /// All is known again: the first reading, or the comparison after an interruption, is complete.
    Synced,
    /// From here on to the next [`CacheEvent::Synced`] the cache may be behind: the connection is
    /// gone, or changes were missed.
    OutOfSync,
    /// A node is there that cannot be read, for instance because of its ACL. It is not in the
    /// cache, and nothing below it that is only now discovered.
    Unreadable {
        /// The node.
        path: Arc<str>,
        /// Why not.
        error: herdsman_client::Error,
    },
    /// This subscriber was too slow, and these many events are lost to it. The snapshot is right:
    /// read that.
    Lagged {
        /// How many.
        missed: u64,
    },
}

impl CacheEvent {
    /// The path that it is about, if it is about one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            CacheEvent::Added(node)
            | CacheEvent::Changed { now: node, .. }
            | CacheEvent::Removed(node) => Some(&node.path),
            CacheEvent::Unreadable { path, .. } => Some(path),
            CacheEvent::Synced | CacheEvent::OutOfSync | CacheEvent::Lagged { .. } => None,
        }
    }
}

/// A stream of [`CacheEvent`]s from the moment of subscription on. It ends when the cache is dropped
/// or its client is closed.
#[derive(Debug)]
pub struct CacheEvents {
    /// `None`: the cache had ended before.
    inner: Option<BroadcastStream<CacheEvent>>,
    /// Events of this path are left out.
    hidden: Option<Arc<str>>,
}

impl CacheEvents {
    pub(super) fn new(receiver: Option<broadcast::Receiver<CacheEvent>>) -> Self {
        CacheEvents { inner: receiver.map(BroadcastStream::new), hidden: None }
    }

    pub(super) fn without(self, path: &str) -> Self {
        CacheEvents { hidden: Some(path.into()), ..self }
    }

    /// The next event; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<CacheEvent> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    fn hides(&self, event: &CacheEvent) -> bool {
        self.hidden.is_some() && event.path() == self.hidden.as_deref()
    }
}

impl Stream for CacheEvents {
    type Item = CacheEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(inner) = &mut self.inner else {
                return Poll::Ready(None);
            };
            match Pin::new(inner).poll_next(context) {
                Poll::Ready(Some(Ok(event))) if self.hides(&event) => {}
                Poll::Ready(Some(Ok(event))) => return Poll::Ready(Some(event)),
                Poll::Ready(Some(Err(Lagged(missed)))) => {
                    return Poll::Ready(Some(CacheEvent::Lagged { missed }));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
