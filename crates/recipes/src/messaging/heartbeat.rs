//! A heartbeat: an ephemeral node that its owner writes to repeatedly.
//!
//! In: beats of the program. Out: `<directory>/<id>`, ephemeral, whose data counts the beats. The node alone shows
//! that the session lives, which a client keeps alive even if its program hangs; the beats show that the program
//! itself makes progress. So call `beat` where the work is done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use herdsman_client::{Client, ErrorKind};
use tokio::time::{MissedTickBehavior, interval};

use crate::error::{Error, Result};
use crate::path;
use crate::persistent_node::{OnForeignNode, PersistentNode};

/// A heartbeat. Dropping it removes the node in the background. When the session ends, the node is put back in the
/// next one.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use std::time::Duration;
/// use herdsman_recipes::messaging::{Health, HeartbeatMonitor, Heartbeat};
///
/// let heartbeat = Heartbeat::start(&zk, "/heartbeats", "node-1").await?;
/// let monitor = HeartbeatMonitor::start(&zk, "/heartbeats", Duration::from_secs(30)).await?;
/// assert_eq!(monitor.healths()["node-1"], Health::Alive);
/// heartbeat.beat().await?; // in the loop that does the work
/// heartbeat.stop().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the heartbeat stops when this is dropped"]
pub struct Heartbeat {
    node: PersistentNode,
    beats: AtomicU64,
}

impl Heartbeat {
    /// Creates the node, and waits until it exists. If the id is taken by another session, waits until it is free.
    pub async fn start(client: &Client, directory: &str, id: &str) -> Result<Self> {
        if id.is_empty() || id.contains('/') {
            return Err(Error::invalid(format!("{id:?} cannot be the id of a heartbeat")));
        }
        let path = path::child(directory, id);
        let options = PersistentNode::at(client, &path, "0");
        let node = options.on_foreign_node(OnForeignNode::Wait).start()?;
        node.wait_until_present().await?;
        Ok(Heartbeat { node, beats: AtomicU64::new(0) })
    }

    /// Writes one beat; waits until it is written or can never be. One write.
    pub async fn beat(&self) -> Result<()> {
        let beats = self.beats.fetch_add(1, Ordering::Relaxed) + 1;
        self.node.set_data(beats.to_string()).await
    }

    /// Beats at this interval. Ends only when the client is closed; drop the future to stop. This only shows that the
    /// runtime works, which is less than a call of [`Heartbeat::beat`] in the right place shows.
    pub async fn beat_every(&self, every: Duration) -> Result<()> {
        if every.is_zero() {
            return Err(Error::invalid("the interval of heartbeats must be longer than zero"));
        }
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.beat().await {
                Err(error) if error.client_kind() == Some(&ErrorKind::Closed) => return Err(error),
                Err(error) => tracing::warn!(%error, "a heartbeat was not written"),
                Ok(()) => {}
            }
        }
    }

    /// Removes the node, and waits until it is deleted.
    pub async fn stop(self) -> Result<()> {
        self.node.close().await
    }
}
