//! The load of each instance, counted over all clients.
//!
//! In: requests of this client as they begin and end. Out: the sum of the requests that all *other* clients report as
//! in flight; the strategy itself counts this client's requests, which it knows at once. Each client has an ephemeral
//! `<base>-loads/<service>/<uuid>` with the JSON `{"<node>":<count>,…}`, so its counts end with its session. It
//! writes when they change, but no more often than the interval allows, so that the counts of other clients are up to
//! one interval old.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use herdsman_client::{Client, Node};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

use crate::balance::Loads;
use crate::error::Result;
use crate::membership::roster::{Content, Roster, Snapshot};
use crate::path::child;
use crate::persistent_node::PersistentNode;

type Counts = BTreeMap<String, u64>;

/// The requests that this client and the others have in flight.
#[derive(Debug, Default)]
pub(super) struct LoadCounts {
    own: Mutex<Counts>,
    own_changed: Notify,
    others: Mutex<Counts>,
}

impl Loads for LoadCounts {
    fn load(&self, id: &str) -> u64 {
        self.others.lock().load(id)
    }
}

impl LoadCounts {
    fn sum_up(&self, published: &Snapshot<Counts>, own_name: &str) {
        let mut sums = Counts::new();
        for (_, counts) in published.iter().filter(|(name, _)| *name != own_name) {
            for (id, count) in counts.iter() {
                let sum = sums.entry(id.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        *self.others.lock() = sums;
    }
}

/// A request that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    counts: Arc<LoadCounts>,
    id: String,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut own = self.counts.own.lock();
        match own.get_mut(&self.id) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(own.remove(&self.id)),
        }
        drop(own);
        self.counts.own_changed.notify_one();
    }
}

/// Publishes the counts of this client and follows those of the others, until it is dropped.
#[derive(Debug)]
pub(super) struct SharedLoads {
    counts: Arc<LoadCounts>,
    tasks: [JoinHandle<()>; 2],
}

impl SharedLoads {
    pub(super) async fn open(client: &Client, directory: &str, interval: Duration) -> Result<Self> {
        let name = Uuid::new_v4().to_string();
        let node = PersistentNode::at(client, &child(directory, &name), "{}").start()?;
        // Unreadable counts are another client's error, and count as none.
        let read = |_: &str, node: &Node| serde_json::from_slice(&node.data).unwrap_or_default();
        let roster = Roster::open(client, directory, Content::Data(Box::new(read))).await?;
        let counts = Arc::new(LoadCounts::default());
        counts.sum_up(&roster.snapshot(), &name);
        let publishing = tokio::spawn(publish(Arc::clone(&counts), node, interval));
        let following = tokio::spawn(follow(Arc::clone(&counts), roster, name));
        Ok(SharedLoads { counts, tasks: [publishing, following] })
    }

    pub(super) fn counts(&self) -> Arc<LoadCounts> {
        Arc::clone(&self.counts)
    }

    pub(super) fn begin(&self, id: &str) -> Counted {
        *self.counts.own.lock().entry(id.to_owned()).or_default() += 1;
        self.counts.own_changed.notify_one();
        Counted { counts: Arc::clone(&self.counts), id: id.to_owned() }
    }
}

impl Drop for SharedLoads {
    fn drop(&mut self) {
        // Aborting the task drops its persistent node, and thereby removes the published counts.
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn publish(counts: Arc<LoadCounts>, node: PersistentNode, interval: Duration) {
    let mut published = Counts::new();
    loop {
        counts.own_changed.notified().await;
        let own = counts.own.lock().clone();
        if own == published {
            continue;
        }
        let Ok(json) = serde_json::to_vec(&own) else {
            continue;
        };
        match node.set_data(json).await {
            Ok(()) => published = own,
            Err(error) => tracing::debug!(%error, "the loads were not published"),
        }
        sleep(interval).await;
    }
}

async fn follow(counts: Arc<LoadCounts>, roster: Roster<Counts>, own_name: String) {
    let mut snapshots = roster.subscribe();
    drop(roster);
    loop {
        let published = snapshots.borrow_and_update().clone();
        counts.sum_up(&published, &own_name);
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}
