//! Ending a term in the epoch node and giving up the leader's node, both at once, so that a lost
//! reply changes nothing.
//!
//! In: the node, and the term's entry in the epoch node. Out: the certainty that the node is gone,
//! or the error that stands in the way. A node of the same path that is another's is left alone.

use herdsman_client::{Client, ErrorKind, Op, Outcome};

use super::epoch::{Entry, Farewell};
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::patient::patient;

/// A node that is to be given up.
#[derive(Clone, Debug)]
pub(super) struct Vacancy {
    client: Client,
    path: String,
    token: u64,
}

impl Vacancy {
    pub(super) fn of(hold: &Hold) -> Self {
        Vacancy {
            client: patient(hold.client()),
            path: hold.path().to_owned(),
            token: hold.token(),
        }
    }

    /// Whether the very node still exists.
    pub(super) async fn is_still_held(&self) -> Result<bool> {
        let stat = self.client.exists(&self.path).await?;
        Ok(stat.is_some_and(|stat| u64::try_from(stat.czxid.0) == Ok(self.token)))
    }

    /// [`Error::Lost`] if the node had gone before.
    pub(super) async fn close_term(&self, entry: &Entry, farewell: Farewell) -> Result<()> {
        match self.try_to_close_term(entry, farewell).await {
            Err(Error::Client(error)) if *error.kind() == ErrorKind::SessionExpired => {
                Err(Error::Lost)
            }
            closed => closed,
        }
    }

    async fn try_to_close_term(&self, entry: &Entry, farewell: Farewell) -> Result<()> {
        let mut may_be_done = false;
        loop {
            let ops = [entry.close(farewell), Op::delete(&self.path)];
            let error = match self.client.transaction(ops).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if error.outcome() == Outcome::Unknown && error.is_retriable() {
                may_be_done = true;
                continue;
            }
            if error.failed_op().is_none() {
                return Err(error.into());
            }
            if !self.is_still_held().await? {
                return if may_be_done { Ok(()) } else { Err(Error::Lost) };
            }
            // Somebody else has written to the epoch node; it is not ours to correct.
            match self.client.delete(&self.path).await {
                Err(error) if error.outcome() == Outcome::Unknown => may_be_done = true,
                deleted => return Ok(deleted?),
            }
        }
    }
}

/// Whether the node is gone. If not, dropping what holds it tries once more.
pub(super) fn is_gone(closed: &Result<()>) -> bool {
    matches!(closed, Ok(()) | Err(Error::Lost))
}
