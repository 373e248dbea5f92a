//! Writes that happen once, even if the reply is lost.
//!
//! In: a transaction that depends on a version, and a directory for a mark. Out: whether it happened,
//! known for certain as long as the session lives.
//!
//! The transaction also creates a mark, an ephemeral node with a unique name. When the reply is lost,
//! the mark tells: it is there if and only if the rest happened. It is deleted as soon as the outcome
//! is known, or goes with the session. Cost: one more node for a moment, and its deletion.
//!
//! Why this is certain: the connection may be lost while the request is still on its way, so a mark
//! that is missing proves nothing yet. But then the same transaction is made again. Either it
//! succeeds, and the late one finds a newer version and fails; or it is refused, and what refused it
//! has been seen by our server by then, the mark included.

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Op, Outcome};
use uuid::Uuid;

use crate::error::Result;
use crate::path::child;

/// One write that shall happen once, over any number of attempts.
#[derive(Debug)]
pub(crate) struct Marked {
    client: Client,
    mark: String,
    /// The reply to some attempt was lost.
    is_uncertain: bool,
    /// There may be a mark that nobody has deleted.
    may_leave_mark: bool,
}

/// What came of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It has happened, now or in an earlier attempt, with this note.
    Applied(Bytes),
    /// It did not happen, because the tree is not as it was. Read it again.
    Refused(ErrorKind),
}

impl Marked {
    /// `client` is bound to a session. Marks are made as children of `directory`.
    pub(crate) fn new(client: &Client, directory: &str) -> Self {
        let mark = child(directory, &format!("_op_{}", Uuid::new_v4()));
        Marked { client: client.clone(), mark, is_uncertain: false, may_leave_mark: false }
    }

    /// Makes the transaction. `note` is kept in the mark, and comes back if it happened.
    pub(crate) async fn attempt(&mut self, ops: &[Op], note: Bytes) -> Result<Attempt> {
        self.may_leave_mark = true;
        loop {
            let mark = Op::create(&self.mark, note.clone()).ephemeral();
            let made = self.client.transaction(ops.iter().cloned().chain([mark])).await;
            let error = match made {
                Ok(_) => return Ok(self.applied(note)),
                Err(error) => error,
            };
            match (error.outcome(), error.kind()) {
                (Outcome::Unknown, _) if error.is_retriable() => self.is_uncertain = true,
                (_, ErrorKind::BadVersion | ErrorKind::NoNode | ErrorKind::NodeExists) => {
                    let refused = Attempt::Refused(error.kind().clone());
                    let found = self.found().await?;
                    self.may_leave_mark = false;
                    return Ok(found.unwrap_or(refused));
                }
                _ => return Err(self.unless_uncertain(error)),
            }
            tracing::debug!(%error, "the reply was lost; making the same transaction again");
        }
    }

    async fn found(&mut self) -> Result<Option<Attempt>> {
        if !self.is_uncertain {
            return Ok(None);
        }
        match self.client.get(&self.mark).await {
            Ok(node) => Ok(Some(self.applied(node.data))),
            Err(error) if error.is_no_node() => {
                self.is_uncertain = false;
                Ok(None)
            }
            Err(error) => Err(self.unless_uncertain(error)),
        }
    }

    fn applied(&mut self, note: Bytes) -> Attempt {
        self.is_uncertain = false;
        self.may_leave_mark = false;
        self.client.delete(&self.mark).in_background();
        Attempt::Applied(note)
    }

    /// An error that says "not applied" would be a lie if an earlier attempt may have been.
    fn unless_uncertain(&self, error: herdsman_client::Error) -> crate::Error {
        match self.is_uncertain {
            true => herdsman_client::Error::unknown(error.kind().clone()).into(),
            false => error.into(),
        }
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        if self.may_leave_mark {
            self.client.delete(&self.mark).in_background();
        }
    }
}
