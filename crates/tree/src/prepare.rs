//! Request → txn: every error of a request is decided here, in Apache's order, because clients
//! can see that order in the error codes. Apache: `PrepRequestProcessor.pRequest2Txn`.
//!
//! A user's mistake is a txn too (it takes a zxid and is logged). Each kind of request has a file.

mod create;
mod delete;
mod multi;
mod session;
mod set;

use herdsman_proto::limits::{SPELLED_BYTES_MAX, SPELLED_BYTES_OF_OPERATION};
use herdsman_proto::txn::Entry;
use herdsman_proto::{Acl, ErrorCode, Id, Perms, Txn, TxnHeader, WriteRequest};

use crate::acl_list::{AclList, ProvenIds};
use crate::overlay::Overlay;
use crate::tree::Tree;

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The ids of the connection.
    pub ids: &'a [Id],
    /// Why the session may not write, if it may not: it is closed, or attached to another connection.
    pub refused: Option<ErrorCode>,
    /// Why the session may not own ephemerals, if it may not: the other servers do not know it.
    pub ephemerals_refused: Option<ErrorCode>,
}

impl Caller<'_> {
    /// Fails if the session may not write.
    pub(crate) fn check_session(&self) -> Result<(), ErrorCode> {
        self.refused.map_or(Ok(()), Err)
    }

    /// Fails if the session may not own ephemerals.
    pub(crate) fn check_owner(&self) -> Result<(), ErrorCode> {
        self.check_session()?;
        self.ephemerals_refused.map_or(Ok(()), Err)
    }
}

/// A request on its way to the log.
pub type Prepared = Entry;

/// The context of a single operation.
pub(crate) struct Prepare<'a> {
    pub tree: &'a Tree,
    pub overlay: &'a mut Overlay,
    pub header: TxnHeader,
    pub caller: Caller<'a>,
    ids: ProvenIds<'a>,
    /// Bytes to which `auth` entries may still expand.
    spelled_room: usize,
}

impl<'a> Prepare<'a> {
    fn new(
        tree: &'a Tree,
        overlay: &'a mut Overlay,
        header: TxnHeader,
        caller: Caller<'a>,
    ) -> Self {
        let ids = ProvenIds::new(caller.ids);
        Prepare { tree, overlay, header, caller, ids, spelled_room: SPELLED_BYTES_MAX }
    }

    /// Checks an ACL to be set. Returns it as it will be stored.
    fn settle_acl(&mut self, wanted: &[Acl]) -> Result<Vec<Acl>, ErrorCode> {
        self.spelled_room = self.spelled_room.saturating_add(SPELLED_BYTES_OF_OPERATION);
        self.tree.settle_acl(wanted, self.caller.ids, &mut self.spelled_room)
    }

    /// Fails if the caller does not have these permissions in an ACL.
    fn check_acl(&self, acl: &AclList, wanted: Perms) -> Result<(), ErrorCode> {
        self.tree.check_acl(acl, wanted, &self.ids)
    }
}

impl Overlay {
    /// Turns a request into a txn, and keeps its changes until they are applied.
    pub fn prepare(
        &mut self,
        tree: &Tree,
        header: TxnHeader,
        caller: Caller<'_>,
        request: &WriteRequest<'_>,
    ) -> Prepared {
        let mut prepare = Prepare::new(tree, self, header, caller);
        let result = match request {
            WriteRequest::Multi(writes) => prepare.multi(writes),
            single => prepare.single(single),
        };
        self.settle(tree, header, result)
    }

    /// Prepares the error txn for a request that could not be decoded.
    pub fn prepare_error(&mut self, tree: &Tree, header: TxnHeader, code: ErrorCode) -> Prepared {
        self.settle(tree, header, Err(code))
    }

    /// Prepares a change of the membership to `text`, which the caller has checked, or the reason why
    /// it is not possible.
    pub fn prepare_reconfig(
        &mut self,
        tree: &Tree,
        header: TxnHeader,
        caller: Caller<'_>,
        text: Result<String, ErrorCode>,
    ) -> Prepared {
        let mut prepare = Prepare::new(tree, self, header, caller);
        let result = prepare.set_config(text);
        self.settle(tree, header, result)
    }

    /// Returns the txn, or an error txn.
    fn settle(&self, tree: &Tree, header: TxnHeader, result: Result<Txn, ErrorCode>) -> Prepared {
        match result {
            Ok(txn) => Entry { header, txn, digest: self.txn_digest(tree) },
            Err(code) => Entry { header, txn: Txn::error(code), digest: None },
        }
    }
}

impl Prepare<'_> {
    /// A single operation, alone or inside a multi.
    fn single(&mut self, request: &WriteRequest<'_>) -> Result<Txn, ErrorCode> {
        match request {
            WriteRequest::Create(create) => self.create(create),
            WriteRequest::Delete { path, version } => self.delete(path, *version),
            WriteRequest::SetData { path, data, version } => self.set_data(path, *data, *version),
            WriteRequest::SetAcl { path, acl, version } => self.set_acl(path, acl, *version),
            WriteRequest::Check { path, version } => self.check(path, *version),
            WriteRequest::Reconfig(_) => self.reconfig(),
            WriteRequest::Multi(_) => Err(ErrorCode::MarshallingError),
        }
    }

    /// A standalone server has no members to change.
    fn reconfig(&self) -> Result<Txn, ErrorCode> {
        if !self.tree.options.reconfig_enabled {
            return Err(ErrorCode::ReconfigDisabled);
        }
        self.caller.check_session()?;
        Err(ErrorCode::Unimplemented)
    }
}

/// The version after `current`, if `expected` allows it; -1 allows any.
pub(crate) fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected == -1 || expected == current {
        Ok(current.wrapping_add(1))
    } else {
        Err(ErrorCode::BadVersion)
    }
}
