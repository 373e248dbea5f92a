//! Additions that are applied exactly once.

use bytes::Bytes;
use herdsman_client::{Client, Lifetime, Op};

use super::{Change, Counter, Number, check_version, pause};
use crate::error::Result;
use crate::marked::{Attempt, Marked};
use crate::until_known::until_known;

impl<N: Number> Counter<N> {
    /// Adds like [`Counter::add`], but exactly once even if a reply is lost.
    ///
    /// Costs a transaction with an ephemeral mark (`<path>/_op_<uuid>`), and the mark's deletion in the background.
    /// Curator ignores children of a counter.
    ///
    /// # Errors
    /// As for [`Counter::add`], but the outcome is unknown only if the session ended after a reply was lost.
    pub async fn add_exactly_once(&self, delta: N) -> Result<Change<N>> {
        let session = self.client.connected_session().await?;
        let client = self.client.bound_to(&session);
        let bound = Counter { client: client.clone(), ..self.clone() };
        let mut write = Marked::new(&client, &self.path);
        for attempt in 1.. {
            let (before, node) = bound.read().await?;
            check_version(&self.path, node.as_ref())?;
            let after = before.wrapping_add(delta);
            let op = match &node {
                Some(node) => Op::set(&self.path, after.encode()).version(node.stat.version),
                None => {
                    self.make_parent(&client).await?;
                    Op::create(&self.path, after.encode())
                }
            };
            match write.attempt(&[op], before.encode()).await? {
                Attempt::Applied(note) => return self.change(&note, delta),
                Attempt::Refused(kind) if attempt >= self.attempts_max => {
                    return Err(herdsman_client::Error::not_applied(kind).into());
                }
                Attempt::Refused(_) => pause(attempt).await,
            }
        }
        unreachable!("attempts are limited")
    }

    /// Computes the change from the mark of an earlier attempt, which holds the number at that time.
    fn change(&self, note: &Bytes, delta: N) -> Result<Change<N>> {
        let before = N::decode(&self.path, note)?;
        Ok(Change { before, after: before.wrapping_add(delta) })
    }

    /// Creates the parents, which transactions do not.
    async fn make_parent(&self, client: &Client) -> Result<()> {
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !parent.is_empty() {
            until_known(|| async { client.ensure(parent, Lifetime::Container).await }).await?;
        }
        Ok(())
    }
}
