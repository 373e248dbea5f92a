//! The watches that commands set, until they fire or are removed.
//!
//! In: watches of the client. Out: their events, one at a time, in the order in which they arrive.
//! Nothing runs in the background: the shell polls for events between commands and while the user is
//! typing. A persistent watch that is not read keeps 1,024 events and then reports a gap.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{FutureExt, Stream};
use herdsman_client::{PersistentWatch, Watch, WatchEvent, WatchUpdate};
use serde_json::{Value, json};

use crate::failure::Failure;

/// The kind of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchKind {
    /// A znode's data and whether it exists, once.
    Data,
    /// Its list of children, once.
    Children,
    /// Both, repeatedly.
    Persistent,
    /// The whole subtree, repeatedly.
    Recursive,
}

/// A report of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Event(WatchEvent),
    /// Events of the watch on this path may have been missed.
    Gap(String),
}

impl Notice {
    /// The text that zkCli prints.
    pub(crate) fn text(&self) -> String {
        match self {
            Notice::Event(event) => {
                let zxid = event.zxid.map_or(-1, |zxid| zxid.0);
                format!(
                    "WATCHER::\n\nWatchedEvent state:SyncConnected type:{:?} path:{} zxid: {zxid}",
                    event.kind, event.path
                )
            }
            Notice::Gap(path) => {
                format!("WATCHER::\n\nchanges at or below {path} may have been missed")
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Notice::Event(event) => json!({
                "event": format!("{:?}", event.kind),
                "path": event.path,
                "zxid": event.zxid.map(|zxid| format!("0x{:x}", zxid.0)),
            }),
            Notice::Gap(path) => json!({"event": "Gap", "path": path}),
        }
    }
}

/// Most watches at a time; `ls -R -w` sets two for each znode.
const WATCHES_MAX: usize = 20_000;

/// The watches of a shell.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    held: Vec<Entry>,
    /// A deletion is reported to a data watch and a child watch alike; zkCli prints it once.
    last: Option<WatchEvent>,
}

#[derive(Debug)]
struct Entry {
    path: String,
    kind: WatchKind,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Once(Watch),
    Always(PersistentWatch),
}

impl Watches {
    /// Keeps a one-shot watch. Replaces one of the same kind and path.
    pub(crate) fn keep(
        &mut self,
        path: &str,
        kind: WatchKind,
        watch: Watch,
    ) -> Result<(), Failure> {
        self.insert(path, kind, Source::Once(watch))
    }

    /// Keeps a persistent watch. Replaces one of the same kind and path.
    pub(crate) fn keep_always(
        &mut self,
        path: &str,
        kind: WatchKind,
        watch: PersistentWatch,
    ) -> Result<(), Failure> {
        self.insert(path, kind, Source::Always(watch))
    }

    fn insert(&mut self, path: &str, kind: WatchKind, source: Source) -> Result<(), Failure> {
        self.held.retain(|held| held.kind != kind || held.path != path);
        if self.held.len() >= WATCHES_MAX {
            let text = format!("{WATCHES_MAX} watches are set already; remove some first");
            return Err(Failure::failed(text));
        }
        self.held.push(Entry { path: path.to_owned(), kind, source });
        Ok(())
    }

    /// Drops the watches on `path` of one kind, or of any kind. Returns their number.
    pub(crate) fn remove(&mut self, path: &str, kind: Option<WatchKind>) -> usize {
        let before = self.held.len();
        let is_meant =
            |held: &Entry| held.path == path && kind.is_none_or(|kind| held.kind == kind);
        self.held.retain(|held| !is_meant(held));
        before - self.held.len()
    }

    /// Drops all of them.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    /// Waits for the next event, forever if no watch is set. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Notice {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next event, if one has already arrived.
    pub(crate) fn next_ready(&mut self) -> Option<Notice> {
        self.next().now_or_never()
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Notice> {
        let mut at = 0;
        while at < self.held.len() {
            match self.held[at].source.poll_update(context) {
                Poll::Pending => at += 1,
                Poll::Ready(update) => {
                    if let Some(notice) = self.accept(at, update) {
                        return Poll::Ready(notice);
                    }
                }
            }
        }
        Poll::Pending
    }

    /// The notice for an update of a watch. Drops the watch if this was its last update.
    fn accept(&mut self, at: usize, update: Option<WatchUpdate>) -> Option<Notice> {
        let is_last = update.is_none() || matches!(self.held[at].source, Source::Once(_));
        let path = match is_last {
            true => self.held.remove(at).path,
            false => self.held[at].path.clone(),
        };
        match update? {
            WatchUpdate::Event(event) => {
                let is_repeated = event.zxid.is_some() && self.last.as_ref() == Some(&event);
                self.last = Some(event.clone());
                (!is_repeated).then_some(Notice::Event(event))
            }
            _ => Some(Notice::Gap(path)),
        }
    }
}

impl Source {
    /// `None` at the end.
    fn poll_update(&mut self, context: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        match self {
            // When the session ends the connection reports it; a line for each watch would add nothing.
            Source::Once(watch) => {
                Pin::new(watch).poll(context).map(|event| event.ok().map(WatchUpdate::Event))
            }
            Source::Always(watch) => Pin::new(watch).poll_next(context),
        }
    }
}
