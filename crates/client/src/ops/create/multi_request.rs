//! Creations that take more than one request: with parents, and protected against a lost reply.
//!
//! A protected creation runs in a background task. If the caller no longer waits, the task continues only to
//! remove what it has created. A created znode that the caller does not take is deleted.

use std::time::Duration;

use herdsman_proto::path;
use tokio::sync::oneshot;

use super::{CreateCall, Created, Lifetime, join};
use crate::call::{Call, Reply, Retries};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::operation;
use crate::retry::RetryPolicy;

/// The pause between attempts to remove what a failed call may have left behind.
const CLEAN_UP_PAUSE: Duration = Duration::from_millis(500);

/// Sends the first request now.
pub(super) fn run(create: CreateCall) -> Reply<Created> {
    let first = create.call.clone().send();
    if create.protection.is_none() {
        return Box::pin(async move { create.run(first, || true).await });
    }
    let (send, receive) = oneshot::channel();
    let client = create.call.client.clone();
    let lost = operation::locate(&create.call.op, Error::unknown(ErrorKind::ConnectionLoss));
    client.clone().spawn(async move {
        let result = create.run(first, || !send.is_closed()).await;
        let result = result.map(|created| Unclaimed { client, created: Some(created) });
        // If the caller no longer waits, this drops the result, which deletes the znode.
        let _ = send.send(result);
    });
    Box::pin(async move {
        // The task ends without a result only together with its runtime.
        receive.await.unwrap_or(Err(lost)).and_then(Unclaimed::claim)
    })
}

/// A created znode that the caller has not taken yet; dropping this deletes it.
struct Unclaimed {
    client: Client,
    created: Option<Created>,
}

impl Unclaimed {
    fn claim(mut self) -> Result<Created> {
        self.created.take().ok_or_else(|| Error::unknown(ErrorKind::ConnectionLoss))
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(created) = self.created.take() {
            self.client.delete(&created.path).in_background();
        }
    }
}

impl CreateCall {
    async fn run(
        self,
        first: Reply<Created>,
        mut is_wanted: impl FnMut() -> bool,
    ) -> Result<Created> {
        let mut retries = Retries::begin(self.call.client.retry_policy());
        let mut result = first.await;
        loop {
            let Err(error) = &result else {
                return result;
            };
            let is_protected = self.protection.is_some();
            if let (ErrorKind::NoNode, Some(lifetime)) = (error.kind(), self.parents) {
                self.make_parents(lifetime).await?;
            } else if is_protected && error.outcome() == Outcome::Unknown {
                match self.find_created().await {
                    Ok(Some(created)) => return Ok(created),
                    Ok(None) if retries.pause(error).await => {}
                    // The search has shown that the znode does not exist.
                    Ok(None) => return result,
                    Err(failure) => {
                        let is_over = failure.is_session_expired();
                        let unknown = if is_over { failure } else { error.clone() };
                        self.clean_up_in_background();
                        return Err(unknown.with_outcome(Outcome::Unknown));
                    }
                }
            } else {
                return result;
            }
            if !is_wanted() {
                return result;
            }
            result = self.call.clone().send().await;
        }
    }

    async fn make_parents(&self, lifetime: Lifetime) -> Result<()> {
        let path = self.call.op.path.shown();
        let Some((parent, _)) = path::split(path).filter(|(parent, _)| !parent.is_empty()) else {
            // The chroot itself is missing.
            return self.call.client.create_chroot(lifetime).await;
        };
        self.call.client.ensure(parent, lifetime).await
    }

    /// Finds the znode that an earlier attempt has created, if it belongs to the current session.
    async fn find_created(&self) -> Result<Option<Created>> {
        let client = &self.call.client;
        let (parent, prefix) = self.call.op.path.parent_and_name();
        // The client may be connected to another server by now, which may not have applied the creation yet.
        client.sync(&parent).await?;
        let children = match client.children(&parent).await {
            Err(error) if error.is_no_node() => return Ok(None),
            children => children?,
        };
        let Some(name) = children.names.iter().find(|name| name.starts_with(&prefix)) else {
            return Ok(None);
        };
        let path = join(&parent, name);
        let Some(stat) = client.exists(&path).await? else {
            return Ok(None);
        };
        let is_ours = stat.ephemeral_owner == 0 || stat.ephemeral_owner == client.session().id().0;
        if !is_ours {
            // It will be deleted with the session that created it; until then it must not be taken for a live one.
            client.delete(&path).in_background();
            return Ok(None);
        }
        Ok(Some(Created { path, stat }))
    }

    fn clean_up_in_background(self) {
        self.call.client.clone().spawn(async move {
            let retrying = self.call.client.with_retry(RetryPolicy::forever(CLEAN_UP_PAUSE));
            let search = CreateCall { call: Call { client: retrying, ..self.call }, ..self };
            if let Ok(Some(created)) = search.find_created().await {
                search.call.client.delete(&created.path).in_background();
            }
        });
    }
}
