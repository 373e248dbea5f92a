//! Access checks: ids against an ACL. Apache: `ZooKeeperServer.checkACL`, `fixupACL`.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use herdsman_proto::limits::ACL_ENTRIES_MAX;
use herdsman_proto::txn::acl_len;
use herdsman_proto::{Acl, ErrorCode, Id, Perms};

use crate::acl_list::{AclList, ProvenIds};
use crate::auth::{AUTH, SUPER};
use crate::nodes::NodeId;
use crate::tree::Tree;

impl Tree {
    /// Fails unless some entry grants one of the `wanted` permissions to one of the ids.
    /// Costs some steps for each id and a little for each network in the list; the first check of a request also
    /// hashes the ids, and a long list is checked once in a request.
    pub fn check_acl(
        &self,
        acl: &AclList,
        wanted: Perms,
        ids: &ProvenIds<'_>,
    ) -> Result<(), ErrorCode> {
        let granted = |id: &Id, hash| self.options.schemes.granted(acl, id, hash);
        let allowed = self.options.skip_acl
            || acl.entries().is_empty()
            || acl.to_anyone().intersects(wanted)
            || ids.as_slice().iter().any(|id| id.scheme == SUPER)
            || ids.granted_by(acl, self.options.hash_seed, granted).intersects(wanted);
        if allowed { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// The root's ACL, which controls operations on the whole tree.
    #[must_use]
    pub fn root_acl(&self) -> &AclList {
        self.acls.get(self.nodes.get(NodeId::ROOT).acl())
    }

    /// Checks a list that a client wants to set, expands `auth` entries and removes duplicates.
    ///
    /// This comes before the permissions are checked, because clients see Apache's order of errors. So it must
    /// be cheap for a list of any length. `spelled_room` is the number of bytes to which the rest of the request may
    /// still be expanded.
    pub(crate) fn settle_acl(
        &self,
        wanted: &[Acl],
        ids: &[Id],
        spelled_room: &mut usize,
    ) -> Result<Vec<Acl>, ErrorCode> {
        if wanted.len() > ACL_ENTRIES_MAX {
            return Err(ErrorCode::InvalidAcl);
        }
        let schemes = &self.options.schemes;
        let mut seen = HashSet::with_hasher(FixedState::with_seed(self.options.hash_seed));
        let mut settled = Vec::with_capacity(wanted.len());
        for entry in wanted {
            // Most lists have one entry, and then need no allocation.
            if wanted.len() > 1 && !seen.insert(entry) {
                continue;
            }
            if entry.id.scheme == AUTH {
                let before = settled.len();
                let proven = ids.iter().filter(|id| schemes.is_authenticated(id));
                settled.extend(proven.map(|id| Acl { perms: entry.perms, id: id.clone() }));
                // A few short entries may expand to many long ones.
                if settled.len() == before || settled.len() > ACL_ENTRIES_MAX {
                    return Err(ErrorCode::InvalidAcl);
                }
                let left = spelled_room.checked_sub(acl_len(&settled[before..]));
                *spelled_room = left.ok_or(ErrorCode::BadArguments)?;
            } else if schemes.is_valid_id(&entry.id) {
                settled.push(entry.clone());
            } else {
                return Err(ErrorCode::InvalidAcl);
            }
        }
        let fits = (1..=ACL_ENTRIES_MAX).contains(&settled.len());
        if fits { Ok(settled) } else { Err(ErrorCode::InvalidAcl) }
    }
}
