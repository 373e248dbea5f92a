//! Finds the deadlocks of a wait-for graph in time that grows with the number of contenders.
//!
//! In: lock queues. Out: deadlocks, in order. The graph has two kinds of vertices, so that a queue of n contenders
//! costs n edges and not n²: an *owner*, and a *prefix*, which is a queue up to and including one of its places. A
//! waiting owner has an edge to the prefix that blocks it; a prefix has an edge to the owner of its last place and to
//! the next shorter prefix. So an owner waits for another exactly if it reaches it through prefixes, and a cycle
//! counts only the owners that it visits: an owner that it only passes in a queue is not part of it.
//!
//! Nothing here recurses, because a chain of waits can be as long as there are owners.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Deadlock, LockQueue, Wait};

/// The number of owners of a deadlock from which a shorter cycle is searched. If there are more, the cycle is the
/// shortest through any of the first by name: the work stays linear, and no operator reads either of such long
/// cycles.
const SEARCH_OWNERS_MAX: usize = 64;

/// Returns all deadlocks of these locks.
pub(super) fn deadlocks(locks: &[LockQueue]) -> Vec<Deadlock> {
    // The order of vertices decides between cycles of equal length, so it must not depend on the order in which the
    // locks were listed.
    let mut locks: Vec<&LockQueue> = locks.iter().collect();
    locks.sort_by(|one, other| one.path.cmp(&other.path));
    let graph = Graph::new(&locks);
    let component_of = components(&graph.edges);
    let mut owners_by_component: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (owner, component) in component_of.iter().take(graph.owners.len()).enumerate() {
        owners_by_component.entry(*component).or_default().push(owner);
    }
    let mut found: Vec<Deadlock> = owners_by_component
        .values()
        .filter_map(|owners| {
            let cycle = shortest_cycle(&graph, owners, &component_of)?;
            Some(graph.deadlock(&cycle, owners))
        })
        .collect();
    found.sort_by(|one, other| one.cycle.cmp(&other.cycle));
    found
}

/// The graph; a vertex is an index. The owners come first, in the order of their names.
struct Graph<'l> {
    owners: Vec<&'l str>,
    /// Where each prefix ends; the vertex of prefix `p` is `owners.len() + p`.
    prefixes: Vec<(&'l LockQueue, usize)>,
    edges: Vec<Vec<usize>>,
    /// The number of places in which each owner holds or waits.
    places: Vec<usize>,
    /// For each owner and each prefix that blocks it, the place at which it waits.
    waiting_places: BTreeMap<(usize, usize), usize>,
}

impl<'l> Graph<'l> {
    fn new(locks: &[&'l LockQueue]) -> Self {
        let names = locks.iter().flat_map(|lock| &lock.contenders).map(|c| c.owner.as_str());
        let mut vertex_of: BTreeMap<&str, usize> = names.map(|name| (name, 0)).collect();
        for (vertex, value) in vertex_of.values_mut().enumerate() {
            *value = vertex;
        }
        let owners: Vec<&str> = vertex_of.keys().copied().collect();
        let mut graph = Self {
            edges: vec![Vec::new(); owners.len()],
            places: vec![0; owners.len()],
            owners,
            prefixes: Vec::new(),
            waiting_places: BTreeMap::new(),
        };
        for lock in locks {
            graph.add_lock(lock, &vertex_of);
        }
        graph
    }

    fn add_lock(&mut self, lock: &'l LockQueue, vertex_of: &BTreeMap<&str, usize>) {
        let first_prefix = self.edges.len();
        let blocked_up_to = lock.blocked_up_to();
        for (place, contender) in lock.contenders.iter().enumerate() {
            let owner = vertex_of[contender.owner.as_str()];
            self.places[owner] += 1;
            let shorter = (place > 0).then(|| self.edges.len() - 1);
            self.prefixes.push((lock, place));
            // The search takes the last edge first: the owner of the last place before those ahead of it.
            self.edges.push(shorter.into_iter().chain([owner]).collect());
            if let Some(last) = blocked_up_to[place] {
                let prefix = first_prefix + last;
                self.edges[owner].push(prefix);
                self.waiting_places.insert((owner, prefix), place);
            }
        }
    }

    fn is_owner(&self, vertex: usize) -> bool {
        vertex < self.owners.len()
    }

    /// Returns the wait of an owner that leads through prefixes, the first of which blocks it and the last of which
    /// ends with the blocker.
    fn wait(&self, owner: usize, first_prefix: usize, last_prefix: usize) -> Wait {
        let (lock, blocker) = self.prefixes[last_prefix - self.owners.len()];
        lock.wait(self.waiting_places[&(owner, first_prefix)], blocker)
    }

    /// Converts a cycle of vertices, which begins with an owner, to a deadlock.
    fn deadlock(&self, cycle: &[usize], component: &[usize]) -> Deadlock {
        let mut waits: Vec<Wait> = Vec::new();
        let mut rest = cycle;
        while let Some((&owner, behind)) = rest.split_first() {
            let prefixes = behind.iter().take_while(|vertex| !self.is_owner(**vertex)).count();
            waits.push(self.wait(owner, behind[0], behind[prefixes - 1]));
            rest = &behind[prefixes..];
        }
        let first_by_name =
            (0..waits.len()).min_by_key(|index| waits[*index].waiter.as_str()).unwrap_or(0);
        waits.rotate_left(first_by_name);
        let cycle: BTreeSet<&usize> = cycle.iter().collect();
        let stuck = component
            .iter()
            .filter(|owner| !cycle.contains(owner))
            .map(|owner| self.owners[*owner].to_owned())
            .collect();
        Deadlock { cycle: waits, stuck }
    }
}

/// Returns the cycle with the fewest owners among the given ones, which are all of one component; `None` if there is
/// no cycle.
///
/// An owner with one place is never needed: a cycle enters it from its own place in a queue and continues from there
/// to the owner that it waits for, to which the queue leads anyway.
fn shortest_cycle(graph: &Graph, owners: &[usize], component_of: &[usize]) -> Option<Vec<usize>> {
    let owners_on = |cycle: &Vec<usize>| cycle.iter().filter(|v| graph.is_owner(**v)).count();
    owners
        .iter()
        .filter(|owner| graph.places[**owner] > 1)
        .take(SEARCH_OWNERS_MAX)
        .filter_map(|owner| cycle_through(graph, *owner, component_of))
        .min_by_key(owners_on)
}

/// Returns the cycle through `start` with the fewest owners. A breadth-first search in which only the step from an
/// owner into a queue costs anything: steps along a queue are put at the prefix of the work list.
fn cycle_through(graph: &Graph, start: usize, component_of: &[usize]) -> Option<Vec<usize>> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let inside = |vertex: usize| {
        let edges = graph.edges[vertex].iter().copied();
        edges.filter(|next| component_of[*next] == component_of[start])
    };
    let mut line: VecDeque<_> = inside(start).map(|next| (next, start)).collect();
    while let Some((vertex, from)) = line.pop_front() {
        if came_from.contains_key(&vertex) {
            continue;
        }
        came_from.insert(vertex, from);
        if vertex == start {
            return Some(path_to(start, &came_from));
        }
        for next in inside(vertex) {
            if graph.is_owner(vertex) {
                line.push_back((next, vertex));
            } else {
                line.push_front((next, vertex));
            }
        }
    }
    None
}

/// Returns the vertices of the cycle that was found, from `start` to the one before it.
fn path_to(start: usize, came_from: &BTreeMap<usize, usize>) -> Vec<usize> {
    let mut path = vec![came_from[&start]];
    while let Some(&last) = path.last().filter(|last| **last != start) {
        path.push(came_from[&last]);
    }
    path.reverse();
    path
}

/// Returns the number of the strongly connected component of each vertex: Tarjan's algorithm, with an explicit stack.
fn components(edges: &[Vec<usize>]) -> Vec<usize> {
    let mut search = Tarjan {
        edges,
        order: vec![None; edges.len()],
        lowest: vec![0; edges.len()],
        component_of: vec![None; edges.len()],
        open: Vec::new(),
        visited: 0,
        components: 0,
    };
    for vertex in 0..edges.len() {
        if search.order[vertex].is_none() {
            search.visit_all_from(vertex);
        }
    }
    search.component_of.into_iter().flatten().collect()
}

struct Tarjan<'g> {
    edges: &'g [Vec<usize>],
    /// When a vertex was first seen.
    order: Vec<Option<usize>>,
    /// The earliest open vertex that it is known to reach.
    lowest: Vec<usize>,
    component_of: Vec<Option<usize>>,
    /// Vertices whose component is not complete.
    open: Vec<usize>,
    visited: usize,
    components: usize,
}

impl Tarjan<'_> {
    fn visit_all_from(&mut self, root: usize) {
        // Each level of the search: a vertex, and how many of its edges are done.
        let mut levels = vec![(root, 0)];
        self.enter(root);
        while let Some((vertex, done)) = levels.last_mut() {
            let vertex = *vertex;
            if let Some(&next) = self.edges[vertex].get(*done) {
                *done += 1;
                match self.order[next] {
                    None => {
                        self.enter(next);
                        levels.push((next, 0));
                    }
                    Some(order) if self.component_of[next].is_none() => {
                        self.lowest[vertex] = self.lowest[vertex].min(order);
                    }
                    Some(_) => {}
                }
            } else {
                levels.pop();
                self.leave(vertex);
                if let Some((parent, _)) = levels.last() {
                    self.lowest[*parent] = self.lowest[*parent].min(self.lowest[vertex]);
                }
            }
        }
    }

    fn enter(&mut self, vertex: usize) {
        self.order[vertex] = Some(self.visited);
        self.lowest[vertex] = self.visited;
        self.visited += 1;
        self.open.push(vertex);
    }

    /// If the vertex reaches nothing earlier, it and all vertices opened since are a component.
    fn leave(&mut self, vertex: usize) {
        if self.order[vertex] != Some(self.lowest[vertex]) {
            return;
        }
        while let Some(member) = self.open.pop() {
            self.component_of[member] = Some(self.components);
            if member == vertex {
                break;
            }
        }
        self.components += 1;
    }
}
