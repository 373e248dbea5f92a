//! What a proxy has seen: counters, and the last messages.

use std::collections::{BTreeMap, VecDeque};

use herdsman_proto::{EventType, OpCode};

use super::frames::SeenRequest;

/// The log keeps this many requests and events; the oldest are dropped first.
const LOG_ENTRIES_MAX: usize = 4096;
/// The log keeps this many paths of a request.
const LOG_PATHS_MAX: usize = 16;

/// Counters since the proxy was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub(super) connections_accepted: usize,
    pub(super) connections_open: usize,
    pub(super) requests: BTreeMap<OpCode, usize>,
    pub(super) events: usize,
}

impl Traffic {
    /// Connections opened by clients, without refused ones.
    #[must_use]
    pub fn connections_accepted(&self) -> usize {
        self.connections_accepted
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections_open(&self) -> usize {
        self.connections_open
    }

    /// Requests of a kind from clients, whatever happened to them. Handshakes are
    /// [`OpCode::CreateSession`].
    #[must_use]
    pub fn requests(&self, op: OpCode) -> usize {
        self.requests.get(&op).copied().unwrap_or(0)
    }

    /// All requests from clients, except heartbeats and handshakes.
    #[must_use]
    pub fn requests_in_all(&self) -> usize {
        let by_op = self.requests.iter();
        let counted = by_op.filter(|(op, _)| !matches!(op, OpCode::Ping | OpCode::CreateSession));
        counted.map(|(_, count)| count).sum()
    }

    /// Watch events from the server.
    #[must_use]
    pub fn events(&self) -> usize {
        self.events
    }
}

/// A message that arrived at the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The connection, counted from 1.
    pub connection: usize,
    /// The message.
    pub what: ObservedFrame,
}

/// A request or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObservedFrame {
    /// From a client.
    Request {
        /// The operation; a handshake is [`OpCode::CreateSession`].
        op: OpCode,
        /// The paths it names: none, one, or the first 16 of a multi or of watches set again.
        paths: Vec<String>,
    },
    /// From the server.
    Event {
        /// The type of event.
        kind: EventType,
        /// Its path.
        path: String,
    },
}

/// The last messages.
#[derive(Default)]
pub(super) struct Log(VecDeque<Observed>);

impl Log {
    pub(super) fn entries(&self) -> Vec<Observed> {
        self.0.iter().cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn request(&mut self, connection: usize, op: OpCode, request: &SeenRequest) {
        let paths = request.paths.iter().take(LOG_PATHS_MAX).cloned().collect();
        self.push(Observed { connection, what: ObservedFrame::Request { op, paths } });
    }

    pub(super) fn event(&mut self, connection: usize, kind: EventType, path: String) {
        self.push(Observed { connection, what: ObservedFrame::Event { kind, path } });
    }

    fn push(&mut self, observed: Observed) {
        if self.0.len() == LOG_ENTRIES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(observed);
    }
}
