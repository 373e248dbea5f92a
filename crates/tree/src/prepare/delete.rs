//! delete, and the deleteContainer of a sweep.

use herdsman_proto::{ErrorCode, Perms, Txn, TxnHeader, path};

use super::{Caller, Prepare, Prepared, next_version};
use crate::overlay::{Overlay, PendingZnode};
use crate::sweep::SweepTime;
use crate::tree::Tree;

impl Overlay {
    /// Prepares the deletion of an idle container or TTL znode that a sweep found; it may have been used since.
    pub fn prepare_sweep(
        &mut self,
        tree: &Tree,
        header: TxnHeader,
        path: &str,
        never_used_ms_max: Option<i64>,
    ) -> Prepared {
        let time = SweepTime { now_ms: header.time_ms, never_used_ms_max };
        let caller = Caller { ids: &[], refused: None, ephemerals_refused: None };
        let mut prepare = Prepare::new(tree, self, header, caller);
        let result = prepare.delete_container(path, time);
        self.settle(tree, header, result)
    }
}

impl Prepare<'_> {
    pub(super) fn delete(&mut self, path: &str, version: i32) -> Result<Txn, ErrorCode> {
        self.caller.check_session()?;
        let parent_path = parent_of_deletable(path)?;
        let parent = self.overlay.require(self.tree, parent_path)?;
        self.check_acl(&parent.acl, Perms::DELETE)?;
        let znode = self.overlay.require(self.tree, path)?;
        next_version(znode.stat.version, version)?;
        if znode.children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        self.record_delete(path, parent_path, parent);
        Ok(Txn::Delete { path: path.into(), container: false })
    }

    fn delete_container(&mut self, path: &str, time: SweepTime) -> Result<Txn, ErrorCode> {
        let parent_path = parent_of_deletable(path)?;
        let znode = self.overlay.require(self.tree, path)?;
        if znode.children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        let owner = self.tree.options.owner_rules.owner(znode.stat.ephemeral_owner);
        if !time.has_come(owner, &znode.stat) {
            return Err(ErrorCode::BadVersion);
        }
        let parent = self.overlay.require(self.tree, parent_path)?;
        self.record_delete(path, parent_path, parent);
        Ok(Txn::Delete { path: path.into(), container: true })
    }

    fn record_delete(&mut self, path: &str, parent_path: &str, mut parent: PendingZnode) {
        let zxid = self.header.zxid;
        parent.children -= 1;
        parent.stat.pzxid = zxid;
        self.overlay.put(self.tree, zxid, parent_path, parent);
        self.overlay.delete(self.tree, zxid, path);
    }
}

fn parent_of_deletable(path: &str) -> Result<&str, ErrorCode> {
    match path::split(path) {
        Some((parent, _)) if !path.contains('\0') && !path::is_special(path) => Ok(parent),
        _ => Err(ErrorCode::BadArguments),
    }
}
