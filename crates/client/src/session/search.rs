//! While connected to a read-only server: the search for one that takes writes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::attach;
use crate::connect_string::HostPort;
use crate::dial::Dial;

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(1);

/// A search under way; dropping it ends it.
pub(super) struct WritableSearch {
    search: Pin<Box<dyn Future<Output = HostPort> + Send>>,
}

impl WritableSearch {
    pub(super) fn start(dial: Arc<dyn Dial>, hosts: &[HostPort]) -> Self {
        WritableSearch { search: Box::pin(search(dial, hosts.to_vec())) }
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
async fn search(dial: Arc<dyn Dial>, mut hosts: Vec<HostPort>) -> HostPort {
    Rng::new().shuffle(&mut hosts);
    let mut pause = PAUSE_FIRST;
    loop {
        for host in &hosts {
            sleep(pause).await;
            if attach::takes_writes(&*dial, host, PATIENCE).await {
                return host.clone();
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
