//! Leaving a double barrier.
//!
//! As in Curator, the lowest member stays until all others have left: it waits for the highest one, then for the one
//! that is highest then, and so on. The others delete their nodes and wait for the lowest. Two differences: only
//! members that were there when this one began to leave count, so that a quick member that enters for the next round
//! does not delay the slow ones of this round; and the last member removes `ready` in the same transaction as its own
//! node.

use std::collections::BTreeSet;

use herdsman_client::{Client, ErrorKind, EventType, Op, Optional};

use super::double::{Inside, READY, lost_if_expired};
use super::size::members;
use crate::error::{Error, Result};
use crate::path::child;
use crate::until_known::{unless, until_known};

/// Whether this member's node is still to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    There,
    Deleted,
}

impl Inside {
    /// Waits until all members leave. Dropping the future removes this member without waiting.
    ///
    /// # Errors
    /// [`Error::Lost`] if the session ended, now or while inside: the others have not waited for this member.
    pub async fn leave(mut self) -> Result<()> {
        self.wait_for_leavers().await.map_err(lost_if_expired)?;
        self.hold.disarm();
        Ok(())
    }

    async fn wait_for_leavers(&self) -> Result<()> {
        let client = self.hold.client();
        let round: BTreeSet<_> = self.present(client).await?.into_iter().collect();
        let mut own = Own::There;
        loop {
            let mut present = self.present(client).await?;
            present.retain(|member| round.contains(member));
            let is_there = present.iter().any(|member| member == self.hold.name());
            if own == Own::There && !is_there {
                return Err(Error::Lost);
            }
            let (Some(lowest), Some(highest)) = (present.first(), present.last()) else {
                return self.remove_stale_ready(client).await;
            };
            if own == Own::There && present.len() == 1 {
                return self.remove_last(client).await;
            }
            if own == Own::There && lowest == self.hold.name() {
                self.wait_until_deleted(client, highest).await?;
                continue;
            }
            if own == Own::There {
                self.remove_own(client).await?;
                own = Own::Deleted;
            }
            self.wait_until_deleted(client, lowest).await?;
        }
    }

    async fn present(&self, client: &Client) -> Result<Vec<String>> {
        Ok(members(self.names(client).await?))
    }

    async fn names(&self, client: &Client) -> Result<Vec<String>> {
        let children = client.children(&self.path).await.optional()?;
        Ok(children.map_or_else(Vec::new, |children| children.names))
    }

    async fn remove_own(&self, client: &Client) -> Result<()> {
        let delete = || client.delete(self.hold.path()).send();
        Ok(unless(until_known(delete).await, &ErrorKind::NoNode)?)
    }

    /// Removes the last member together with `ready`, so that no client finds `ready` without a member.
    async fn remove_last(&self, client: &Client) -> Result<()> {
        let ready = child(&self.path, READY);
        let both = || async {
            let ops = [Op::delete(&ready), Op::delete(self.hold.path())];
            client.transaction(ops).await.map(drop)
        };
        match until_known(both).await {
            // kazoo's members, and members that gave up waiting, remove `ready` early.
            Err(error) if error.is_no_node() => self.remove_own(client).await,
            removed => Ok(removed?),
        }
    }

    /// All others have left. If the last of them died, `ready` was not removed; ours would notice at the next entry,
    /// but Curator's would not.
    async fn remove_stale_ready(&self, client: &Client) -> Result<()> {
        let names = self.names(client).await?;
        let is_stale = names.iter().any(|name| name == READY) && members(names).is_empty();
        if !is_stale {
            return Ok(());
        }
        let ready = child(&self.path, READY);
        let delete = || client.delete(&ready).send();
        Ok(unless(until_known(delete).await, &ErrorKind::NoNode)?)
    }

    async fn wait_until_deleted(&self, client: &Client, member: &str) -> Result<()> {
        let path = child(&self.path, member);
        loop {
            let Some((_, watch)) = client.get(&path).watch().await.optional()? else {
                return Ok(());
            };
            if watch.await?.kind == EventType::NodeDeleted {
                return Ok(());
            }
        }
    }
}
