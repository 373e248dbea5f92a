//! Writes that are applied exactly once, even if the reply is lost.
//!
//! In: a transaction that depends on a version, and a directory for a mark. Out: whether it was applied, known for
//! certain as long as the session lives.
//!
//! The transaction also creates a mark, an ephemeral node with a unique name. If the reply is lost, the mark decides:
//! it exists if and only if the rest was applied. It is deleted as soon as the outcome is known, or ends with the
//! session. Cost: one more node for a moment, and its deletion.
//!
//! Why this is certain: the connection may be lost while the request is still on its way, so a missing mark proves
//! nothing yet. But then the same transaction is sent again. Either it succeeds, and the late one finds a newer
//! version and fails; or it is rejected, and by then the server has seen the change that caused the rejection, and
//! the mark, too.

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Op, Outcome};
use uuid::Uuid;

use crate::error::Result;
use crate::path::child;

/// One write that must be applied once, over any number of attempts.
#[derive(Debug)]
pub(crate) struct Marked {
    client: Client,
    mark: String,
    /// The reply to some attempt was lost.
    is_uncertain: bool,
    /// There may be a mark that has not been deleted.
    may_leave_mark: bool,
}

/// The result of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It was applied, now or by an earlier attempt, with this note.
    Applied(Bytes),
    /// It was not applied, because the tree has changed. Read it again.
    Refused(ErrorKind),
}

impl Marked {
    /// Creates a write. `client` is bound to a session. Marks are created as children of `directory`.
    pub(crate) fn new(client: &Client, directory: &str) -> Self {
        let mark = child(directory, &format!("_op_{}", Uuid::new_v4()));
        Marked { client: client.clone(), mark, is_uncertain: false, may_leave_mark: false }
    }

    /// Sends the transaction. `note` is stored in the mark, and returned if the write was applied.
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
            tracing::debug!(%error, "the reply was lost; sending the same transaction again");
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

    /// Converts an error. "Not applied" would be wrong if an earlier attempt may have been applied.
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
