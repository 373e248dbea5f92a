//! setData, setACL, and check.

use std::sync::Arc;

use herdsman_proto::{Acl, ErrorCode, Perms, Txn, path};

use super::{Prepare, next_version};
use crate::overlay::PendingData;

impl Prepare<'_> {
    pub(super) fn set_data(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
    ) -> Result<Txn, ErrorCode> {
        self.caller.check_session()?;
        check_path(path)?;
        let mut znode = self.overlay.require(self.tree, path)?;
        self.check_acl(&znode.acl, Perms::WRITE)?;
        let before = znode.data.len() as i64;
        let after = data.map_or(0, |data| data.len() as i64);
        self.tree.check_quota(path, after - before, 0)?;
        let version = next_version(znode.stat.version, version)?;
        let data = data.map(Arc::from);
        znode.stat.version = version;
        znode.stat.mtime = self.header.time_ms;
        znode.stat.mzxid = self.header.zxid;
        znode.data = PendingData::new(data.clone());
        self.overlay.put(self.tree, self.header.zxid, path, znode);
        Ok(Txn::SetData { path: path.into(), data, version, reconfig: false })
    }

    pub(super) fn set_config(&mut self, text: Result<String, ErrorCode>) -> Result<Txn, ErrorCode> {
        self.caller.check_session()?;
        let text = text?;
        let mut znode = self.overlay.require(self.tree, path::CONFIG)?;
        self.check_acl(&znode.acl, Perms::WRITE)?;
        let data = Some(Arc::from(text.into_bytes()));
        znode.stat.version = -1;
        znode.stat.mtime = self.header.time_ms;
        znode.stat.mzxid = self.header.zxid;
        znode.data = PendingData::new(data.clone());
        self.overlay.put(self.tree, self.header.zxid, path::CONFIG, znode);
        Ok(Txn::SetData { path: path::CONFIG.into(), data, version: -1, reconfig: true })
    }

    pub(super) fn set_acl(
        &mut self,
        path: &str,
        acl: &[Acl],
        version: i32,
    ) -> Result<Txn, ErrorCode> {
        self.caller.check_session()?;
        check_path(path)?;
        let acl = self.settle_acl(acl)?;
        let mut znode = self.overlay.require(self.tree, path)?;
        self.check_acl(&znode.acl, Perms::ADMIN)?;
        let version = next_version(znode.stat.aversion, version)?;
        znode.stat.aversion = version;
        znode.acl = self.tree.acls.find_or_arrange(&acl);
        self.overlay.put(self.tree, self.header.zxid, path, znode);
        Ok(Txn::SetAcl { path: path.into(), acl, version })
    }

    pub(super) fn check(&mut self, path: &str, version: i32) -> Result<Txn, ErrorCode> {
        self.caller.check_session()?;
        check_path(path)?;
        let znode = self.overlay.require(self.tree, path)?;
        self.check_acl(&znode.acl, Perms::READ)?;
        let version = next_version(znode.stat.version, version)?;
        Ok(Txn::Check { path: path.into(), version })
    }
}

fn check_path(path: &str) -> Result<(), ErrorCode> {
    if path::is_valid(path) { Ok(()) } else { Err(ErrorCode::BadArguments) }
}
