//! create, create2, createContainer, createTTL. Apache: `pRequest2TxnCreate`.

use std::sync::Arc;

use herdsman_proto::request::{CreateMode, CreateRequest, Lifetime};
use herdsman_proto::txn::{CreateKind, CreateTxn};
use herdsman_proto::{ErrorCode, OpCode, Perms, StatPersisted, Txn, path};

use super::Prepare;
use crate::apply::owner_of;
use crate::overlay::PendingZnode;
use crate::owner::{Owner, ttl_owner};

impl Prepare<'_> {
    pub(super) fn create(&mut self, request: &CreateRequest<'_>) -> Result<Txn, ErrorCode> {
        let mode = CreateMode::from_flags(request.flags).ok_or(ErrorCode::BadArguments)?;
        let kind = self.create_kind(request, mode)?;
        match kind {
            CreateKind::Plain { ephemeral: true, .. } => self.caller.check_owner()?,
            _ => self.caller.check_session()?,
        }
        let (parent_path, _) = path::split(&request.path)
            .filter(|_| !request.path.contains('\0'))
            .ok_or(ErrorCode::BadArguments)?;
        let acl = self.settle_acl(&request.acl)?;
        let mut parent = self.overlay.require(self.tree, parent_path)?;
        self.check_acl(&parent.acl, Perms::CREATE)?;
        let full_path = full_path(&request.path, mode, parent.stat.cversion);
        if !path::is_valid(&full_path) {
            return Err(ErrorCode::BadArguments);
        }
        if self.overlay.get(self.tree, &full_path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        let rules = self.tree.options.owner_rules;
        if matches!(rules.owner(parent.stat.ephemeral_owner), Owner::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let bytes = request.data.map_or(0, |data| data.len() as i64);
        self.tree.check_quota(&full_path, bytes, 1)?;

        let zxid = self.header.zxid;
        parent.children += 1;
        parent.stat.cversion = parent.stat.cversion.wrapping_add(1);
        parent.stat.pzxid = zxid;
        let parent_cversion = parent.stat.cversion;
        let data = request.data.map(Arc::from);
        let owner = owner_of(kind, self.header.session);
        let stat = StatPersisted::created(zxid, self.header.time_ms, owner);
        let znode = PendingZnode::new(stat, self.tree.acls.find_or_arrange(&acl), data.clone());
        self.overlay.put(self.tree, zxid, parent_path, parent);
        self.overlay.put(self.tree, zxid, &full_path, znode);
        Ok(Txn::Create(CreateTxn { kind, path: full_path, data, acl, parent_cversion }))
    }

    /// The op decides the kind of txn, the flags decide ephemeral and sequential.
    fn create_kind(
        &self,
        request: &CreateRequest<'_>,
        mode: CreateMode,
    ) -> Result<CreateKind, ErrorCode> {
        let is_ttl = mode.lifetime == Lifetime::Ttl;
        if is_ttl && !self.tree.options.owner_rules.extended_types {
            return Err(ErrorCode::Unimplemented);
        }
        let ttl_ms = request.ttl_ms.unwrap_or(-1);
        let ttl_fits = if is_ttl { ttl_owner(ttl_ms).is_some() } else { ttl_ms < 0 };
        if !ttl_fits {
            return Err(ErrorCode::BadArguments);
        }
        let ephemeral = mode.lifetime == Lifetime::Ephemeral;
        match request.op {
            OpCode::CreateContainer => Ok(CreateKind::Container),
            OpCode::CreateTtl if is_ttl => Ok(CreateKind::Ttl(ttl_ms)),
            // Apache would log a txn here that no server can apply.
            OpCode::CreateTtl => Err(ErrorCode::BadArguments),
            op => Ok(CreateKind::Plain { ephemeral, with_stat: op == OpCode::Create2 }),
        }
    }
}

fn full_path(path: &str, mode: CreateMode, parent_cversion: i32) -> Box<str> {
    if mode.sequential { format!("{path}{parent_cversion:010}").into() } else { path.into() }
}
