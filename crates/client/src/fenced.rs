//! Writes with a check of a lock's node, so that a former holder cannot write.

use bytes::Bytes;
use herdsman_proto::Stat;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::ops::{Created, Op, OpResult};

/// A client that sends every write in a transaction which first checks that the lock's node exists. A
/// holder that was paused for longer than its session timeout, and has not noticed yet, gets
/// [`ErrorKind::Deposed`] and changes nothing.
///
/// The guard must be a znode whose name no later holder reuses, such as the sequential node of a fair
/// lock; otherwise add a znode that distinguishes holders, see [`Fenced::and`] and [`Fenced::at_version`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::ErrorKind;
///
/// let lock = zk.create("/lock-", "").ephemeral().sequential().await?;
/// let fenced = zk.fenced_by(&lock.path);
/// fenced.create("/report", "mine").await?;
/// zk.delete(&lock.path).await?; // the lock is lost, and its holder does not know
/// let error = fenced.set("/report", "too late").await.unwrap_err();
/// assert_eq!(*error.kind(), ErrorKind::Deposed);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Fenced {
    client: Client,
    /// At least one.
    guards: Vec<Guard>,
}

#[derive(Clone, Debug)]
struct Guard {
    path: String,
    version: Option<i32>,
}

impl Fenced {
    pub(crate) fn new(client: Client, guard: &str) -> Self {
        Fenced { client, guards: Vec::new() }.and(guard)
    }

    /// Adds another guard: writes fail unless this znode exists, too.
    #[must_use]
    pub fn and(mut self, guard: &str) -> Self {
        self.guards.push(Guard { path: guard.to_owned(), version: None });
        self
    }

    /// Requires that the data of the last guard has this version: for a guard that outlives its holders, such as a
    /// counter that each new holder increments.
    #[must_use]
    pub fn at_version(mut self, version: i32) -> Self {
        if let Some(guard) = self.guards.last_mut() {
            guard.version = Some(version);
        }
        self
    }

    /// Creates a znode.
    pub async fn create(&self, path: &str, data: impl Into<Bytes>) -> Result<Created> {
        match self.single(Op::create(path, data)).await? {
            OpResult::Created(created) => Ok(created),
            other => Err(unexpected(&other)),
        }
    }

    /// Replaces the data of a znode.
    pub async fn set(&self, path: &str, data: impl Into<Bytes>) -> Result<Stat> {
        match self.single(Op::set(path, data)).await? {
            OpResult::Set(stat) => Ok(stat),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a znode.
    pub async fn delete(&self, path: &str) -> Result<()> {
        self.single(Op::delete(path)).await.map(drop)
    }

    /// Executes all of these writes, or none, and none if the lock's node no longer exists.
    pub async fn transaction(&self, ops: impl IntoIterator<Item = Op>) -> Result<Vec<OpResult>> {
        let checks = self.guards.len();
        let guarded = self.guards.iter().map(Guard::check).chain(ops);
        let mut results =
            self.client.transaction(guarded).await.map_err(|error| match error.failed_op() {
                Some(index) if index < checks => deposed(error),
                Some(index) => error.with_failed_op(index - checks),
                None => error,
            })?;
        results.drain(..checks.min(results.len()));
        Ok(results)
    }

    /// Returns the client without the check, for reads.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    async fn single(&self, op: Op) -> Result<OpResult> {
        let mut results = self.transaction([op]).await?;
        results.pop().ok_or_else(|| Error::not_applied(ErrorKind::Server(0)))
    }
}

impl Guard {
    fn check(&self) -> Op {
        let check = Op::check(&self.path);
        match self.version {
            Some(version) => check.version(version),
            None => check,
        }
    }
}

/// Converts the error of a failed check. A guard that could not be checked, for example because of its ACL, says
/// nothing about the holder.
fn deposed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NoNode | ErrorKind::BadVersion => {
            error.with_kind(ErrorKind::Deposed).with_failed_op(None)
        }
        _ => error.with_failed_op(None),
    }
}

fn unexpected(result: &OpResult) -> Error {
    tracing::error!(?result, "unexpected kind of result in the reply to a transaction");
    Error::new(ErrorKind::Server(0), crate::error::Outcome::Applied)
}
