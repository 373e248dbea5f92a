//! Configuration as a stream of typed values.
//!
//! In: a node's path. Out: values as they are published, and a report of everything else that can happen to the node.
//! The last good value stays in force whatever happens: when the node is deleted, when invalid data is published,
//! while the connection is lost, and with a [fallback file](ConfigOptions::fallback_file) even across a restart
//! without the service.
//!
//! The node holds only the value: JSON, or the format of another [codec](crate::codec), so any client can write it.
//! Values are monotonic: no value is followed by one that was published before it. Values in quick succession may be
//! skipped; the last one never is.
//!
//! Cost: one persistent watch, one read for each change. Needs servers of version 3.6 or newer.
//!
//! Deliberately not here: merging of several nodes. Build that on [`crate::cache::TreeCache`].

mod fallback_file;
mod follow;
mod history;
mod options;
mod publisher;
mod update;

use std::fmt;
use std::sync::Arc;

use herdsman_client::{Client, Error as ClientError, ErrorKind};
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

pub use history::HistoryEntry;
pub use options::ConfigOptions;
pub use publisher::{Published, Publisher};
pub use update::{ConfigUpdate, Source, Versioned};

use crate::error::{Error, Result};
use crate::events::Events;
use follow::State;

/// A configuration value that follows a node. Dropping it removes the watch.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::config::{Config, Publisher};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Limits {
///     connections: u32,
/// }
///
/// let config = Config::<Limits>::start(&zk, "/config/limits").await?;
/// let mut changes = config.changes();
///
/// let publisher = Publisher::new(&zk, "/config/limits")?;
/// publisher.publish(&Limits { connections: 100 }).await?;
///
/// let limits = changes.next_value().await.expect("the client is open");
/// assert_eq!(limits.value.connections, 100);
/// assert_eq!(config.current().unwrap().value.connections, 100);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
pub struct Config<T> {
    path: Arc<str>,
    states: watch::Receiver<State<T>>,
    updates: broadcast::WeakSender<ConfigUpdate<T>>,
    task: AbortHandle,
}

impl<T> fmt::Debug for Config<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<T> Drop for Config<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> Config<T> {
    /// Follows a node that holds JSON. See [`ConfigOptions`] for everything else.
    pub async fn start(client: &Client, path: &str) -> Result<Config<T>> {
        ConfigOptions::json().start(client, path).await
    }
}

impl<T: Send + Sync + 'static> Config<T> {
    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the value in force: the last good one from the service, else the one from the file, else the default.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Versioned<T>>> {
        self.states.borrow().current.clone()
    }

    /// Returns the value in force, if there is one, and every update from now on, until this is dropped. A reader
    /// that is more than 64 updates behind misses the oldest of them; it always gets to the newest.
    pub fn changes(&self) -> Events<ConfigUpdate<T>> {
        // Nothing is published while the state is borrowed.
        let state = self.states.borrow();
        let rest = self.updates.upgrade().map(|updates| updates.subscribe());
        Events::of_config(state.current.clone(), rest)
    }

    /// Waits until there is a value, from any source.
    pub async fn value(&self) -> Result<Arc<Versioned<T>>> {
        self.wait_for(|value| value.is_some()).await?.ok_or_else(closed)
    }

    /// Waits until the value in force meets the condition. Fails when the client is closed.
    pub async fn wait_for(
        &self,
        mut wanted: impl FnMut(Option<&Versioned<T>>) -> bool,
    ) -> Result<Option<Arc<Versioned<T>>>> {
        let mut states = self.states.clone();
        let state = states.wait_for(|state| wanted(state.current.as_deref())).await;
        state.map(|state| state.current.clone()).map_err(|_| closed())
    }

    /// Waits until the node has been read: the value is the service's, or the service has none, or no valid one.
    /// Without this, a [`Config`] may still return the value from the file or the default.
    pub async fn synced(&self) -> Result<()> {
        let mut states = self.states.clone();
        states.wait_for(|state| state.is_read).await.map(drop).map_err(|_| closed())
    }
}

fn closed() -> Error {
    Error::Client(ClientError::not_applied(ErrorKind::Closed))
}
