//! Which watches this client has, and who waits for them.
//!
//! In: expectations made when a request that sets a watch is sent, their confirmation by the reply,
//! events from the server, watch values that are dropped. Out: events to those who wait, and what
//! the server must be told: watches to set again on a new connection, watches to remove.
//!
//! The server keeps at most one watch for a connection, path and [`WatchTable`]; here several local
//! watchers share it. Invariants: a watch is removed on the server only when no local watcher is
//! left *and* no request that would set it is under way, for that request would lose its watch.
//! A registry outlives its session in a managed client: persistent watches go on in the next one.
//! Locks: the queue's is taken inside the registry's, never the other way round.
//!
//! Apache: `ZKWatchManager`. There a persistent watch silently misses what happened while the
//! connection was gone; here its stream reports a gap.

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

/// Updates that a persistent watch holds for a slow reader; when it is full the reader gets a gap.
const UPDATES_MAX: usize = 1024;
/// Bytes of their paths. One update may be longer.
const UPDATE_BYTES_MAX: usize = 256 << 10;

/// The server's tables of watches.
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

/// What the read that set a one-shot watch saw.
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
    /// Where removals go: the queue of the session of the day.
    outlet: Weak<RequestQueue>,
}

/// One path in one table.
#[derive(Debug, Default)]
struct Entry {
    watchers: Vec<Watcher>,
    /// Requests under way that set this watch.
    expected: usize,
    /// The server has it, as far as we know.
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
    /// As long as the session in which it was set.
    Session,
    /// Through one session after the other.
    Client,
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    /// Length of the chroot to cut off the paths of events.
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
    /// Removals go to this queue from now on.
    pub(crate) fn attach(&self, queue: &Arc<RequestQueue>) {
        self.inner.lock().outlet = Arc::downgrade(queue);
    }

    /// A request that sets a watch is about to be sent.
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

    /// Hands an event to everybody whom it concerns.
    pub(crate) fn dispatch(&self, kind: EventType, path: &str, zxid: Zxid) {
        let zxid = (zxid != ZXID_OF_LATE_EVENTS).then_some(zxid);
        let mut inner = self.inner.lock();
        for table in fired_tables(kind) {
            inner.fire(path, *table, |chroot_bytes| event(kind, path, zxid, chroot_bytes));
        }
        inner.tell(path, WatchTable::Persistent, kind, path, zxid);
        if kind != EventType::NodeChildrenChanged {
            for ancestor in ancestors(path) {
                inner.tell(ancestor, WatchTable::Recursive, kind, path, zxid);
            }
        }
        inner.forget_if_idle(path);
    }

    /// The connection is gone, and with it all watches on the server.
    pub(crate) fn disconnected(&self) {
        for entry in self.inner.lock().paths.values_mut().flatten() {
            entry.on_server = false;
        }
    }

    /// Changes may have been missed; everything is being watched again.
    pub(crate) fn report_gap(&self) {
        for watcher in self.inner.lock().paths.values().flatten().flat_map(|entry| &entry.watchers)
        {
            watcher.update(WatchUpdate::Gap);
        }
    }

    /// The session is over: watches that belong to it end, the others wait for the next session.
    pub(crate) fn session_ended(&self, reason: &ErrorKind) {
        self.end(reason, |watcher| watcher.lifetime == WatchLifetime::Client);
    }

    /// There will be no next session: all watches end.
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

    /// Whether anything is watched on `path`, or about to be.
    pub(crate) fn is_watched(&self, path: &str) -> bool {
        self.inner.lock().paths.contains_key(path)
    }

    fn remove(&self, path: &str, table: WatchTable, id: u64) {
        self.let_go(path, table, |entry| entry.watchers.retain(|watcher| watcher.id != id));
    }

    fn withdraw(&self, path: &str, table: WatchTable) {
        self.let_go(path, table, |entry| entry.expected -= 1);
    }

    fn let_go(&self, path: &str, table: WatchTable, change: impl FnOnce(&mut Entry)) {
        let mut inner = self.inner.lock();
        if let Some(entries) = inner.paths.get_mut(path) {
            change(&mut entries[table as usize]);
        }
        let outlet = inner.settle(path, table);
        if let Some(queue) = &outlet {
            // Under the lock, so that a request that sets the watch anew comes behind the removal.
            queue.remove_watch(path, table);
        }
        drop(inner);
        // Only now: should this be the last hold on the queue, what it contains comes back here.
        drop(outlet);
    }
}

impl Inner {
    /// After a watcher has gone: the queue to tell if the server's watch has become useless.
    fn settle(&mut self, path: &str, table: WatchTable) -> Option<Arc<RequestQueue>> {
        let entry = &mut self.paths.get_mut(path)?[table as usize];
        let useless = entry.is_idle() && entry.on_server;
        if useless {
            entry.on_server = false;
        }
        self.forget_if_idle(path);
        if useless { self.outlet.upgrade() } else { None }
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
                // A receiver that has gone needs no event.
                let _ = send.send(Ok(event(watcher.chroot_bytes)));
            }
        }
    }

    fn tell(
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
    /// A stream simply ends.
    fn end(self, reason: &ErrorKind) {
        if let Recipient::OneShot { send, .. } = self.to {
            // A receiver that has gone needs no reason.
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
        // Once something was left out, the reader gets a gap at the end of its queue, which stands
        // for this update too.
        if !fits || send.try_send(update).is_err() {
            backlog.bytes.fetch_sub(bytes, Ordering::AcqRel);
            backlog.overflowed.store(true, Ordering::Release);
            // The reader may have emptied the queue between the two and gone to sleep.
            let _ = send.try_send(WatchUpdate::Gap);
        }
    }
}

/// The one-shot tables that an event empties on the server.
fn fired_tables(kind: EventType) -> &'static [WatchTable] {
    match kind {
        EventType::NodeCreated | EventType::NodeDataChanged => &[WatchTable::Data],
        EventType::NodeChildrenChanged => &[WatchTable::Child],
        EventType::NodeDeleted => &[WatchTable::Data, WatchTable::Child],
    }
}

/// The path itself and all above it.
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

/// A request is under way that sets a watch. Dropped without confirmation, it was not set.
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
    /// The reply says that the watch is set.
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

/// A place in the registry; dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Registration {
    watches: Arc<Watches>,
    path: Arc<str>,
    chroot_bytes: usize,
    table: WatchTable,
    id: u64,
}

impl Registration {
    /// The watched path as the caller wrote it.
    pub(crate) fn shown_path(&self) -> &str {
        below_chroot(&self.path, self.chroot_bytes)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.watches.remove(&self.path, self.table, self.id);
    }
}
