//! Replaces an ephemeral node of ours by a persistent one at the end.
//!
//! In: the path of our node, and data. Out: a persistent node with that data, or the result that another client has
//! the path. Both steps are one transaction, so that no client sees the path without a node. A write whose reply was
//! lost is looked for; it makes no difference if the session has ended in between, and our node with it.

use bytes::Bytes;
use herdsman_client::{Error, ErrorKind, Op, Outcome, Result, Session};
use tokio::time::{Instant, sleep};

use super::task::{NodeTask, is_end_of_client, is_transient};
use crate::retrying::is_overtaken;

/// The result of an attempt.
enum Found {
    /// The persistent node exists.
    Done,
    /// There is another client's node.
    Foreign,
}

impl NodeTask {
    /// Replaces our node by a persistent one with the latest data. Fails if another client has the path by now.
    pub(super) async fn make_persistent(&mut self) -> Result<()> {
        let desired = self.desired();
        let mut is_in_doubt = false;
        let error = loop {
            let attempt = match self.client.connected_session().await {
                Ok(session) => self.attempt(&session, &desired.data).await,
                Err(error) => Err(error),
            };
            match attempt {
                Ok(Found::Done) => {
                    self.reports.send_modify(|report| report.written = Some(desired.revision));
                    return Ok(());
                }
                Ok(Found::Foreign) => break Error::not_applied(ErrorKind::NodeExists),
                Err(error) => {
                    is_in_doubt |= error.outcome() == Outcome::Unknown;
                    let should_continue = is_transient(&error) || is_overtaken(&error);
                    if !should_continue || is_end_of_client(&error) {
                        break error;
                    }
                }
            }
            sleep(self.pace.pause_before_attempt(Instant::now())).await;
        };
        Err(if is_in_doubt { Error::unknown(error.kind().clone()) } else { error })
    }

    async fn attempt(&self, session: &Session, data: &Bytes) -> Result<Found> {
        let client = self.client.bound_to(session);
        let path = self.path.as_deref().unwrap_or(&self.spec.path);
        // This may be a different server, which is behind.
        client.sync(path).await?;
        let Some(stat) = client.exists(path).await? else {
            let create = client.create(path, data.clone()).container_parents();
            return self.spec.with_acl(create).await.map(|_| Found::Done);
        };
        if stat.ephemeral_owner == session.id().0 {
            let create = self.spec.op_with_acl(Op::create(path, data.clone()));
            let ops = [Op::delete(path).version(stat.version), create];
            return client.transaction(ops).await.map(|_| Found::Done);
        }
        // After a lost reply it is ours.
        let node = client.get(path).await?;
        let is_as_wanted = node.stat.ephemeral_owner == 0 && node.data == *data;
        Ok(if is_as_wanted { Found::Done } else { Found::Foreign })
    }
}
