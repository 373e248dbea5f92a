//! Notifications from the service that a cache has not processed yet.
//!
//! In: updates of the persistent watch, and the state of the connection. Out: which paths to read again, or that
//! everything has to be compared. Limit: [`DIRTY_MAX`] paths; beyond that it is cheaper to compare everything anyway.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use herdsman_client::{
    Client, ConnectionEvent, ConnectionEvents, EventType, PersistentWatch, WatchEvent, WatchUpdate,
    Zxid,
};

use super::scope::Scope;

/// Paths that wait to be read again.
const DIRTY_MAX: usize = 1 << 16;

/// The latest notification about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirtyPath {
    /// It must be read.
    Unread,
    /// This txn deleted it; nothing needs to be read.
    Deleted(Zxid),
}

/// Paths to read, or the whole tree.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    pub(super) paths: BTreeMap<Arc<str>, DirtyPath>,
    /// Changes were missed: everything has to be compared.
    pub(super) everything: bool,
    /// The connection is lost.
    pub(super) disconnected: bool,
    /// There will be no more notifications.
    pub(super) closed: bool,
}

#[derive(Debug)]
pub(super) struct Inbox {
    client: Client,
    scope: Scope,
    watch: PersistentWatch,
    connection: ConnectionEvents,
    pub(super) dirty: Dirty,
}

impl Inbox {
    pub(super) fn new(client: &Client, scope: &Scope, watch: PersistentWatch) -> Self {
        let (client, scope) = (client.clone(), scope.clone());
        let connection = client.events();
        Inbox { client, scope, watch, connection, dirty: Dirty::default() }
    }

    /// Waits until there is something new, and notes all of it. Cancel-safe.
    pub(super) async fn wait(&mut self) {
        tokio::select! {
            update = self.watch.next() => self.note(update),
            event = self.connection.next() => self.note_connection(event),
        }
        let mut context = Context::from_waker(Waker::noop());
        while !self.dirty.closed
            && let Poll::Ready(update) = Pin::new(&mut self.watch).poll_next(&mut context)
        {
            self.note(update);
        }
    }

    fn note(&mut self, update: Option<WatchUpdate>) {
        match update {
            Some(WatchUpdate::Event(event)) => self.note_event(event),
            Some(_) => self.dirty.everything = true,
            None => self.dirty.closed = true,
        }
    }

    fn note_event(&mut self, WatchEvent { kind, path, zxid }: WatchEvent) {
        if kind == EventType::NodeChildrenChanged || !self.scope.admits(&path) {
            return;
        }
        let dirty = match (kind, zxid) {
            (EventType::NodeDeleted, Some(zxid)) => DirtyPath::Deleted(zxid),
            _ => DirtyPath::Unread,
        };
        if self.dirty.paths.len() == DIRTY_MAX {
            self.dirty.paths.clear();
            self.dirty.everything = true;
        }
        self.dirty.paths.insert(path.into(), dirty);
    }

    /// Reports the loss of the connection at once, because the gap itself shows only when there is a connection
    /// again. Events from before that are ignored: the gap has been reported, or will be.
    fn note_connection(&mut self, event: Option<ConnectionEvent>) {
        match event {
            Some(ConnectionEvent::Closed | ConnectionEvent::AuthFailed) | None => {
                self.dirty.closed = true;
            }
            Some(event) => {
                self.dirty.disconnected |= !self.client.state().is_connected();
                self.dirty.closed |= event == ConnectionEvent::Expired && self.has_no_successor();
            }
        }
    }

    /// Returns, after the end of a session, whether the client was bound to it, so that no other session follows.
    fn has_no_successor(&self) -> bool {
        let next = std::pin::pin!(self.client.connected_session());
        let mut context = Context::from_waker(Waker::noop());
        matches!(next.poll(&mut context), Poll::Ready(Err(_)))
    }

    /// Forgets what was noted so far, because it is about to be read.
    pub(super) fn forget(&mut self) {
        self.dirty.paths.clear();
        self.dirty.everything = false;
    }
}
