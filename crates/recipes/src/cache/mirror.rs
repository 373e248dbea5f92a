//! The handle of a cache that the three public types share: what to read, and the task behind it.

use std::sync::Arc;

use herdsman_client::{Client, Error as ClientError, ErrorKind, PersistentWatch};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use super::CacheOptions;
use super::event::CacheEvent;
use super::snapshot::Snapshot;
use super::state::{CacheState, Change};
use super::task::{CacheTask, WatchShape, set_watch};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::path;
use crate::retrying::retrying;

/// A running cache. Dropping it ends its task and removes its watch.
#[derive(Debug)]
pub(crate) struct Mirror {
    root: Arc<str>,
    snapshots: watch::Receiver<Snapshot>,
    events: broadcast::WeakSender<CacheEvent>,
    task: AbortHandle,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Mirror {
    /// Sets the watch and reads in the background. Fails, by the client's own retry policy, if the watch cannot be
    /// set.
    pub(super) async fn start(
        client: &Client,
        path: &str,
        shape: WatchShape,
        options: CacheOptions,
    ) -> Result<Mirror> {
        options.check()?;
        let watch = set_watch(client, path, shape).await?;
        Ok(Mirror::spawn(client, path, shape, options, Some(watch)))
    }

    /// Starts a cache of a single node, without waiting for a connection.
    pub(crate) fn start_node_offline(
        client: &Client,
        path: &str,
        options: CacheOptions,
    ) -> Result<Mirror> {
        path::check(path)?;
        options.check()?;
        Ok(Mirror::spawn(client, path, WatchShape::Node, options.depth(0), None))
    }

    fn spawn(
        client: &Client,
        path: &str,
        shape: WatchShape,
        options: CacheOptions,
        watch: Option<PersistentWatch>,
    ) -> Mirror {
        let root: Arc<str> = path.into();
        let state = CacheState::new(options.events_max);
        let (snapshots, events) = state.readers();
        let task = maintain(retrying(client), root.clone(), shape, options, state, watch);
        let task = client.spawn(task).abort_handle();
        Mirror { root, snapshots, events, task }
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshots.borrow().clone()
    }

    /// Returns a receiver that is notified of every change of the snapshot; closed when there can be no more.
    pub(crate) fn snapshots(&self) -> watch::Receiver<Snapshot> {
        self.snapshots.clone()
    }

    /// Returns a snapshot, and all events after it.
    pub(super) fn subscribe(&self) -> (Snapshot, Events<CacheEvent>) {
        // Nothing is published while the snapshot is borrowed.
        let snapshot = self.snapshots.borrow();
        let events = self.events.upgrade().map(|events| events.subscribe());
        (
            snapshot.clone(),
            Events::of_broadcast(events, |missed| Some(CacheEvent::Lagged { missed })),
        )
    }

    pub(super) async fn wait_until(
        &self,
        wanted: impl FnMut(&Snapshot) -> bool,
    ) -> Result<Snapshot> {
        let mut snapshots = self.snapshots.clone();
        let found = snapshots.wait_for(wanted).await.map(|snapshot| snapshot.clone());
        found.map_err(|_| Error::Client(ClientError::not_applied(ErrorKind::Closed)))
    }
}

async fn maintain(
    client: Client,
    root: Arc<str>,
    shape: WatchShape,
    options: CacheOptions,
    state: CacheState,
    watch: Option<PersistentWatch>,
) {
    let watch = match watch {
        Some(watch) => watch,
        None => match set_watch(&client, &root, shape).await {
            Ok(watch) => watch,
            Err(error) => return state.apply(&mut vec![Change::Unreadable(root, error)]),
        },
    };
    let scope = options.scope(root);
    CacheTask::new(&client, scope, state, watch, &options).run().await;
}
