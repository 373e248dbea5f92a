//! Deletion of znodes: one, a whole subtree, or in the background until it is done.

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

/// Between attempts of a deletion in the background.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(200);
/// Deletions of a subtree that are under way at once.
const PIPELINE: usize = 128;

impl DeleteCall {
    pub(crate) fn new(client: &Client, path: ZnodePath) -> Self {
        let op = Delete { path, version: ANY_VERSION };
        DeleteCall { call: Call::new(client, op), recursive: false }
    }

    /// Only if the data has this version.
    pub fn version(mut self, version: i32) -> Self {
        self.call.op.version = version;
        self
    }

    /// With everything below it. Not atomic: others may see part of the subtree, and what they
    /// create meanwhile is deleted too. A znode that is missing is fine. It takes many requests, the
    /// first of which is made when the reply is first awaited.
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// Gives up after this time.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.call = self.call.deadline(deadline);
        self
    }

    /// Sends it now; the reply can be awaited later.
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

    /// Deletes it whatever happens to the connection: tries until it is done, or the session or the
    /// client that it belongs to is over. For what must not be left behind; may be called anywhere,
    /// also where something is dropped.
    pub fn in_background(self) {
        let retrying = self.call.client.with_retry(RetryPolicy::forever(BACKGROUND_PAUSE));
        let call = Call { client: retrying.clone(), deadline: None, ..self.call };
        let delete = DeleteCall { call, ..self };
        let first = delete.clone().send();
        retrying.clone().spawn(async move {
            let mut result = first.await;
            // A deletion that may have happened is not repeated by the call itself, but here the
            // missing znode is just what is wanted.
            while let Err(error) = &result
                && (error.is_retriable() || is_failure_inside(error))
                && retrying.may_still_succeed(error)
            {
                tokio::time::sleep(BACKGROUND_PAUSE).await;
                result = delete.clone().send().await;
            }
            match result {
                Err(error) if !error.is_no_node() => {
                    tracing::debug!(%error, "deletion in the background given up");
                }
                _ => {}
            }
        });
    }
}

/// The server has failed, before or after the deletion.
fn is_failure_inside(error: &Error) -> bool {
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

/// What others deleted first is gone, what they have filled again is listed again.
fn tolerate(deleted: Result<()>) -> Result<()> {
    match deleted {
        Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::NotEmpty) => Ok(()),
        // May or may not have happened: the next listing will tell.
        Err(error) if error.is_connection_loss() => Ok(()),
        other => other,
    }
}

/// Every path of the subtree, parents before their children.
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
