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
use herdsman_client::{Client, Created, ErrorKind, Lifetime, Node, Op, OpResult, Outcome, Session};
use uuid::Uuid;

use super::core::Core;
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::hold_options::LostWhen;
use crate::owned_node::Incarnation;
use crate::queue::ensure;
use crate::queue::names::{ITEM, without_number};
use crate::retrying::retrying;

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
        let attempt = LockAttempt {
            client: client.bound_to(&session),
            session,
            lock_path: core.lock_of(name),
            // Consumers of one session must be distinguished, too.
            tag: Uuid::new_v4().to_string().into(),
            item_path: core.store.child(name),
            lost_when: core.lost_when,
            version_before: item.stat.version,
        };
        let version = attempt.version_after();
        let hold = attempt.run(&core.locks, &data).await?;
        let (core, name) = (core.clone(), name.to_owned());
        Ok(hold.map(|hold| Locked { core, hold, name, data, version }))
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
                (None, _) if error.outcome() == Outcome::Unknown && error.is_retriable() => {
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

/// An attempt to lock, repeated until its result is known.
#[derive(Clone)]
struct LockAttempt {
    client: Client,
    session: Session,
    lock_path: String,
    tag: Bytes,
    item_path: String,
    lost_when: LostWhen,
    version_before: i32,
}

impl LockAttempt {
    /// Returns the version that the item gets by being locked.
    fn version_after(&self) -> i32 {
        self.version_before.wrapping_add(1)
    }

    async fn run(self, locks: &str, data: &Bytes) -> Result<Option<Hold>> {
        let mut is_in_doubt = false;
        let locked = self.run_until_known(locks, data, &mut is_in_doubt).await;
        if is_in_doubt && locked.is_err() {
            self.clean_up();
        }
        locked
    }

    async fn run_until_known(
        &self,
        locks: &str,
        data: &Bytes,
        is_in_doubt: &mut bool,
    ) -> Result<Option<Hold>> {
        let create = Op::create(&self.lock_path, self.tag.clone()).ephemeral();
        let set = Op::set(&self.item_path, data.clone()).version(self.version_before);
        loop {
            let error = match self.client.transaction([create.clone(), set.clone()]).await {
                Ok(results) => return Ok(self.hold_from(results)),
                Err(error) => error,
            };
            // Applied: servers before 3.7 do not return the stat of the lock, and it could not be read.
            *is_in_doubt |= error.outcome() != Outcome::NotApplied;
            match (error.failed_op(), error.kind()) {
                (Some(0), ErrorKind::NodeExists) if *is_in_doubt => {
                    return self.find(&self.client).await;
                }
                (Some(0), ErrorKind::NodeExists) => return Ok(None),
                (Some(0), ErrorKind::NoNode) => {
                    ensure(&self.client, locks, Lifetime::Persistent).await?;
                }
                (Some(1), ErrorKind::NoNode | ErrorKind::BadVersion) => return Ok(None),
                // A lock that was created in a session that has ended was deleted with it.
                (None, ErrorKind::SessionExpired) => {
                    let over = herdsman_client::Error::not_applied(ErrorKind::SessionExpired);
                    return Err(over.into());
                }
                (None, _) if error.outcome() == Outcome::Unknown && error.is_retriable() => {}
                _ => return Err(error.into()),
            }
        }
    }

    /// Removes a lock that was created although no reply reported it, which would otherwise block the item while the
    /// session lives. A hold that is found is dropped, and thereby released.
    fn clean_up(self) {
        let client = retrying(&self.client);
        self.client.clone().spawn(async move {
            drop(self.find(&client).await);
        });
    }

    /// Returns the lock that an earlier attempt has created, if it did.
    async fn find(&self, client: &Client) -> Result<Option<Hold>> {
        // This may be a different server, which is behind.
        client.sync(&self.lock_path).await?;
        match client.get(&self.lock_path).await {
            Ok(Node { data, stat }) if data == self.tag => {
                Ok(Some(self.hold(Created { path: self.lock_path.clone(), stat })))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn hold_from(&self, results: Vec<OpResult>) -> Option<Hold> {
        match results.into_iter().next() {
            Some(OpResult::Created(created)) => Some(self.hold(created)),
            _ => None,
        }
    }

    fn hold(&self, created: Created) -> Hold {
        let guard = self.item_path.clone();
        let version = Arc::new(self.version_after().into());
        let incarnation =
            Incarnation { guard, version, marker: None, last_data: None, may_be_bypassed: false };
        let (client, session) = (self.client.clone(), self.session.clone());
        Hold::of_incarnation(client, session, created, incarnation, self.lost_when)
    }
}
