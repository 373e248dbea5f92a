//! The number of connections that an instance has, published by the instance itself.
//!
//! In: connections as they begin and end, or a number. Out: `<base>-connections/<service>/<node>`, ephemeral, with
//! the number as decimal text; its name is that of the instance's own node. It is written when it changes, but no
//! more often than the interval allows, and again when it has not changed for a while, so that readers can
//! distinguish a number that has not changed from one that is no longer maintained.

use std::sync::{Arc, Weak};
use std::time::Duration;

use herdsman_client::Client;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::error::{Error, Result};
use crate::path::child;
use crate::persistent_node::PersistentNode;

/// Returns the directory with the counts of a service.
pub(super) fn directory(base: &str, service: &str) -> String {
    child(&format!("{base}-connections"), service)
}

/// Options of a [`ConnectionCount`]: see [`Registration::connection_count`].
///
/// [`Registration::connection_count`]: super::Registration::connection_count
#[derive(Debug)]
#[must_use = "nothing happens until it is started"]
pub struct ConnectionCountOptions {
    client: Client,
    path: String,
    interval: Duration,
    refresh: Duration,
}

impl ConnectionCountOptions {
    pub(super) fn new(client: &Client, path: String) -> Self {
        let (interval, refresh) = (Duration::from_secs(1), Duration::from_secs(10));
        ConnectionCountOptions { client: client.clone(), path, interval, refresh }
    }

    /// Sets how often, at most, a count that changes is written. Default: once a second.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets how often a count is written at least. Clients should wait for more than twice as long before they treat
    /// it as stale. Default: every ten seconds.
    pub fn refresh(mut self, refresh: Duration) -> Self {
        self.refresh = refresh;
        self
    }

    /// Publishes 0, and waits until it is written.
    pub async fn start(self) -> Result<ConnectionCount> {
        if self.interval.is_zero() || self.refresh.is_zero() {
            return Err(Error::invalid(
                "the interval and the refresh time must be longer than zero",
            ));
        }
        let options = PersistentNode::at(&self.client, &self.path, "0");
        let node = options.write_interval(self.interval).start()?;
        node.wait_until_present().await?;
        let shared = Arc::new(Shared { node, count: Mutex::new(0) });
        tokio::spawn(refresh(Arc::downgrade(&shared), self.refresh));
        Ok(ConnectionCount { shared })
    }
}

#[derive(Debug)]
struct Shared {
    node: PersistentNode,
    count: Mutex<u64>,
}

impl Shared {
    /// Changes the count and publishes it under the lock, so that the latest count is the published one.
    fn change(&self, change: impl FnOnce(u64) -> u64) {
        let mut count = self.count.lock();
        *count = change(*count);
        self.node.put_data(count.to_string());
    }
}

async fn refresh(shared: Weak<Shared>, every: Duration) {
    loop {
        sleep(every).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.change(|count| count);
    }
}

/// The published number of connections of an instance. Its node is removed in the background when this and all its
/// [`CountedConnection`]s are dropped; it ends with the session, and is put back in the next one.
#[derive(Debug)]
#[must_use = "the count is removed when this is dropped"]
pub struct ConnectionCount {
    shared: Arc<Shared>,
}

impl ConnectionCount {
    /// Counts a connection until the guard is dropped. Never waits.
    pub fn begin(&self) -> CountedConnection {
        self.shared.change(|count| count.saturating_add(1));
        CountedConnection { shared: Arc::clone(&self.shared) }
    }

    /// Publishes this number, for servers that count connections themselves. Never waits.
    pub fn set(&self, connections: u64) {
        self.shared.change(|_| connections);
    }

    /// Returns the current number, published or not yet.
    #[must_use]
    pub fn get(&self) -> u64 {
        *self.shared.count.lock()
    }

    /// Waits until the number is written.
    pub async fn flush(&self) -> Result<()> {
        self.shared.node.flush().await
    }
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
#[must_use = "the connection counts until this is dropped"]
pub struct CountedConnection {
    shared: Arc<Shared>,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.shared.change(|count| count.saturating_sub(1));
    }
}
