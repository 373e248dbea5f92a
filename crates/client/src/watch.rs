//! Watches as values: one to await, one as a stream. Dropping either removes it on the server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use herdsman_proto::{EventType, Zxid};
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, ErrorKind, Result};
use crate::watches::Registration;

/// Something happened to a watched znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// What happened.
    pub kind: EventType,
    /// To which znode, as the client's namespace sees it.
    pub path: String,
    /// The change's own position in the order of all changes. Servers before 3.9 do not say, nor
    /// does any server of a change that it found when the watch was set again after a reconnect.
    pub zxid: Option<Zxid>,
}

/// A one-shot watch: resolves when the change happens, once.
///
/// It survives a reconnection, and reports a change that happened meanwhile. When the session ends
/// first, it resolves to the error that says how: [`ErrorKind::SessionExpired`] or
/// [`ErrorKind::Closed`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = herdsman_server::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::EventType;
///
/// zk.create("/config", "v1").await?;
/// let (node, changed) = zk.get("/config").watch().await?;
/// assert_eq!(node.data, "v1");
/// zk.set("/config", "v2").await?; // anybody may have done this
/// assert_eq!(changed.await?.kind, EventType::NodeDataChanged);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is removed again"]
pub struct Watch {
    receive: oneshot::Receiver<Result<WatchEvent>>,
    _registration: Registration,
}

impl Watch {
    pub(crate) fn new(
        receive: oneshot::Receiver<Result<WatchEvent>>,
        registration: Registration,
    ) -> Self {
        Watch { receive, _registration: registration }
    }
}

impl Future for Watch {
    type Output = Result<WatchEvent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let received = Pin::new(&mut self.receive).poll(context);
        // Without a word it ends only with the runtime that drove the client.
        received.map(|event| event.unwrap_or(Err(Error::not_applied(ErrorKind::Closed))))
    }
}

/// What a persistent watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchUpdate {
    /// A change.
    Event(WatchEvent),
    /// Changes may have been missed: the connection was gone, or the reader was too slow. The watch
    /// is in place again, so what is read after this update misses nothing.
    Gap,
}

/// A persistent watch: a stream of changes.
///
/// It survives reconnections, and in a managed client the end of a session; both are reported as
/// [`WatchUpdate::Gap`]. At most 1024 updates wait for a slow reader; then it gets a gap instead.
/// The stream ends when the client is closed, or with the session for a client bound to one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = herdsman_server::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::WatchUpdate;
///
/// let mut changes = zk.watch("/app").recursive().await?;
/// zk.create("/app/a", "").parents().await?;
/// while let Some(update) = changes.next().await {
///     match update {
///         WatchUpdate::Event(event) if event.path == "/app/a" => break,
///         WatchUpdate::Event(event) => println!("{:?} {}", event.kind, event.path),
///         // Something may have been missed: read everything again.
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
    overflowed: Arc<AtomicBool>,
    _registration: Registration,
}

impl PersistentWatch {
    pub(crate) fn new(
        receive: mpsc::Receiver<WatchUpdate>,
        overflowed: Arc<AtomicBool>,
        registration: Registration,
    ) -> Self {
        PersistentWatch { receive, overflowed, _registration: registration }
    }

    /// The next update; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<WatchUpdate> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for PersistentWatch {
    type Item = WatchUpdate;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let received = self.receive.poll_recv(context);
        // The queue was full when updates were dropped, so the reader is here again after it has
        // emptied it: the gap cannot go unnoticed. Tokio also makes a reader wait that has taken much
        // at once; that is no reason to report the gap before what came before it.
        let is_empty = received.is_pending() && self.receive.is_empty();
        if is_empty && self.overflowed.swap(false, Ordering::AcqRel) {
            return Poll::Ready(Some(WatchUpdate::Gap));
        }
        received
    }
}
