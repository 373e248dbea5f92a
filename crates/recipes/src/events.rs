//! The stream type in which all recipes report events.
//!
//! In: a channel of values. Out: events, any number for each value. Publishing never waits for a reader, so a slow
//! one misses some; each method that returns a stream documents what.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::{broadcast, watch};
use tokio_stream::wrappers::errors::BroadcastStreamRecvError::Lagged;
use tokio_stream::wrappers::{BroadcastStream, WatchStream};

/// A stream of events. It ends when no more can follow, for instance because the client was closed; the method that
/// returns it documents when else it ends, and what a slow reader misses.
#[must_use = "events are lost unless the stream is read"]
pub struct Events<E> {
    inner: Pin<Box<dyn Stream<Item = E> + Send + Sync>>,
}

impl<E> Events<E> {
    /// Returns the next event; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<E> {
        std::future::poll_fn(|context| self.inner.as_mut().poll_next(context)).await
    }
}

impl<E: Send + Sync + 'static> Events<E> {
    /// Creates a stream of the events that `events` makes of each value.
    pub(crate) fn of<S, I>(
        values: S,
        events: impl FnMut(S::Item) -> I + Send + Sync + 'static,
    ) -> Self
    where
        S: Stream + Send + Sync + Unpin + 'static,
        I: IntoIterator<Item = E>,
    {
        Events { inner: Box::pin(Expanded { values, events, pending: VecDeque::new() }) }
    }

    /// Does the same for the current value and the latest one after each change; a slow reader misses those in
    /// between.
    pub(crate) fn of_latest<T, I>(
        values: watch::Receiver<T>,
        events: impl FnMut(T) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Clone + Send + Sync + 'static,
        I: IntoIterator<Item = E>,
    {
        Events::of(WatchStream::new(values), events)
    }

    /// Creates a stream of the differences between each of these values and the one before, and of the first from
    /// `seen`. A slow reader gets fewer events, which lead to the same final state.
    pub(crate) fn of_differences<T, I>(
        values: watch::Receiver<T>,
        mut seen: T,
        differences: impl Fn(&T, &T) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Clone + Send + Sync + 'static,
        I: IntoIterator<Item = E>,
    {
        Events::of_latest(values, move |next| {
            let events = differences(&seen, &next);
            seen = next;
            events
        })
    }

    /// Creates a stream of broadcast values. A slow reader misses the oldest, and gets what `missed` makes of their
    /// number instead. `None`: the channel is closed already.
    pub(crate) fn of_broadcast(
        values: Option<broadcast::Receiver<E>>,
        missed: impl Fn(u64) -> Option<E> + Send + Sync + 'static,
    ) -> Self
    where
        E: Clone,
    {
        match values {
            None => Events { inner: Box::pin(tokio_stream::empty()) },
            Some(values) => Events::of(BroadcastStream::new(values), move |value| match value {
                Ok(event) => Some(event),
                Err(Lagged(count)) => missed(count),
            }),
        }
    }
}

impl<E> Stream for Events<E> {
    type Item = E;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E>> {
        self.inner.as_mut().poll_next(context)
    }
}

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// Makes any number of events of each value.
struct Expanded<S, F, E> {
    values: S,
    events: F,
    pending: VecDeque<E>,
}

/// Only the values are ever pinned.
impl<S: Unpin, F, E> Unpin for Expanded<S, F, E> {}

impl<S, F, I> Stream for Expanded<S, F, I::Item>
where
    S: Stream + Unpin,
    F: FnMut(S::Item) -> I,
    I: IntoIterator,
{
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<I::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.pending.pop_front() {
                return Poll::Ready(Some(event));
            }
            match ready!(Pin::new(&mut this.values).poll_next(context)) {
                Some(value) => this.pending.extend((this.events)(value)),
                None => return Poll::Ready(None),
            }
        }
    }
}
