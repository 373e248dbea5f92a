//! Commands that run while this process owns items, one for each item.
//!
//! In: items that are acquired and released. Out: processes; a line when one has ended by itself. Deliberately not
//! here: restarting a command.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;

use anyhow::Result;
use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::command::{SignalTarget, end, spawn_apart};
use super::outcome::describe_end;

pub(super) struct ItemCommands<'c> {
    command: &'c [OsString],
    /// One task for each process. Returns the item, and how the process ended unless it was stopped.
    running: JoinSet<(String, Option<String>)>,
    /// Dropping a sender stops the process of that item.
    stop_senders: BTreeMap<String, oneshot::Sender<()>>,
    /// Lines, not yet printed, about processes that have ended by themselves.
    unreported: VecDeque<String>,
}

impl<'c> ItemCommands<'c> {
    /// Creates it without processes. If `command` is empty, none is ever started.
    pub(super) fn new(command: &'c [OsString]) -> Self {
        let (running, stop_senders) = (JoinSet::new(), BTreeMap::new());
        ItemCommands { command, running, stop_senders, unreported: VecDeque::new() }
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
        self.stop_senders.insert(item.to_owned(), stop);
        self.running.spawn(supervise(child, item.to_owned(), stopped));
        Ok(())
    }

    /// Stops the processes of these items, and waits until they have ended.
    pub(super) async fn end<'i>(&mut self, items: impl IntoIterator<Item = &'i str>) {
        let stopped = items.into_iter().filter(|item| self.stop_senders.remove(*item).is_some());
        let mut awaited: Vec<_> = stopped.map(str::to_owned).collect();
        while !awaited.is_empty() {
            let Some(item) = self.join_next().await else { return };
            awaited.retain(|awaited| *awaited != item);
        }
    }

    /// Stops all processes, and waits until they have ended.
    pub(super) async fn end_all(&mut self) {
        self.stop_senders.clear();
        while self.running.join_next().await.is_some() {}
    }

    /// Waits until a process ends by itself, and describes how; never returns if there is no process. Cancel-safe.
    pub(super) async fn one_ended(&mut self) -> String {
        loop {
            if let Some(line) = self.unreported.pop_front() {
                return line;
            }
            if self.join_next().await.is_none() {
                return std::future::pending().await;
            }
        }
    }

    /// Waits until a process ends, and returns its item; `None` if there is no process. Cancel-safe.
    async fn join_next(&mut self) -> Option<String> {
        loop {
            // Fails only if the task panicked, which the runtime has already reported.
            let Ok((item, ended)) = self.running.join_next().await? else { continue };
            if let Some(ended) = ended {
                self.stop_senders.remove(&item);
                self.unreported.push_back(format!("{item}: {ended}"));
            }
            return Some(item);
        }
    }
}

/// Waits until the process ends, or stops it when `stopped` resolves.
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
        // An error leaves nothing more to do.
        let _ = end(&mut child, SignalTarget::Group).await;
    }
    (item, ended)
}
