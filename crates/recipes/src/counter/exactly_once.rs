//! Additions that are applied exactly once.

use herdsman_client::Op;

use super::{Change, Counter, Number, check_version, pause};
use crate::error::Result;
use crate::retrying::is_overtaken;
use crate::witness::Witness;

impl<N: Number> Counter<N> {
    /// Adds like [`Counter::add`], but exactly once even if a reply is lost.
    ///
    /// Costs a transaction with an ephemeral witness (`<path>/_op_<uuid>`), and its deletion in the background.
    /// Curator ignores children of a counter. A counter that does not exist is first created with 0.
    ///
    /// # Errors
    /// As for [`Counter::add`], but the outcome is unknown only if the session ended after a reply was lost.
    pub async fn add_exactly_once(&self, delta: N) -> Result<Change<N>> {
        let session = self.client.connected_session().await?;
        let client = self.client.bound_to(&session);
        let bound = Counter { client: client.clone(), ..self.clone() };
        let mut witness = Witness::below_node(&client, &session, &self.path);
        for attempt in 1.. {
            let (before, node) = bound.read().await?;
            check_version(&self.path, node.as_ref())?;
            let Some(node) = node else {
                bound.initialize(N::default()).await?;
                continue;
            };
            let after = before.wrapping_add(delta);
            let set = Op::set(&self.path, after.encode()).version(node.stat.version);
            match witness.commit(&[set]).await {
                Ok(_) => return Ok(Change { before, after }),
                Err(error) if !is_overtaken(&error) || attempt >= self.attempts_max => {
                    return Err(error.into());
                }
                Err(_) => pause(attempt).await,
            }
        }
        unreachable!("attempts are limited")
    }
}
