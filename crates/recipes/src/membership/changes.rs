//! Changes of a roster as a stream.
//!
//! A stream remembers the snapshot that its reader has seen and compares it with the newest. So
//! there is no queue that could overflow: a slow reader gets fewer changes, which lead to the same end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio_stream::wrappers::WatchStream;

use super::roster::{Roster, Snapshot};

/// Somebody came, went or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// Came.
    Joined(Arc<T>),
    /// Is another than before, for example with other data.
    Changed(Arc<T>),
    /// Went. As it was last seen.
    Left(Arc<T>),
}

/// A stream of [`Change`]s. A slow reader gets states in between left out, never the last one. The
/// stream ends with the client.
#[derive(Debug)]
pub struct Changes<T> {
    snapshots: WatchStream<Snapshot<T>>,
    seen: Snapshot<T>,
    pending: VecDeque<Change<T>>,
}

impl<T: Send + Sync + 'static> Changes<T> {
    pub(crate) fn new(roster: &Roster<T>) -> Self {
        let mut snapshots = roster.subscribe();
        let seen = snapshots.borrow_and_update().clone();
        Changes { snapshots: WatchStream::from_changes(snapshots), seen, pending: VecDeque::new() }
    }

    /// The same, but those who are there already are reported as if they came now.
    pub(crate) fn from_nothing(roster: &Roster<T>) -> Self {
        let snapshots = WatchStream::new(roster.subscribe());
        Changes { snapshots, seen: Snapshot::empty(), pending: VecDeque::new() }
    }

    /// The next change; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Change<T>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<T: Send + Sync + 'static> Stream for Changes<T> {
    type Item = Change<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change<T>>> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Poll::Ready(Some(change));
            }
            let next = std::task::ready!(Pin::new(&mut self.snapshots).poll_next(context));
            let Some(next) = next else {
                return Poll::Ready(None);
            };
            self.pending = self.seen.changes_to(&next).collect();
            self.seen = next;
        }
    }
}
