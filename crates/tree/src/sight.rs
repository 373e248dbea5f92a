//! The tree as somebody may see it, for doors other than the client port: no session, no watches, and
//! values instead of encoded replies. What is shown and what is refused is the same, see
//! [`crate::read`].
//!
//! The caller holds a read guard of the tree for as long as it looks, so it should look briefly.

use std::borrow::Cow;

use herdsman_proto::txn::Data;
use herdsman_proto::{Acl, ErrorCode, Id, Perms, Stat};

use crate::acl_list::ProvenIds;
use crate::nodes::Znode;
use crate::owner::Owner;
use crate::tree::Tree;

/// The tree as these ids may see it.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    pub(crate) tree: &'a Tree,
    ids: &'a [Id],
}

/// A znode that may be read.
#[derive(Clone, Copy, Debug)]
pub struct VisibleZnode<'a> {
    sight: Sight<'a>,
    pub(crate) node: Znode<'a>,
}

impl Tree {
    /// What these ids may see.
    #[must_use]
    pub fn seen_by<'a>(&'a self, ids: &'a [Id]) -> Sight<'a> {
        Sight { tree: self, ids }
    }
}

impl<'a> Sight<'a> {
    /// The znode at a path, as getData and exists would show it.
    pub fn znode(self, path: &str) -> Result<VisibleZnode<'a>, ErrorCode> {
        let node = self.tree.readable_by(&ProvenIds::new(self.ids), path)?;
        Ok(VisibleZnode { sight: self, node })
    }

    /// The ACL of a znode and its stat, as getACL would show them: administrators need no right to
    /// read, and who is none sees no hashes of passwords.
    pub fn acl(self, path: &str) -> Result<(Cow<'a, [Acl]>, Stat), ErrorCode> {
        let id = self.tree.nodes.find(path).ok_or(ErrorCode::NoNode)?;
        let node = self.tree.nodes.get(id);
        Ok((self.tree.acl_shown_to(&ProvenIds::new(self.ids), node)?, self.tree.stat(node)))
    }

    /// The same znode, if it may be read.
    pub(crate) fn see(self, node: Znode<'a>) -> Option<VisibleZnode<'a>> {
        let acl = self.tree.acls.get(node.acl());
        let may_read = self.tree.check_acl(acl, Perms::READ, &ProvenIds::new(self.ids)).is_ok();
        may_read.then_some(VisibleZnode { sight: self, node })
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

    /// Its data, to be taken along when the tree is let go. Large data is shared, not copied.
    #[must_use]
    pub fn to_data(self) -> Data {
        self.node.to_data()
    }

    /// Its stat as clients see it.
    #[must_use]
    pub fn stat(self) -> Stat {
        self.sight.tree.stat(self.node)
    }

    /// How its life ends. Clients are told of sessions only.
    #[must_use]
    pub fn owner(self) -> Owner {
        self.sight.tree.options.owner_rules.owner(self.node.stat().ephemeral_owner)
    }

    /// Its ACL as getACL would show it.
    #[must_use]
    pub fn acl(self) -> Cow<'a, [Acl]> {
        // Who may read may see the list.
        let ids = ProvenIds::new(self.sight.ids);
        self.sight.tree.acl_shown_to(&ids, self.node).unwrap_or_default()
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
    fn only_readers_see_a_znode() {
        let tree = tree(&[("/open", Perms::READ), ("/shut", Perms::ADMIN)]);
        let sight = tree.seen_by(&[]);
        assert_eq!(sight.znode("/open").unwrap().data(), Some(&b"/open"[..]));
        assert_eq!(sight.znode("/shut").unwrap_err(), ErrorCode::NoAuth);
        assert_eq!(sight.znode("/none").unwrap_err(), ErrorCode::NoNode);
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
            tree.seen_by(ids).acl(path).map(|(acl, _)| acl.last().unwrap().id.id.clone())
        };
        assert_eq!(shown(&ids, "/a").unwrap(), "alice:hash");
        assert_eq!(shown(&ids, "/b").unwrap(), "alice:x");
        assert_eq!(shown(&[], "/a").unwrap(), "alice:x");
        assert_eq!(shown(&ids, "/c").unwrap(), "alice:hash");
        assert_eq!(shown(&[], "/c"), Err(ErrorCode::NoAuth));
    }
}
