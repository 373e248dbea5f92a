//! The children of a node, with or without their data, kept up to date by a task.
//!
//! In: a path, and how to read a child. Out: the latest snapshot, through a channel that holds only one. One
//! recursive persistent watch serves all children and also reports that the parent was deleted and created again, as
//! happens with containers; it needs a server of version 3.6. Descendants below the children are ignored.
//!
//! Invariant: a snapshot is replaced only by one that was read from a server. While no server can be reached, the
//! last one stays.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use herdsman_client::{Client, ErrorKind, EventType, Node, PersistentWatch, Result, Zxid};
use herdsman_client::{WatchEvent, WatchUpdate};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::changes::Change;
use crate::path::child;
use crate::persistent_node::Pace;

/// Reads that are in flight at once.
const PIPELINE: usize = 64;
/// Events that are taken together before their nodes are read.
const EVENTS_AT_ONCE_MAX: usize = 1024;

/// What to read of each child.
pub(crate) enum Content<T> {
    /// Only its name: no child is ever read.
    NamesOnly(Box<Name<T>>),
    /// Its data and stat.
    Data(Box<Decode<T>>),
}

type Name<T> = dyn Fn(&str) -> T + Send + Sync;
type Decode<T> = dyn Fn(&str, &Node) -> T + Send + Sync;

/// The children as they were at some moment.
#[derive(Debug)]
pub(crate) struct Snapshot<T> {
    by_name: Arc<BTreeMap<String, Entry<T>>>,
}

#[derive(Debug)]
struct Entry<T> {
    /// The last change of its data.
    mzxid: Zxid,
    value: Arc<T>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Entry { mzxid: self.mzxid, value: Arc::clone(&self.value) }
    }
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Snapshot { by_name: Arc::clone(&self.by_name) }
    }
}

impl<T> Snapshot<T> {
    pub(crate) fn empty() -> Self {
        Snapshot { by_name: Arc::default() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<T>)> {
        self.by_name.iter().map(|(name, entry)| (name.as_str(), &entry.value))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.by_name.get(name).map(|entry| &entry.value)
    }

    pub(crate) fn entries(&self) -> BTreeMap<String, Arc<T>> {
        self.iter().map(|(name, value)| (name.to_owned(), Arc::clone(value))).collect()
    }

    /// Returns this snapshot together with the named entries of `before`.
    pub(crate) fn with_kept<'n>(
        &self,
        before: &Snapshot<T>,
        kept: impl Iterator<Item = &'n str>,
    ) -> Snapshot<T> {
        let mut by_name = Arc::clone(&self.by_name);
        for name in kept {
            if let Some(entry) = before.by_name.get(name) {
                Arc::make_mut(&mut by_name).insert(name.to_owned(), entry.clone());
            }
        }
        Snapshot { by_name }
    }

    /// Returns the changes from this snapshot to `next`: first the members that left, then the others in order.
    pub(crate) fn changes_to(&self, next: &Snapshot<T>) -> impl Iterator<Item = Change<T>> {
        let left = self.by_name.iter().filter(|(name, _)| !next.by_name.contains_key(*name));
        let left = left.map(|(_, entry)| Change::Left(Arc::clone(&entry.value)));
        let others = next.by_name.iter().filter_map(|(name, entry)| {
            let value = Arc::clone(&entry.value);
            match self.by_name.get(name) {
                None => Some(Change::Joined(value)),
                Some(before) if before.mzxid != entry.mzxid => Some(Change::Changed(value)),
                Some(_) => None,
            }
        });
        left.chain(others)
    }
}

#[cfg(test)]
impl Snapshot<()> {
    pub(crate) fn of_names<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let entry = |name: &str| (name.to_owned(), Entry { mzxid: Zxid(0), value: Arc::new(()) });
        Snapshot { by_name: Arc::new(names.map(entry).collect()) }
    }
}

/// A handle to the children. The task ends with the last handle.
pub(crate) struct Roster<T> {
    snapshots: watch::Receiver<Snapshot<T>>,
}

impl<T> Clone for Roster<T> {
    fn clone(&self) -> Self {
        Roster { snapshots: self.snapshots.clone() }
    }
}

impl<T> fmt::Debug for Roster<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshots.borrow();
        f.debug_set().entries(snapshot.names()).finish()
    }
}

impl<T: Send + Sync + 'static> Roster<T> {
    /// Sets the watch, reads all children, and continues in the background.
    pub(crate) async fn open(client: &Client, path: &str, content: Content<T>) -> Result<Self> {
        let watch = client.watch(path).recursive().await?;
        let (send, snapshots) = watch::channel(Snapshot::empty());
        let mut reader = Reader {
            client: client.clone(),
            path: path.to_owned(),
            content,
            snapshots: send,
            pace: Pace::default(),
        };
        reader.read_all().await?;
        tokio::spawn(reader.run(watch));
        Ok(Roster { snapshots })
    }

    /// Creates a roster of snapshots that another task makes.
    pub(crate) fn from_snapshots(snapshots: watch::Receiver<Snapshot<T>>) -> Self {
        Roster { snapshots }
    }

    pub(crate) fn snapshot(&self) -> Snapshot<T> {
        self.snapshots.borrow().clone()
    }

    /// Returns a receiver of the snapshots, beginning with the latest.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Snapshot<T>> {
        self.snapshots.clone()
    }
}

struct Reader<T> {
    client: Client,
    path: String,
    content: Content<T>,
    snapshots: watch::Sender<Snapshot<T>>,
    pace: Pace,
}

/// What a batch of events requires to be read.
enum Dirty {
    /// These children may have changed; the last event of those with `false` was a deletion.
    Children(BTreeMap<String, bool>),
    Everything,
}

impl<T: Send + Sync + 'static> Reader<T> {
    /// Follows the events until all receivers are dropped or the client is closed.
    async fn run(mut self, mut watch: PersistentWatch) {
        loop {
            let dirty = tokio::select! {
                dirty = self.collect(&mut watch) => dirty,
                () = self.snapshots.closed() => return,
            };
            // The stream of events ends with the client.
            let Some(mut dirty) = dirty else {
                return;
            };
            while let Err(error) = self.catch_up(&dirty).await {
                tracing::debug!(%error, path = self.path, "reading the children failed; trying again later");
                let pause = self.pace.pause_before_attempt(Instant::now());
                tokio::select! {
                    has_future = self.wait_for_connection(pause) => if !has_future { return },
                    () = self.snapshots.closed() => return,
                }
                dirty = Dirty::Everything;
            }
        }
    }

    /// Waits for the next event, and returns it with all others that have arrived.
    async fn collect(&self, watch: &mut PersistentWatch) -> Option<Dirty> {
        let mut dirty = Dirty::Children(BTreeMap::new());
        let mut update = Some(watch.next().await?);
        for _ in 0..EVENTS_AT_ONCE_MAX {
            match update {
                Some(WatchUpdate::Event(event)) => dirty.add(&self.path, &event),
                Some(_) => dirty = Dirty::Everything,
                None => break,
            }
            update = ready_now(watch).await;
        }
        if let Some(update) = update {
            match update {
                WatchUpdate::Event(event) => dirty.add(&self.path, &event),
                _ => dirty = Dirty::Everything,
            }
        }
        Some(dirty)
    }

    /// Waits for a connection; false if there will be none any more.
    async fn wait_for_connection(&self, pause: Duration) -> bool {
        sleep(pause).await;
        self.client.connected_session().await.is_ok()
    }

    async fn catch_up(&mut self, dirty: &Dirty) -> Result<()> {
        let children = match dirty {
            Dirty::Everything => return self.read_all().await,
            Dirty::Children(children) if children.is_empty() => return Ok(()),
            Dirty::Children(children) => children,
        };
        let present = children.iter().filter(|(_, is_there)| **is_there);
        let names: Vec<&str> = present.map(|(name, _)| name.as_str()).collect();
        let before = self.snapshots.borrow().clone();
        let read = self.read(&names, &before).await?;
        let mut by_name = (*before.by_name).clone();
        for name in children.keys() {
            by_name.remove(name);
        }
        by_name.extend(read);
        self.publish(by_name);
        Ok(())
    }

    async fn read_all(&mut self) -> Result<()> {
        let names = match self.client.children(&self.path).await {
            Ok(children) => children.names,
            Err(error) if error.is_no_node() => Vec::new(),
            Err(error) => return Err(error),
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let before = self.snapshots.borrow().clone();
        let by_name = self.read(&names, &before).await?.into_iter().collect();
        self.publish(by_name);
        Ok(())
    }

    /// Reads these children, some at a time. Those that were deleted meanwhile are left out.
    async fn read(&self, names: &[&str], before: &Snapshot<T>) -> Result<Vec<(String, Entry<T>)>> {
        let decode = match &self.content {
            Content::NamesOnly(make) => return Ok(names_only(names, before, make)),
            Content::Data(decode) => decode,
        };
        let mut read = Vec::with_capacity(names.len());
        for chunk in names.chunks(PIPELINE) {
            let get = |name: &&str| self.client.get(&child(&self.path, name)).send();
            let sent: Vec<_> = chunk.iter().map(get).collect();
            for (name, reply) in chunk.iter().zip(sent) {
                match reply.await {
                    Ok(node) => read.push(entry_of(name, &node, before, decode)),
                    Err(error) if error.is_no_node() => {}
                    Err(error) if *error.kind() == ErrorKind::NoAuth => {
                        tracing::warn!(%error, "a child cannot be read; it is left out");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(read)
    }

    fn publish(&self, by_name: BTreeMap<String, Entry<T>>) {
        self.snapshots.send_replace(Snapshot { by_name: Arc::new(by_name) });
    }
}

/// Returns the entry of a child. One that has not changed keeps its value, and is not decoded again.
fn entry_of<T>(
    name: &str,
    node: &Node,
    before: &Snapshot<T>,
    decode: &Decode<T>,
) -> (String, Entry<T>) {
    let mzxid = node.stat.mzxid;
    let known = before.by_name.get(name).filter(|entry| entry.mzxid == mzxid);
    let entry =
        known.cloned().unwrap_or_else(|| Entry { mzxid, value: Arc::new(decode(name, node)) });
    (name.to_owned(), entry)
}

fn names_only<T>(names: &[&str], before: &Snapshot<T>, make: &Name<T>) -> Vec<(String, Entry<T>)> {
    let entry = |name: &&str| {
        let known = before.by_name.get(*name).cloned();
        let entry = known.unwrap_or_else(|| Entry { mzxid: Zxid(0), value: Arc::new(make(name)) });
        ((*name).to_owned(), entry)
    };
    names.iter().map(entry).collect()
}

impl Dirty {
    fn add(&mut self, parent: &str, event: &WatchEvent) {
        let Dirty::Children(children) = self else {
            return;
        };
        let below = event.path.strip_prefix(if parent == "/" { "" } else { parent });
        let name = below.and_then(|below| below.strip_prefix('/'));
        if let Some(name) = name.filter(|name| !name.is_empty() && !name.contains('/')) {
            children.insert(name.to_owned(), event.kind != EventType::NodeDeleted);
        }
    }
}

/// Returns the next update if it has arrived.
async fn ready_now(watch: &mut PersistentWatch) -> Option<WatchUpdate> {
    tokio::select! {
        biased;
        update = watch.next() => update,
        () = std::future::ready(()) => None,
    }
}
