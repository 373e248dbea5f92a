//! The state of a connection, as a value to read, to wait for, and as a stream of changes.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use herdsman_proto::SessionId;
use tokio::sync::{broadcast, watch};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

/// The state of the connection between a client and its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionState {
    /// No server has accepted a session yet.
    Connecting,
    /// Connected to a server that accepts writes.
    Connected,
    /// Connected to a read-only server, which has lost its quorum.
    ReadOnly,
    /// The connection was lost; the session, its ephemerals and locks may still exist.
    Suspended,
    /// No contact for a whole session timeout: the servers may have ended the session. Do not rely
    /// on anything that depends on it. The session may still turn out to be alive.
    Lost,
    /// The servers have ended the session.
    Expired,
    /// The servers refused the credentials, which ends the session.
    AuthFailed,
    /// Closed by its owner.
    Closed,
}

impl ConnectionState {
    /// Whether there is a connection to a server.
    #[must_use]
    pub fn is_connected(self) -> bool {
        matches!(self, ConnectionState::Connected | ConnectionState::ReadOnly)
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_final(self) -> bool {
        use ConnectionState::{AuthFailed, Closed, Expired};
        matches!(self, Expired | AuthFailed | Closed)
    }
}

/// A change of the connection. Events are reported in the order in which they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// A new session was established: the first one, or after [`ConnectionEvent::Expired`] the
    /// next one of a managed client.
    Connected {
        /// Its id.
        session: SessionId,
    },
    /// The connection was lost; the session may still exist.
    Suspended,
    /// The same session continues, on the same or another server.
    Reconnected {
        /// Its id.
        session: SessionId,
    },
    /// Connected to a read-only server.
    ReadOnly,
    /// No contact for a whole session timeout.
    Lost,
    /// The servers have ended the session and deleted its ephemerals.
    Expired,
    /// The credentials were refused.
    AuthFailed,
    /// Closed by its owner; no further event follows.
    Closed,
}

impl ConnectionEvent {
    /// Returns the final state that this event leads to, if it is the last of its session.
    fn final_state(self) -> Option<ConnectionState> {
        match self {
            ConnectionEvent::Expired => Some(ConnectionState::Expired),
            ConnectionEvent::AuthFailed => Some(ConnectionState::AuthFailed),
            ConnectionEvent::Closed => Some(ConnectionState::Closed),
            _ => None,
        }
    }
}

/// How many changes are kept for a slow subscriber; it misses older ones.
const EVENTS_KEPT: usize = 64;

/// Publishes the state of a session, or of the consecutive sessions of a client.
#[derive(Debug)]
pub(crate) struct StatePublisher {
    now: watch::Sender<ConnectionState>,
    events: broadcast::Sender<ConnectionEvent>,
}

impl StatePublisher {
    pub(crate) fn new() -> Self {
        StatePublisher {
            now: watch::Sender::new(ConnectionState::Connecting),
            events: broadcast::Sender::new(EVENTS_KEPT),
        }
    }

    pub(crate) fn state(&self) -> ConnectionState {
        *self.now.borrow()
    }

    /// Publishes a change, and runs `also` as part of it, atomically for other threads: a thread that has
    /// seen the new state subscribes after the event, and a thread that has seen the event sees the new
    /// state.
    pub(crate) fn publish(
        &self,
        state: ConnectionState,
        event: ConnectionEvent,
        also: impl FnOnce(),
    ) {
        self.now.send_modify(|now| {
            *now = state;
            also();
            // Fails only without subscribers.
            let _ = self.events.send(event);
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<ConnectionState> {
        self.now.subscribe()
    }
}

/// A stream of [`ConnectionEvent`]s from the moment of subscription on. A subscriber that falls more
/// than 64 events behind misses the oldest ones. The stream ends after the last possible event.
#[derive(Debug)]
pub struct ConnectionEvents {
    inner: BroadcastStream<ConnectionEvent>,
    on_expiry: OnExpiry,
    has_ended: bool,
}

/// What follows when a session expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnExpiry {
    End,
    NextSession,
}

impl OnExpiry {
    fn is_end(self, state: ConnectionState) -> bool {
        state.is_final() && (state != ConnectionState::Expired || self == OnExpiry::End)
    }
}

impl ConnectionEvents {
    pub(crate) fn new(states: &StatePublisher, on_expiry: OnExpiry) -> Self {
        let inner = BroadcastStream::new(states.events.subscribe());
        // Read after subscribing: the end is either seen here or arrives as an event.
        ConnectionEvents { inner, on_expiry, has_ended: on_expiry.is_end(states.state()) }
    }

    /// Waits for the next change; `None` if there can be no more. Cancel-safe.
    pub async fn next(&mut self) -> Option<ConnectionEvent> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for ConnectionEvents {
    type Item = ConnectionEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        loop {
            match Pin::new(&mut self.inner).poll_next(context) {
                Poll::Ready(Some(Err(BroadcastStreamRecvError::Lagged(_)))) => {}
                Poll::Ready(Some(Ok(event))) => {
                    self.has_ended =
                        event.final_state().is_some_and(|state| self.on_expiry.is_end(state));
                    return Poll::Ready(Some(event));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
