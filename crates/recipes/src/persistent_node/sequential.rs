//! The creation of a sequential node, which runs to its end even if it is not awaited.
//!
//! In: a session. Out: the node, which is certainly ours. Deliberately not here: how it is distinguished from others
//! after a lost reply; see [`crate::line::creation`].

use bytes::Bytes;
use herdsman_client::{Client, Created, Lifetime, Result, Session, SessionId};
use tokio::task::JoinHandle;

use super::spec::Spec;
use crate::line::creation::Creation;
use crate::retrying::retrying;

/// A creation in progress.
#[derive(Debug)]
pub(super) struct SequentialCreation {
    pub(super) session: SessionId,
    /// The revision of the data that the node is created with.
    pub(super) revision: u64,
    task: JoinHandle<crate::Result<Created>>,
}

impl SequentialCreation {
    /// Starts a creation, which makes no further attempt once the node is no longer wanted.
    pub(super) fn start(
        client: &Client,
        session: &Session,
        spec: &Spec,
        (data, revision): (Bytes, u64),
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Self {
        let (parent, prefix) = spec.path.rsplit_once('/').unwrap_or_default();
        let directory = if parent.is_empty() { "/" } else { parent };
        let creation = Creation {
            client: retrying(&client.bound_to(session)),
            session: session.clone(),
            directory: directory.to_owned(),
            receipts_beside: spec.receipts_beside.clone().unwrap_or_else(|| directory.to_owned()),
            directory_lifetime: Lifetime::Container,
            prefix: prefix.to_owned(),
            data,
            acl: spec.acl.clone(),
        };
        let task = tokio::spawn(async move { creation.run(is_wanted).await });
        SequentialCreation { session: session.id(), revision, task }
    }

    /// Returns the node; `None` if it was no longer wanted, or was deleted. Must not be called again after it has
    /// returned. Cancel-safe.
    pub(super) async fn created(&mut self) -> Result<Option<Created>> {
        match (&mut self.task).await {
            Ok(Ok(created)) => Ok(Some(created)),
            Ok(Err(crate::Error::Client(error))) => Err(error),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }
}
