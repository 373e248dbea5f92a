//! Monitoring: machines publish their status, a monitor sees which ones join, leave and stop reporting.
//!
//! In: a status of each machine, of any type that serde can write. Out: a stream of events. Layout: an ephemeral
//! `<path>/<machine>` with the JSON `{"reportedAt":<ms since 1970>,"status":…}`.
//!
//! An ephemeral node shows that a machine's *session* lives: heartbeats of the client library, which continue while
//! the program itself hangs. A status that is not renewed shows that the program hangs. So call [`Reporter::beat`]
//! from the loop that you want to monitor.
//!
//! **Clocks.** No two clocks are compared. A machine is stale when the monitor has seen no write of it for
//! `stale_after`, by the monitor's own monotonic clock, and only time in which the monitor was connected counts: no
//! machine is called stale because the monitor was disconnected. Nor because it was paused: before that, the
//! machine's node is read. The price: after a monitor's start or reconnection it takes a full `stale_after` until a
//! hanging machine is noticed. The `reportedAt` of the reporter's clock and the server's `mtime` are only for display.

mod staleness;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use herdsman_client::{Client, ConnectionEvent, ConnectionEvents, Node, Stat};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, Result};
use crate::events::Events;
use crate::membership::Change;
use crate::membership::changes::changes_from_nothing;
use crate::membership::roster::{Content, Roster};
use crate::path::{self, check_name, child};
use crate::persistent_node::PersistentNode;
use crate::retrying::retrying;
use staleness::Staleness;

/// The report of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<T> {
    /// The time of the report by the machine's own clock: milliseconds since 1970.
    pub reported_at: u64,
    /// Its status.
    pub status: T,
}

/// A machine that publishes its status. Dropping it removes the machine in the background.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::monitor::{Monitor, MonitorEvent, Reporter};
/// use std::time::Duration;
///
/// let reporter = Reporter::start(&zk, "/machines", "m1", &"starting".to_owned()).await?;
/// let mut monitor: Monitor<String> =
///     Monitor::open(&zk, "/machines", Duration::from_secs(30)).await?;
/// assert!(matches!(monitor.next().await, Some(MonitorEvent::Joined(_))));
///
/// reporter.publish(&"ready".to_owned()).await?;
/// let Some(MonitorEvent::Updated(machine)) = monitor.next().await else { panic!() };
/// assert_eq!(machine.report.as_ref().unwrap().status, "ready");
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the machine is removed when this is dropped"]
pub struct Reporter<T> {
    node: PersistentNode,
    /// The status of the last report, as JSON.
    last: Mutex<serde_json::Value>,
    status: PhantomData<fn(&T)>,
}

impl<T: Serialize> Reporter<T> {
    /// Publishes a first status, and waits until it is written.
    pub async fn start(client: &Client, path: &str, machine: &str, status: &T) -> Result<Self> {
        path::check(path)?;
        let path = child(path, check_name("a machine", machine)?);
        let status = to_value(&path, status)?;
        let node = PersistentNode::at(client, &path, report_of(&path, &status)?).start()?;
        node.wait_until_present().await?;
        Ok(Reporter { node, last: Mutex::new(status), status: PhantomData })
    }

    /// Publishes a status, and waits until it is written.
    pub async fn publish(&self, status: &T) -> Result<()> {
        let status = to_value(self.node.path(), status)?;
        let report = report_of(self.node.path(), &status)?;
        *self.last.lock() = status;
        self.node.set_data(report).await
    }

    /// Publishes the last status again, with the current time, to show that the program is alive.
    pub async fn beat(&self) -> Result<()> {
        let report = report_of(self.node.path(), &self.last.lock())?;
        self.node.set_data(report).await
    }

    /// Removes the machine, and waits until that is done.
    pub async fn close(self) -> Result<()> {
        self.node.close().await
    }
}

fn to_value(path: &str, status: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(status).map_err(|error| codec(path, &error))
}

fn report_of(path: &str, status: &serde_json::Value) -> Result<Vec<u8>> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let reported_at = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
    serde_json::to_vec(&Report { reported_at, status }).map_err(|error| codec(path, &error))
}

fn codec(path: &str, error: &serde_json::Error) -> Error {
    Error::Codec { path: path.to_owned(), reason: error.to_string() }
}

/// A machine as a monitor sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine<T> {
    /// Its name.
    pub id: String,
    /// Its last report, or why that cannot be decoded.
    pub report: Result<Report<T>>,
    /// Its node's stat. `mtime` is the time of the report by the server's clock.
    pub stat: Stat,
}

/// A change of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MonitorEvent<T> {
    /// It has joined. Machines that existed before the monitor are reported first.
    Joined(Arc<Machine<T>>),
    /// It has published a status, or the same one again. If it was stale, it no longer is.
    Updated(Arc<Machine<T>>),
    /// It has published nothing for `stale_after`, although its session lives.
    Stale(Arc<Machine<T>>),
    /// It has left: it was closed, or its session has ended.
    Left(Arc<Machine<T>>),
}

/// Monitors the machines below a path.
#[derive(Debug)]
pub struct Monitor<T> {
    /// The client, with endless retries.
    client: Client,
    path: String,
    changes: Events<Change<Machine<T>>>,
    connection: ConnectionEvents,
    machines: BTreeMap<String, Arc<Machine<T>>>,
    staleness: Staleness,
}

impl<T: DeserializeOwned + Send + Sync + 'static> Monitor<T> {
    /// Monitors the machines below `path`. A machine that publishes nothing for `stale_after` is reported.
    pub async fn open(client: &Client, path: &str, stale_after: Duration) -> Result<Self> {
        if stale_after.is_zero() {
            return Err(Error::invalid("stale_after must be longer than zero"));
        }
        path::check(path)?;
        let connection = client.events();
        let directory = path.to_owned();
        let read = move |id: &str, node: &Node| {
            let report = serde_json::from_slice(&node.data)
                .map_err(|error| codec(&child(&directory, id), &error));
            Machine { id: id.to_owned(), report, stat: node.stat }
        };
        let roster = Roster::open(client, path, Content::Data(Box::new(read))).await?;
        Ok(Monitor {
            client: retrying(client),
            path: path.to_owned(),
            changes: changes_from_nothing(&roster),
            connection,
            machines: BTreeMap::new(),
            staleness: Staleness::new(stale_after),
        })
    }

    /// Returns the machines as of the last event that was read, by name.
    #[must_use]
    pub fn machines(&self) -> &BTreeMap<String, Arc<Machine<T>>> {
        &self.machines
    }

    /// Returns whether a machine was stale at the last event that was read.
    #[must_use]
    pub fn is_stale(&self, machine: &str) -> bool {
        self.staleness.is_stale(machine)
    }

    /// Returns the next event; `None` when the client is closed. Cancel-safe.
    pub async fn next(&mut self) -> Option<MonitorEvent<T>> {
        loop {
            let overdue =
                pin!(overdue(self.client.clone(), self.path.clone(), self.first_deadline()));
            tokio::select! {
                biased;
                Some(event) = self.connection.next() => self.note_connection(event),
                change = self.changes.next() => return change.map(|change| self.note(change)),
                (machine, is_silent) = overdue => {
                    if is_silent {
                        self.staleness.note_stale(&machine.id);
                        return Some(MonitorEvent::Stale(machine));
                    }
                    // Its report, or that it has left, will be the next change.
                    self.staleness.note_seen(&machine.id, Instant::now());
                }
            }
        }
    }

    /// Starts all periods again after a reconnection: silence while the monitor was disconnected proves nothing.
    fn note_connection(&mut self, event: ConnectionEvent) {
        let is_back = matches!(
            event,
            ConnectionEvent::Connected { .. } | ConnectionEvent::Reconnected { .. }
        );
        if is_back {
            self.staleness.restart(Instant::now());
        }
    }

    /// Returns the machine that becomes stale first if nothing is heard from it, and when.
    fn first_deadline(&self) -> Option<(Arc<Machine<T>>, Instant)> {
        let (id, deadline) = self.staleness.next_deadline()?;
        self.machines.get(id).map(|machine| (machine.clone(), deadline))
    }

    fn note(&mut self, change: Change<Machine<T>>) -> MonitorEvent<T> {
        let now = Instant::now();
        match change {
            Change::Joined(machine) => {
                self.note_seen(&machine, now);
                MonitorEvent::Joined(machine)
            }
            Change::Changed(machine) => {
                self.note_seen(&machine, now);
                MonitorEvent::Updated(machine)
            }
            Change::Left(machine) => {
                self.machines.remove(&machine.id);
                self.staleness.forget(&machine.id);
                MonitorEvent::Left(machine)
            }
        }
    }

    fn note_seen(&mut self, machine: &Arc<Machine<T>>, now: Instant) {
        self.machines.insert(machine.id.clone(), Arc::clone(machine));
        self.staleness.note_seen(&machine.id, now);
    }
}

/// Waits for the machine's deadline, and then for a connection. Returns whether the machine has really published
/// nothing: if this program was paused, or its server is behind, its reports were not read yet.
async fn overdue<T>(
    client: Client,
    directory: String,
    next: Option<(Arc<Machine<T>>, Instant)>,
) -> (Arc<Machine<T>>, bool) {
    let Some((machine, deadline)) = next else {
        return std::future::pending().await;
    };
    sleep_until(deadline).await;
    let path = child(&directory, &machine.id);
    let (synced, stat) = (client.sync(&path).send(), client.exists(&path).send());
    let is_silent = match (synced.await, stat.await) {
        (Ok(_), Ok(Some(stat))) => stat.mzxid == machine.stat.mzxid,
        _ => false,
    };
    (machine, is_silent)
}
