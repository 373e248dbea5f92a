//! An item that is locked by us: the lock, and the ways in which it ends.
//!
//! Layout: `<locks>/<item's name>`, ephemeral; Curator's `DistributedQueue` with a lock path. Curator
//! deletes item and lock one after the other; here both go in one transaction, which is refused if
//! the lock is no longer ours. So a consumer that has lost its session cannot remove an item that
//! another one is working on.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, Created, ErrorKind, Lifetime, Node, Op, OpResult, Outcome, Session};
use uuid::Uuid;

use super::core::Core;
use crate::error::{Error, Result};
use crate::hold::{Distrust, Hold};
use crate::queue::ensure;
use crate::queue::names::{ITEM, without_number};

/// A locked item. Dropping it unlocks the item, which keeps its place.
#[derive(Debug)]
pub(super) struct Locked {
    core: Arc<Core>,
    pub(super) hold: Hold,
    name: String,
    /// What the node holds now.
    data: Bytes,
}

/// What is done to the item in the transaction that locks it.
pub(super) enum Touch {
    /// Nothing; but it must be there, unchanged.
    Check,
    /// Its new data, with the delivery counted.
    Rewrite(Bytes),
}

impl Locked {
    /// Locks an item, if it is still as it was read and nobody else is working on it.
    pub(super) async fn lock(
        core: &Arc<Core>,
        name: &str,
        item: &Node,
        touch: Touch,
    ) -> Result<Option<Self>> {
        let client = &core.intake.client;
        let session = client.connected_session().await?;
        let attempt = LockAttempt {
            client: client.bound_to(&session),
            session,
            lock_path: core.lock_of(name),
            // Consumers of one session must be told apart, too.
            tag: Uuid::new_v4().to_string().into(),
        };
        let path = core.intake.child(name);
        let version = item.stat.version;
        let (op, data) = match touch {
            Touch::Check => (Op::check(&path).version(version), item.data.clone()),
            Touch::Rewrite(data) => (Op::set(&path, data.clone()).version(version), data),
        };
        let hold = attempt.run(&core.locks, op).await?;
        Ok(hold.map(|hold| Locked { core: core.clone(), hold, name: name.to_owned(), data }))
    }

    pub(super) fn path(&self) -> String {
        self.core.intake.child(&self.name)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The item keeps its place.
    pub(super) async fn unlock(self) -> Result<()> {
        self.hold.release().await
    }

    /// The item is gone for good.
    pub(super) async fn remove(mut self) -> Result<()> {
        self.settle(None).await
    }

    /// The item goes to the end, or where its priority puts it.
    pub(super) async fn requeue(mut self) -> Result<()> {
        let path = self.core.intake.child(without_number(&self.name));
        let again = Op::create(&path, self.data.clone()).sequential();
        self.settle(Some(again)).await
    }

    /// The item goes to the queue of dead letters, or just away if there is none.
    pub(super) async fn bury(mut self) -> Result<()> {
        let Some(dead) = self.core.dead_letter.clone() else {
            return self.settle(None).await;
        };
        let path = format!("{}/{ITEM}", dead.path);
        let letter = Op::create(&path, self.data.clone()).sequential();
        loop {
            match self.settle(Some(letter.clone())).await {
                Err(Error::Client(error))
                    if error.failed_op() == Some(2) && *error.kind() == ErrorKind::NoNode =>
                {
                    ensure(&self.core.intake.client, &dead.path, Lifetime::Persistent).await?;
                }
                settled => return settled,
            }
        }
    }

    /// Deletes lock and item, and makes what takes its place, at once. A reply that is lost is no
    /// doubt as long as the session lives: nobody else deletes our lock.
    async fn settle(&mut self, instead: Option<Op>) -> Result<()> {
        let ops = [Op::delete(self.hold.path()), Op::delete(&self.path())];
        let ops: Vec<_> = ops.into_iter().chain(instead).collect();
        let mut doubt = None;
        loop {
            let error = match self.hold.client().transaction(ops.clone()).await {
                Ok(_) => {
                    self.hold.let_go();
                    return Ok(());
                }
                Err(error) => error,
            };
            match (error.failed_op(), error.kind()) {
                (Some(0), ErrorKind::NoNode) => {
                    self.hold.let_go();
                    return if doubt.is_some() { Ok(()) } else { Err(Error::Lost) };
                }
                // Somebody has removed the item without asking for its lock: it is done.
                (Some(1), ErrorKind::NoNode) => return Ok(()),
                (None, ErrorKind::SessionExpired) => {
                    self.hold.let_go();
                    return Err(doubt.map_or(Error::Lost, Error::Client));
                }
                (None, _) if error.outcome() == Outcome::Unknown && error.is_retriable() => {
                    doubt.get_or_insert(error);
                }
                _ => return Err(error.into()),
            }
        }
    }
}

/// One attempt to lock, repeated until its result is known.
struct LockAttempt {
    client: Client,
    session: Session,
    lock_path: String,
    tag: Bytes,
}

impl LockAttempt {
    async fn run(self, locks: &str, touch: Op) -> Result<Option<Hold>> {
        let create = Op::create(&self.lock_path, self.tag.clone()).ephemeral();
        let mut is_in_doubt = false;
        loop {
            let error = match self.client.transaction([create.clone(), touch.clone()]).await {
                Ok(results) => return Ok(self.hold_from(results)),
                Err(error) => error,
            };
            match (error.failed_op(), error.kind()) {
                (Some(0), ErrorKind::NodeExists) if is_in_doubt => return self.look().await,
                (Some(0), ErrorKind::NodeExists) => return Ok(None),
                (Some(0), ErrorKind::NoNode) => {
                    ensure(&self.client, locks, Lifetime::Persistent).await?;
                }
                (Some(1), ErrorKind::NoNode | ErrorKind::BadVersion) => return Ok(None),
                (None, _) if error.outcome() == Outcome::Unknown && error.is_retriable() => {
                    is_in_doubt = true;
                }
                // A lock that was made in a session that is over went with it.
                (None, ErrorKind::SessionExpired) => {
                    let over = herdsman_client::Error::not_applied(ErrorKind::SessionExpired);
                    return Err(over.into());
                }
                _ => {
                    self.clean_up_after(&error);
                    return Err(error.into());
                }
            }
        }
    }

    /// A lock that may have been made all the same must not bar the item while the session lives.
    fn clean_up_after(self, error: &herdsman_client::Error) {
        if error.outcome() == Outcome::Unknown {
            tokio::spawn(async move { self.look().await.map(drop) });
        }
    }

    /// Whether the lock that is there is the one of our earlier attempt.
    async fn look(self) -> Result<Option<Hold>> {
        match self.client.get(&self.lock_path).await {
            Ok(Node { data, stat }) if data == self.tag => {
                let created = Created { path: self.lock_path.clone(), stat };
                Ok(Some(self.into_hold(created)))
            }
            Ok(_) => Ok(None),
            Err(error) if *error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn hold_from(self, results: Vec<OpResult>) -> Option<Hold> {
        match results.into_iter().next() {
            Some(OpResult::Created(created)) => Some(self.into_hold(created)),
            _ => None,
        }
    }

    fn into_hold(self, created: Created) -> Hold {
        Hold::at_reused_path(self.client, self.session, created, Distrust::WhenLost)
    }
}
