//! Progress whose node shows whether its reporter is alive.
//!
//! In: reports, and the end of the work. Out: a node with the latest report, which is ephemeral while the work is in
//! progress, `{"percent":40,"text":"unpacking"}`, and persistent when it has finished,
//! `{"percent":100,"text":"unpacked","finished":true}`. One transaction replaces the one by the other. So a reader
//! that finds no node knows that no session reports: the reporter has not begun, it has ended without finishing, or
//! its session has ended and the next one has not put the node back yet.
//!
//! The node is a [`PersistentNode`]: it is put back in the next session. Writes are limited like those of a
//! [`ProgressReporter`](super::ProgressReporter). Deliberately not here: the deletion of a finished node; the next
//! reporter at the path replaces it, or the owner of the path deletes it.

use std::time::Duration;

use herdsman_client::{Client, Node};
use serde::{Deserialize, Serialize};

use super::envelope::{from_json, to_json};
use super::progress::{INTERVAL, Progress, ProgressFeed};
use crate::error::Result;
use crate::persistent_node::{OnForeignNode, PersistentNode};

/// The data of the node. Readers of plain progress ignore fields that they do not know.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    progress: Progress,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
}

fn record(progress: Progress, finished: bool) -> bytes::Bytes {
    to_json(&Record { progress, finished })
}

/// The progress of some work, and whether its reporter is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveProgress {
    /// No session reports. After a report this means that the reporter was dropped without finishing, or that its
    /// session has ended; in its next session it reports again.
    Absent,
    /// The session of the reporter lives, and this is its latest report.
    Reported(Progress),
    /// The reporter has finished with this report, and may have exited.
    Finished(Progress),
}

/// Writes progress to an ephemeral node, which shows others that the reporter is alive. Dropping it removes the node
/// in the background; [`finish`](LiveProgressReporter::finish) leaves a persistent one.
///
/// When the session ends, readers see [`LiveProgress::Absent`] until the node is put back in the next session. A
/// reporter waits while a reporter of another session has the path. A node that an earlier reporter left when it
/// finished is replaced at the start.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::messaging::{LiveProgress, LiveProgressReporter, Progress, ProgressFeed};
///
/// let mut feed = ProgressFeed::open_live(&zk, "/import/progress").await?;
/// assert_eq!(feed.next().await, Some(Ok(LiveProgress::Absent)));
/// let reporter = LiveProgressReporter::start(&zk, "/import/progress")?;
/// reporter.report(Progress::new(40, "unpacking"));
/// reporter.flush().await?;
/// let unpacking = LiveProgress::Reported(Progress::new(40, "unpacking"));
/// assert_eq!(feed.next().await, Some(Ok(unpacking)));
/// reporter.finish(Progress::new(100, "unpacked")).await?;
/// let unpacked = LiveProgress::Finished(Progress::new(100, "unpacked"));
/// assert_eq!(feed.next().await, Some(Ok(unpacked)));
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the progress is removed when this is dropped"]
pub struct LiveProgressReporter {
    node: PersistentNode,
}

impl LiveProgressReporter {
    /// Reports to `path`, at most five times a second, beginning with 0 percent.
    pub fn start(client: &Client, path: &str) -> Result<Self> {
        LiveProgressReporter::start_with_interval(client, path, INTERVAL)
    }

    /// Reports to `path`, at most once in each `interval`.
    pub fn start_with_interval(client: &Client, path: &str, interval: Duration) -> Result<Self> {
        let node = PersistentNode::at(client, path, record(Progress::default(), false))
            .on_foreign_node(OnForeignNode::Wait)
            .replace_leftover()
            .write_interval(interval)
            .start()?;
        Ok(LiveProgressReporter { node })
    }

    /// Reports progress. Never waits; a report that was not written yet is replaced.
    pub fn report(&self, progress: Progress) {
        self.node.put_data(record(progress, false));
    }

    /// Waits until the latest report is written: through an outage, and while another reporter has the path. Fails if
    /// the server refuses it.
    pub async fn flush(&self) -> Result<()> {
        self.node.flush().await
    }

    /// Leaves the last report as finished, and waits until it is written, without regard to the interval. If the
    /// session has ended, readers that have seen [`LiveProgress::Absent`] see it as finished after that. If the
    /// future is dropped, this continues in the background.
    ///
    /// # Errors
    /// [`ErrorKind::NodeExists`](herdsman_client::ErrorKind::NodeExists) if another reporter has the path.
    pub async fn finish(self, last: Progress) -> Result<()> {
        self.node.make_persistent(record(last, true)).await
    }
}

impl ProgressFeed<LiveProgress> {
    /// Follows `path` from now on, and returns the current state at once. States in quick succession may be skipped,
    /// never the last one.
    pub async fn open_live(client: &Client, path: &str) -> Result<Self> {
        ProgressFeed::follow(client, path, |path, node| Some(read(path, node))).await
    }
}

fn read(path: &str, node: Option<&Node>) -> Result<LiveProgress> {
    let Some(node) = node else {
        return Ok(LiveProgress::Absent);
    };
    let Record { progress, finished } = from_json(path, &node.data)?;
    Ok(if finished { LiveProgress::Finished(progress) } else { LiveProgress::Reported(progress) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_look_as_documented() {
        let progress = Progress::new(40, "unpacking");
        assert_eq!(record(progress.clone(), false), r#"{"percent":40,"text":"unpacking"}"#);
        let json = record(progress.clone(), true);
        assert_eq!(json, r#"{"percent":40,"text":"unpacking","finished":true}"#);
        assert_eq!(from_json::<Progress>("/a", &json), Ok(progress));
    }
}
