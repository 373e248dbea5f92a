//! The next children of a znode by name, as many as fit into a bound, found in steps.
//!
//! The tree keeps children in no order, so all of them are scanned, and the first names after a given one are kept.
//! The list is scanned from its end, because it changes between two steps: a new child is added at the end, and the
//! last one replaces a deleted one. So a child that was not scanned stays where it will be scanned. A child that
//! was scanned may be scanned again; it is kept once.

use super::noted;
use crate::nodes::{NodeId, Znode};
use crate::visible::VisibleTree;
use crate::walk::StepLimit;
use herdsman_proto::Zxid;

/// The memory of a name besides its bytes: its entry in the list, and the overhead of an allocation.
const NAME_EXTRA_BYTES: usize = 48;

/// A scan of the children of one znode.
#[derive(Debug)]
pub(super) struct NextNames {
    /// Children below this index were not scanned.
    unseen: usize,
    found: Vec<(Box<str>, NodeId)>,
    /// The memory of these names.
    bytes: usize,
    bytes_max: usize,
    /// The first name that did not fit; no name from here on is kept.
    end: Option<Box<str>>,
}

impl NextNames {
    /// Keeps names of this many bytes, or one name.
    pub(super) fn new(bytes_max: usize) -> Self {
        NextNames { unseen: usize::MAX, found: Vec::new(), bytes: 0, bytes_max, end: None }
    }

    /// Scans some children that existed at `age`: at least one, and no more than the budget, which is charged
    /// for them.
    pub(super) fn scan(
        &mut self,
        visible: VisibleTree<'_>,
        parent: Option<Znode<'_>>,
        age: Zxid,
        after: Option<&str>,
        budget: &mut StepLimit,
    ) {
        let children = parent.map(Znode::children).unwrap_or_default();
        self.unseen = self.unseen.min(children.len());
        while self.unseen > 0 && !self.is_full() {
            self.unseen -= 1;
            let id = children[self.unseen];
            if let Some(node) = noted(visible, id, age) {
                self.consider(node.name(), id, after);
                budget.bytes = budget.bytes.saturating_sub(node.name_len());
            }
            budget.znodes = budget.znodes.saturating_sub(1);
            if budget.znodes == 0 || budget.bytes == 0 {
                break;
            }
        }
    }

    fn consider(&mut self, name: &str, id: NodeId, after: Option<&str>) {
        let is_next = after.is_none_or(|after| name > after);
        if is_next && self.end.as_deref().is_none_or(|end| name < end) {
            self.bytes += cost(name);
            self.found.push((name.into(), id));
        }
    }

    fn is_full(&self) -> bool {
        self.bytes > self.bytes_max && self.found.len() > 1
    }

    /// Whether all children were scanned.
    pub(super) fn is_done(&self) -> bool {
        self.unseen == 0
    }

    /// Makes room for more names. Takes a while if there is none: to be called without a guard of the tree.
    pub(super) fn settle(&mut self) {
        if self.is_done() || !self.is_full() {
            return;
        }
        self.sort();
        let (mut bytes, mut count) = (0, 0);
        for (name, _) in &self.found {
            if count > 0 && bytes + cost(name) > self.bytes_max / 2 {
                break;
            }
            (bytes, count) = (bytes + cost(name), count + 1);
        }
        if let Some((end, _)) = self.found.drain(count..).next() {
            self.end = Some(end);
        }
        self.bytes = bytes;
    }

    /// The names in order, as ids, the first one last; and whether they are the last ones.
    pub(super) fn into_ids(mut self) -> (Vec<NodeId>, bool) {
        self.sort();
        (self.found.iter().rev().map(|&(_, id)| id).collect(), self.end.is_none())
    }

    fn sort(&mut self) {
        self.found.sort_unstable();
        self.found.dedup_by_key(|(_, id)| *id);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        let names: usize = self.found.iter().map(|(name, _)| name.len()).sum();
        names + self.found.capacity() * size_of::<(Box<str>, NodeId)>()
    }
}

fn cost(name: &str) -> usize {
    name.len() + NAME_EXTRA_BYTES
}
