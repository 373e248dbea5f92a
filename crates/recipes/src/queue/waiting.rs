//! Waits for an item to take, or for room for an item: one client at a time.
//!
//! A client that finds nothing joins a line of ephemeral nodes and watches only the one before it. Only the first in
//! the line watches the queue. So a new item wakes one consumer, however many wait; the next in line is woken when
//! the first has got an item and leaves. Curator's consumers all watch the queue, which is their herd effect; they
//! and ours do not disturb each other.
//!
//! The line gives no right to an item: a client that asks at the right moment gets it without joining the line. That
//! costs the first in the line an unsuccessful read, and saves busy consumers all these writes.
//!
//! Nodes: `<queue>-consumers/_c_<uuid>-place-N`, and `-producers` likewise, in a container.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use herdsman_client::{Client, Outcome, Watch};

use crate::error::{Error, Result};
use crate::hold_options::Holder;
use crate::line::{Layout, Line, after_predecessor};
use crate::retrying::may_succeed_later;

const PLACE: &str = "place-";

/// Something that a client can wait for.
pub(super) trait Source: Sync {
    /// What is found.
    type Found: Send;

    /// Takes what there is, or returns what to wait for before the next attempt.
    fn attempt(&self) -> impl Future<Output = Result<Attempt<Self::Found>>> + Send;
}

/// The result of an attempt.
#[derive(Debug)]
pub(super) enum Attempt<T> {
    Found(T),
    Nothing(Wake),
}

/// When to try again.
#[derive(Debug, Default)]
pub(super) struct Wake {
    /// When any of these fires.
    pub(super) watches: Vec<Watch>,
    /// Or after this time, if it passes first.
    pub(super) after: Option<Duration>,
}

impl Wake {
    async fn wait(mut self) -> Result<()> {
        let watches = std::future::poll_fn(|context| {
            let fired =
                self.watches.iter_mut().find_map(|watch| match Pin::new(watch).poll(context) {
                    Poll::Ready(event) => Some(event),
                    Poll::Pending => None,
                });
            fired.map_or(Poll::Pending, Poll::Ready)
        });
        let Some(after) = self.after else {
            return Ok(watches.await.map(drop)?);
        };
        match tokio::time::timeout(after, watches).await {
            Ok(event) => Ok(event.map(drop)?),
            Err(_) => Ok(()),
        }
    }
}

/// Returns the line of the waiters on one side of a queue.
pub(super) fn line(client: &Client, queue: &str, side: &str) -> Line {
    Line {
        holder: Holder::new(client, ""),
        directory: format!("{queue}-{side}"),
        layout: Layout::Curator,
        markers: &[PLACE],
    }
}

/// Waits in the line, then for the queue itself.
pub(super) async fn in_line<S: Source>(line: &Line, source: &S) -> Result<S::Found> {
    loop {
        let place = line.wait(PLACE, after_predecessor).await?;
        match attempt_until_found(source).await {
            Err(error) if should_continue(&line.holder.client, &error) => drop(place),
            found => return found,
        }
    }
}

async fn attempt_until_found<S: Source>(source: &S) -> Result<S::Found> {
    loop {
        match source.attempt().await? {
            Attempt::Found(found) => return Ok(found),
            Attempt::Nothing(wake) => wake.wait().await?,
        }
    }
}

/// Returns whether to keep waiting after an error: nothing was applied, and the client will be connected again. A
/// deadline is meant for single calls.
pub(super) fn should_continue(client: &Client, error: &Error) -> bool {
    let Error::Client(error) = error else {
        return false;
    };
    let may_succeed = may_succeed_later(client, error) || error.is_deadline_exceeded();
    may_succeed && error.outcome() == Outcome::NotApplied
}
