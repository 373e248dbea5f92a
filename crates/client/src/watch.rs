//! Watches as values: a future and a stream. Dropping either removes it on the server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use herdsman_proto::{EventType, Zxid};
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, ErrorKind, Result};
use crate::watches::Registration;

/// A change of a watched znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// The kind of change.
    pub kind: EventType,
    /// The path of the znode in the client's namespace.
    pub path: String,
    /// The zxid of the change. `None` from servers before 3.9, and for a change that a server found
    /// when the watch was set again after a reconnect.
    pub zxid: Option<Zxid>,
}

/// A one-shot watch: resolves when the change happens, once.
///
/// It survives a reconnect, and reports a change that happened meanwhile. When the session ends
/// first, it resolves to the error [`ErrorKind::SessionExpired`] or [`ErrorKind::Closed`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::EventType;
///
/// zk.create("/config", "v1").await?;
/// let (node, changed) = zk.get("/config").watch().await?;
/// assert_eq!(node.data, "v1");
/// zk.set("/config", "v2").await?; // could be another client
/// assert_eq!(changed.await?.kind, EventType::NodeDataChanged);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed again"]
pub struct Watch {
    receive: oneshot::Receiver<Result<WatchEvent>>,
    registration: Registration,
}

impl Watch {
    pub(crate) fn new(
        receive: oneshot::Receiver<Result<WatchEvent>>,
        registration: Registration,
    ) -> Self {
        Watch { receive, registration }
    }
}

impl Future for Watch {
    type Output = Result<WatchEvent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let received = Pin::new(&mut self.receive).poll(context);
        received.map(|event| {
            // The sender is dropped without a message only together with the client's runtime.
            let event = event.unwrap_or(Err(Error::not_applied(ErrorKind::Closed)));
            event.map_err(|error| error.at_named("watch", self.registration.shown_path()))
        })
    }
}

/// An update of a persistent watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchUpdate {
    /// A change.
    Event(WatchEvent),
    /// Changes may have been missed: the connection was lost, or the reader was too slow. The watch
    /// is set again, so reads after this update together with later updates miss no change.
    Gap,
}

/// A persistent watch: a stream of changes.
///
/// It survives reconnects, and in a managed client the end of a session; both are reported as
/// [`WatchUpdate::Gap`]. At most 1024 updates, with paths of 256 KiB in total, are queued for a slow
/// reader; beyond that it gets a gap instead.
/// The stream ends when the client is closed, or with the session for a client bound to one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::WatchUpdate;
///
/// let mut changes = zk.watch("/app").recursive().await?;
/// zk.create("/app/a", "").parents().await?;
/// while let Some(update) = changes.next().await {
///     match update {
///         WatchUpdate::Event(event) if event.path == "/app/a" => break,
///         WatchUpdate::Event(event) => println!("{:?} {}", event.kind, event.path),
///         // Changes may have been missed: read everything again.
///         WatchUpdate::Gap => drop(zk.children("/app").await?),
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed again"]
pub struct PersistentWatch {
    receive: mpsc::Receiver<WatchUpdate>,
    backlog: Arc<Backlog>,
    _registration: Registration,
}

/// The queued updates of a persistent watch.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// The size of their paths.
    pub(crate) bytes: AtomicUsize,
    /// Updates were left out.
    pub(crate) overflowed: AtomicBool,
}

impl WatchUpdate {
    pub(crate) fn path_bytes(&self) -> usize {
        match self {
            WatchUpdate::Event(event) => event.path.len(),
            WatchUpdate::Gap => 0,
        }
    }
}

impl PersistentWatch {
    pub(crate) fn new(
        receive: mpsc::Receiver<WatchUpdate>,
        backlog: Arc<Backlog>,
        registration: Registration,
    ) -> Self {
        PersistentWatch { receive, backlog, _registration: registration }
    }

    /// Waits for the next update; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<WatchUpdate> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for PersistentWatch {
    type Item = WatchUpdate;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let received = self.receive.poll_recv(context);
        if let Poll::Ready(Some(update)) = &received {
            self.backlog.bytes.fetch_sub(update.path_bytes(), Ordering::AcqRel);
            // This gap covers all updates dropped before this store: the reader reads everything again after it.
            if *update == WatchUpdate::Gap && self.receive.is_empty() {
                self.backlog.overflowed.store(false, Ordering::Release);
            }
        }
        // If there was no room even for a gap when updates were dropped, the queue was full, so the reader is here
        // again after it has emptied it: the gap cannot go unnoticed. Tokio also returns Pending to a reader that has
        // used up its budget while updates are queued; the gap must not be reported before those.
        let is_empty = received.is_pending() && self.receive.is_empty();
        if is_empty && self.backlog.overflowed.swap(false, Ordering::AcqRel) {
            return Poll::Ready(Some(WatchUpdate::Gap));
        }
        received
    }
}
