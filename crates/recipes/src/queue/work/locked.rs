//! An item that is locked by this consumer: the lock, and the ways in which it ends.
//!
//! Layout: `<locks>/<item's name>`, ephemeral; Curator's `DistributedQueue` with a lock path. Curator deletes item
//! and lock one after the other; here both are deleted in one transaction, which is rejected if the lock is no longer
//! ours. So a consumer that has lost its session cannot remove an item that another one is working on.
//!
//! The next consumer's lock has the same path. The two are distinguished by the version of the item: it is written in
//! the transaction that locks it, and everything that a consumer does to the item depends on the version after that
//! write.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{ErrorKind, Lifetime, Node, Op};
use uuid::Uuid;

use super::core::Core;
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::owned_node::Incarnation;
use crate::queue::ensure;
use crate::queue::names::{ITEM, without_number};
use crate::retrying::{is_overtaken, reply_lost};
use crate::tagged_node::{CREATES_NODE, GuardedCreation};

/// A locked item. Dropping it unlocks the item, which keeps its place.
#[derive(Debug)]
pub(super) struct Locked {
    core: Arc<Core>,
    pub(super) hold: Hold,
    name: String,
    /// The current data of the node.
    data: Bytes,
    /// The version of the item since it was locked.
    version: i32,
}

impl Locked {
    /// Locks an item and writes `data` to it, if it is unchanged since it was read and no other consumer is working
    /// on it.
    pub(super) async fn lock(
        core: &Arc<Core>,
        name: &str,
        item: &Node,
        data: Bytes,
    ) -> Result<Option<Self>> {
        let client = &core.store.client;
        let session = client.connected_session().await?;
        let client = client.bound_to(&session);
        let item_path = core.store.child(name);
        let version = item.stat.version.wrapping_add(1);
        let creation = GuardedCreation {
            client: client.clone(),
            session,
            lost_when: core.lost_when,
            path: core.lock_of(name),
            // Consumers of one session must be distinguished, too.
            tag: Uuid::new_v4().to_string().into(),
            guard_write: Op::set(&item_path, data.clone()).version(item.stat.version),
            incarnation: Incarnation {
                guard: item_path,
                version: Arc::new(version.into()),
                marker: None,
                last_data: None,
                may_be_bypassed: false,
            },
        };
        loop {
            let error = match creation.run(&client).await {
                Ok(hold) => {
                    let (core, name) = (core.clone(), name.to_owned());
                    return Ok(Some(Locked { core, hold, name, data, version }));
                }
                Err(error) => error,
            };
            match (error.failed_op(), error.kind()) {
                (Some(CREATES_NODE), ErrorKind::NoNode) => {
                    ensure(&client, &core.locks, Lifetime::Persistent).await?;
                }
                (Some(_), _) if is_overtaken(&error) => return Ok(None),
                _ => return Err(error.into()),
            }
        }
    }

    pub(super) fn path(&self) -> String {
        self.core.store.child(&self.name)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Unlocks the item, which keeps its place.
    pub(super) async fn unlock(self) -> Result<()> {
        self.hold.release().await
    }

    /// Deletes the item.
    pub(super) async fn remove(mut self) -> Result<()> {
        self.settle(None).await
    }

    /// Moves the item to the end, or to the end of its priority.
    pub(super) async fn requeue(mut self) -> Result<()> {
        let path = self.core.store.child(without_number(&self.name));
        let again = Op::create(&path, self.data.clone()).sequential();
        self.settle(Some(again)).await
    }

    /// Moves the item to the queue of dead letters, or deletes it if there is none.
    pub(super) async fn move_to_dead_letters(mut self) -> Result<()> {
        let Some(dead) = self.core.dead_letter.clone() else {
            return self.settle(None).await;
        };
        let path = format!("{}/{ITEM}", dead.path);
        let letter = Op::create(&path, self.data.clone()).sequential();
        loop {
            match self.settle(Some(letter.clone())).await {
                Err(Error::Client(error)) if error.failed_op() == Some(2) && error.is_no_node() => {
                    ensure(&self.core.store.client, &dead.path, Lifetime::Persistent).await?;
                }
                settled => return settled,
            }
        }
    }

    /// Deletes lock and item, and creates what replaces the item, in one transaction. A lost reply leaves no doubt as
    /// long as the session lives: no other client deletes our lock.
    async fn settle(&mut self, instead: Option<Op>) -> Result<()> {
        let item = Op::delete(&self.path()).version(self.version);
        let ops = [Op::delete(self.hold.path()), item];
        let ops: Vec<_> = ops.into_iter().chain(instead).collect();
        let mut doubt = None;
        loop {
            let error = match self.hold.client().transaction(ops.clone()).await {
                Ok(_) => {
                    self.hold.disarm();
                    return Ok(());
                }
                Err(error) => error,
            };
            match (error.failed_op(), error.kind()) {
                (Some(0), ErrorKind::NoNode) => {
                    self.hold.disarm();
                    return if doubt.is_some() { Ok(()) } else { Err(Error::Lost) };
                }
                // The item was removed without regard to its lock: it is done.
                (Some(1), ErrorKind::NoNode) => return Ok(()),
                // Our lock was deleted by hand, and another consumer has the item.
                (Some(1), ErrorKind::BadVersion) => return Err(Error::Lost),
                (None, ErrorKind::SessionExpired) => {
                    self.hold.disarm();
                    return Err(doubt.map_or(Error::Lost, Error::Client));
                }
                (None, _) if reply_lost(&error) => {
                    doubt.get_or_insert(error);
                }
                // This attempt was not applied, but an earlier one may have been.
                _ if doubt.is_some() && error.failed_op().is_none() => {
                    return Err(herdsman_client::Error::unknown(error.kind().clone()).into());
                }
                _ => return Err(error.into()),
            }
        }
    }
}
