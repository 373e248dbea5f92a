//! Deletion of znodes: a single one, a subtree, or in the background until it succeeds.

use std::future::IntoFuture;
use std::time::Duration;

use herdsman_proto::{OpCode, Request, WriteRequest, path};

use super::ANY_VERSION;
use super::create::join;
use crate::call::{Call, Reply};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::operation::sealed::Sealed;
use crate::operation::{self, Repeatable, ReplyError, ZnodePath};
use crate::request_queue::Answer;
use crate::retry::RetryPolicy;

/// Deletes a znode.
#[derive(Clone, Debug)]
pub struct Delete {
    pub(crate) path: ZnodePath,
    pub(crate) version: i32,
}

impl Delete {
    pub(crate) fn write_request(&self) -> WriteRequest<'_> {
        WriteRequest::Delete { path: self.path.full().into(), version: self.version }
    }
}

impl Sealed for Delete {
    type Output = ();

    fn op(&self) -> OpCode {
        OpCode::Delete
    }
    fn shown_path(&self) -> &str {
        self.path.shown()
    }
    fn request(&self) -> Request<'_> {
        Request::Write(self.write_request())
    }
    fn check(&self) -> Result<()> {
        self.path.check()
    }
    fn repeatable(&self) -> Repeatable {
        Repeatable::No
    }
    fn decode(&self, _: Answer) -> std::result::Result<(), ReplyError> {
        Ok(())
    }
}

/// A deletion that is ready to be sent.
#[derive(Clone, Debug)]
#[must_use = "nothing is deleted until the call is awaited or sent"]
pub struct DeleteCall {
    call: Call<Delete>,
    recursive: bool,
}

/// The pause between attempts of a deletion in the background.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(200);
/// How many requests for a subtree are in flight at once.
const PIPELINE: usize = 128;

impl DeleteCall {
    pub(crate) fn new(client: &Client, path: ZnodePath) -> Self {
        let op = Delete { path, version: ANY_VERSION };
        DeleteCall { call: Call::new(client, op), recursive: false }
    }

    /// Deletes the znode only if the data has this version.
    pub fn version(mut self, version: i32) -> Self {
        self.call.op.version = version;
        self
    }

    /// Deletes the whole subtree. Not atomic: other clients may see a part of the subtree, and what they
    /// create meanwhile is deleted too. A missing znode is not an error. Takes many requests, the first
    /// of which is sent when the reply is first awaited.
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// Fails after this time.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.call = self.call.deadline(deadline);
        self
    }

    /// Sends the request now; the reply can be awaited later.
    pub fn send(self) -> Reply<()> {
        if !self.recursive {
            return self.call.send();
        }
        Box::pin(async move {
            self.check_recursive().map_err(|error| operation::locate(&self.call.op, error))?;
            let Call { client, op, deadline } = self.call;
            let tree = delete_tree(&client, op.path.shown());
            let Some(deadline) = deadline else {
                return tree.await;
            };
            let late = operation::locate(&op, Error::unknown(ErrorKind::DeadlineExceeded));
            tokio::time::timeout(deadline, tree).await.unwrap_or(Err(late))
        })
    }

    fn check_recursive(&self) -> Result<()> {
        let Delete { path, version } = &self.call.op;
        path.check()?;
        if *version != ANY_VERSION {
            return Err(Error::invalid_argument("a recursive deletion cannot expect a version"));
        }
        if path.full() == path::ROOT {
            return Err(Error::invalid_argument("the root of the tree cannot be deleted"));
        }
        Ok(())
    }

    /// Deletes the znode in the background: retries until it is deleted, or until the session or client
    /// that the call belongs to ends. For znodes that must not be left behind; may be called anywhere, also
    /// in a `Drop` implementation.
    pub fn in_background(self) {
        let retrying = self.call.client.with_retry(RetryPolicy::forever(BACKGROUND_PAUSE));
        let call = Call { client: retrying.clone(), deadline: None, ..self.call };
        let delete = DeleteCall { call, ..self };
        let first = delete.clone().send();
        retrying.clone().spawn(async move {
            let mut result = first.await;
            // The call itself does not repeat a deletion that may have been applied, but here a missing
            // znode is a success.
            while let Err(error) = &result
                && (error.is_retriable() || is_internal_failure(error))
                && retrying.may_still_succeed(error)
            {
                tokio::time::sleep(BACKGROUND_PAUSE).await;
                result = delete.clone().send().await;
            }
            match result {
                Err(error) if !error.is_no_node() => {
                    tracing::debug!(%error, "deletion in the background failed");
                }
                _ => {}
            }
        });
    }
}

/// Whether this is an internal error of the server, which may have happened before or after the deletion.
fn is_internal_failure(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Server(_)) && error.outcome() == Outcome::Unknown
}

impl IntoFuture for DeleteCall {
    type Output = Result<()>;
    type IntoFuture = Reply<()>;

    fn into_future(self) -> Self::IntoFuture {
        self.send()
    }
}

async fn delete_tree(client: &Client, root: &str) -> Result<()> {
    loop {
        let mut all = list_tree(client, root).await?;
        while !all.is_empty() {
            let chunk = all.split_off(all.len().saturating_sub(PIPELINE));
            let sent: Vec<_> = chunk.iter().rev().map(|path| client.delete(path).send()).collect();
            for deleted in sent {
                tolerate(deleted.await)?;
            }
        }
        if client.exists(root).await?.is_none() {
            return Ok(());
        }
    }
}

/// Ignores errors because of other clients: a znode they have deleted no longer exists, and one that has new
/// children is listed again.
fn tolerate(deleted: Result<()>) -> Result<()> {
    match deleted {
        Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::NotEmpty) => Ok(()),
        // The deletion may or may not have been applied: the next listing shows it.
        Err(error) if error.is_connection_loss() => Ok(()),
        other => other,
    }
}

/// Lists the paths of the subtree, parents before their children.
async fn list_tree(client: &Client, root: &str) -> Result<Vec<String>> {
    let mut all = vec![root.to_owned()];
    let mut listed = 0;
    while listed < all.len() {
        let end = all.len().min(listed + PIPELINE);
        let sent: Vec<_> =
            all[listed..end].iter().map(|path| client.children(path).send()).collect();
        for (at, children) in (listed..end).zip(sent) {
            match children.await {
                Ok(children) => {
                    let below: Vec<_> =
                        children.names.iter().map(|name| join(&all[at], name)).collect();
                    all.extend(below);
                }
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
        listed = end;
    }
    Ok(all)
}
