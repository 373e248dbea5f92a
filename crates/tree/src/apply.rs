//! Txn → outcome: the only way the tree changes. Apache: `DataTree.processTxn`.
//!
//! A txn may meet a tree that already shows it or even later ones, when it is replayed over a
//! snapshot that was taken while writes went on. So nothing here counts up from what it finds:
//! versions come from the txn, a parent's cversion and pzxid only ever rise, creating what exists
//! and deleting what does not exist are harmless.

use std::sync::Arc;

use herdsman_proto::txn::{CreateKind, CreateTxn, Data, Entry};
use herdsman_proto::{
    Acl, ErrorCode, EventType, SessionId, StatPersisted, Txn, TxnHeader, Zxid, path,
};

use crate::acl_list::AclList;
use crate::events::{Change, Events};
use crate::nodes::NodeId;
use crate::outcome::Outcome;
use crate::owner::{self, ttl_owner};
use crate::tree::Tree;
use crate::watches::TableKind;

impl Tree {
    /// Applies a txn. Events are appended; deliver them before any client can read the new state.
    pub fn apply(&mut self, entry: &Entry, events: &mut Events) -> Outcome {
        let outcome = self.apply_txn(&entry.header, &entry.txn, events);
        // Only after the whole multi: a snapshot named by this zxid must contain all of it.
        self.last_zxid = self.last_zxid.max(entry.header.zxid);
        self.digest_log.note(self.last_zxid, self.digest);
        outcome
    }

    /// Applies a txn without a result, while a log is replayed.
    pub fn replay(&mut self, entry: &Entry) {
        self.apply(entry, &mut Events::new());
    }

    fn apply_txn(&mut self, header: &TxnHeader, txn: &Txn, events: &mut Events) -> Outcome {
        match txn {
            Txn::Create(create) => self.apply_create(header, create, events),
            Txn::Delete { path, .. } => match self.apply_delete(path, header.zxid, events) {
                Ok(()) => Outcome::Deleted,
                Err(code) => Outcome::failed(code),
            },
            Txn::SetData { path, data, version, reconfig } => {
                let outcome = self.apply_set_data(header, path, data, *version, events);
                match outcome {
                    Outcome::DataSet(stat) if *reconfig => {
                        Outcome::Reconfigured { text: data.clone(), stat }
                    }
                    other => other,
                }
            }
            Txn::SetAcl { path, acl, version } => self.apply_set_acl(path, acl, *version),
            Txn::Check { .. } => Outcome::Checked,
            Txn::Multi(txns) => self.apply_multi(header, txns, events),
            Txn::CreateSession { timeout_ms } => {
                self.sessions.insert(header.session, *timeout_ms);
                Outcome::Session
            }
            Txn::CloseSession { ephemerals } => {
                self.apply_close_session(header, ephemerals.as_deref().unwrap_or_default(), events);
                Outcome::Session
            }
            Txn::Error(code) => Outcome::Failed(ErrorCode::from_code(*code)),
        }
    }

    fn apply_create(
        &mut self,
        header: &TxnHeader,
        txn: &CreateTxn,
        events: &mut Events,
    ) -> Outcome {
        let Some((parent_path, name)) = path::split(&txn.path) else {
            return Outcome::failed(ErrorCode::BadArguments);
        };
        let Some(parent) = self.nodes.find(parent_path) else {
            return Outcome::failed(ErrorCode::NoNode);
        };
        self.raise_parent(parent, parent_path, txn.parent_cversion, header.zxid);
        if let Some(existing) = self.nodes.child(parent, name) {
            self.touch(&txn.path);
            self.replace_acl(existing, &txn.acl);
            return Outcome::failed(ErrorCode::NodeExists);
        }
        let ephemeral_owner = owner_of(txn.kind, header.session);
        let stat = StatPersisted::created(header.zxid, header.time_ms, ephemeral_owner);
        let acl = self.acls.acquire(&txn.acl);
        let id = self.insert(parent, &txn.path, name, (&txn.data).into(), acl, stat);
        self.own(&txn.path, ephemeral_owner);
        let with_stat = !matches!(txn.kind, CreateKind::Plain { with_stat: false, .. });
        // Before the quota is counted, which may change this very znode.
        let stat = with_stat.then(|| self.stat(self.nodes.get(id)));
        self.quota_created(parent_path, name, &txn.path, data_len(&txn.data));
        self.notify_created(&txn.path, parent, id, header.zxid, events);
        Outcome::Created { path: txn.path.clone(), stat }
    }

    /// A parent's cversion and pzxid only rise: replaying an old create must not take them back.
    fn raise_parent(&mut self, parent: NodeId, parent_path: &str, cversion: i32, zxid: Zxid) {
        let current = self.nodes.get(parent).stat().cversion;
        let cversion = if cversion == -1 { current.wrapping_add(1) } else { cversion };
        // Compared as a distance, so that the counter may wrap around.
        if cversion.wrapping_sub(current) > 0 {
            self.update(parent, parent_path, |nodes| {
                nodes.change_stat(parent, |stat| {
                    stat.cversion = cversion;
                    stat.pzxid = zxid;
                });
            });
        }
    }

    fn replace_acl(&mut self, id: NodeId, acl: &[Acl]) {
        let new = self.acls.acquire(acl);
        let old = self.nodes.replace_acl(id, new);
        self.acls.release(old);
    }

    fn apply_delete(
        &mut self,
        path: &str,
        zxid: Zxid,
        events: &mut Events,
    ) -> Result<(), ErrorCode> {
        let (parent_path, name) = path::split(path).ok_or(ErrorCode::BadArguments)?;
        let parent = self.nodes.find(parent_path).ok_or(ErrorCode::NoNode)?;
        if zxid > self.nodes.get(parent).stat().pzxid {
            self.update(parent, parent_path, |nodes| {
                nodes.change_stat(parent, |stat| stat.pzxid = zxid);
            });
        }
        let id = self.nodes.child(parent, name).ok_or(ErrorCode::NoNode)?;
        self.remove_descendants(id);
        let acl = self.remove_leaf(id, path);
        self.notify_deleted(path, &acl, parent, zxid, events);
        Ok(())
    }

    /// Replayed over a later tree, a deletion may find a znode that was created again since, with children.
    /// They are younger than this txn and their own txns create them again; if they were kept, they would also
    /// keep changes of the znode before its deletion.
    fn remove_descendants(&mut self, top: NodeId) {
        let mut found = self.nodes.get(top).children().to_vec();
        let mut next = 0;
        while let Some(&id) = found.get(next) {
            found.extend_from_slice(self.nodes.get(id).children());
            next += 1;
        }
        let mut path = String::new();
        for id in found.into_iter().rev() {
            path.clear();
            self.nodes.path_into(id, &mut path);
            self.remove_leaf(id, &path);
        }
    }

    /// Removes a childless znode. Returns its ACL.
    fn remove_leaf(&mut self, id: NodeId, path: &str) -> Arc<AclList> {
        let (parent_path, name) = path::split(path).expect("a znode's path is absolute");
        self.touch(path);
        let node = self.nodes.get(id);
        let (bytes, owner, acl_key) = (node.data_len(), node.stat().ephemeral_owner, node.acl());
        self.digest.remove(node.digest());
        self.nodes.remove(id);
        self.data_size -= (path.len() + bytes) as u64;
        self.disown(path, owner);
        self.quota_deleted(parent_path, name, path, bytes);
        let acl = Arc::clone(self.acls.get(acl_key));
        self.acls.release(acl_key);
        acl
    }

    fn apply_set_data(
        &mut self,
        header: &TxnHeader,
        path: &str,
        data: &Data,
        version: i32,
        events: &mut Events,
    ) -> Outcome {
        let Some(id) = self.nodes.find(path) else {
            return Outcome::failed(ErrorCode::NoNode);
        };
        let old = self.update(id, digest_path(path), |nodes| {
            nodes.change_stat(id, |stat| {
                stat.mtime = header.time_ms;
                stat.mzxid = header.zxid;
                stat.version = version;
            });
            nodes.set_data(id, data.into())
        });
        let new = data_len(data);
        self.data_size = self.data_size - old as u64 + new as u64;
        self.quota_changed(path, new as i64 - old as i64, 0);
        self.notify(TableKind::Data, EventType::NodeDataChanged, path, id, header.zxid, events);
        Outcome::DataSet(self.stat(self.nodes.get(id)))
    }

    fn apply_set_acl(&mut self, path: &str, acl: &[Acl], version: i32) -> Outcome {
        let Some(id) = self.nodes.find(path) else {
            return Outcome::failed(ErrorCode::NoNode);
        };
        self.replace_acl(id, acl);
        self.update(id, digest_path(path), |nodes| {
            nodes.change_stat(id, |stat| stat.aversion = version);
        });
        Outcome::AclSet(self.stat(self.nodes.get(id)))
    }

    fn apply_multi(&mut self, header: &TxnHeader, txns: &[Txn], events: &mut Events) -> Outcome {
        let failure = txns.iter().position(|txn| matches!(txn, Txn::Error(_)));
        let results = match failure {
            None => txns.iter().map(|txn| self.apply_txn(header, txn, events)).collect(),
            Some(failed) => txns
                .iter()
                .enumerate()
                .map(|(i, txn)| match txn {
                    Txn::Error(code) => Outcome::Failed(ErrorCode::from_code(*code)),
                    _ if i < failed => Outcome::Failed(None),
                    _ => Outcome::failed(ErrorCode::RuntimeInconsistency),
                })
                .collect(),
        };
        Outcome::Multi(results)
    }

    /// Deletes what the txn lists, and what this tree still has of the session: logs of old servers
    /// have no list, and a replayed one may meet ephemerals that were created later.
    fn apply_close_session(
        &mut self,
        header: &TxnHeader,
        listed: &[Box<str>],
        events: &mut Events,
    ) {
        self.sessions.remove(&header.session);
        for path in listed {
            // Already removed if it is replayed over a later snapshot.
            _ = self.apply_delete(path, header.zxid, events);
        }
        let left: Vec<_> = self.ephemerals(header.session).cloned().collect();
        for path in left {
            _ = self.apply_delete(&path, header.zxid, events);
        }
        self.ephemerals.remove(&header.session);
    }

    fn notify_created(
        &self,
        path: &str,
        parent: NodeId,
        id: NodeId,
        zxid: Zxid,
        events: &mut Events,
    ) {
        self.notify(TableKind::Data, EventType::NodeCreated, path, id, zxid, events);
        self.notify_parent(path, parent, zxid, events);
    }

    fn notify_parent(&self, path: &str, parent: NodeId, zxid: Zxid, events: &mut Events) {
        let parent_path = match path::split(path) {
            Some(("", _)) | None => path::ROOT,
            Some((parent_path, _)) => parent_path,
        };
        self.notify(
            TableKind::Child,
            EventType::NodeChildrenChanged,
            parent_path,
            parent,
            zxid,
            events,
        );
    }

    /// Notifies the watchers of the data first, then those watchers of the children that were not among them.
    fn notify_deleted(
        &self,
        path: &str,
        acl: &Arc<AclList>,
        parent: NodeId,
        zxid: Zxid,
        events: &mut Events,
    ) {
        let tables = (TableKind::Data, Some(TableKind::Child));
        let change = Change { kind: EventType::NodeDeleted, path, zxid, acl };
        events.notify(&mut self.watches(), tables, change);
        self.notify_parent(path, parent, zxid, events);
    }

    fn notify(
        &self,
        table: TableKind,
        kind: EventType,
        path: &str,
        id: NodeId,
        zxid: Zxid,
        events: &mut Events,
    ) {
        let acl = self.acls.get(self.nodes.get(id).acl());
        events.notify(&mut self.watches(), (table, None), Change { kind, path, zxid, acl });
    }
}

/// The owner of the znode that a create txn creates.
pub(crate) fn owner_of(kind: CreateKind, session: SessionId) -> i64 {
    match kind {
        CreateKind::Plain { ephemeral: true, .. } => session.0,
        CreateKind::Plain { ephemeral: false, .. } => 0,
        CreateKind::Container => owner::CONTAINER,
        // A log may hold a TTL that we would have refused; then it is an ordinary znode.
        CreateKind::Ttl(ttl_ms) => ttl_owner(ttl_ms).unwrap_or(0),
    }
}

/// Bytes of data.
fn data_len(data: &Data) -> usize {
    data.as_ref().map_or(0, |data| data.len())
}

/// The root's name in the digest is the empty text.
pub(crate) fn digest_path(path: &str) -> &str {
    if path == path::ROOT { "" } else { path }
}
