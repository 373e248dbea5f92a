//! Commands that run for as long as items are ours, one for each item.
//!
//! In: items that come and go. Out: processes; a line when one has ended by itself. Deliberately not here: starting a
//! command again.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;

use anyhow::Result;
use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::command::{Reach, end, spawn_apart};
use super::outcome::describe_end;

pub(super) struct ItemCommands<'c> {
    command: &'c [OsString],
    /// One for each process; the item and how it ended, unless it was asked to.
    running: JoinSet<(String, Option<String>)>,
    /// Dropping one asks its process to end.
    stops: BTreeMap<String, oneshot::Sender<()>>,
    /// What is still to be said of processes that have ended by themselves.
    unsaid: VecDeque<String>,
}

impl<'c> ItemCommands<'c> {
    /// Without a command nothing is ever run.
    pub(super) fn new(command: &'c [OsString]) -> Self {
        let (running, stops) = (JoinSet::new(), BTreeMap::new());
        ItemCommands { command, running, stops, unsaid: VecDeque::new() }
    }

    /// Runs the command for an item.
    pub(super) fn start(&mut self, item: &str, token: u64) -> Result<()> {
        if self.command.is_empty() {
            return Ok(());
        }
        let environment =
            [("HERDSMAN_ITEM", item.to_owned()), ("HERDSMAN_FENCING_TOKEN", token.to_string())];
        let child = spawn_apart(self.command, &environment)?;
        let (stop, stopped) = oneshot::channel();
        self.stops.insert(item.to_owned(), stop);
        self.running.spawn(supervise(child, item.to_owned(), stopped));
        Ok(())
    }

    /// Ends the processes of these items, and waits until they have ended.
    pub(super) async fn end<'i>(&mut self, items: impl IntoIterator<Item = &'i str>) {
        let stopped = items.into_iter().filter(|item| self.stops.remove(*item).is_some());
        let mut awaited: Vec<_> = stopped.map(str::to_owned).collect();
        while !awaited.is_empty() {
            let Some(item) = self.join_next().await else { return };
            awaited.retain(|awaited| *awaited != item);
        }
    }

    /// Ends all processes.
    pub(super) async fn end_all(&mut self) {
        self.stops.clear();
        while self.running.join_next().await.is_some() {}
    }

    /// What became of the next process that ends by itself; never returns if there is none. Cancel-safe.
    pub(super) async fn one_ended(&mut self) -> String {
        loop {
            if let Some(line) = self.unsaid.pop_front() {
                return line;
            }
            if self.join_next().await.is_none() {
                return std::future::pending().await;
            }
        }
    }

    /// The item of the next process that has ended; `None` if there is none. Cancel-safe.
    async fn join_next(&mut self) -> Option<String> {
        loop {
            // Fails only if the task panicked, of which the runtime has told already.
            let Ok((item, ended)) = self.running.join_next().await? else { continue };
            if let Some(ended) = ended {
                self.stops.remove(&item);
                self.unsaid.push_back(format!("{item}: {ended}"));
            }
            return Some(item);
        }
    }
}

/// Waits for the end of the process, or sees to it.
async fn supervise(
    mut child: Child,
    item: String,
    stopped: oneshot::Receiver<()>,
) -> (String, Option<String>) {
    let ended = tokio::select! {
        status = child.wait() => Some(match status {
            Ok(status) => describe_end(status),
            Err(error) => format!("waiting for the command: {error}"),
        }),
        // Nothing is ever sent.
        _ = stopped => None,
    };
    if ended.is_none() {
        // It has ended, or there is nothing more to be done.
        let _ = end(&mut child, Reach::Group).await;
    }
    (item, ended)
}
