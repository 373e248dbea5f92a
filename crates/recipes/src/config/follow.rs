//! The task that decodes a node's data into values.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::Zxid;
use tokio::sync::{broadcast, watch};

use super::Config;
use super::fallback_file::FallbackFile;
use super::update::{ConfigUpdate, Source, Versioned};
use crate::cache::{CachedNode, Mirror, Snapshot};
use crate::codec::{Decode, Reason};

/// Updates that a slow reader may be behind.
const UPDATES_MAX: usize = 64;

pub(super) type Validate<T> = Arc<dyn Fn(&T) -> Result<(), Reason> + Send + Sync>;

/// The value in force.
pub(super) struct State<T> {
    pub(super) current: Option<Arc<Versioned<T>>>,
    /// The node has been read, or is known not to exist.
    pub(super) is_read: bool,
}

/// How data is decoded and checked.
pub(super) struct Reading<T> {
    pub(super) codec: Arc<dyn Decode<T>>,
    pub(super) validate: Option<Validate<T>>,
}

impl<T: 'static> Reading<T> {
    fn read(&self, data: &[u8]) -> Result<T, Reason> {
        let value = self.codec.decode(data)?;
        match &self.validate {
            Some(validate) => validate(&value).map(|()| value),
            None => Ok(value),
        }
    }
}

/// Starts the task, with the value that is known locally in force.
pub(super) async fn start<T: Send + Sync + 'static>(
    mirror: Mirror,
    reading: Reading<T>,
    default: Option<Versioned<T>>,
    file: Option<FallbackFile>,
) -> Config<T> {
    let path: Arc<str> = mirror.root().into();
    let (in_file, value) = match &file {
        Some(file) => read_file(file, &reading).await,
        None => (None, None),
    };
    let current = value.or(default).map(Arc::new);
    let states = watch::Sender::new(State { current, is_read: false });
    let updates = broadcast::Sender::new(UPDATES_MAX);
    let (receiver, weak) = (states.subscribe(), updates.downgrade());
    let follow = Follow { reading, file, in_file, states, updates, known: None };
    let task = tokio::spawn(follow.run(mirror)).abort_handle();
    Config { path, states: receiver, updates: weak, task }
}

/// Reads what an earlier run has written. An unusable file does not prevent the start.
async fn read_file<T: 'static>(
    file: &FallbackFile,
    reading: &Reading<T>,
) -> (Option<Bytes>, Option<Versioned<T>>) {
    let data = match file.read().await {
        Ok(data) => data,
        Err(error) => {
            tracing::warn!(%error, path = %file.path().display(), "the fallback file is not read");
            None
        }
    };
    let value = data.as_ref().map(|data| reading.read(data));
    match value {
        Some(Ok(value)) => (data, Some(Versioned { value, source: Source::File })),
        Some(Err(reason)) => {
            tracing::warn!(%reason, path = %file.path().display(), "the fallback file is not used");
            (data, None)
        }
        None => (None, None),
    }
}

/// The last reported state of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Missing,
    Present { czxid: Zxid, mzxid: Zxid },
    Unreadable,
}

struct Follow<T> {
    reading: Reading<T>,
    file: Option<FallbackFile>,
    /// The content of the file.
    in_file: Option<Bytes>,
    states: watch::Sender<State<T>>,
    updates: broadcast::Sender<ConfigUpdate<T>>,
    /// `None`: nothing yet.
    known: Option<Known>,
}

impl<T: Send + Sync + 'static> Follow<T> {
    /// Runs until the client is closed.
    async fn run(mut self, mirror: Mirror) {
        let mut snapshots = mirror.snapshots();
        loop {
            let snapshot = snapshots.borrow_and_update().clone();
            self.handle_snapshot(&snapshot, mirror.root()).await;
            drop(snapshot);
            if snapshots.changed().await.is_err() {
                return;
            }
        }
    }

    async fn handle_snapshot(&mut self, snapshot: &Snapshot, path: &str) {
        match (snapshot.get(path), snapshot.unreadable(path)) {
            (Some(node), _) => self.handle_node(node).await,
            (None, Some(error)) => {
                if self.known.replace(Known::Unreadable) != Some(Known::Unreadable) {
                    self.publish(ConfigUpdate::Unreadable(error.clone()));
                }
            }
            (None, None) => {
                // Before the first reading an empty cache proves nothing.
                let is_reported = self.known == Some(Known::Missing);
                if !is_reported && (self.known.is_some() || snapshot.is_synced()) {
                    self.known = Some(Known::Missing);
                    self.publish(ConfigUpdate::Deleted);
                }
            }
        }
    }

    async fn handle_node(&mut self, node: &CachedNode) {
        let now = Known::Present { czxid: node.stat.czxid, mzxid: node.stat.mzxid };
        let before = self.known.replace(now);
        if before == Some(now) {
            return;
        }
        if matches!(before, Some(Known::Present { czxid, .. }) if czxid != node.stat.czxid) {
            self.publish(ConfigUpdate::Deleted);
        }
        match self.reading.read(&node.data) {
            Ok(value) => {
                let value = Versioned::from_service(value, &node.stat);
                self.publish(ConfigUpdate::Value(Arc::new(value)));
                self.keep(&node.data).await;
            }
            Err(reason) => self.publish(ConfigUpdate::Invalid {
                reason: reason.to_string(),
                version: node.stat.version,
                zxid: node.stat.mzxid,
            }),
        }
    }

    /// Changes state and stream together, so that a reader that takes both misses nothing.
    fn publish(&self, update: ConfigUpdate<T>) {
        self.states.send_modify(|state| {
            state.is_read = true;
            if let ConfigUpdate::Value(value) = &update {
                state.current = Some(value.clone());
            }
            // No subscribers is not an error.
            let _ = self.updates.send(update);
        });
    }

    async fn keep(&mut self, data: &Bytes) {
        let Some(file) = &self.file else {
            return;
        };
        if self.in_file.as_ref() == Some(data) {
            return;
        }
        match file.write(data.clone()).await {
            Ok(()) => self.in_file = Some(data.clone()),
            Err(error) => self.publish(ConfigUpdate::FileFailed { reason: error.to_string() }),
        }
    }
}
