//! The table of a server's client connections.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use herdsman_node::ConnId;
use parking_lot::Mutex;

use crate::clients::io_wakers::IoWakers;
use crate::clients::outbox::{CloseCause, Outbox};
use crate::clients::unread_bytes::UnreadBytes;
use crate::operators::stats::ConnStats;

/// One connection.
#[derive(Debug)]
pub struct Client {
    /// Its id.
    pub id: ConnId,
    /// Its remote address.
    pub peer: SocketAddr,
    /// The I/O thread that serves it.
    pub thread: usize,
    /// When it was accepted, in milliseconds since 1970.
    pub established_ms: i64,
    /// Its pending output.
    pub outbox: Outbox,
    /// Output that the connection has taken from there, or produced itself, and could not send yet.
    pub unsent_bytes: AtomicU64,
    /// Its counters.
    pub stats: Mutex<ConnStats>,
}

impl Client {
    /// The client's unread bytes, as far as they are counted.
    fn unread_bytes(&self) -> u64 {
        self.unsent_bytes.load(Ordering::Relaxed) + self.outbox.unread_bytes()
    }
}

/// Why a connection is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many from this address.
    #[error("more than {0} connections from this address (maxClientCnxns)")]
    PerAddress(usize),
    /// Too many in all.
    #[error("more than {0} connections (maxCnxns)")]
    Total(usize),
}

/// Limits for connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnLimits {
    /// Connections from one address; `None` is no limit.
    pub per_address_max: Option<usize>,
    /// Connections from all addresses; `None` is no limit.
    pub total_max: Option<usize>,
    /// Bytes queued for a client that does not read.
    pub outbox_bytes_max: usize,
    /// Bytes queued for all clients.
    pub unread_bytes_max: u64,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<ConnId, Arc<Client>>,
    per_address: HashMap<IpAddr, usize>,
}

/// All connections.
#[derive(Debug)]
pub struct Clients {
    table: Mutex<Table>,
    next_id: AtomicU64,
    limits: ConnLimits,
    /// The bytes that clients have not read.
    pub(crate) unread: Arc<UnreadBytes>,
    /// Whether a connection has run the check since the last tick.
    has_looked: AtomicBool,
    /// Wakes connections whose outboxes were filled.
    pub(crate) io_wakers: IoWakers,
}

impl Clients {
    /// Creates an empty table for this number of I/O threads.
    #[must_use]
    pub fn new(limits: ConnLimits, threads: usize) -> Self {
        let io_wakers = IoWakers::new(threads);
        let unread = Arc::new(UnreadBytes::new(limits.unread_bytes_max));
        Clients {
            table: Mutex::default(),
            next_id: AtomicU64::new(1),
            limits,
            unread,
            has_looked: AtomicBool::new(false),
            io_wakers,
        }
    }

    /// Adds a connection that an I/O thread will serve, unless a limit forbids it.
    pub fn admit(
        &self,
        peer: SocketAddr,
        thread: usize,
        established_ms: i64,
    ) -> Result<Arc<Client>, Refused> {
        let mut table = self.table.lock();
        if let Some(max) = self.limits.total_max.filter(|&max| table.by_id.len() >= max) {
            return Err(Refused::Total(max));
        }
        let address = peer.ip().to_canonical();
        let of_address = table.per_address.entry(address).or_default();
        if let Some(max) = self.limits.per_address_max.filter(|&max| *of_address >= max) {
            return Err(Refused::PerAddress(max));
        }
        *of_address += 1;
        let id = ConnId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let outbox = Outbox::new(self.limits.outbox_bytes_max, Arc::clone(&self.unread));
        let (unsent_bytes, stats) = Default::default();
        let client =
            Arc::new(Client { id, peer, thread, established_ms, outbox, unsent_bytes, stats });
        table.by_id.insert(id, Arc::clone(&client));
        Ok(client)
    }

    /// Removes an ended connection.
    pub fn remove(&self, client: &Client) {
        let mut table = self.table.lock();
        if table.by_id.remove(&client.id).is_none() {
            return;
        }
        let address = client.peer.ip().to_canonical();
        if let Some(count) = table.per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                table.per_address.remove(&address);
            }
        }
    }

    /// Called when a connection has more unread bytes than before. Closes connections as the ticker does, but only once
    /// between two ticks, because the check locks the table and visits all connections.
    pub fn note_more_unread(&self) {
        if self.unread.excess() > 0 && !self.has_looked.swap(true, Ordering::Relaxed) {
            self.close_readers();
        }
    }

    /// If too much is queued for all clients together, closes those with the most unread bytes. Called by the ticker.
    pub fn close_most_unread(&self) {
        self.has_looked.store(false, Ordering::Relaxed);
        if self.unread.excess() > 0 {
            self.close_readers();
        }
    }

    fn close_readers(&self) {
        let mut closed = Vec::new();
        let table = self.table.lock();
        let (leaving, staying): (Vec<_>, Vec<_>) =
            table.by_id.values().partition(|client| client.outbox.has_close());
        let leaving: u64 = leaving.iter().map(|client| client.unread_bytes()).sum();
        let mut excess = self.unread.excess().saturating_sub(leaving);
        let mut readers: Vec<_> =
            staying.into_iter().map(|client| (client.unread_bytes(), client)).collect();
        readers.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (bytes, client) in readers {
            if excess == 0 || bytes == 0 {
                break;
            }
            excess = excess.saturating_sub(bytes);
            client.outbox.close(CloseCause::MostUnread);
            closed.push(Arc::clone(client));
        }
        drop(table);
        self.io_wakers.wake_clients(&mut closed);
    }

    /// Number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().by_id.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All connections, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Client>> {
        let mut all: Vec<_> = self.table.lock().by_id.values().cloned().collect();
        all.sort_unstable_by_key(|client| client.id);
        all
    }

    /// Finds a connection by its id.
    #[must_use]
    pub fn get(&self, id: ConnId) -> Option<Arc<Client>> {
        self.table.lock().by_id.get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_places_come_free_again() {
        let limits =
            ConnLimits { per_address_max: Some(2), total_max: Some(3), ..ConnLimits::default() };
        let clients = Clients::new(limits, 1);
        let from = |text: &str| clients.admit(text.parse().unwrap(), 0, 0);
        let first = from("10.0.0.1:1").unwrap();
        from("10.0.0.1:2").unwrap();
        assert_eq!(from("10.0.0.1:3").unwrap_err(), Refused::PerAddress(2));
        assert_eq!(from("[::ffff:10.0.0.1]:3").unwrap_err(), Refused::PerAddress(2));
        from("10.0.0.2:1").unwrap();
        assert_eq!(from("10.0.0.3:1").unwrap_err(), Refused::Total(3));
        clients.remove(&first);
        clients.remove(&first);
        from("10.0.0.1:4").unwrap();
        assert_eq!(clients.len(), 3);
    }

    #[test]
    fn those_with_most_unread_are_closed_until_it_fits() {
        let limits = ConnLimits {
            outbox_bytes_max: usize::MAX,
            unread_bytes_max: 1_000_000,
            ..ConnLimits::default()
        };
        let clients = Clients::new(limits, 1);
        let waiting = [0, 400_000, 100_000, 700_000, 300_000];
        let admitted = waiting.map(|bytes| {
            let client = clients.admit("10.0.0.1:1".parse().unwrap(), 0, 0).unwrap();
            client.outbox.send(&vec![0; bytes], false);
            client
        });
        let closed = || admitted.each_ref().map(|client| client.outbox.has_close());
        clients.close_most_unread();
        assert_eq!(closed(), [false, false, false, true, false]);
        // What is about to leave counts as gone.
        clients.close_most_unread();
        assert_eq!(closed(), [false, false, false, true, false]);
        admitted[2].outbox.send(&[0; 500_000], false);
        clients.close_most_unread();
        assert_eq!(closed(), [false, false, true, true, false]);
    }

    #[test]
    fn connections_look_for_most_unread_once_between_two_ticks() {
        let limits = ConnLimits {
            outbox_bytes_max: usize::MAX,
            unread_bytes_max: 1_000_000,
            ..ConnLimits::default()
        };
        let clients = Clients::new(limits, 1);
        let admitted = [0; 3].map(|_| {
            let client = clients.admit("10.0.0.1:1".parse().unwrap(), 0, 0).unwrap();
            client.outbox.send(&[0; 500_000], false);
            client
        });
        let closed = || admitted.iter().filter(|client| client.outbox.has_close()).count();
        clients.note_more_unread();
        assert_eq!(closed(), 1);
        let more = admitted.iter().find(|client| !client.outbox.has_close()).unwrap();
        more.outbox.send(&[0; 1_000_000], false);
        clients.note_more_unread();
        assert_eq!(closed(), 1, "it has looked since the last tick");
        clients.close_most_unread();
        assert_eq!(closed(), 2);
    }
}
