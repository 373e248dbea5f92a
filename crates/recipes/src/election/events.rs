//! What happens in an election, as bounded streams.
//!
//! In: the steps of a candidate. Out: a stream for each who asked. Nobody waits for a reader: one
//! that falls more than 64 events behind misses the oldest, and always gets the newest.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use crate::error::Error;
use crate::line::{Place, Turn};

/// A step in the life of a candidate.
///
/// The steps are those of ZooKeeper's own election recipe (`LeaderElectionSupport`); where that
/// reports the start and the end of something at which nothing can be done in between, one event
/// stands for both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionEvent {
    /// It became a candidate and is about to make its offer: START, OFFER_START.
    Started,
    /// Its node stands in the line: OFFER_COMPLETE. Comes again if the session is lost meanwhile.
    Offered {
        /// The name of the node.
        node: String,
    },
    /// It has looked who stands before it: DETERMINE_START, DETERMINE_COMPLETE.
    Determined {
        /// How many candidates are before it.
        ahead: usize,
    },
    /// Others come first, and it waits for the one right before it: READY_START, READY_COMPLETE.
    Ready {
        /// The name of the node it waits for.
        behind: String,
    },
    /// It is the first, and takes office: ELECTED_START.
    Elected,
    /// It leads: ELECTED_COMPLETE.
    Leading {
        /// The token of its term.
        token: u64,
    },
    /// It can no longer trust that it leads. Reported by whoever waits for the loss.
    Lost {
        /// The token of the term.
        token: u64,
    },
    /// It gave up its candidacy for this reason: FAILED.
    Failed {
        /// Why.
        error: Error,
    },
    /// It is about to resign: STOP_START.
    Stopping,
    /// It is a candidate no longer: STOP_COMPLETE.
    Stopped,
}

/// Events that a slow reader may be behind.
const EVENTS_KEPT: usize = 64;

/// Where events are published. Clones publish to the same readers.
#[derive(Clone)]
pub(crate) struct Board<E> {
    send: broadcast::Sender<E>,
}

impl<E> fmt::Debug for Board<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").finish_non_exhaustive()
    }
}

impl<E: Clone + Send + 'static> Board<E> {
    pub(crate) fn new() -> Self {
        Board { send: broadcast::Sender::new(EVENTS_KEPT) }
    }

    pub(crate) fn publish(&self, event: E) {
        // Nobody listening is fine.
        let _ = self.send.send(event);
    }

    pub(crate) fn subscribe(&self) -> Events<E> {
        Events { inner: BroadcastStream::new(self.send.subscribe()) }
    }
}

/// A stream of events from the moment of subscription on. It ends when nothing can follow. A reader
/// that falls more than 64 events behind misses the oldest ones.
#[derive(Debug)]
pub struct Events<E> {
    inner: BroadcastStream<E>,
}

impl<E: Clone + Send + 'static> Events<E> {
    /// The next event; `None` when nothing can follow. Cancel-safe.
    pub async fn next(&mut self) -> Option<E> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<E: Clone + Send + 'static> Stream for Events<E> {
    type Item = E;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E>> {
        loop {
            match Pin::new(&mut self.inner).poll_next(context) {
                Poll::Ready(Some(Err(BroadcastStreamRecvError::Lagged(_)))) => {}
                Poll::Ready(Some(Ok(event))) => return Poll::Ready(Some(event)),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// One campaign, told step by step. Dropping it before its end means that the candidate withdrew.
pub(super) struct Progress<'a> {
    board: &'a Board<ElectionEvent>,
    offered: Mutex<Option<String>>,
    is_over: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn start(board: &'a Board<ElectionEvent>) -> Self {
        board.publish(ElectionEvent::Started);
        Progress { board, offered: Mutex::new(None), is_over: false }
    }

    /// Whose turn it is in a fair line, and what that means for the candidate at `ours`.
    pub(super) fn determine(&self, places: &[Place], ours: usize) -> Turn {
        let node = &places[ours].name;
        if self.offered.lock().replace(node.clone()).as_ref() != Some(node) {
            self.board.publish(ElectionEvent::Offered { node: node.clone() });
        }
        self.board.publish(ElectionEvent::Determined { ahead: ours });
        match ours.checked_sub(1).map(|before| places[before].name.clone()) {
            None => {
                self.board.publish(ElectionEvent::Elected);
                Turn::Ours
            }
            Some(behind) => {
                self.board.publish(ElectionEvent::Ready { behind: behind.clone() });
                Turn::After(behind)
            }
        }
    }

    pub(super) fn leading(mut self, token: u64) {
        self.is_over = true;
        self.board.publish(ElectionEvent::Leading { token });
    }

    pub(super) fn failed(mut self, error: &Error) {
        self.is_over = true;
        self.board.publish(ElectionEvent::Failed { error: error.clone() });
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.board.publish(ElectionEvent::Stopping);
            self.board.publish(ElectionEvent::Stopped);
        }
    }
}
