//! Long reads in steps, so that writes can happen in between: the children of one znode, and whole subtrees.
//!
//! In: the visible tree, again at each step. Out: znodes, each at most once. A znode
//! that exists from the first step to the last is visited; one that is created or deleted meanwhile may be
//! missed. A slot that holds another znode than the recorded one is detected by its age, as in
//! [`crate::dump`].
//!
//! A walk between two steps keeps little, however wide and deep the tree is (`KEPT_BYTES_MAX`): of a long list
//! of children the next ones, as ids, and of a deep path the last lists. The rest is looked up again when its turn
//! comes, by the name after which it continues. So a znode whose children's names are many times the bound is
//! scanned as many times.
//!
//! A walk belongs to one tree. If the server has replaced it, the walk must be
//! started again: the slots have other znodes then.

mod next_names;

use std::collections::VecDeque;

use herdsman_proto::{ErrorCode, Zxid, path};

use self::next_names::NextNames;
use crate::nodes::{NodeId, Znode};
use crate::visible::{VisibleTree, VisibleZnode};

/// The limit of one step, after which the tree is released. At least one znode is always visited.
#[derive(Clone, Copy, Debug)]
pub struct StepLimit {
    /// Znodes.
    pub znodes: usize,
    /// Bytes of names, and in a walk of paths, data and ACLs: what a visitor may read or copy.
    pub bytes: usize,
}

impl StepLimit {
    /// Takes one znode with this many bytes from what is left.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.znodes = self.znodes.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether nothing is left.
    pub(crate) fn is_reached(self) -> bool {
        self.znodes == 0 || self.bytes == 0
    }
}

/// Lists the children of one znode, in no particular order.
#[derive(Debug)]
pub struct ChildListing {
    total: usize,
    rest: Vec<NodeId>,
    noted: Zxid,
}

impl ChildListing {
    /// Starts a list of the children of a znode that may be read.
    pub fn start(visible: VisibleTree<'_>, path: &str) -> Result<Self, ErrorCode> {
        let rest = visible.znode(path)?.node.children().to_vec();
        Ok(ChildListing { total: rest.len(), rest, noted: visible.tree.last_zxid() })
    }

    /// The number of children at the start.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Visits children: their names, and the znodes if they may be read. Returns false when all were
    /// visited.
    pub fn step<'a>(
        &mut self,
        visible: VisibleTree<'a>,
        limit: StepLimit,
        show: &mut dyn FnMut(&'a str, Option<VisibleZnode<'a>>),
    ) -> bool {
        let mut bytes = 0;
        for _ in 0..limit.znodes {
            let Some(id) = self.rest.pop() else { break };
            if let Some(node) = noted(visible, id, self.noted) {
                show(node.name(), visible.visible_znode(node));
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
pub struct TreeWalk {
    levels: VecDeque<Level>,
    /// The names of the last level, while they are being looked up. Nothing is visited meanwhile.
    names: Option<NextNames>,
    /// The znode that was visited last. It also shows which children of its ancestors were visited.
    path: String,
    /// Length of the path of the znode whose list of children was dropped last. Those of its ancestors are dropped,
    /// too.
    dropped: Option<usize>,
    /// Length of the path of the znode with which the walk begins.
    top_path_len: usize,
    noted: Zxid,
    bytes_max: usize,
}

/// Siblings that are still to be visited.
#[derive(Debug)]
struct Level {
    parent: NodeId,
    parent_path_len: usize,
    /// The next ones by name, the very next one last.
    rest: Vec<NodeId>,
    /// These are the last ones.
    is_complete: bool,
    noted: Zxid,
}

/// A znode that a walk visits.
#[derive(Clone, Copy, Debug)]
pub struct VisitedZnode<'a> {
    /// Its path.
    pub path: &'a str,
    /// The znode; `None` if it may not be read. Then its descendants are not visited.
    pub znode: Option<VisibleZnode<'a>>,
}

/// What a walk does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkAction {
    /// Visit the descendants of the znode.
    Descend,
    /// Skip its descendants.
    SkipSubtree,
}

/// Names that one step looks up. A list that is longer than the rest of this budget is looked up in separate steps, in
/// which nothing is visited, and put in order by [`TreeWalk::settle`].
const NAMES_PER_STEP: usize = 1000;

/// The bytes that a walk keeps between two steps: this many for lists of ids, and this many for names. Its
/// path is extra.
const KEPT_BYTES_MAX: usize = 1 << 20;

impl TreeWalk {
    /// Starts a walk with the znode at `path`.
    pub fn start(visible: VisibleTree<'_>, path: &str) -> Result<Self, ErrorCode> {
        let id = visible.tree.nodes.find(path).ok_or(ErrorCode::NoNode)?;
        let (parent, name) = path::split(path).unwrap_or_default();
        let noted = visible.tree.last_zxid();
        let level = Level {
            parent: NodeId::ROOT,
            parent_path_len: parent.len(),
            rest: vec![id],
            is_complete: true,
            noted,
        };
        Ok(TreeWalk {
            levels: VecDeque::from([level]),
            names: None,
            path: parent.to_owned(),
            dropped: None,
            top_path_len: if name.is_empty() { 0 } else { path.len() },
            noted,
            bytes_max: KEPT_BYTES_MAX,
        })
    }

    /// Sorts names. To be called before each step, and without a guard of the tree, because it may take a
    /// while.
    pub fn settle(&mut self) {
        if let Some(names) = &mut self.names {
            names.settle();
        }
        let done = self.names.take_if(|names| names.is_done());
        if let (Some(done), Some(level)) = (done, self.levels.back_mut()) {
            (level.rest, level.is_complete) = done.into_ids();
        }
    }

    /// Visits some znodes. Returns false when there are no more.
    pub fn step(
        &mut self,
        visible: VisibleTree<'_>,
        limit: StepLimit,
        visit: &mut dyn FnMut(VisitedZnode<'_>) -> WalkAction,
    ) -> bool {
        self.settle();
        let mut names = StepLimit { znodes: NAMES_PER_STEP, bytes: limit.bytes };
        if self.names.is_some() {
            self.look_up_names(visible, &mut names);
            return true;
        }
        for _ in 0..limit.znodes {
            let Some(next) = self.next(visible) else { break };
            let Ok((id, node)) = next else { continue };
            let path = if self.path.is_empty() { path::ROOT } else { self.path.as_str() };
            let znode = visible.visible_znode(node);
            let onward = visit(VisitedZnode { path, znode });
            let bytes = path.len() + znode.map_or(0, VisibleZnode::bytes);
            names.bytes = names.bytes.saturating_sub(bytes);
            if znode.is_some() && onward == WalkAction::Descend && !node.children().is_empty() {
                self.descend(visible, id, node, &mut names);
            }
            if self.names.is_some() || names.bytes == 0 {
                break;
            }
        }
        self.levels.retain(|level| !level.rest.is_empty() || !level.is_complete);
        self.drop_upper_lists();
        !self.levels.is_empty() || self.dropped.is_some()
    }

    /// The next znode in order; an error for a deleted one; `None` at the end, or where names must be looked up
    /// first.
    fn next<'a>(
        &mut self,
        visible: VisibleTree<'a>,
    ) -> Option<Result<(NodeId, Znode<'a>), Deleted>> {
        loop {
            let Some(level) = self.levels.back_mut() else {
                self.recall_dropped(visible);
                return None;
            };
            let Some(id) = level.rest.pop() else {
                if !level.is_complete {
                    self.names = Some(NextNames::new(self.bytes_max));
                    return None;
                }
                self.levels.pop_back();
                continue;
            };
            let Some(node) = noted(visible, id, level.noted) else { return Some(Err(Deleted)) };
            self.path.truncate(level.parent_path_len);
            // The root has no name, and its path is empty here, as in Apache's tables.
            if !node.name().is_empty() {
                self.path.push('/');
                self.path.push_str(node.name());
            }
            return Some(Ok((id, node)));
        }
    }

    /// Continues with the children of a znode, now if the budget is enough to look up their names.
    fn descend(
        &mut self,
        visible: VisibleTree<'_>,
        parent: NodeId,
        node: Znode<'_>,
        budget: &mut StepLimit,
    ) {
        self.push_level(parent, self.path.len(), visible.tree.last_zxid());
        if node.children().len() <= budget.znodes && budget.bytes > 0 {
            self.look_up_names(visible, budget);
            self.settle();
        }
    }

    fn push_level(&mut self, parent: NodeId, parent_path_len: usize, noted: Zxid) {
        let rest = Vec::new();
        self.levels.push_back(Level { parent, parent_path_len, rest, is_complete: false, noted });
        self.names = Some(NextNames::new(self.bytes_max));
    }

    /// Looks up names of children of the last level.
    fn look_up_names(&mut self, visible: VisibleTree<'_>, budget: &mut StepLimit) {
        if let (Some(names), Some(level)) = (&mut self.names, self.levels.back()) {
            let after = self.path.get(level.parent_path_len + 1..);
            let after = after.and_then(|below| below.split('/').next());
            let parent = noted(visible, level.parent, level.noted);
            names.scan(visible, parent, level.noted, after, budget);
        }
    }

    /// Drops the lists that are needed last, if all together are too large.
    fn drop_upper_lists(&mut self) {
        let mut bytes: usize = self.levels.iter().map(Level::bytes).sum();
        while bytes > self.bytes_max && self.levels.len() > 1 {
            let Some(upper) = self.levels.pop_front() else { break };
            bytes -= upper.bytes();
            self.dropped = Some(upper.parent_path_len);
        }
    }

    /// Starts again with the last list that was dropped, after the name at which the walk left it. Znodes created
    /// after the start of the walk are left out.
    fn recall_dropped(&mut self, visible: VisibleTree<'_>) {
        let Some(len) = self.dropped.take() else { return };
        let path = &self.path[..len];
        if len > self.top_path_len {
            self.dropped = path::split(path).map(|(above, _)| above.len());
        }
        if let Some(parent) = visible.tree.nodes.find(path) {
            self.push_level(parent, len, self.noted);
        }
    }
}

impl Level {
    /// Its memory, spare capacity included.
    fn bytes(&self) -> usize {
        2 * size_of::<Level>() + self.rest.capacity() * size_of::<NodeId>()
    }
}

/// The znode was deleted before it was visited.
struct Deleted;

fn noted(visible: VisibleTree<'_>, id: NodeId, noted: Zxid) -> Option<Znode<'_>> {
    visible.tree.nodes.try_get(id).filter(|node| node.stat().czxid <= noted)
}

#[cfg(test)]
mod tests;
