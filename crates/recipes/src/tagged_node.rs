//! Creates a node at a path that others use, too, and recognizes it after a lost reply.
//!
//! In: a path, and a *tag*, data that no other node has. Out: the node, or the result that another client has the
//! path. Deliberately not here: waiting for the path to become free, and [claims](crate::claim), whose data is not
//! unique.
//!
//! After a lost reply the same request is sent again, and if the node exists by then, it is read: it is ours if it
//! has the tag.

use bytes::Bytes;
use herdsman_client::{
    Client, Created, Error, ErrorKind, Lifetime, Op, OpResult, Outcome, Result, Session,
};

use crate::hold::Hold;
use crate::hold_options::LostWhen;
use crate::owned_node::Incarnation;
use crate::retrying::{is_overtaken, reply_lost, retrying};

/// The operation of a guarded creation that creates the node.
pub(crate) const CREATES_NODE: usize = 0;

/// Creates the node. [`ErrorKind::NodeExists`] if another client has the path; its outcome is unknown if a reply was
/// lost before.
pub(crate) async fn create(
    client: &Client,
    path: &str,
    tag: &Bytes,
    lifetime: Lifetime,
) -> Result<Created> {
    let mut is_in_doubt = false;
    loop {
        let create = client.create(path, tag.clone()).lifetime(lifetime).container_parents();
        let error = match create.await {
            Ok(created) => return Ok(created),
            Err(error) => error,
        };
        if error.is_node_exists()
            && is_in_doubt
            && let Some(created) = find(client, path, tag).await?
        {
            return Ok(created);
        }
        match is_in_doubt {
            _ if reply_lost(&error) => is_in_doubt = true,
            true => return Err(Error::unknown(error.kind().clone())),
            false => return Err(error),
        }
    }
}

/// Returns the node that an earlier attempt has created, if it did.
async fn find(client: &Client, path: &str, tag: &Bytes) -> Result<Option<Created>> {
    // This may be a different server, which is behind.
    client.sync(path).await?;
    match client.get(path).await {
        Ok(node) if node.data == *tag => {
            Ok(Some(Created { path: path.to_owned(), stat: node.stat }))
        }
        Err(error) if !error.is_no_node() => Err(error),
        _ => Ok(None),
    }
}

/// An ephemeral node to be created together with a write to its guard, a node that distinguishes the owners of the
/// path.
#[derive(Clone, Debug)]
pub(crate) struct GuardedCreation {
    /// Bound to the session.
    pub(crate) client: Client,
    pub(crate) session: Session,
    pub(crate) lost_when: LostWhen,
    pub(crate) path: String,
    pub(crate) tag: Bytes,
    /// The write to the guard, on the condition that this has not changed since it was read.
    pub(crate) guard_write: Op,
    /// The guard after that write.
    pub(crate) incarnation: Incarnation,
}

impl GuardedCreation {
    /// Creates the node with requests of `client`. An error with [`Error::failed_op`] says that it was not created.
    ///
    /// If the client's policy ends the attempts before the outcome is known, a node that was created is deleted in
    /// the background, so that it does not block others while the session lives.
    pub(crate) async fn run(&self, client: &Client) -> Result<Hold> {
        let mut is_in_doubt = false;
        let made = self.run_until_known(client, &mut is_in_doubt).await;
        let is_free = |error: &Error| error.failed_op().is_some() && is_overtaken(error);
        if is_in_doubt && made.as_ref().is_err_and(|error| !is_free(error)) {
            let (creation, client) = (self.clone(), retrying(client));
            self.client.spawn(async move {
                // A hold that is found is dropped, and thereby released.
                drop(creation.find(&client).await);
            });
        }
        made
    }

    async fn run_until_known(&self, client: &Client, is_in_doubt: &mut bool) -> Result<Hold> {
        loop {
            let create = Op::create(&self.path, self.tag.clone()).ephemeral();
            let results = client.transaction([create, self.guard_write.clone()]).await;
            let error = match results.map(|results| results.into_iter().next()) {
                Ok(Some(OpResult::Created(created))) => return Ok(self.hold(created)),
                Ok(_) => Error::unknown(ErrorKind::ConnectionLoss),
                Err(error) => error,
            };
            *is_in_doubt |= error.outcome() != Outcome::NotApplied;
            match (error.failed_op(), error.kind()) {
                (Some(CREATES_NODE), ErrorKind::NodeExists) if *is_in_doubt => {
                    return self.find(client).await?.ok_or(error);
                }
                // A node that was created in a session that has ended was deleted with it.
                (None, ErrorKind::SessionExpired) => {
                    return Err(Error::not_applied(ErrorKind::SessionExpired));
                }
                // If it was applied: servers before 3.7 do not return the stat of the node, and it could not be read.
                (None, _) if error.outcome() != Outcome::NotApplied && error.is_retriable() => {}
                _ => return Err(error),
            }
        }
    }

    async fn find(&self, client: &Client) -> Result<Option<Hold>> {
        let found = find(client, &self.path, &self.tag).await?;
        Ok(found.map(|created| self.hold(created)))
    }

    fn hold(&self, created: Created) -> Hold {
        let (client, session) = (self.client.clone(), self.session.clone());
        Hold::of_incarnation(client, session, created, self.incarnation.clone(), self.lost_when)
    }
}
