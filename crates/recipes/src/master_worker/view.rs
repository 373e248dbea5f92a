//! The active master's knowledge of tasks and workers, and how it is kept up to date.
//!
//! In: events of two watches, and the steps that the master itself has just tried. Out: maps to plan from. Whatever
//! may have changed is marked and read again before the next plan, so that neither lost replies nor lost events need
//! special handling. Nodes that are not of the recipe are ignored.

use std::collections::BTreeSet;

use herdsman_client::{Client, Node, Optional, Result, WatchUpdate, Zxid};

use super::nodes::{Paths, Status, Versioned, WorkerRecord};
use super::plan::{Tasks, Workers};
use super::task::TaskId;
use crate::messaging::envelope::from_json;

/// Reads that are in flight at once.
const PIPELINE: usize = 128;

/// A task as last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownTask {
    pub(super) now: Versioned,
    pub(super) created: Zxid,
    pub(super) changed: Zxid,
    /// Its assignment was deleted by hand.
    pub(super) lacks_assignment: bool,
}

/// A worker as last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownWorker {
    pub(super) incarnation: i64,
    pub(super) limit: usize,
}

#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) tasks: Tasks,
    pub(super) workers: Workers,
    tasks_to_read: BTreeSet<TaskId>,
    all_tasks: bool,
    all_workers: bool,
}

impl View {
    /// Creates a view in which nothing is known yet.
    pub(super) fn unread() -> Self {
        View { all_tasks: true, all_workers: true, ..View::default() }
    }

    /// Marks a task that may have changed.
    pub(super) fn mark_task(&mut self, task: &TaskId) {
        self.tasks_to_read.insert(task.clone());
    }

    /// Marks the workers: some may have joined or left.
    pub(super) fn mark_workers(&mut self) {
        self.all_workers = true;
    }

    /// Marks what an event of the watch on the statuses may have changed.
    pub(super) fn note_status(&mut self, paths: &Paths, update: &WatchUpdate) {
        let WatchUpdate::Event(event) = update else {
            self.all_tasks = true;
            return;
        };
        let below = event.path.strip_prefix(&paths.statuses());
        match below.and_then(|below| below.strip_prefix('/')).map(str::parse::<TaskId>) {
            Some(Ok(task)) => {
                // Usually a change of this master, which was read back already.
                let is_known = self
                    .tasks
                    .get(&task)
                    .is_some_and(|known| event.zxid.is_some_and(|zxid| zxid <= known.changed));
                if !is_known {
                    self.tasks_to_read.insert(task);
                }
            }
            Some(Err(_)) => {}
            None => self.all_tasks = true,
        }
    }

    /// Reads again what may have changed.
    pub(super) async fn refresh(&mut self, client: &Client, paths: &Paths) -> Result<()> {
        if self.all_workers {
            self.workers = read_workers(client, paths).await?;
            self.all_workers = false;
        }
        if self.all_tasks {
            let names = client.children(&paths.statuses()).await?.names;
            let listed: BTreeSet<TaskId> =
                names.iter().filter_map(|name| name.parse().ok()).collect();
            self.tasks.retain(|task, _| listed.contains(task));
            self.tasks_to_read = listed;
            self.all_tasks = false;
        }
        while !self.tasks_to_read.is_empty() {
            let chunk: Vec<_> = self.tasks_to_read.iter().take(PIPELINE).cloned().collect();
            self.read_tasks(client, paths, chunk).await?;
        }
        Ok(())
    }

    async fn read_tasks(
        &mut self,
        client: &Client,
        paths: &Paths,
        chunk: Vec<TaskId>,
    ) -> Result<()> {
        let sent: Vec<_> =
            chunk.iter().map(|task| client.get(&paths.status(task)).send()).collect();
        for (task, read) in chunk.into_iter().zip(sent) {
            match read.await {
                Ok(node) => self.take_task(paths, &task, &node),
                Err(error) if error.is_no_node() => drop(self.tasks.remove(&task)),
                Err(error) => return Err(error),
            }
            self.tasks_to_read.remove(&task);
        }
        Ok(())
    }

    fn take_task(&mut self, paths: &Paths, task: &TaskId, node: &Node) {
        let status: Status = match from_json(&paths.status(task), &node.data) {
            Ok(status) => status,
            Err(error) => {
                tracing::warn!(%error, "not the status of a task; ignored");
                self.tasks.remove(task);
                return;
            }
        };
        let now = Versioned { status, version: node.stat.version };
        let before = self.tasks.get(task);
        let lacks_assignment =
            before.is_some_and(|before| before.lacks_assignment && before.now == now);
        let (created, changed) = (node.stat.czxid, node.stat.mzxid);
        self.tasks.insert(task.clone(), KnownTask { now, created, changed, lacks_assignment });
    }
}

async fn read_workers(client: &Client, paths: &Paths) -> Result<Workers> {
    let names = client.children(&paths.workers()).await?.names;
    let mut workers = Workers::new();
    for chunk in names.chunks(PIPELINE) {
        let sent: Vec<_> =
            chunk.iter().map(|name| client.get(&paths.worker(name)).send()).collect();
        for (name, read) in chunk.iter().zip(sent) {
            let Some(node) = read.await.optional()? else {
                continue;
            };
            match from_json::<WorkerRecord>(&paths.worker(name), &node.data) {
                Ok(WorkerRecord { limit, .. }) => {
                    let incarnation = node.stat.czxid.0;
                    workers.insert(name.clone(), KnownWorker { incarnation, limit });
                }
                Err(error) => tracing::warn!(%error, "not a worker; ignored"),
            }
        }
    }
    Ok(workers)
}
