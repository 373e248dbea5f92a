//! Who may do what: ids against an ACL. Apache: `ZooKeeperServer.checkACL`, `fixupACL`.

use herdsman_proto::{Acl, ErrorCode, Id, Perms};

use crate::auth::{AUTH, SUPER};
use crate::nodes::NodeId;
use crate::tree::Tree;

impl Tree {
    /// Refuses unless some entry grants one of the `wanted` permissions to one of the ids.
    pub fn check_acl(&self, acl: &[Acl], wanted: Perms, ids: &[Id]) -> Result<(), ErrorCode> {
        let allowed = self.options.skip_acl
            || acl.is_empty()
            || ids.iter().any(|id| id.scheme == SUPER)
            || acl
                .iter()
                .any(|entry| entry.perms.intersects(wanted) && self.is_meant(&entry.id, ids));
        if allowed { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// The root's ACL, by which the right to everything at once is judged.
    #[must_use]
    pub fn root_acl(&self) -> &[Acl] {
        self.acls.get(self.nodes.get(NodeId::ROOT).acl())
    }

    fn is_meant(&self, wanted: &Id, ids: &[Id]) -> bool {
        is_anyone(wanted) || ids.iter().any(|id| self.options.schemes.matches(id, wanted))
    }

    /// Checks a list that a client wants to set, and spells out `auth` entries. Duplicates go.
    pub(crate) fn settle_acl(&self, wanted: &[Acl], ids: &[Id]) -> Result<Vec<Acl>, ErrorCode> {
        let schemes = &self.options.schemes;
        let mut settled = Vec::with_capacity(wanted.len());
        for (i, entry) in wanted.iter().enumerate() {
            if wanted[..i].contains(entry) {
                continue;
            }
            if entry.id.scheme == AUTH {
                let before = settled.len();
                let proven = ids.iter().filter(|id| schemes.is_authenticated(id));
                settled.extend(proven.map(|id| Acl { perms: entry.perms, id: id.clone() }));
                if settled.len() == before {
                    return Err(ErrorCode::InvalidAcl);
                }
            } else if schemes.is_valid_id(&entry.id) {
                settled.push(entry.clone());
            } else {
                return Err(ErrorCode::InvalidAcl);
            }
        }
        if settled.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(settled) }
    }
}

fn is_anyone(id: &Id) -> bool {
    id.scheme == crate::auth::WORLD && id.id == "anyone"
}
