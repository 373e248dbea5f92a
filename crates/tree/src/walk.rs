//! Long looks in steps, so that writes go on in between: the children of one znode, and whole subtrees.
//!
//! In: the tree as somebody may see it, at each step anew. Out: znodes, each at most once. A znode
//! that is there from the first step to the last is visited; what comes or goes meanwhile may be
//! missed. A slot that holds another znode than the one that was noted is told by its age, as in
//! [`crate::dump`].
//!
//! A walk belongs to one tree. When the server has put another one in its place, the walk must be
//! begun again: the slots mean something else then.

use herdsman_proto::{ErrorCode, Zxid, path};

use crate::nodes::{NodeId, Znode};
use crate::sight::{Sight, VisibleZnode};

/// What one step looks at before the tree is released. At least one znode is always shown.
#[derive(Clone, Copy, Debug)]
pub struct StepLimit {
    /// Znodes.
    pub znodes: usize,
    /// Bytes of names, and in a walk of paths, data and ACLs: what a visitor may look through or copy.
    pub bytes: usize,
}

/// A look at the children of one znode, in no particular order.
#[derive(Debug)]
pub struct Listing {
    total: usize,
    rest: Vec<NodeId>,
    noted: Zxid,
}

impl Listing {
    /// Notes the children of a znode that may be read.
    pub fn start(sight: Sight<'_>, path: &str) -> Result<Self, ErrorCode> {
        let rest = sight.znode(path)?.node.children().to_vec();
        Ok(Listing { total: rest.len(), rest, noted: sight.tree.last_zxid() })
    }

    /// How many children there were at the start.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Shows children by name, and the znode itself where it may be read. False when all have been
    /// shown.
    pub fn step<'a>(
        &mut self,
        sight: Sight<'a>,
        limit: StepLimit,
        show: &mut dyn FnMut(&'a str, Option<VisibleZnode<'a>>),
    ) -> bool {
        let mut bytes = 0;
        for _ in 0..limit.znodes {
            let Some(id) = self.rest.pop() else { break };
            if let Some(node) = noted(sight, id, self.noted) {
                show(node.name(), sight.see(node));
                bytes += node.name_len();
            }
            if bytes >= limit.bytes {
                break;
            }
        }
        !self.rest.is_empty()
    }
}

/// A walk of a subtree: parents before their children, children by name.
#[derive(Debug)]
pub struct Walk {
    levels: Vec<Level>,
    path: String,
}

/// Brothers and sisters that are still to be visited, the next one last.
#[derive(Debug)]
struct Level {
    rest: Vec<(Box<str>, NodeId)>,
    /// Those whose names are not known yet. None is visited before all are.
    unnamed: Vec<NodeId>,
    noted: Zxid,
    parent_path_len: usize,
    is_sorted: bool,
}

/// A znode on the way of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// Where it is.
    pub path: &'a str,
    /// What it is; `None` where it may not be read. What is below it is not visited then.
    pub znode: Option<VisibleZnode<'a>>,
}

/// Where a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// Below the znode.
    Into,
    /// Past all that is below it.
    Past,
}

/// Of a list of this length the names are looked up and put in order at once. Those of a longer one are looked up in
/// steps of this length, in which nothing is visited, and put in order by [`Walk::settle`].
const NAMES_PER_STEP: usize = 1000;

impl Walk {
    /// A walk that begins with the znode at `path`.
    pub fn start(sight: Sight<'_>, path: &str) -> Result<Self, ErrorCode> {
        let id = sight.tree.nodes.find(path).ok_or(ErrorCode::NoNode)?;
        let parent = path::split(path).map_or("", |(parent, _)| parent);
        let level = Level {
            rest: vec![(sight.tree.nodes.get(id).name().into(), id)],
            unnamed: Vec::new(),
            noted: sight.tree.last_zxid(),
            parent_path_len: parent.len(),
            is_sorted: true,
        };
        Ok(Walk { levels: vec![level], path: parent.to_owned() })
    }

    /// Puts a long list of children in order. To be called before each step, and without a guard of
    /// the tree, because it may take a while.
    pub fn settle(&mut self) {
        let is_due = |level: &&mut Level| !level.is_sorted && level.unnamed.is_empty();
        if let Some(level) = self.levels.last_mut().filter(is_due) {
            level.sort();
        }
    }

    /// Visits some znodes. False when there are no more.
    pub fn step(
        &mut self,
        sight: Sight<'_>,
        limit: StepLimit,
        visit: &mut dyn FnMut(Visit<'_>) -> Onward,
    ) -> bool {
        if let Some(level) = self.levels.last_mut().filter(|level| !level.unnamed.is_empty()) {
            level.look_up_names(sight, limit.bytes);
            return true;
        }
        self.settle();
        let mut bytes = 0;
        for _ in 0..limit.znodes {
            let Some(node) = self.next(sight) else {
                break;
            };
            let Ok(node) = node else {
                continue;
            };
            let path = if self.path.is_empty() { path::ROOT } else { self.path.as_str() };
            let znode = sight.see(node);
            let onward = visit(Visit { path, znode });
            bytes += path.len() + znode.map_or(0, VisibleZnode::bytes);
            if znode.is_some() && onward == Onward::Into && !node.children().is_empty() {
                self.descend(sight, node);
                if self.levels.last().is_some_and(|level| !level.is_sorted) {
                    return true;
                }
            }
            if bytes >= limit.bytes {
                break;
            }
        }
        self.levels.retain(|level| !level.rest.is_empty());
        !self.levels.is_empty()
    }

    /// The next znode in order; an error for one that has gone, `None` at the end.
    fn next<'a>(&mut self, sight: Sight<'a>) -> Option<Result<Znode<'a>, Gone>> {
        loop {
            let level = self.levels.last_mut()?;
            let Some((name, id)) = level.rest.pop() else {
                self.levels.pop();
                continue;
            };
            self.path.truncate(level.parent_path_len);
            // The root has no name, and its path is empty here, as in Apache's tables.
            if !name.is_empty() {
                self.path.push('/');
                self.path.push_str(&name);
            }
            return Some(noted(sight, id, level.noted).ok_or(Gone));
        }
    }

    fn descend(&mut self, sight: Sight<'_>, node: Znode<'_>) {
        let mut level = Level {
            rest: Vec::with_capacity(node.children().len()),
            unnamed: node.children().to_vec(),
            noted: sight.tree.last_zxid(),
            parent_path_len: self.path.len(),
            is_sorted: false,
        };
        if level.unnamed.len() <= NAMES_PER_STEP {
            level.look_up_names(sight, usize::MAX);
            level.sort();
        }
        self.levels.push(level);
    }
}

impl Level {
    /// Looks up some of them; those that have gone are left out.
    fn look_up_names(&mut self, sight: Sight<'_>, bytes_max: usize) {
        let mut bytes = 0;
        for _ in 0..NAMES_PER_STEP {
            let Some(id) = self.unnamed.pop() else { break };
            if let Some(node) = noted(sight, id, self.noted) {
                bytes += node.name_len();
                self.rest.push((node.name().into(), id));
            }
            if bytes >= bytes_max {
                break;
            }
        }
    }

    fn sort(&mut self) {
        self.rest.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        self.is_sorted = true;
    }
}

/// A znode went before its turn.
struct Gone;

fn noted(sight: Sight<'_>, id: NodeId, noted: Zxid) -> Option<Znode<'_>> {
    sight.tree.nodes.try_get(id).filter(|node| node.stat().czxid <= noted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sight::tests::{put, tree};
    use herdsman_proto::{Acl, Id, Perms};

    fn znodes(znodes: usize) -> StepLimit {
        StepLimit { znodes, bytes: usize::MAX }
    }

    fn walk_paths(walk: &mut Walk, sight: Sight<'_>, step: usize) -> Vec<String> {
        let mut seen = Vec::new();
        let mut note = |visit: Visit<'_>| {
            seen.push(format!("{}{}", visit.path, if visit.znode.is_some() { "" } else { "!" }));
            if visit.path == "/zookeeper" { Onward::Past } else { Onward::Into }
        };
        while walk.step(sight, znodes(step), &mut note) {}
        seen
    }

    #[test]
    fn a_walk_goes_by_name_and_stops_where_it_may_not_read() {
        let all = Perms::ALL;
        let znodes = [("/b", all), ("/a", all), ("/a/y", Perms::WRITE), ("/a/y/z", all)];
        let tree = tree(&[&znodes[..], &[("/a/x", all), ("/a/x/1", all)]].concat());
        let sight = tree.seen_by(&[]);
        for step in [1, 2, 100] {
            let mut walk = Walk::start(sight, "/").unwrap();
            let seen = walk_paths(&mut walk, sight, step);
            assert_eq!(seen, ["/", "/a", "/a/x", "/a/x/1", "/a/y!", "/b", "/zookeeper"], "{step}");
            let mut walk = Walk::start(sight, "/a/x").unwrap();
            assert_eq!(walk_paths(&mut walk, sight, step), ["/a/x", "/a/x/1"]);
        }
        assert_eq!(Walk::start(sight, "/none").unwrap_err(), ErrorCode::NoNode);
    }

    #[test]
    fn a_slot_that_was_taken_again_is_not_mistaken_for_the_old_znode() {
        let mut tree = tree(&[("/a", Perms::ALL), ("/a/x", Perms::ALL), ("/a/y", Perms::ALL)]);
        let mut walk = Walk::start(tree.seen_by(&[]), "/a").unwrap();
        let mut listing = Listing::start(tree.seen_by(&[]), "/a").unwrap();
        assert!(walk.step(tree.seen_by(&[]), znodes(2), &mut |_| Onward::Into));
        let y = tree.nodes.find("/a/y").unwrap();
        tree.nodes.remove(y);
        put(&mut tree, "/other", &[Acl::world(Perms::ALL)]);
        assert_eq!(tree.nodes.find("/other"), Some(y), "the slot is taken again");
        assert!(walk_paths(&mut walk, tree.seen_by(&[]), 9).is_empty());
        let mut names = Vec::new();
        listing.step(tree.seen_by(&[]), znodes(9), &mut |name, _| names.push(name.to_owned()));
        assert_eq!(names, ["x"]);
    }

    /// Long names, data and ACLs used to make a step, and what its visitor copies, as large as they like.
    #[test]
    fn a_step_ends_after_a_number_of_bytes() {
        let mut tree = tree(&[]);
        let long = "n".repeat(1000);
        let acl: Vec<_> = (0..20)
            .map(|n| Acl { perms: Perms::ALL, id: Id::new("auth", &format!("{n}{long}")) })
            .chain([Acl::world(Perms::ALL)])
            .collect();
        for number in 0..50 {
            put(&mut tree, &format!("/{number:05}{long}"), &acl);
        }
        let sight = tree.seen_by(&[]);
        let limit = |bytes| StepLimit { znodes: 1000, bytes };
        let mut listing = Listing::start(sight, "/").unwrap();
        let mut shown = 0;
        assert!(listing.step(sight, limit(9_500), &mut |_, _| shown += 1));
        assert!((9..=11).contains(&shown), "{shown}");
        let visits = |bytes| {
            let (mut walk, mut visits) = (Walk::start(sight, "/").unwrap(), 0);
            walk.step(sight, limit(bytes), &mut |_| {
                visits += 1;
                Onward::Into
            });
            visits
        };
        assert_eq!(visits(0), 1, "one is always visited");
        // Each has a name and data of a thousand bytes, and twenty times that in its ACL.
        assert!((5..=7).contains(&visits(110_000)), "{}", visits(110_000));
    }

    /// All names of a list used to be copied in the step that came to it, whatever its limit.
    #[test]
    fn the_names_of_a_long_list_are_looked_up_in_steps() {
        let mut tree = tree(&[("/gone", Perms::ALL)]);
        let count = 2 * NAMES_PER_STEP;
        for number in 0..count {
            put(&mut tree, &format!("/{number:05}"), &[Acl::world(Perms::ALL)]);
        }
        let mut walk = Walk::start(tree.seen_by(&[]), "/").unwrap();
        let mut seen = Vec::new();
        let mut step = |tree: &crate::Tree, limit| {
            let mut note = |visit: Visit<'_>| {
                seen.push(visit.path.to_owned());
                if visit.path == "/zookeeper" { Onward::Past } else { Onward::Into }
            };
            walk.settle();
            let more = walk.step(tree.seen_by(&[]), limit, &mut note);
            let level = walk.levels.last();
            (more, level.map_or(0, |level| level.rest.len()), seen.len())
        };
        assert_eq!(step(&tree, znodes(100)), (true, 0, 1), "the root, and the ids of its children");
        assert_eq!(step(&tree, znodes(100)), (true, NAMES_PER_STEP, 1));
        let (_, named, _) = step(&tree, StepLimit { znodes: 1000, bytes: 50 });
        let named = named - NAMES_PER_STEP;
        assert!((8..=11).contains(&named), "{named}");
        let gone = tree.nodes.find("/gone").unwrap();
        tree.nodes.remove(gone);
        while step(&tree, znodes(100)).0 {}
        assert!(seen.is_sorted());
        assert_eq!(seen.iter().filter(|path| path.len() == 6).count(), count);
    }

    #[test]
    fn long_lists_are_sorted_between_steps() {
        let mut tree = tree(&[]);
        let count = NAMES_PER_STEP + 1;
        for number in (0..count).rev() {
            put(&mut tree, &format!("/{number:05}"), &[Acl::world(Perms::ALL)]);
        }
        let sight = tree.seen_by(&[]);
        let mut walk = Walk::start(sight, "/").unwrap();
        let seen = walk_paths(&mut walk, sight, 100);
        assert!(seen.is_sorted());
        assert_eq!(seen.len(), count + 2);
        let mut listing = Listing::start(sight, "/").unwrap();
        assert_eq!(listing.total(), count + 1);
        let mut shown = 0;
        while listing
            .step(sight, znodes(100), &mut |_, znode| shown += usize::from(znode.is_some()))
        {
        }
        assert_eq!(shown, count + 1);
    }
}
