//! A worker's registration: an ephemeral node under a name of the worker's choice.
//!
//! In: a session. Out: the node, known to be of that session. If the name is taken by another
//! session, it is waited for: that session may be an earlier one of this very worker, which the
//! servers have not ended yet, and as long as it lives its tasks are its own.

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Result, Session, Watch};

/// A node of ours. Dropping it deletes the node in the background.
#[derive(Debug)]
pub(super) struct Registration {
    /// Bound to the session.
    client: Client,
    session: Session,
    path: String,
    /// The czxid: another for each time that a worker registers.
    pub(super) incarnation: i64,
    is_gone: bool,
}

impl Registration {
    /// Registers in this session; waits as long as the name is taken.
    pub(super) async fn make(
        client: &Client,
        session: &Session,
        path: &str,
        data: Bytes,
    ) -> Result<Self> {
        loop {
            match client.create(path, data.clone()).ephemeral().await {
                Err(error) if *error.kind() == ErrorKind::NodeExists => {}
                // Looked up like one that was there before.
                Err(error) if error.is_retriable() && !is_over(&error) => {}
                created => return Ok(Self::of(client, session, path, created?.stat.czxid.0)),
            }
            let (node, watch) = match client.get(path).watch().await {
                Err(error) if *error.kind() == ErrorKind::NoNode => continue,
                read => read?,
            };
            if node.stat.ephemeral_owner == session.id().0 {
                return Ok(Self::of(client, session, path, node.stat.czxid.0));
            }
            tracing::info!(path, "another session is registered under this name; waiting");
            watch.await?;
        }
    }

    fn of(client: &Client, session: &Session, path: &str, incarnation: i64) -> Self {
        let path = path.to_owned();
        let (client, session) = (client.clone(), session.clone());
        Registration { client, session, path, incarnation, is_gone: false }
    }

    /// Resolves when it is no longer there; fails when the session is over.
    pub(super) async fn lost(&mut self) -> Result<()> {
        while let Some(watch) = self.watch().await? {
            watch.await?;
        }
        self.is_gone = true;
        Ok(())
    }

    /// `None` if the node is another, or none.
    async fn watch(&self) -> Result<Option<Watch>> {
        match self.client.get(&self.path).watch().await {
            Ok((node, watch)) if node.stat.czxid.0 == self.incarnation => Ok(Some(watch)),
            Err(error) if *error.kind() != ErrorKind::NoNode => Err(error),
            _ => Ok(None),
        }
    }
}

fn is_over(error: &herdsman_client::Error) -> bool {
    *error.kind() == ErrorKind::SessionExpired
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Without a runtime there is nobody to do it; the node goes with the session then.
        let is_there = !self.is_gone && !self.session.state().is_final();
        if is_there && tokio::runtime::Handle::try_current().is_ok() {
            self.client.delete(&self.path).in_background();
        }
    }
}
