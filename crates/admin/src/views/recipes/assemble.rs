//! Combines the findings of single directories: locks with holders and waiters, semaphores with their
//! queues, item queues with their consumers. Pure.
//!
//! Long lists are truncated; totals have their length. Holders and waiters are determined by the rules of
//! the recipes themselves ([`herdsman_recipes::lock::contenders`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use herdsman_proto::SessionId;
use herdsman_recipes::lock::{Contender, LineNode, contenders};
use herdsman_recipes::wait_for::{self, ContenderState, LockKind, LockQueue};

use super::classify::{Finding, is_election};
use super::model::{
    BarrierView, ElectionView, GroupView, InstanceView, LockView, NodeView, QueueView, Recipes,
    ServiceView, WaiterView,
};
use super::node::{Child, preview};

/// Most recipes of one kind that are shown.
const SHOWN_MAX: usize = 1000;
/// Most nodes of one recipe that are shown.
const NODES_MAX: usize = 100;
/// Most nodes that are shown for which a node waits.
const WAITS_MAX: usize = 10;

/// The addresses of the clients of sessions that are connected to this server.
pub type Peers = HashMap<SessionId, SocketAddr>;

/// The contenders of each lock, for the search for deadlocks.
pub type Lines = BTreeMap<String, Vec<Contender>>;

/// The findings, by kind.
#[derive(Default)]
struct Catalogue {
    lines: BTreeMap<String, Vec<Child>>,
    leases: BTreeMap<String, Vec<Child>>,
    semaphores: BTreeSet<String>,
    kazoo_semaphores: BTreeMap<String, Vec<Child>>,
    taken: BTreeMap<String, usize>,
    consumers: BTreeMap<String, usize>,
    recipes: Recipes,
}

/// The recipes to show, and the queues of locks to check for deadlocks.
pub fn assemble(found: Vec<Finding>, peers: &Peers) -> (Recipes, Lines) {
    let mut catalogue = Catalogue::default();
    for finding in found {
        catalogue.take(finding, peers);
    }
    catalogue.join_semaphores(peers);
    let lines = catalogue.join_lines(peers);
    catalogue.join_queues();
    let mut recipes = catalogue.recipes;
    recipes.truncated = cut(&mut recipes);
    (recipes, lines)
}

/// Sorts all lists by path and truncates them. Returns whether one was too long.
fn cut(recipes: &mut Recipes) -> bool {
    fn cut_one<T>(list: &mut Vec<T>, path: impl Fn(&T) -> &str) -> bool {
        list.sort_by(|one, other| path(one).cmp(path(other)));
        let is_too_long = list.len() > SHOWN_MAX;
        list.truncate(SHOWN_MAX);
        is_too_long
    }
    let Recipes { locks, elections, barriers, queues, services, groups, .. } = recipes;
    [
        cut_one(locks, |lock| &lock.path),
        cut_one(elections, |election| &election.path),
        cut_one(barriers, |barrier| &barrier.path),
        cut_one(queues, |queue| &queue.path),
        cut_one(services, |service| &service.path),
        cut_one(groups, |group| &group.path),
    ]
    .contains(&true)
}

impl Catalogue {
    fn take(&mut self, finding: Finding, peers: &Peers) {
        let recipes = &mut self.recipes;
        match finding {
            Finding::Line { path, nodes } => _ = self.lines.insert(path, nodes),
            Finding::Leases { path, nodes } => _ = self.leases.insert(path, nodes),
            Finding::Semaphore { path } => _ = self.semaphores.insert(path),
            Finding::KazooSemaphore { path, nodes } => {
                self.kazoo_semaphores.insert(path, nodes);
            }
            Finding::Taken { path, count } => _ = self.taken.insert(path, count),
            Finding::Consumers { path, count } => _ = self.consumers.insert(path, count),
            Finding::Latch { path, nodes } => {
                recipes.elections.push(election(path, "curator", &after_each(&nodes), peers));
            }
            Finding::LeaderNode { path, node } => {
                let line = [(node, Vec::new())];
                recipes.elections.push(election(path, "herdsman", &line, peers));
            }
            Finding::Single { path, node } => {
                let holders = vec![place(&node, peers)];
                let (layout, kind, holders_total) = ("herdsman", "lock", 1);
                let lock = LockView { path, layout, kind, holders, holders_total, ..no_lock() };
                recipes.locks.push(lock);
            }
            Finding::Barrier { path, kind, size, members, open, since_ms } => {
                recipes.barriers.push(BarrierView { path, kind, size, members, open, since_ms });
            }
            Finding::Queue { path, kind, depth, oldest_ms } => {
                let queue = QueueView { path, kind, depth, oldest_ms, ..QueueView::default() };
                recipes.queues.push(queue);
            }
            Finding::Service { path, instances } => {
                recipes.services.push(service(path, &instances));
            }
            Finding::Group { path, nodes } => {
                let members = nodes.iter().take(NODES_MAX).map(|node| place(node, peers));
                let (members, members_total) = (members.collect(), nodes.len());
                recipes.groups.push(GroupView { path, members, members_total });
            }
        }
    }

    /// Combines a semaphore's permits with the queue of waiting clients, which is a separate lock.
    fn join_semaphores(&mut self, peers: &Peers) {
        let leases = std::mem::take(&mut self.leases);
        let empty = std::mem::take(&mut self.semaphores).into_iter();
        let empty = empty.filter(|path| !leases.contains_key(path)).map(|path| (path, Vec::new()));
        let empty: Vec<_> = empty.collect();
        for (path, leases) in leases.into_iter().chain(empty) {
            let line = self.lines.remove(&format!("{path}/locks")).unwrap_or_default();
            // A semaphore without holders and waiters is only two directories.
            if !leases.is_empty() || !line.is_empty() {
                self.recipes.locks.push(semaphore(path, "curator", &leases, line, peers));
            }
        }
        for (path, leases) in std::mem::take(&mut self.kazoo_semaphores) {
            let line = self.lines.remove(&format!("{path}/__lock__")).unwrap_or_default();
            if !leases.is_empty() || !line.is_empty() {
                self.recipes.locks.push(semaphore(path, "kazoo", &leases, line, peers));
            }
        }
    }

    fn join_lines(&mut self, peers: &Peers) -> Lines {
        let mut lines = Lines::new();
        for (path, nodes) in std::mem::take(&mut self.lines) {
            let (contenders, line) = in_line(nodes);
            let layout = layout(&contenders);
            if is_election(&path) && contenders.iter().all(|one| one.kind == LockKind::Write) {
                // A candidate does other work while it waits, so it cannot be part of a deadlock.
                self.recipes.elections.push(election(path, layout, &line, peers));
            } else {
                self.recipes.locks.push(lock(path.clone(), layout, &contenders, &line, peers));
                lines.insert(path, contenders);
            }
        }
        lines
    }

    /// Combines queues with their items in work and waiting consumers, which are in sibling directories.
    fn join_queues(&mut self) {
        for queue in &mut self.recipes.queues {
            queue.taken = self.taken.get(&format!("{}-locks", queue.path)).copied();
            let consumers = self.consumers.remove(&format!("{}-consumers", queue.path));
            queue.consumers_waiting = consumers.unwrap_or(0);
        }
        // A queue without items is only visible by its waiting consumers.
        for (path, consumers_waiting) in std::mem::take(&mut self.consumers) {
            if let Some(path) = path.strip_suffix("-consumers") {
                let (path, kind) = (path.to_owned(), "empty");
                let queue = QueueView { path, kind, consumers_waiting, ..QueueView::default() };
                self.recipes.queues.push(queue);
            }
        }
    }
}

fn no_lock() -> LockView {
    LockView::default()
}

/// A node, and the names of the nodes for whose deletion it waits.
type WaitingNode = (Child, Vec<String>);

/// Contenders in order, and their nodes with what they wait for.
fn in_line(nodes: Vec<Child>) -> (Vec<Contender>, Vec<WaitingNode>) {
    let mut by_name: HashMap<String, Child> =
        nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
    let of_lock = by_name.values().map(|node| LineNode {
        name: node.name.clone(),
        session: node.session.unwrap_or(SessionId::NONE),
        data: node.data.clone(),
        czxid: node.czxid,
    });
    let contenders = contenders(of_lock.collect());
    let in_graph = contenders.iter().map(|one| wait_for::Contender {
        owner: String::new(),
        kind: one.kind,
        state: one.state,
    });
    let queue = LockQueue { path: String::new(), contenders: in_graph.collect() };
    let line = contenders.iter().zip(queue.blockers()).filter_map(|(one, blockers)| {
        let blockers = blockers.into_iter().flatten().take(WAITS_MAX);
        let waits_for = blockers.map(|place| contenders[place].name.clone());
        Some((by_name.remove(&one.name)?, waits_for.collect()))
    });
    let line = line.collect();
    (contenders, line)
}

/// A queue in which each node waits for the one before it.
fn after_each(nodes: &[Child]) -> Vec<WaitingNode> {
    let before = nodes.iter().map(|node| vec![node.name.clone()]);
    let before = std::iter::once(Vec::new()).chain(before);
    nodes.iter().cloned().zip(before).collect()
}

fn layout(contenders: &[Contender]) -> &'static str {
    match contenders.first().map(|first| first.name.as_str()) {
        Some(name) if name.starts_with("_c_") => "curator",
        Some(name) if name.contains("__lock__") || name.contains("__rlock__") => "kazoo",
        _ => "other",
    }
}

fn lock(
    path: String,
    layout: &'static str,
    contenders: &[Contender],
    line: &[WaitingNode],
    peers: &Peers,
) -> LockView {
    let is_shared =
        contenders.iter().any(|one| one.kind == LockKind::Read || one.name.contains("__WRIT__"));
    let mut view = LockView { path, layout, kind: "lock", ..no_lock() };
    if is_shared {
        view.kind = "read-write lock";
    }
    for (contender, (node, waits_for)) in contenders.iter().zip(line) {
        let mode = match contender.kind {
            LockKind::Read => "read",
            LockKind::Write => "write",
        };
        let shown = |place: NodeView| NodeView { mode: is_shared.then_some(mode), ..place };
        match contender.state {
            ContenderState::Holds => {
                view.holders_total += 1;
                if view.holders.len() < NODES_MAX {
                    view.holders.push(shown(place(node, peers)));
                }
            }
            ContenderState::Waits => {
                view.waiters_total += 1;
                if view.waiters.len() < NODES_MAX {
                    let (place, waits_for) = (shown(place(node, peers)), waits_for.clone());
                    view.waiters.push(WaiterView { place, waits_for });
                }
            }
        }
    }
    view
}

/// The first client in the queue of a semaphore collects permits, and holds them when there are no more than
/// the semaphore allows, a number that is not stored anywhere. So permits that the first client has created
/// since it is first do not count as held yet.
fn semaphore(
    path: String,
    layout: &'static str,
    leases: &[Child],
    line: Vec<Child>,
    peers: &Peers,
) -> LockView {
    let (_, line) = in_line(line);
    let collects = line.first().map(|(first, _)| (first.session, first.czxid));
    let is_wanted = |lease: &Child| {
        collects.is_some_and(|(session, since)| lease.session == session && lease.czxid > since)
    };
    let held: Vec<_> = leases.iter().filter(|lease| !is_wanted(lease)).collect();
    let waiters = line.iter().take(NODES_MAX).map(|(node, waits_for)| {
        let any_lease = || held.iter().take(WAITS_MAX).map(|lease| lease.name.clone()).collect();
        let waits_for = if waits_for.is_empty() { any_lease() } else { waits_for.clone() };
        WaiterView { place: place(node, peers), waits_for }
    });
    LockView {
        path,
        layout,
        kind: "semaphore",
        waiters: waiters.collect(),
        waiters_total: line.len(),
        holders_total: held.len(),
        holders: held.into_iter().take(NODES_MAX).map(|lease| place(lease, peers)).collect(),
    }
}

fn election(
    path: String,
    layout: &'static str,
    line: &[WaitingNode],
    peers: &Peers,
) -> ElectionView {
    let leader = line.first().map(|(node, _)| place(node, peers));
    let rest = line.get(1..).unwrap_or_default();
    let candidates = rest.iter().take(NODES_MAX).map(|(node, waits_for)| WaiterView {
        place: place(node, peers),
        waits_for: waits_for.clone(),
    });
    let (candidates, candidates_total) = (candidates.collect(), rest.len());
    ElectionView { path, layout, leader, candidates, candidates_total }
}

type Instance = herdsman_recipes::discovery::ServiceInstance<serde_json::Value>;

fn service(path: String, instances: &[(Child, Box<Instance>)]) -> ServiceView {
    let name = instances.first().map(|(_, first)| first.name.clone()).unwrap_or_default();
    let shown = instances.iter().take(NODES_MAX).map(|(node, instance)| InstanceView {
        id: instance.id.clone(),
        address: instance.address.clone(),
        port: instance.port,
        ssl_port: instance.ssl_port,
        enabled: instance.enabled,
        session: node.session.map(|session| session.to_string()),
        since_ms: node.since_ms,
        payload: instance.payload.as_ref().and_then(|payload| match payload {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => preview(text.as_bytes()),
            other => preview(other.to_string().as_bytes()),
        }),
    });
    let (instances, instances_total) = (shown.collect(), instances.len());
    ServiceView { path, name, instances, instances_total }
}

fn place(node: &Child, peers: &Peers) -> NodeView {
    let peer = node.session.and_then(|session| peers.get(&session));
    NodeView {
        node: node.name.clone(),
        session: node.session.map(|session| session.to_string()),
        since_ms: node.since_ms,
        payload: preview(&node.data),
        peer: peer.map(ToString::to_string),
        mode: None,
    }
}

#[cfg(test)]
mod tests;
