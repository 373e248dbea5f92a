//! Monitoring: machines publish how they are, a monitor sees who comes, goes and falls silent.
//!
//! In: a status of each machine, any type that serde can write. Out: a stream of what happens.
//! Layout: an ephemeral `<path>/<machine>` with the JSON `{"reportedAt":<ms since 1970>,"status":…}`.
//!
//! An ephemeral shows that a machine's *session* lives: heartbeats of the client library, which go
//! on while the program itself hangs. A status that is not renewed shows that. So call
//! [`Reporter::beat`] from the loop whose life it should prove.
//!
//! **Clocks.** No two clocks are compared. A machine is stale when the monitor has seen no write of it
//! for `stale_after`, by the monitor's own monotonic clock, and only time counts in which the monitor
//! was connected: nobody is called silent because the line was dead. The price: after a monitor's
//! start or reconnection it takes a full `stale_after` until a silent machine is noticed. The
//! `reportedAt` of the reporter's clock and the server's `mtime` are there to be shown to people.

mod silence;

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
use silence::Silence;

/// What a machine says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<T> {
    /// When, by the machine's own clock: milliseconds since 1970.
    pub reported_at: u64,
    /// How it is.
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
    /// Publishes a first status, and waits until it is there.
    pub async fn start(client: &Client, path: &str, machine: &str, status: &T) -> Result<Self> {
        path::check(path)?;
        let path = child(path, check_name("a machine", machine)?);
        let status = to_value(&path, status)?;
        let node = PersistentNode::at(client, &path, report_of(&path, &status)?).start()?;
        node.wait_until_present().await?;
        Ok(Reporter { node, last: Mutex::new(status), status: PhantomData })
    }

    /// Publishes a status, and waits until it is there.
    pub async fn publish(&self, status: &T) -> Result<()> {
        let status = to_value(self.node.path(), status)?;
        let report = report_of(self.node.path(), &status)?;
        *self.last.lock() = status;
        self.node.set_data(report).await
    }

    /// A sign of life: publishes the last status again, with the time of now.
    pub async fn beat(&self) -> Result<()> {
        let report = report_of(self.node.path(), &self.last.lock())?;
        self.node.set_data(report).await
    }

    /// Removes the machine, and waits until that is so.
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
    /// What it said last, or why that cannot be read.
    pub report: Result<Report<T>>,
    /// Its node's stat. `mtime` is when it said that, by the server's clock.
    pub stat: Stat,
}

/// Something happened to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MonitorEvent<T> {
    /// It is there. Machines that were there before the monitor are reported first.
    Joined(Arc<Machine<T>>),
    /// It said something new, or gave a sign of life. If it was stale, it is no longer.
    Updated(Arc<Machine<T>>),
    /// It has said nothing for `stale_after`, though its session lives.
    Stale(Arc<Machine<T>>),
    /// It has gone: closed, or its session has ended.
    Left(Arc<Machine<T>>),
}

/// Watches the machines below a path.
#[derive(Debug)]
pub struct Monitor<T> {
    client: Client,
    changes: Events<Change<Machine<T>>>,
    connection: ConnectionEvents,
    machines: BTreeMap<String, Arc<Machine<T>>>,
    silence: Silence,
}

impl<T: DeserializeOwned + Send + Sync + 'static> Monitor<T> {
    /// Watches the machines below `path`. One that says nothing for `stale_after` is reported.
    pub async fn open(client: &Client, path: &str, stale_after: Duration) -> Result<Self> {
        if stale_after.is_zero() {
            return Err(Error::invalid("stale_after must be longer than nothing"));
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
            client: client.clone(),
            changes: changes_from_nothing(&roster),
            connection,
            machines: BTreeMap::new(),
            silence: Silence::new(stale_after),
        })
    }

    /// The machines as of the last event that was read, by name.
    #[must_use]
    pub fn machines(&self) -> &BTreeMap<String, Arc<Machine<T>>> {
        &self.machines
    }

    /// Whether a machine was stale at the last event that was read.
    #[must_use]
    pub fn is_stale(&self, machine: &str) -> bool {
        self.silence.is_stale(machine)
    }

    /// The next event; `None` when the client is over. Cancel-safe.
    pub async fn next(&mut self) -> Option<MonitorEvent<T>> {
        loop {
            let deadline = self.silence.next_deadline();
            let silent = pin!(sleep_at(deadline));
            tokio::select! {
                biased;
                Some(event) = self.connection.next() => self.note_connection(event),
                change = self.changes.next() => return change.map(|change| self.note(change)),
                () = silent => {
                    if let Some(machine) = self.first_silent() {
                        return Some(MonitorEvent::Stale(machine));
                    }
                }
            }
        }
    }

    /// Silence while we were deaf proves nothing.
    fn note_connection(&mut self, event: ConnectionEvent) {
        let is_back = matches!(
            event,
            ConnectionEvent::Connected { .. } | ConnectionEvent::Reconnected { .. }
        );
        if is_back {
            self.silence.start_again(Instant::now());
        }
    }

    fn first_silent(&mut self) -> Option<Arc<Machine<T>>> {
        if !self.client.state().is_connected() {
            self.silence.start_again(Instant::now());
            return None;
        }
        let id = self.silence.take_overdue(Instant::now())?;
        self.machines.get(&id).cloned()
    }

    fn note(&mut self, change: Change<Machine<T>>) -> MonitorEvent<T> {
        let now = Instant::now();
        match change {
            Change::Joined(machine) => {
                self.heard(&machine, now);
                MonitorEvent::Joined(machine)
            }
            Change::Changed(machine) => {
                self.heard(&machine, now);
                MonitorEvent::Updated(machine)
            }
            Change::Left(machine) => {
                self.machines.remove(&machine.id);
                self.silence.forget(&machine.id);
                MonitorEvent::Left(machine)
            }
        }
    }

    fn heard(&mut self, machine: &Arc<Machine<T>>, now: Instant) {
        self.machines.insert(machine.id.clone(), Arc::clone(machine));
        self.silence.heard(&machine.id, now);
    }
}

async fn sleep_at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
