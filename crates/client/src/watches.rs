//! The registry of a client's watches.
//!
//! In: requests that are about to set a watch, their replies, events from the server, watch values
//! that are dropped. Out: events for local watchers, and requests to the server: watches to set again
//! on a new connection, watches to remove.
//!
//! The server keeps at most one watch for a connection, path and [`WatchTable`]; several local
//! watchers share it. Invariants: a watch is removed on the server only when no local watcher is
//! left *and* no request that would set it is in flight, because that request would lose its watch.
//! In a managed client the registry outlives a session: persistent watches continue in the next one.
//! Locks: the queue's lock is taken inside the registry's, never the other way round.
//!
//! Apache: `ZKWatchManager`. There a persistent watch silently misses changes that happen without a
//! connection; here its stream reports a gap.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use herdsman_proto::event::ZXID_OF_LATE_EVENTS;
use herdsman_proto::path::ROOT;
use herdsman_proto::request::WatcherType;
use herdsman_proto::{EventType, Zxid};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, ErrorKind, Result};
use crate::request_queue::RequestQueue;
use crate::watch::{Backlog, PersistentWatch, Watch, WatchEvent, WatchUpdate};

mod reset;

/// How many updates a persistent watch queues for a slow reader; beyond that the reader gets a gap.
const UPDATES_MAX: usize = 1024;
/// The size of their paths. A single update may exceed it.
const UPDATE_BYTES_MAX: usize = 256 << 10;

/// The tables in which a server keeps watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchTable {
    /// Set by getData and exists, one shot.
    Data,
    /// Set by getChildren, one shot.
    Child,
    /// Set by addWatch.
    Persistent,
    /// Set by addWatch, with descendants.
    Recursive,
}

const TABLES: usize = 4;

impl WatchTable {
    pub(crate) fn watcher_type(self) -> WatcherType {
        match self {
            WatchTable::Data => WatcherType::Data,
            WatchTable::Child => WatcherType::Children,
            WatchTable::Persistent => WatcherType::Persistent,
            WatchTable::Recursive => WatcherType::PersistentRecursive,
        }
    }
}

/// Whether the znode existed when a one-shot watch was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existence {
    Present,
    Missing,
}

/// All watches of a client.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    paths: HashMap<Arc<str>, [Entry; TABLES]>,
    next_id: u64,
    /// The queue of the current session, for removals.
    removal_queue: Weak<RequestQueue>,
}

/// The watchers of one path in one table.
#[derive(Debug, Default)]
struct Entry {
    watchers: Vec<Watcher>,
    /// How many requests that set this watch are in flight.
    expected: usize,
    /// The server has the watch, as far as the client knows.
    on_server: bool,
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.watchers.is_empty() && self.expected == 0
    }
}

/// How long a watch lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchLifetime {
    /// Until the session in which it was set ends.
    Session,
    /// Until the client is closed, across sessions.
    Client,
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    /// The length of the chroot, which is removed from the paths of events.
    chroot_bytes: usize,
    lifetime: WatchLifetime,
    to: Recipient,
}

#[derive(Debug)]
enum Recipient {
    OneShot { send: oneshot::Sender<Result<WatchEvent>>, existence: Existence },
    Persistent { send: mpsc::Sender<WatchUpdate>, backlog: Arc<Backlog> },
}

impl Watches {
    /// Sets the queue for removals.
    pub(crate) fn attach(&self, queue: &Arc<RequestQueue>) {
        self.inner.lock().removal_queue = Arc::downgrade(queue);
    }

    /// Registers that a request that sets a watch is about to be sent.
    pub(crate) fn expect(
        self: &Arc<Self>,
        path: &str,
        table: WatchTable,
        lifetime: WatchLifetime,
        chroot_bytes: usize,
    ) -> ExpectedWatch {
        let path: Arc<str> = path.into();
        let mut inner = self.inner.lock();
        inner.paths.entry(path.clone()).or_default()[table as usize].expected += 1;
        ExpectedWatch { watches: self.clone(), path, table, lifetime, chroot_bytes, settled: false }
    }

    /// Passes an event to all watchers of the path.
    pub(crate) fn dispatch(&self, kind: EventType, path: &str, zxid: Zxid) {
        let zxid = (zxid != ZXID_OF_LATE_EVENTS).then_some(zxid);
        let mut inner = self.inner.lock();
        for table in fired_tables(kind) {
            inner.fire(path, *table, |chroot_bytes| event(kind, path, zxid, chroot_bytes));
        }
        inner.notify(path, WatchTable::Persistent, kind, path, zxid);
        if kind != EventType::NodeChildrenChanged {
            for ancestor in ancestors(path) {
                inner.notify(ancestor, WatchTable::Recursive, kind, path, zxid);
            }
        }
        inner.forget_if_idle(path);
    }

    /// Records that the connection was lost, and with it all watches on the server.
    pub(crate) fn disconnected(&self) {
        for entry in self.inner.lock().paths.values_mut().flatten() {
            entry.on_server = false;
        }
    }

    /// Reports to persistent watches that changes may have been missed; all watches are set again.
    pub(crate) fn report_gap(&self) {
        for watcher in self.inner.lock().paths.values().flatten().flat_map(|entry| &entry.watchers)
        {
            watcher.update(WatchUpdate::Gap);
        }
    }

    /// Ends the watches that belong to the session; the others wait for the next session.
    pub(crate) fn session_ended(&self, reason: &ErrorKind) {
        self.end(reason, |watcher| watcher.lifetime == WatchLifetime::Client);
    }

    /// Ends all watches, because there will be no next session.
    pub(crate) fn close(&self, reason: &ErrorKind) {
        self.end(reason, |_| false);
    }

    fn end(&self, reason: &ErrorKind, survives: impl Fn(&Watcher) -> bool) {
        let mut inner = self.inner.lock();
        for entry in inner.paths.values_mut().flatten() {
            entry.on_server = false;
            for watcher in entry.watchers.extract_if(.., |watcher| !survives(watcher)) {
                watcher.end(reason);
            }
        }
        inner.paths.retain(|_, entries| !entries.iter().all(Entry::is_idle));
    }

    /// Whether there is a watcher on `path`, or a request in flight that sets a watch.
    pub(crate) fn is_watched(&self, path: &str) -> bool {
        self.inner.lock().paths.contains_key(path)
    }

    fn remove(&self, path: &str, table: WatchTable, id: u64) {
        self.release(path, table, |entry| entry.watchers.retain(|watcher| watcher.id != id));
    }

    fn withdraw(&self, path: &str, table: WatchTable) {
        self.release(path, table, |entry| entry.expected -= 1);
    }

    fn release(&self, path: &str, table: WatchTable, change: impl FnOnce(&mut Entry)) {
        let mut inner = self.inner.lock();
        if let Some(entries) = inner.paths.get_mut(path) {
            change(&mut entries[table as usize]);
        }
        let removal_queue = inner.settle(path, table);
        if let Some(queue) = &removal_queue {
            // Under the lock, so that a request that sets the watch again is queued after the removal.
            queue.remove_watch(path, table);
        }
        drop(inner);
        // Dropped without the lock: if this is the last reference to the queue, dropping its requests calls this
        // function again.
        drop(removal_queue);
    }
}

impl Inner {
    /// Called when a watcher was removed: returns the queue for a removal if the watch on the server is no longer
    /// needed.
    fn settle(&mut self, path: &str, table: WatchTable) -> Option<Arc<RequestQueue>> {
        let entry = &mut self.paths.get_mut(path)?[table as usize];
        let is_unused = entry.is_idle() && entry.on_server;
        if is_unused {
            entry.on_server = false;
        }
        self.forget_if_idle(path);
        if is_unused { self.removal_queue.upgrade() } else { None }
    }

    fn forget_if_idle(&mut self, path: &str) {
        if self.paths.get(path).is_some_and(|entries| entries.iter().all(Entry::is_idle)) {
            self.paths.remove(path);
        }
    }

    fn fire(&mut self, path: &str, table: WatchTable, event: impl Fn(usize) -> WatchEvent) {
        let Some(entries) = self.paths.get_mut(path) else {
            return;
        };
        let entry = &mut entries[table as usize];
        entry.on_server = false;
        for watcher in entry.watchers.drain(..) {
            if let Recipient::OneShot { send, .. } = watcher.to {
                // Fails only if the receiver was dropped.
                let _ = send.send(Ok(event(watcher.chroot_bytes)));
            }
        }
    }

    fn notify(
        &self,
        watched: &str,
        table: WatchTable,
        kind: EventType,
        path: &str,
        zxid: Option<Zxid>,
    ) {
        let Some(entries) = self.paths.get(watched) else {
            return;
        };
        for watcher in &entries[table as usize].watchers {
            let event = event(kind, path, zxid, watcher.chroot_bytes);
            watcher.update(WatchUpdate::Event(event));
        }
    }

    fn establish(&mut self, expected: &ExpectedWatch, to: Recipient) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let entries = self.paths.entry(expected.path.clone()).or_default();
        let entry = &mut entries[expected.table as usize];
        entry.expected -= 1;
        entry.on_server = true;
        let ExpectedWatch { chroot_bytes, lifetime, .. } = *expected;
        entry.watchers.push(Watcher { id, chroot_bytes, lifetime, to });
        id
    }
}

impl Watcher {
    /// Ends the watch: a one-shot watch gets the reason, a stream simply ends.
    fn end(self, reason: &ErrorKind) {
        if let Recipient::OneShot { send, .. } = self.to {
            // Fails only if the receiver was dropped.
            let _ = send.send(Err(Error::not_applied(reason.clone())));
        }
    }

    fn update(&self, update: WatchUpdate) {
        let Recipient::Persistent { send, backlog } = &self.to else {
            return;
        };
        if backlog.overflowed.load(Ordering::Acquire) {
            return;
        }
        let bytes = update.path_bytes();
        let waiting = backlog.bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = waiting == 0 || waiting + bytes <= UPDATE_BYTES_MAX;
        // Once an update was left out, the reader gets a gap at the end of its queue, which covers
        // this update too.
        if !fits || send.try_send(update).is_err() {
            backlog.bytes.fetch_sub(bytes, Ordering::AcqRel);
            backlog.overflowed.store(true, Ordering::Release);
            // The reader may have emptied the queue in between and be waiting again.
            let _ = send.try_send(WatchUpdate::Gap);
        }
    }
}

/// Returns the one-shot tables from which the server removes a watch with this event.
fn fired_tables(kind: EventType) -> &'static [WatchTable] {
    match kind {
        EventType::NodeCreated | EventType::NodeDataChanged => &[WatchTable::Data],
        EventType::NodeChildrenChanged => &[WatchTable::Child],
        EventType::NodeDeleted => &[WatchTable::Data, WatchTable::Child],
    }
}

/// Returns the path itself and its ancestors.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let above = path.rmatch_indices('/').map(move |(at, _)| &path[..at.max(1)]);
    std::iter::once(path).chain(above.filter(move |above| *above != path || path != ROOT))
}

fn event(kind: EventType, path: &str, zxid: Option<Zxid>, chroot_bytes: usize) -> WatchEvent {
    WatchEvent { kind, path: below_chroot(path, chroot_bytes).to_owned(), zxid }
}

fn below_chroot(path: &str, chroot_bytes: usize) -> &str {
    match path.get(chroot_bytes..) {
        Some("") | None => ROOT,
        Some(inside) => inside,
    }
}

/// A watch whose request is in flight. If it is dropped without confirmation, the watch was not set.
#[derive(Debug)]
pub(crate) struct ExpectedWatch {
    watches: Arc<Watches>,
    path: Arc<str>,
    table: WatchTable,
    lifetime: WatchLifetime,
    chroot_bytes: usize,
    settled: bool,
}

/// A watch that the server has confirmed.
#[derive(Debug)]
pub enum ConfirmedWatch {
    OneShot(Watch),
    Persistent(PersistentWatch),
}

impl ExpectedWatch {
    /// Called when the reply says that the watch is set.
    pub(crate) fn confirm(mut self, existence: Existence) -> ConfirmedWatch {
        self.settled = true;
        match self.table {
            WatchTable::Data | WatchTable::Child => {
                let (send, receive) = oneshot::channel();
                let registration = self.register(Recipient::OneShot { send, existence });
                ConfirmedWatch::OneShot(Watch::new(receive, registration))
            }
            WatchTable::Persistent | WatchTable::Recursive => {
                let (send, receive) = mpsc::channel(UPDATES_MAX);
                let backlog = Arc::new(Backlog::default());
                let to = Recipient::Persistent { send, backlog: backlog.clone() };
                ConfirmedWatch::Persistent(PersistentWatch::new(
                    receive,
                    backlog,
                    self.register(to),
                ))
            }
        }
    }

    fn register(&self, to: Recipient) -> Registration {
        let id = self.watches.inner.lock().establish(self, to);
        Registration {
            watches: self.watches.clone(),
            path: self.path.clone(),
            chroot_bytes: self.chroot_bytes,
            table: self.table,
            id,
        }
    }
}

impl Drop for ExpectedWatch {
    fn drop(&mut self) {
        if !self.settled {
            self.watches.withdraw(&self.path, self.table);
        }
    }
}

/// The registration of a watcher; dropping it removes the watcher.
#[derive(Debug)]
pub(crate) struct Registration {
    watches: Arc<Watches>,
    path: Arc<str>,
    chroot_bytes: usize,
    table: WatchTable,
    id: u64,
}

impl Registration {
    /// Returns the watched path as the caller wrote it.
    pub(crate) fn shown_path(&self) -> &str {
        below_chroot(&self.path, self.chroot_bytes)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.watches.remove(&self.path, self.table, self.id);
    }
}
