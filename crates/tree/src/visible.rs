//! The part of the tree that a caller may see, for interfaces other than the client port: no session, no watches, and
//! values instead of encoded replies. The access checks are the same, see
//! [`crate::read`].
//!
//! The caller holds a read guard of the tree meanwhile, so it should be brief.

use std::borrow::Cow;

use herdsman_proto::txn::Data;
use herdsman_proto::{Acl, ErrorCode, Id, Perms, Stat};

use crate::acl_list::ProvenIds;
use crate::nodes::{NodeId, Znode};
use crate::owner::Owner;
use crate::tree::Tree;

/// The tree as it is visible to some ids.
#[derive(Clone, Copy, Debug)]
pub struct VisibleTree<'a> {
    pub(crate) tree: &'a Tree,
    ids: &'a [Id],
}

/// A znode that may be read.
#[derive(Clone, Copy, Debug)]
pub struct VisibleZnode<'a> {
    visible: VisibleTree<'a>,
    pub(crate) node: Znode<'a>,
}

impl Tree {
    /// The tree as it is visible to these ids.
    #[must_use]
    pub fn visible_to<'a>(&'a self, ids: &'a [Id]) -> VisibleTree<'a> {
        VisibleTree { tree: self, ids }
    }
}

impl<'a> VisibleTree<'a> {
    /// The length of the longest prefix of a path that is an existing znode: 0 if that is the root. Each name is
    /// looked up once.
    #[must_use]
    pub fn existing_prefix(self, path: &str) -> usize {
        let nodes = &self.tree.nodes;
        let (mut node, mut end) = (NodeId::ROOT, 0);
        for name in path.split('/').skip(1) {
            let Some(child) = nodes.child(node, name) else { break };
            (node, end) = (child, end + 1 + name.len());
        }
        end
    }

    /// The znode at a path, as in getData and exists.
    pub fn znode(self, path: &str) -> Result<VisibleZnode<'a>, ErrorCode> {
        let node = self.tree.readable_by(&ProvenIds::new(self.ids), path)?;
        Ok(VisibleZnode { visible: self, node })
    }

    /// The ACL of a znode and its stat, as in getACL: administrators need no permission to
    /// read, and only they see password hashes.
    pub fn acl(self, path: &str) -> Result<(Cow<'a, [Acl]>, Stat), ErrorCode> {
        let id = self.tree.nodes.find(path).ok_or(ErrorCode::NoNode)?;
        let node = self.tree.nodes.get(id);
        Ok((self.tree.acl_shown_to(&ProvenIds::new(self.ids), node)?, self.tree.stat(node)))
    }

    /// Whether these ids have a permission on the znode at a path, whether they may read it or not.
    pub fn check(self, path: &str, wanted: Perms) -> Result<(), ErrorCode> {
        let id = self.tree.nodes.find(path).ok_or(ErrorCode::NoNode)?;
        self.check_acl(self.tree.nodes.get(id), wanted)
    }

    fn check_acl(self, node: Znode<'a>, wanted: Perms) -> Result<(), ErrorCode> {
        self.tree.check_acl(self.tree.acls.get(node.acl()), wanted, &ProvenIds::new(self.ids))
    }

    /// The visible form of a znode, if it may be read.
    pub(crate) fn visible_znode(self, node: Znode<'a>) -> Option<VisibleZnode<'a>> {
        self.check_acl(node, Perms::READ).is_ok().then_some(VisibleZnode { visible: self, node })
    }
}

impl<'a> VisibleZnode<'a> {
    /// The last component of its path; empty for the root.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.node.name()
    }

    /// Its data.
    #[must_use]
    pub fn data(self) -> Option<&'a [u8]> {
        self.node.data()
    }

    /// Its data as an owned value. Large data is shared, not copied.
    #[must_use]
    pub fn to_data(self) -> Data {
        self.node.to_data()
    }

    /// Its stat as clients see it.
    #[must_use]
    pub fn stat(self) -> Stat {
        self.visible.tree.stat(self.node)
    }

    /// Its kind of owner. The stat for clients has only sessions.
    #[must_use]
    pub fn owner(self) -> Owner {
        self.visible.tree.options.owner_rules.owner(self.node.stat().ephemeral_owner)
    }

    /// Whether its ACL grants the permission to the ids that see it.
    #[must_use]
    pub fn allows(self, wanted: Perms) -> bool {
        self.visible.check_acl(self.node, wanted).is_ok()
    }

    /// The bytes of its data and its ACL, shared or copied.
    pub(crate) fn bytes(self) -> usize {
        self.node.data_len() + self.visible.tree.acls.get(self.node.acl()).entry_bytes()
    }

    /// Its ACL, as in getACL.
    #[must_use]
    pub fn acl(self) -> Cow<'a, [Acl]> {
        // The list is visible to every client that may read the znode.
        let ids = ProvenIds::new(self.visible.ids);
        self.visible.tree.acl_shown_to(&ids, self.node).unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use herdsman_proto::{StatPersisted, Zxid};

    use super::*;
    use crate::TreeOptions;
    use crate::nodes::NewData;

    /// A tree of znodes whose ACL is `world:anyone` with these permissions.
    pub(crate) fn tree(znodes: &[(&str, Perms)]) -> Tree {
        let mut tree = Tree::new(TreeOptions::default());
        for &(path, perms) in znodes {
            put(&mut tree, path, &[Acl::world(perms)]);
        }
        tree
    }

    pub(crate) fn put(tree: &mut Tree, path: &str, acl: &[Acl]) {
        let (parent, name) = herdsman_proto::path::split(path).unwrap();
        let parent = tree.nodes.find(parent).unwrap();
        let acl = tree.acls.acquire(acl);
        tree.last_zxid = Zxid(tree.last_zxid.0 + 1);
        let stat = StatPersisted::created(tree.last_zxid, 0, 0);
        tree.insert(parent, path, name, NewData::Bytes(path.as_bytes()), acl, stat);
    }

    #[test]
    fn permissions_are_those_of_the_acl() {
        let tree =
            tree(&[("/open", Perms(Perms::READ.0 | Perms::DELETE.0)), ("/shut", Perms::DELETE)]);
        let visible = tree.visible_to(&[]);
        let open = visible.znode("/open").unwrap();
        assert!(open.allows(Perms::DELETE) && !open.allows(Perms::ADMIN));
        assert_eq!(visible.check("/shut", Perms::DELETE), Ok(()));
        assert_eq!(visible.check("/shut", Perms::ADMIN), Err(ErrorCode::NoAuth));
        assert_eq!(visible.check("/none", Perms::ADMIN), Err(ErrorCode::NoNode));
    }

    #[test]
    fn only_readers_see_a_znode() {
        let tree = tree(&[("/open", Perms::READ), ("/shut", Perms::ADMIN)]);
        let visible = tree.visible_to(&[]);
        assert_eq!(visible.znode("/open").unwrap().data(), Some(&b"/open"[..]));
        assert_eq!(visible.znode("/shut").unwrap_err(), ErrorCode::NoAuth);
        assert_eq!(visible.znode("/none").unwrap_err(), ErrorCode::NoNode);
    }

    #[test]
    fn only_administrators_see_hashes() {
        let mut tree = tree(&[]);
        let alice = Id::new("digest", "alice:hash");
        let acl = |perms| vec![Acl::world(Perms::READ), Acl { perms, id: alice.clone() }];
        put(&mut tree, "/a", &acl(Perms::ADMIN));
        put(&mut tree, "/b", &acl(Perms::WRITE));
        put(&mut tree, "/c", &[Acl { perms: Perms::ADMIN, id: alice.clone() }]);
        let ids = [alice.clone()];
        let shown = |ids: &[Id], path| {
            tree.visible_to(ids).acl(path).map(|(acl, _)| acl.last().unwrap().id.id.clone())
        };
        assert_eq!(shown(&ids, "/a").unwrap(), "alice:hash");
        assert_eq!(shown(&ids, "/b").unwrap(), "alice:x");
        assert_eq!(shown(&[], "/a").unwrap(), "alice:x");
        assert_eq!(shown(&ids, "/c").unwrap(), "alice:hash");
        assert_eq!(shown(&[], "/c"), Err(ErrorCode::NoAuth));
    }

    #[test]
    fn the_prefix_that_exists_is_found_name_by_name() {
        let tree = tree(&[("/a", Perms(0)), ("/a/bc", Perms::ALL)]);
        let visible = tree.visible_to(&[]);
        let rows = [("", 0), ("/", 0), ("/x/y", 0), ("/a", 2), ("/a/b", 2), ("/a/bc/d/e", 5)];
        for (path, end) in rows {
            assert_eq!(visible.existing_prefix(path), end, "{path}");
        }
    }
}
