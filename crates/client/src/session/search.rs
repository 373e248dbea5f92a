//! The search for a better server while connected: from a read-only server, for one that accepts writes; from any
//! other, for a preferred one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::attach;
use super::transport::Connector;
use crate::connect_string::HostPort;

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The shortest pause, so that servers are never probed in a tight loop.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest delay, which avoids overflows.
const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A search in progress; dropping it stops it.
pub(super) struct ServerSearch {
    search: Pin<Box<dyn Future<Output = HostPort> + Send>>,
}

impl ServerSearch {
    /// Searches for a server that accepts writes.
    pub(super) fn for_writes(connector: Arc<Connector>, hosts: &[HostPort]) -> Self {
        ServerSearch { search: Box::pin(search_for_writes(connector, hosts.to_vec())) }
    }

    /// Searches for the first of these servers that serves clients. They are probed again and again, with about this
    /// delay in between.
    pub(super) fn for_preferred(
        connector: Arc<Connector>,
        hosts: Vec<HostPort>,
        delay: Duration,
    ) -> Self {
        ServerSearch { search: Box::pin(search_for_preferred(connector, hosts, delay)) }
    }

    /// Resolves with the server that was found; never, without a search. Cancel-safe.
    pub(super) async fn found(search: &mut Option<ServerSearch>) -> HostPort {
        match search {
            Some(search) => search.search.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

/// Probes one server after the other, with growing pauses. Apache: `ClientCnxn.pingRwServer`.
async fn search_for_writes(connector: Arc<Connector>, mut hosts: Vec<HostPort>) -> HostPort {
    Rng::new().shuffle(&mut hosts);
    let mut pause = PAUSE_FIRST;
    loop {
        for host in &hosts {
            sleep(pause).await;
            if attach::accepts_writes(&connector, host, PROBE_TIMEOUT).await {
                return host.clone();
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Probes the servers after random delays, so that not all clients of a restarted server return at once.
async fn search_for_preferred(
    connector: Arc<Connector>,
    hosts: Vec<HostPort>,
    delay: Duration,
) -> HostPort {
    let mut rng = Rng::new();
    let delay = delay.min(DELAY_MAX);
    loop {
        sleep(delay.mul_f64(0.5 + rng.f64()).max(PAUSE_MIN)).await;
        for host in &hosts {
            if attach::serves(&connector, host, PROBE_TIMEOUT).await {
                return host.clone();
            }
        }
    }
}
