//! While connected to a read-only server: the search for one that takes writes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::attach;
use super::transport::Reach;
use crate::connect_string::HostPort;

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(1);

/// A search under way; dropping it ends it.
pub(super) struct WritableSearch {
    search: Pin<Box<dyn Future<Output = HostPort> + Send>>,
}

impl WritableSearch {
    pub(super) fn start(reach: Arc<Reach>, hosts: &[HostPort]) -> Self {
        WritableSearch { search: Box::pin(search(reach, hosts.to_vec())) }
    }

    /// The server that was found; never, where nothing is searched. Cancel-safe.
    pub(super) async fn found(search: &mut Option<WritableSearch>) -> HostPort {
        match search {
            Some(search) => search.search.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

/// Asks one server after the other, more and more rarely. Apache: `ClientCnxn.pingRwServer`.
async fn search(reach: Arc<Reach>, mut hosts: Vec<HostPort>) -> HostPort {
    Rng::new().shuffle(&mut hosts);
    let mut pause = PAUSE_FIRST;
    loop {
        for host in &hosts {
            sleep(pause).await;
            if attach::takes_writes(&reach, host, PATIENCE).await {
                return host.clone();
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
