//! The connections of one port: counts them, and chooses which one to close when there are too many.
//!
//! In: the addresses of new connections, and when a request begins and ends. Out: admission of each, or rejection.
//! Every connection is accepted at once, so that none waits in the system's queue behind idle ones.
//!
//! Limits, and what happens when they are reached:
//! - [`Limits::connections_max`] in total, and a quarter of that for one network ([`AddressBlock`]). The one that
//!   has been idle longest is closed: one of the same network if that has reached its limit, else one of the
//!   network with the most idle connections. A connection is idle while it has no request in progress; a connection
//!   in its TLS handshake, or with an incomplete head, is idle, too.
//! - If none is idle, the new connection gets one of [`RESERVED_SLOTS`] reserved slots, in which only health checks are
//!   answered. A probe that was rejected would take a busy server for a dead one.
//!   One network may have [`RESERVED_PER_NETWORK_MAX`] of them.
//! - If the reserved slots are used up as well, the longest idle connection in them is closed; if none is idle, the
//!   new one is.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::address_block::AddressBlock;

/// Connections beyond the limit, for health checks only.
pub(crate) const RESERVED_SLOTS: usize = 32;
/// Most of these for one network.
const RESERVED_PER_NETWORK_MAX: usize = 8;
/// The share of one network: one in this many connections.
const NETWORK_SHARE: usize = 4;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub connections_max: usize,
    pub idle_timeout: Duration,
}

/// Which requests are allowed on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Regular,
    /// Health checks only.
    Reserved,
}

/// The connections of a port.
#[derive(Debug)]
pub(crate) struct Connections {
    connections_max: usize,
    table: Mutex<Table>,
    /// Notified when a connection has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    network: AddressBlock,
    admission: Admission,
    requests: usize,
    /// A response waits for the client to read.
    is_blocked: bool,
    idle_since: Instant,
    close: Arc<Notify>,
}

/// A connection; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Arc<Connections>,
    id: u64,
    admission: Admission,
    close: Arc<Notify>,
    has_asked: AtomicBool,
    has_refused: AtomicBool,
}

/// A request that is in progress until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Connections {
            connections_max: connections_max.max(1),
            table: Mutex::default(),
            ended: Notify::new(),
        })
    }

    /// Admits a connection from this address; `None` if even the reserved slots are busy.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Arc<Connection>> {
        let network = AddressBlock::of(address);
        let close = Arc::new(Notify::new());
        let mut table = self.table.lock();
        let admission = table.make_room(network, self.connections_max)?;
        let id = table.next_id;
        table.next_id += 1;
        let entry = Entry {
            network,
            admission,
            requests: 0,
            is_blocked: false,
            idle_since: Instant::now(),
            close: Arc::clone(&close),
        };
        table.entries.insert(id, entry);
        let connections = Arc::clone(self);
        let (has_asked, has_refused) = (AtomicBool::new(false), AtomicBool::new(false));
        Some(Arc::new(Connection { connections, id, admission, close, has_asked, has_refused }))
    }

    /// Waits until there are no connections.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.table.lock().entries.is_empty() {
                return;
            }
            ended.await;
        }
    }
}

impl Table {
    /// Makes room for one more connection, by closing an idle one if needed.
    fn make_room(&mut self, network: AddressBlock, connections_max: usize) -> Option<Admission> {
        let network_max = (connections_max / NETWORK_SHARE).max(1);
        let regular = |entry: &&Entry| entry.admission == Admission::Regular;
        let in_all = self.entries.values().filter(regular).count();
        let of_network =
            self.entries.values().filter(regular).filter(|entry| entry.network == network).count();
        let has_room = if of_network >= network_max {
            self.close_idle(|entry| {
                entry.admission == Admission::Regular && entry.network == network
            })
        } else if in_all >= connections_max {
            let idlest = self.network_with_most_idle();
            self.close_idle(|entry| {
                entry.admission == Admission::Regular && Some(entry.network) == idlest
            })
        } else {
            true
        };
        if has_room {
            return Some(Admission::Regular);
        }
        self.make_reserved_room(network).then_some(Admission::Reserved)
    }

    /// Makes room in the reserved slots. One network leaves some to the health checks of other networks.
    fn make_reserved_room(&mut self, network: AddressBlock) -> bool {
        let reserved = |entry: &&Entry| entry.admission == Admission::Reserved;
        let in_all = self.entries.values().filter(reserved).count();
        let of_network =
            self.entries.values().filter(reserved).filter(|entry| entry.network == network).count();
        if of_network >= RESERVED_PER_NETWORK_MAX {
            self.close_idle(|entry| {
                entry.admission == Admission::Reserved && entry.network == network
            })
        } else {
            in_all < RESERVED_SLOTS
                || self.close_idle(|entry| entry.admission == Admission::Reserved)
        }
    }

    fn network_with_most_idle(&self) -> Option<AddressBlock> {
        let mut counts = HashMap::new();
        let idle = |entry: &&Entry| entry.admission == Admission::Regular && entry.is_idle();
        for entry in self.entries.values().filter(idle) {
            *counts.entry(entry.network).or_insert(0_usize) += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(network, _)| network)
    }

    /// Closes the longest idle connection of those that match. Returns false if none is idle.
    fn close_idle(&mut self, may_go: impl Fn(&Entry) -> bool) -> bool {
        let idle = self.entries.iter().filter(|(_, entry)| entry.is_idle() && may_go(entry));
        let Some((&id, _)) = idle.min_by_key(|(_, entry)| entry.idle_since) else {
            return false;
        };
        if let Some(entry) = self.entries.remove(&id) {
            entry.close.notify_one();
        }
        true
    }
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.requests == 0 && !self.is_blocked
    }
}

impl Connection {
    #[cfg(test)]
    pub(super) fn table(&self) -> &Arc<Connections> {
        &self.connections
    }

    pub(crate) fn admission(&self) -> Admission {
        self.admission
    }

    /// Waits until this connection must be closed to make room for another one.
    pub(crate) async fn must_close(&self) {
        self.close.notified().await;
    }

    /// Whether a request has arrived.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Whether a request arrived after the connection was chosen to be closed.
    pub(crate) fn has_refused(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed)
    }

    /// Records that a request has arrived. `None` if the connection was already chosen to be closed: the request must
    /// not be processed then, because the connection may be closed at any time.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<ActiveRequest> {
        self.has_asked.store(true, Ordering::Relaxed);
        let is_open = self.update(|entry| entry.requests += 1);
        self.has_refused.store(!is_open, Ordering::Relaxed);
        is_open.then(|| ActiveRequest { connection: Arc::clone(self) })
    }

    /// Records whether the client has stopped reading the response.
    pub(crate) fn set_blocked(&self, is_blocked: bool) {
        self.update(|entry| entry.is_blocked = is_blocked);
    }

    /// Changes the entry. Returns false if the connection was closed to make room.
    fn update(&self, change: impl FnOnce(&mut Entry)) -> bool {
        let mut table = self.connections.table.lock();
        let Some(entry) = table.entries.get_mut(&self.id) else { return false };
        change(entry);
        entry.idle_since = Instant::now();
        true
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.table.lock().entries.remove(&self.id);
        self.connections.ended.notify_waiters();
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.connection.update(|entry| entry.requests -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(network: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, network])
    }

    fn is_closed(connection: &Arc<Connection>) -> bool {
        !connection.connections.table.lock().entries.contains_key(&connection.id)
    }

    #[test]
    fn the_longest_idle_connection_of_the_same_network_makes_room() {
        let connections = Connections::new(16);
        let other = connections.admit(address(2)).unwrap();
        let own: Vec<_> = (0..4).map(|_| connections.admit(address(1)).unwrap()).collect();
        let _busy = own[0].begin_request().unwrap();
        let next = connections.admit(address(1)).unwrap();
        assert_eq!(next.admission(), Admission::Regular);
        let closed: Vec<_> = own.iter().map(is_closed).collect();
        assert_eq!(closed, [false, true, false, false]);
        assert!(!is_closed(&other));
    }

    #[test]
    fn the_network_with_most_idle_connections_makes_room_when_all_slots_are_taken() {
        let connections = Connections::new(8);
        let admit = |network| connections.admit(address(network)).unwrap();
        let oldest = admit(1);
        let pair = [admit(2), admit(2)];
        let busy: Vec<_> = [admit(3), admit(3), admit(4), admit(4)]
            .iter()
            .map(|one| one.begin_request().unwrap())
            .collect();
        let _eighth = admit(5);
        assert_eq!(admit(6).admission(), Admission::Regular);
        assert!(is_closed(&pair[0]) && !is_closed(&pair[1]) && !is_closed(&oldest));
        drop(busy);
    }

    #[test]
    fn busy_connections_leave_slots_for_health_checks() {
        let connections = Connections::new(4);
        let first = connections.admit(address(1)).unwrap();
        let under_way = first.begin_request().unwrap();
        let reserved: Vec<_> =
            (0..RESERVED_PER_NETWORK_MAX).map(|_| connections.admit(address(1)).unwrap()).collect();
        assert!(reserved.iter().all(|connection| connection.admission() == Admission::Reserved));
        assert_eq!(connections.admit(address(2)).unwrap().admission(), Admission::Regular);
        // The next one replaces the first one that sends nothing, never a busy one.
        let busy: Vec<_> = reserved[1..].iter().map(|one| one.begin_request().unwrap()).collect();
        let next = connections.admit(address(1)).unwrap();
        assert!(is_closed(&reserved[0]));
        let _last = next.begin_request().unwrap();
        assert!(connections.admit(address(1)).is_none());
        drop((under_way, busy));
        assert_eq!(connections.admit(address(1)).unwrap().admission(), Admission::Regular);
        assert!(is_closed(&first), "it is idle now");
    }

    /// Health checks of one network used to take all reserved slots.
    #[test]
    fn one_network_leaves_reserved_slots_to_others() {
        let connections = Connections::new(1);
        let first = connections.admit(address(0)).unwrap();
        let mut busy = vec![first.begin_request().unwrap()];
        while let Some(one) = connections.admit(address(1)) {
            busy.push(one.begin_request().unwrap());
        }
        assert_eq!(busy.len(), 1 + RESERVED_PER_NETWORK_MAX);
        assert_eq!(connections.admit(address(2)).unwrap().admission(), Admission::Reserved);
    }

    #[test]
    fn no_request_begins_on_a_connection_chosen_to_close() {
        let connections = Connections::new(1);
        let first = connections.admit(address(1)).unwrap();
        let _second = connections.admit(address(1)).unwrap();
        assert!(first.begin_request().is_none());
    }

    #[test]
    fn a_request_with_an_unread_response_is_in_progress() {
        let connections = Connections::new(1);
        let first = connections.admit(address(1)).unwrap();
        drop(first.begin_request());
        first.set_blocked(true);
        assert_eq!(connections.admit(address(1)).unwrap().admission(), Admission::Reserved);
        first.set_blocked(false);
        assert_eq!(connections.admit(address(1)).unwrap().admission(), Admission::Regular);
    }

    #[tokio::test]
    async fn a_connection_that_must_close_is_notified() {
        let connections = Connections::new(1);
        let first = connections.admit(address(1)).unwrap();
        let second = connections.admit(address(1)).unwrap();
        first.must_close().await;
        drop(first);
        drop(second);
        connections.all_ended().await;
    }
}
