//! Monitors heartbeats: which programs are alive, which have stopped beating, which have left.
//!
//! In: one recursive watch on the directory; an event is a beat, so nothing is read except at the start and after a
//! gap. Out: the latest states of health, and streams of changes. While no server can be reached, no program is
//! judged, and that time does not count. Needs ZooKeeper 3.6.
//!
//! Before a program is called stale, a sync shows that all its beats up to now were seen: they arrive before the reply.
//! Without it, healthy programs would be stale for a monitor that was paused, or whose server is behind.

use std::future::ready;
use std::time::Duration;

use herdsman_client::{Client, EventType, WatchUpdate};
use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};

use super::health::{HealthTable, Healths, HeartbeatEvent, changes};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::path;
use crate::retrying::retrying;

/// Reads that are in flight at once.
const PIPELINE: usize = 128;

/// The health of all programs with a heartbeat in a directory, kept up to date until this and all its streams of
/// events are dropped. See [`Heartbeat`](super::Heartbeat) for an example.
#[derive(Clone, Debug)]
pub struct HeartbeatMonitor {
    latest: watch::Receiver<Healths>,
}

impl HeartbeatMonitor {
    /// Monitors the heartbeats in `directory`; a program of which no beat was seen for `stale_after` is stale. Choose
    /// several times the interval of the beats.
    pub async fn start(client: &Client, directory: &str, stale_after: Duration) -> Result<Self> {
        if stale_after.is_zero() {
            return Err(Error::invalid("stale_after must be longer than zero"));
        }
        path::check(directory)?;
        let client = retrying(client);
        let directory = directory.trim_end_matches('/').to_owned();
        let mut task = MonitorTask { client, directory, table: HealthTable::new(stale_after) };
        let updates = task.client.watch(task.watched()).recursive().await?;
        task.read_all().await?;
        let (sender, latest) = watch::channel(task.table.healths());
        tokio::spawn(async move {
            if let Err(error) = task.run(updates, sender).await {
                tracing::warn!(%error, "heartbeats are no longer monitored");
            }
        });
        Ok(HeartbeatMonitor { latest })
    }

    /// Returns the health of each program, as last seen.
    #[must_use]
    pub fn healths(&self) -> std::collections::BTreeMap<String, super::Health> {
        self.latest.borrow().clone()
    }

    /// Returns every change after this call. A slow reader misses intermediate states, never the last one.
    pub fn events(&self) -> Events<HeartbeatEvent> {
        let mut latest = self.latest.clone();
        let seen = latest.borrow_and_update().clone();
        Events::of_differences(latest, seen, changes)
    }
}

/// The task behind a monitor.
struct MonitorTask {
    client: Client,
    directory: String,
    table: HealthTable,
}

impl MonitorTask {
    fn watched(&self) -> &str {
        if self.directory.is_empty() { "/" } else { &self.directory }
    }

    async fn run(
        &mut self,
        mut updates: herdsman_client::PersistentWatch,
        sender: watch::Sender<Healths>,
    ) -> herdsman_client::Result<()> {
        loop {
            publish(&sender, self.table.healths());
            let deadline = self.table.next_deadline();
            tokio::select! {
                update = updates.next() => match update {
                    Some(update) => self.apply(update).await?,
                    None => return Ok(()),
                },
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    self.judge(&mut updates).await?;
                }
                () = sender.closed() => return Ok(()),
            }
        }
    }

    /// Finds the programs that are stale now.
    async fn judge(
        &mut self,
        updates: &mut herdsman_client::PersistentWatch,
    ) -> herdsman_client::Result<()> {
        let now = Instant::now();
        self.client.sync(self.watched()).await?;
        loop {
            // It must not be pending while there are updates.
            let next = unconstrained(updates.next());
            tokio::select! {
                biased;
                Some(update) = next => self.apply(update).await?,
                () = ready(()) => break,
            }
        }
        self.table.judge(now);
        Ok(())
    }

    async fn apply(&mut self, update: WatchUpdate) -> herdsman_client::Result<()> {
        match update {
            WatchUpdate::Event(event) => self.note(event.kind, &event.path),
            _ => {
                self.read_all().await?;
                self.table.extend_deadlines(Instant::now());
            }
        }
        Ok(())
    }

    fn note(&mut self, kind: EventType, path: &str) {
        let Some(id) = path.strip_prefix(&self.directory).and_then(|id| id.strip_prefix('/'))
        else {
            return;
        };
        match kind {
            _ if id.is_empty() || id.contains('/') => {}
            EventType::NodeDeleted => self.table.remove(id),
            EventType::NodeCreated | EventType::NodeDataChanged => {
                self.table.beat(id, Instant::now());
            }
            _ => {}
        }
    }

    /// Reads everything: at the start, and when events may have been missed.
    async fn read_all(&mut self) -> herdsman_client::Result<()> {
        let names = match self.client.children(self.watched()).await {
            Err(error) if error.is_no_node() => Vec::new(),
            children => children?.names,
        };
        self.table.keep_only(|id| names.iter().any(|name| name == id));
        for chunk in names.chunks(PIPELINE) {
            let path = |name| format!("{}/{name}", self.directory);
            let sent: Vec<_> =
                chunk.iter().map(|name| self.client.exists(&path(name)).send()).collect();
            for (name, stat) in chunk.iter().zip(sent) {
                match stat.await? {
                    Some(stat) => self.table.read(name, stat.mtime, Instant::now()),
                    None => self.table.remove(name),
                }
            }
        }
        Ok(())
    }
}

fn publish(sender: &watch::Sender<Healths>, healths: Healths) {
    sender.send_if_modified(|latest| {
        let is_new = *latest != healths;
        *latest = healths;
        is_new
    });
}
