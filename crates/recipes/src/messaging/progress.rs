//! Progress reports: one program reports its progress, others follow it.
//!
//! In: reports, as often as the program likes. Out: one persistent node with the latest as JSON,
//! `{"percent":40,"text":"unpacking"}`, written at most once in each interval, and streams of it. Reports in between
//! are skipped, never the last one. Deliberately not here: a history, and the deletion of the node, which is left to
//! the owner of the path. Progress whose node is deleted with its reporter is written by
//! [`LiveProgressReporter`](super::LiveProgressReporter).

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Node};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;

use super::envelope::{from_json, to_json};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::path;
use crate::retrying::{may_succeed_later, retrying};

/// The progress of some work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    percent: u8,
    #[serde(default)]
    text: String,
}

impl Progress {
    /// Creates a report of this many percent, at most 100, and of what is being done.
    #[must_use]
    pub fn new(percent: u8, text: impl Into<String>) -> Self {
        Progress { percent: percent.min(100), text: text.into() }
    }

    /// Returns the percentage: 0 to 100.
    #[must_use]
    pub fn percent(&self) -> u8 {
        self.percent.min(100)
    }

    /// Returns what is being done.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The time between two writes of the same node, by default.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
/// Writes progress to a node. Dropping it ends the writing; the node stays.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::messaging::{Progress, ProgressFeed, ProgressReporter};
///
/// let mut feed = ProgressFeed::open(&zk, "/import/progress").await?;
/// let reporter = ProgressReporter::start(&zk, "/import/progress")?;
/// reporter.report(Progress::new(40, "unpacking"));
/// reporter.flush().await?;
/// assert_eq!(feed.next().await, Some(Ok(Progress::new(40, "unpacking"))));
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
pub struct ProgressReporter {
    reports: watch::Sender<Option<Progress>>,
    written: watch::Receiver<Written>,
}

/// The state of the writing task.
#[derive(Clone, Debug)]
enum Written {
    Nothing,
    Latest(Progress),
    Failed(Error),
}

impl ProgressReporter {
    /// Reports to `path`, at most five times a second.
    pub fn start(client: &Client, path: &str) -> Result<Self> {
        ProgressReporter::start_with_interval(client, path, INTERVAL)
    }

    /// Reports to `path`, at most once in each `interval`.
    pub fn start_with_interval(client: &Client, path: &str, interval: Duration) -> Result<Self> {
        path::check(path)?;
        let (reports, latest) = watch::channel(None);
        let (sender, written) = watch::channel(Written::Nothing);
        let client = retrying(client);
        let write_all = write_all(client.clone(), path.to_owned(), interval, latest, sender);
        client.spawn(write_all);
        Ok(ProgressReporter { reports, written })
    }

    /// Reports progress. Never waits; a report that was not written yet is replaced.
    pub fn report(&self, progress: Progress) {
        self.reports.send_replace(Some(progress));
    }

    /// Waits until the latest report is written. Fails if the server refuses it.
    pub async fn flush(&self) -> Result<()> {
        let Some(wanted) = self.reports.borrow().clone() else {
            return Ok(());
        };
        let mut written = self.written.clone();
        let reached = written.wait_for(|written| match written {
            Written::Nothing => false,
            Written::Latest(latest) => *latest == wanted,
            Written::Failed(_) => true,
        });
        match reached.await.as_deref() {
            Ok(Written::Failed(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(herdsman_client::Error::not_applied(ErrorKind::Closed).into()),
        }
    }
}

async fn write_all(
    client: Client,
    path: String,
    interval: Duration,
    mut reports: watch::Receiver<Option<Progress>>,
    sender: watch::Sender<Written>,
) {
    while reports.changed().await.is_ok() {
        let Some(progress) = reports.borrow_and_update().clone() else {
            continue;
        };
        match write(&client, &path, to_json(&progress)).await {
            Ok(()) => drop(sender.send_replace(Written::Latest(progress))),
            Err(error) => {
                tracing::warn!(path, %error, "progress cannot be reported");
                let is_over = matches!(error.kind(), ErrorKind::Closed | ErrorKind::SessionExpired);
                sender.send_replace(Written::Failed(error.into()));
                if is_over {
                    return;
                }
            }
        }
        sleep(interval).await;
    }
}

/// Writes the data, and does so again after a lost reply, because writing it twice does no harm.
async fn write(client: &Client, path: &str, data: Bytes) -> herdsman_client::Result<()> {
    loop {
        let set = match client.set(path, data.clone()).await {
            Err(error) if error.is_no_node() => {
                client.create(path, data.clone()).parents().await.map(drop)
            }
            set => set.map(drop),
        };
        match set {
            Err(error) if error.is_node_exists() => {}
            Err(error) if may_succeed_later(client, &error) => {}
            done => return done,
        }
    }
}

/// The progress at a node as a stream: the current state, and each change that the reader is fast enough to see;
/// always the last one. While there is no node, the stream waits for it. Data that is not progress is reported as
/// [`Error::Codec`], and the stream continues. It ends with the client.
///
/// [`ProgressFeed::open_live`] opens a stream of [`LiveProgress`](super::LiveProgress) instead, which also shows
/// whether the reporter is still alive.
pub type ProgressFeed<T = Progress> = Events<Result<T>>;

impl Events<Result<Progress>> {
    /// Follows `path` from now on.
    pub async fn open(client: &Client, path: &str) -> Result<Self> {
        let read = |path: &str, node: Option<&Node>| Some(from_json(path, &node?.data));
        ProgressFeed::follow(client, path, read).await
    }
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Events<Result<T>> {
    /// Follows the node at `path`, decoded by `read`, which gets `None` if there is no node.
    pub(super) async fn follow(
        client: &Client,
        path: &str,
        read: impl Fn(&str, Option<&Node>) -> Option<Result<T>> + Send + Sync + 'static,
    ) -> Result<Self> {
        path::check(path)?;
        let client = retrying(client);
        let (sender, latest) = watch::channel(None);
        // Set before this returns, so that nothing reported later is missed.
        let mut updates = client.watch(path).await?;
        let path = path.to_owned();
        tokio::spawn(async move {
            loop {
                let node = match client.get(&path).await {
                    Ok(node) => Some(node),
                    Err(error) if error.is_no_node() => None,
                    Err(error) => return send_if_new(&sender, Err(error.into())),
                };
                if let Some(read) = read(&path, node.as_ref()) {
                    send_if_new(&sender, read);
                }
                let update = tokio::select! {
                    update = updates.next() => update,
                    () = sender.closed() => None,
                };
                if update.is_none() {
                    return;
                }
            }
        });
        Ok(Events::of_latest(latest, |progress| progress))
    }
}

fn send_if_new<T: PartialEq>(sender: &watch::Sender<Option<Result<T>>>, read: Result<T>) {
    sender.send_if_modified(|latest| {
        let is_new = latest.as_ref() != Some(&read);
        *latest = Some(read);
        is_new
    });
}
