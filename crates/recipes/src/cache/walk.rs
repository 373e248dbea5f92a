//! Reads a tree, and compares it with what is known about it.
//!
//! For a known node only the stat is read: an equal `mzxid` means equal data, an equal `pzxid` means the same
//! children as when they were last listed. So a tree in which nothing has changed costs one small request for each
//! node, and no data. A bounded number of requests is in flight at a time; the replies arrive in the order of the
//! requests, so no other scheduling is needed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use herdsman_client::{Children, Error, ErrorKind, Node, Reply, Stat, Zxid};

use super::scope::Scope;
use super::snapshot::CachedNode;
use super::state::Change;
use super::task::{CacheTask, Ended};

/// Changes that are published together; each publication may copy the index.
const CHANGES_MAX: usize = 256;

/// The `pzxid` of each node at the time its children were listed. It is kept apart from the nodes' stats, because
/// those may be newer than the listing.
pub(super) type Listings = HashMap<Arc<str>, Zxid>;

/// A read to send to the server.
#[derive(Debug)]
pub(super) enum Step {
    /// Data and stat of a node.
    Read(Arc<str>),
    /// Whether a known node has changed.
    Compare(Arc<str>),
    /// The children of a node.
    List(Arc<str>),
}

/// A request in flight.
enum PendingReply {
    Read(Arc<str>, Reply<Node>),
    Compare(Arc<str>, Reply<Option<Stat>>),
    List(Arc<str>, Reply<Children>),
}

enum Answer {
    Read(Arc<str>, Result<Node, Error>),
    Compare(Arc<str>, Result<Option<Stat>, Error>),
    List(Arc<str>, Result<Children, Error>),
}

impl PendingReply {
    async fn answer(self) -> Answer {
        match self {
            PendingReply::Read(path, reply) => Answer::Read(path, reply.await),
            PendingReply::Compare(path, reply) => Answer::Compare(path, reply.await),
            PendingReply::List(path, reply) => Answer::List(path, reply.await),
        }
    }
}

/// A queue of reads that grows as replies arrive.
#[derive(Default)]
struct Work {
    steps: VecDeque<Step>,
    changes: Vec<Change>,
    /// `None`: children are not listed, because events have reported them.
    listings: Option<Listings>,
}

impl CacheTask {
    /// Compares the whole tree. Ends early if there is another gap: the comparison must be done again then, and the
    /// rest of this one is not needed.
    pub(super) async fn walk(&mut self) -> Result<(), Ended> {
        let mut work = Work { listings: Some(Listings::default()), ..Work::default() };
        let root = self.scope.root.clone();
        work.steps.push_back(self.read_step(root));
        self.run_steps(&mut work).await?;
        // A listing counts only when every node that it names has been read.
        if let Some(listings) = work.listings.filter(|_| !self.inbox.dirty.everything) {
            self.listings = listings;
        }
        Ok(())
    }

    /// Reads these nodes, without listing their children.
    pub(super) async fn read_all(&mut self, steps: Vec<Step>) -> Result<(), Ended> {
        self.run_steps(&mut Work { steps: steps.into(), ..Work::default() }).await
    }

    async fn run_steps(&mut self, work: &mut Work) -> Result<(), Ended> {
        let mut in_flight = VecDeque::new();
        loop {
            while in_flight.len() < self.requests_max
                && let Some(step) = work.steps.pop_front()
            {
                in_flight.push_back(self.send(step));
            }
            let Some(pending) = in_flight.pop_front() else {
                break;
            };
            let answer = self.while_listening(pending.answer()).await?;
            self.handle(answer, work)?;
            if work.changes.len() >= CHANGES_MAX {
                self.state.apply(&mut work.changes);
            }
            if self.inbox.dirty.everything {
                break;
            }
        }
        self.state.apply(&mut work.changes);
        Ok(())
    }

    fn send(&self, step: Step) -> PendingReply {
        match step {
            Step::Read(path) => {
                let reply = self.client.get(&path).send();
                PendingReply::Read(path, reply)
            }
            Step::Compare(path) => {
                let reply = self.client.exists(&path).send();
                PendingReply::Compare(path, reply)
            }
            Step::List(path) => {
                let reply = self.client.children(&path).send();
                PendingReply::List(path, reply)
            }
        }
    }

    fn handle(&self, answer: Answer, work: &mut Work) -> Result<(), Ended> {
        match answer {
            Answer::Read(path, Ok(node)) => {
                let cached = CachedNode::new(path.clone(), &node.data, node.stat);
                work.changes.push(Change::Put(cached));
                self.descend(&path, &node.stat, work);
            }
            Answer::Compare(path, Ok(Some(stat))) => self.compare(&path, stat, work),
            Answer::Compare(path, Ok(None)) => work.changes.push(Change::Removed(path)),
            Answer::List(path, Ok(children)) => self.visit_children(&path, &children, work),
            Answer::Read(path, Err(error))
            | Answer::Compare(path, Err(error))
            | Answer::List(path, Err(error)) => work.changes.push(failure(path, error)?),
        }
        Ok(())
    }

    /// Reads a known node again only if its data has changed.
    fn compare(&self, path: &Arc<str>, stat: Stat, work: &mut Work) {
        let known = self.state.with_snapshot(|all| all.get(path).cloned());
        let Some(known) = known.filter(|known| known.stat.mzxid == stat.mzxid) else {
            return work.steps.push_front(Step::Read(path.clone()));
        };
        if known.stat != stat {
            work.changes.push(Change::Put(CachedNode { stat, ..(*known).clone() }));
        }
        self.descend(path, &stat, work);
    }

    fn descend(&self, path: &Arc<str>, stat: &Stat, work: &mut Work) {
        let Some(listings) = work.listings.as_mut().filter(|_| self.scope.goes_below(path)) else {
            return;
        };
        if stat.num_children == 0 {
            work.changes.extend(self.known_children(path).into_iter().map(Change::Removed));
        } else if self.listings.get(path) == Some(&stat.pzxid) {
            listings.insert(path.clone(), stat.pzxid);
            work.steps.extend(self.known_children(path).into_iter().map(Step::Compare));
        } else {
            work.steps.push_back(Step::List(path.clone()));
        }
    }

    fn visit_children(&self, path: &Arc<str>, children: &Children, work: &mut Work) {
        if let Some(listings) = &mut work.listings {
            listings.insert(path.clone(), children.stat.pzxid);
        }
        let mut present = HashSet::with_capacity(children.names.len());
        for name in &children.names {
            let child = Scope::child(path, name);
            if self.scope.admits_child(&child) {
                work.steps.push_back(self.read_step(child.clone()));
                present.insert(child);
            }
        }
        let removed =
            self.known_children(path).into_iter().filter(|child| !present.contains(child));
        work.changes.extend(removed.map(Change::Removed));
    }

    fn read_step(&self, path: Arc<str>) -> Step {
        let is_known = self.state.with_snapshot(|all| all.get(&path).is_some());
        if is_known { Step::Compare(path) } else { Step::Read(path) }
    }

    /// Returns the known children, including those that cannot be read: they may have been deleted, or may be
    /// readable by now.
    fn known_children(&self, path: &str) -> Vec<Arc<str>> {
        self.state.with_snapshot(|all| {
            let readable = all.children(path).map(|node| node.path.clone());
            let unreadable = all.unreadable.keys().filter(|child| parent_of(child) == path);
            readable.chain(unreadable.cloned()).collect()
        })
    }
}

fn parent_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Returns what a failed read says about a node. The client itself repeats what may succeed later.
fn failure(path: Arc<str>, error: Error) -> Result<Change, Ended> {
    match error.kind() {
        ErrorKind::NoNode => Ok(Change::Removed(path)),
        ErrorKind::Closed | ErrorKind::SessionExpired | ErrorKind::AuthFailed => Err(Ended),
        _ => Ok(Change::Unreadable(path, error)),
    }
}
