//! The network's view of the link to the leader: which link is current, and the tree that was received on it.
//!
//! In: outputs of the protocol core, and trees from the threads that read links. Invariant: a tree is stored only for
//! the current link, and not once this server is up to date: one that arrives after its link was given up is dropped.

use herdsman_proto::txn::Entry;
use herdsman_tree::Tree;
use herdsman_zab::LinkId;

use crate::core::drop_on_thread;

/// The link to the leader, or the attempt to connect.
#[derive(Default)]
pub(super) struct LeaderLink {
    link: Option<LinkId>,
    /// Whether this server has caught up over it.
    is_active: bool,
    /// The tree after SNAP that is not in use yet.
    tree: Option<Tree>,
}

impl LeaderLink {
    /// An attempt to connect replaces the previous link.
    pub fn begin(&mut self, link: LinkId) {
        self.end();
        self.link = Some(link);
    }

    /// Forgets the link: there is no leader.
    pub fn end(&mut self) {
        self.drop_tree();
        (self.link, self.is_active) = (None, false);
    }

    /// Records that this server is up to date.
    pub fn activate(&mut self, link: LinkId) {
        self.is_active = self.is_current(link);
        self.drop_tree();
    }

    /// Whether this is the current link, or the current attempt.
    pub fn is_current(&self, link: LinkId) -> bool {
        self.link == Some(link)
    }

    /// Whether this server is up to date over this link.
    pub fn is_active(&self, link: LinkId) -> bool {
        self.is_active && self.is_current(link)
    }

    /// Stores a tree until it is taken into use.
    pub fn keep_tree(&mut self, link: LinkId, tree: Tree) {
        if self.is_current(link) {
            self.drop_tree();
            self.tree = Some(tree);
        } else {
            drop_on_thread(tree);
        }
    }

    pub fn take_tree(&mut self, link: LinkId) -> Option<Tree> {
        self.tree.take_if(|_| self.link == Some(link))
    }

    /// Applies a txn to the tree.
    pub fn replay(&mut self, link: LinkId, payload: &[u8]) {
        if self.link == Some(link)
            && let Some(tree) = &mut self.tree
        {
            tree.replay(&Entry::decode(payload).expect("was decoded when it was received"));
        }
    }

    fn drop_tree(&mut self) {
        if let Some(tree) = self.tree.take() {
            drop_on_thread(tree);
        }
    }
}

#[cfg(test)]
mod tests {
    use herdsman_tree::TreeOptions;

    use super::*;

    fn tree() -> Tree {
        Tree::new(TreeOptions::default())
    }

    /// A tree that came just after its link was given up used to stay in memory until the next one came.
    #[test]
    fn a_tree_is_kept_only_for_the_link_that_counts() {
        let (old, new) = (LinkId(1), LinkId(2));
        let mut leader_link = LeaderLink::default();
        leader_link.begin(old);
        leader_link.keep_tree(old, tree());
        leader_link.end();
        leader_link.keep_tree(old, tree());
        assert!(leader_link.tree.is_none(), "there is no leader");
        leader_link.begin(new);
        leader_link.keep_tree(old, tree());
        assert!(leader_link.tree.is_none(), "there is another leader");
        leader_link.keep_tree(new, tree());
        assert!(leader_link.take_tree(old).is_none());
        assert!(leader_link.take_tree(new).is_some());
        leader_link.keep_tree(new, tree());
        leader_link.activate(new);
        assert!(leader_link.tree.is_none(), "it is up to date");
    }

    #[test]
    fn only_the_link_that_counts_is_active() {
        let (old, new) = (LinkId(1), LinkId(2));
        let mut leader_link = LeaderLink::default();
        leader_link.begin(old);
        assert!(!leader_link.is_active(old));
        leader_link.activate(old);
        assert!(leader_link.is_active(old));
        leader_link.begin(new);
        assert!(!leader_link.is_active(old) && !leader_link.is_active(new));
        leader_link.activate(new);
        leader_link.end();
        assert!(!leader_link.is_active(new));
    }
}
