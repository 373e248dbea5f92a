//! Determines which recipe uses a znode, by the names and data of its children. Pure.
//!
//! In: one [`Directory`]. Out: the findings in it. Names are parsed by the code of the recipes themselves
//! where that is possible; here is only what they have in common with those of Curator and kazoo. Recipes
//! with more than one directory (a semaphore has two) are combined in [`super::assemble`].
//!
//! A layout is a convention and not a proof: nodes with names like a lock's are shown as a lock. Some recipes
//! have no distinctive layout: a barrier is an ordinary node, and an election of Curator's `LeaderSelector`
//! or kazoo has the nodes of a lock. There a word in the path decides; see [`is_election`] and
//! [`is_called_barrier`].

use std::collections::HashMap;

use herdsman_recipes::barrier::{READY, is_member, latch_count};
use herdsman_recipes::discovery::ServiceInstance;
use herdsman_recipes::lock::{FENCE_SUFFIX, MARKERS};
use herdsman_recipes::queue::{ItemKind, item_kind};
use herdsman_recipes::sequence::split_name;
use serde_json::Value;

use super::node::{Child, Directory, last_name, parent};

/// Candidates of Curator's `LeaderLatch`.
const LATCH: &str = "latch-";
/// Permits of a semaphore.
const LEASE: &str = "lease-";
/// Tickets: clients that wait for their turn.
const TICKET: &str = "ticket-";
/// Consumers that wait for an item.
const PLACE: &str = "place-";
/// Items of kazoo's queues: `entry-<priority>-<number>`.
const ENTRY: &str = "entry-";
/// Short-lived marks of our own recipes' writes, which are ignored here.
const MARK: &str = "_op_";
/// The lock inside kazoo's semaphore.
const KAZOO_LOCK: &str = "__lock__";

/// A finding in a directory.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A queue of contenders for a lock, or of candidates that use a lock.
    Line {
        /// The directory.
        path: String,
        /// Its nodes, in no particular order.
        nodes: Vec<Child>,
    },
    /// A queue of candidates.
    Latch {
        /// The directory.
        path: String,
        /// Its nodes, in order.
        nodes: Vec<Child>,
    },
    /// The permits of a semaphore.
    Leases {
        /// The semaphore: the directory above.
        path: String,
        /// Its nodes, in order.
        nodes: Vec<Child>,
    },
    /// The two directories of a semaphore.
    Semaphore {
        /// The directory above them.
        path: String,
    },
    /// kazoo's semaphore.
    KazooSemaphore {
        /// The directory.
        path: String,
        /// Its permits, in order.
        nodes: Vec<Child>,
    },
    /// A lock of one node.
    Single {
        /// The node.
        path: String,
        /// The node.
        node: Child,
    },
    /// A leader of one node, with a counter of epochs in a sibling node.
    LeaderNode {
        /// The node.
        path: String,
        /// The node.
        node: Child,
    },
    /// A barrier.
    Barrier {
        /// The node.
        path: String,
        /// The kind of barrier.
        kind: &'static str,
        /// The number of clients that it is for.
        size: Option<u32>,
        /// The number of clients that are there.
        members: usize,
        /// Whether waiting clients may proceed.
        open: bool,
        /// When it was created.
        since_ms: i64,
    },
    /// A queue.
    Queue {
        /// The directory.
        path: String,
        /// The kind of queue.
        kind: &'static str,
        /// The number of items.
        depth: usize,
        /// When the oldest item was created.
        oldest_ms: Option<i64>,
    },
    /// Marks of consumers on items that they work on.
    Taken {
        /// The directory.
        path: String,
        /// Their number.
        count: usize,
    },
    /// Waiting consumers of a queue.
    Consumers {
        /// The directory.
        path: String,
        /// Their number.
        count: usize,
    },
    /// A service and its instances.
    Service {
        /// The directory.
        path: String,
        /// Its instances, by the names of their nodes.
        instances: Vec<(Child, Box<ServiceInstance<Value>>)>,
    },
    /// Ephemeral nodes, for any other purpose.
    Group {
        /// The directory.
        path: String,
        /// Its members, by name.
        nodes: Vec<Child>,
    },
}

/// The children of a directory by the kind of their names.
#[derive(Default)]
struct Sorted {
    line: Vec<Child>,
    latch: Vec<Child>,
    leases: Vec<Child>,
    tickets: Vec<Child>,
    places: usize,
    items: Items,
    taken: usize,
    others: Vec<Child>,
}

/// The items of a queue.
#[derive(Default)]
struct Items {
    count: usize,
    kind: Option<&'static str>,
    oldest_ms: Option<i64>,
}

/// Determines the recipes of a directory.
pub fn classify(directory: Directory) -> Vec<Finding> {
    let Directory { path, data, since_ms, children } = directory;
    let mut sorted = Sorted::default();
    for child in children {
        sorted.take(child);
    }
    let mut found = Vec::new();
    let Sorted { line, latch, leases, tickets, places, items, taken, others } = sorted;
    let no_line = line.is_empty() && latch.is_empty() && leases.is_empty();
    if !line.is_empty() {
        found.push(Finding::Line { path: path.clone(), nodes: line });
    }
    if !latch.is_empty() {
        found.push(Finding::Latch { path: path.clone(), nodes: in_order(latch) });
    }
    if !leases.is_empty() {
        let semaphore = if last_name(&path) == "leases" { parent(&path) } else { &path };
        found.push(Finding::Leases { path: semaphore.to_owned(), nodes: in_order(leases) });
    }
    if !tickets.is_empty() {
        let oldest_ms = tickets.iter().map(|ticket| ticket.since_ms).min();
        let (path, depth) = (path.clone(), tickets.len());
        found.push(Finding::Queue { path, kind: "tickets", depth, oldest_ms });
    }
    if let Items { count: depth @ 1.., kind, oldest_ms } = items {
        let (path, kind) = (path.clone(), kind.unwrap_or("work"));
        found.push(Finding::Queue { path, kind, depth, oldest_ms });
    }
    if taken > 0 {
        found.push(Finding::Taken { path: path.clone(), count: taken });
    }
    if places > 0 {
        found.push(Finding::Consumers { path: path.clone(), count: places });
    }
    if no_line {
        let directory = Directory { path, data, since_ms, children: others };
        classify_others(directory, &mut found);
    }
    found
}

impl Sorted {
    fn take(&mut self, child: Child) {
        let name = child.name.as_str();
        let is_ephemeral = child.session.is_some();
        let has = |marker| is_ephemeral && is_marked(name, marker);
        if is_ephemeral && name.starts_with(MARK) {
            return;
        }
        if is_in_line(&child) {
            self.line.push(child);
        } else if has(LATCH) {
            self.latch.push(child);
        } else if has(LEASE) {
            self.leases.push(child);
        } else if has(TICKET) {
            self.tickets.push(child);
        } else if has(PLACE) {
            self.places += 1;
        } else if let Some(kind) = queue_kind(name) {
            if is_ephemeral {
                self.taken += 1;
            } else {
                self.items.add(kind, child.since_ms);
            }
        } else {
            self.others.push(child);
        }
    }
}

impl Items {
    fn add(&mut self, kind: &'static str, since_ms: i64) {
        self.count += 1;
        // An item that Curator has put back has lost its special name.
        if self.kind.is_none_or(|known| known == "work") {
            self.kind = Some(kind);
        }
        self.oldest_ms = Some(self.oldest_ms.map_or(since_ms, |oldest| oldest.min(since_ms)));
    }
}

/// Curator's marker `lock-` is a common word, so the rest of the name must match too; other markers are distinctive.
fn is_in_line(child: &Child) -> bool {
    MARKERS.iter().any(|marker| match *marker {
        "lock-" => child.session.is_some() && is_marked(&child.name, marker),
        marker => split_name(&child.name, marker).is_some(),
    })
}

/// Whether a name ends with the marker and a number, after nothing or a protection prefix.
fn is_marked(name: &str, marker: &str) -> bool {
    split_name(name, marker)
        .is_some_and(|split| split.prefix.is_empty() || split.prefix.ends_with(['-', '_']))
}

fn queue_kind(name: &str) -> Option<&'static str> {
    match item_kind(name) {
        Some(ItemKind::Simple) => Some("simple"),
        Some(ItemKind::Work) => Some("work"),
        Some(ItemKind::Priority) => Some("priority"),
        Some(ItemKind::Delay { .. }) => Some("delay"),
        Some(ItemKind::Id) => Some("id"),
        _ => split_name(name, "").filter(|split| split.prefix.starts_with(ENTRY)).map(|_| "kazoo"),
    }
}

/// Classifies children without distinctive names.
fn classify_others(directory: Directory, found: &mut Vec<Finding>) {
    let names_of_semaphore = ["locks", "leases"];
    let has = |name: &str| directory.children.iter().any(|child| child.name == name);
    if names_of_semaphore.iter().all(|name| has(name)) {
        found.push(Finding::Semaphore { path: directory.path.clone() });
    }
    if let Some(service) = service(&directory) {
        found.push(service);
        return;
    }
    if let Some(semaphore) = kazoo_semaphore(&directory) {
        found.push(semaphore);
        return;
    }
    if let Some(barrier) = double_barrier(&directory) {
        found.push(barrier);
        return;
    }
    for child in directory.children.iter().filter(|child| child.session.is_none()) {
        found.extend(barrier(&directory, child));
    }
    members(directory, found);
}

/// Classifies ephemeral nodes: locks and leaders of one node, and groups.
fn members(directory: Directory, found: &mut Vec<Finding>) {
    // The receipts of a queue's transactions are internal to it.
    if directory.path.ends_with("-receipts") || is_fence(&directory) {
        return;
    }
    let by_name: HashMap<_, _> = directory
        .children
        .iter()
        .filter(|child| child.session.is_none())
        .map(|child| (child.name.as_str(), child))
        .collect();
    let is_post = |child: &Child| {
        let sibling = by_name.get(format!("{}-epoch", child.name).as_str());
        sibling.is_some_and(|sibling| counts_epochs(&sibling.data))
    };
    let is_single_lock =
        |child: &Child| by_name.contains_key(format!("{}{FENCE_SUFFIX}", child.name).as_str());
    let mut nodes = Vec::new();
    for child in directory.children.iter().filter(|child| child.session.is_some()) {
        let path = directory.child_path(&child.name);
        if is_single_lock(child) {
            found.push(Finding::Single { path, node: child.clone() });
        } else if is_post(child) {
            found.push(Finding::LeaderNode { path, node: child.clone() });
        } else {
            nodes.push(child.clone());
        }
    }
    if !nodes.is_empty() {
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        found.push(Finding::Group { path: directory.path, nodes });
    }
}

/// The fence of a lock of one node: its children are ephemeral and named by UUIDs, one for each holder.
fn is_fence(directory: &Directory) -> bool {
    let is_marker = |child: &Child| child.session.is_some() && is_member(&child.name);
    directory.path.ends_with(FENCE_SUFFIX) && directory.children.iter().all(is_marker)
}

fn counts_epochs(data: &[u8]) -> bool {
    serde_json::from_slice::<Value>(data)
        .is_ok_and(|value| value["epoch"].is_u64() && value["leader"].is_string())
}

/// A service: its nodes are named by ids, and the data of each is an instance of the service.
fn service(directory: &Directory) -> Option<Finding> {
    let instance = |child: &Child| -> Option<Box<ServiceInstance<Value>>> {
        let instance: ServiceInstance<Value> = serde_json::from_slice(&child.data).ok()?;
        let fits = instance.name == directory.name()
            && !instance.id.is_empty()
            && child.name.contains(&instance.id);
        fits.then(|| Box::new(instance))
    };
    let of_child = |child: &Child| Some((child.clone(), instance(child)?));
    let mut instances: Vec<_> = directory.children.iter().filter_map(of_child).collect();
    instances.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    let path = directory.path.clone();
    (!instances.is_empty()).then_some(Finding::Service { path, instances })
}

/// A lock with kazoo's name, and permits named by UUIDs.
fn kazoo_semaphore(directory: &Directory) -> Option<Finding> {
    let children = &directory.children;
    let is_permit = |child: &&Child| child.session.is_some() && is_member(&child.name);
    children.iter().find(|child| child.name == KAZOO_LOCK)?;
    let mut nodes: Vec<_> = children.iter().filter(is_permit).cloned().collect();
    nodes.sort_by_key(|node| node.czxid);
    Some(Finding::KazooSemaphore { path: directory.path.clone(), nodes })
}

/// Members are named by UUIDs. That alone would also be a group, so there must be one more sign: `ready`,
/// the number of members that we keep in the node, or the name.
fn double_barrier(directory: &Directory) -> Option<Finding> {
    let children = &directory.children;
    let is_ready = children.iter().any(|child| child.name == READY);
    let members: Vec<_> = children.iter().filter(|child| is_member(&child.name)).collect();
    let text = std::str::from_utf8(&directory.data).unwrap_or_default();
    let size: Option<u32> = text.parse().ok();
    let others = children.len() - members.len() - usize::from(is_ready);
    let is_called = is_called_barrier(directory.name());
    if others > 0 || members.iter().any(|member| member.session.is_none()) {
        return None;
    }
    let fits = match members.len() {
        0 => is_ready && (is_called || size.is_some()),
        _ => is_ready || is_called || size.is_some(),
    };
    fits.then(|| Finding::Barrier {
        path: directory.path.clone(),
        kind: "double barrier",
        size,
        members: members.len(),
        open: is_ready,
        since_ms: members.iter().map(|child| child.since_ms).min().unwrap_or(directory.since_ms),
    })
}

/// A simple barrier, or a count-down latch.
fn barrier(directory: &Directory, child: &Child) -> Option<Finding> {
    let (path, since_ms) = (directory.child_path(&child.name), child.since_ms);
    // An open latch has a child that marks it; a closed one may have marks of counting clients.
    let latch =
        latch_count(&child.data).filter(|&(left, of)| of > 0 && (left > 0 || child.children > 0));
    if let Some((left, of)) = latch {
        let (kind, open, members) = ("count-down latch", left == 0, (of - left) as usize);
        return Some(Finding::Barrier { path, kind, size: Some(of), members, open, since_ms });
    }
    let is_gate = child.children == 0 && is_called_barrier(&child.name);
    let (kind, size, members, open) = ("barrier", None, 0, false);
    is_gate.then_some(Finding::Barrier { path, kind, size, members, open, since_ms })
}

/// Whether a name is that of a barrier: a closed barrier is only an existing node, so its name decides.
pub fn is_called_barrier(name: &str) -> bool {
    name.to_lowercase().contains("barrier")
}

/// Whether a queue of contenders for a lock elects a leader. The nodes are the same, so the
/// last two names of the path decide.
pub fn is_election(path: &str) -> bool {
    const WORDS: [&str; 3] = ["leader", "elect", "master"];
    let says = |name: &str| {
        let name = name.to_lowercase();
        WORDS.iter().any(|word| name.contains(word))
    };
    let name = last_name(path);
    !name.to_lowercase().contains("lock") && (says(name) || says(last_name(parent(path))))
}

/// In the order of the numbers in their names.
fn in_order(mut nodes: Vec<Child>) -> Vec<Child> {
    nodes.sort_by_cached_key(|node| {
        (split_name(&node.name, "").map(|split| split.sequence), node.name.clone())
    });
    nodes
}

#[cfg(test)]
mod tests;
