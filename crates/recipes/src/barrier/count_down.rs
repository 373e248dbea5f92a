//! A latch that opens for good when a number of things have happened.
//!
//! ```text
//! <path>          persistent; data: "<left>/<of>", as text
//! <path>/open     persistent; made in the same transaction as the last count
//! ```
//! The layout is ours: neither Curator nor kazoo has such a latch. Counting is exact: a lost reply neither loses a
//! count nor counts twice. Waiters have one watch on `open` each; counts do not wake them.

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, EventType, Node, Op};

use super::at_most;
use crate::error::{Error, Result};
use crate::path::child;
use crate::retrying::{is_overtaken, retrying};
use crate::until_known::{unless, until_known};
use crate::witness::Witness;

/// Waits for a number of things to happen, in any processes.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::CountDownLatch;
///
/// let migrated = CountDownLatch::new(&zk, "/release/7/migrated", 2)?;
/// assert_eq!(migrated.count_down().await?, 1);
/// assert_eq!(migrated.count_down().await?, 0);
/// migrated.wait().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct CountDownLatch {
    client: Client,
    path: String,
    count: u32,
}

impl CountDownLatch {
    /// Creates a handle for the latch at `path` that opens after `count` calls of [`count_down`](Self::count_down) by
    /// any processes, without any request. The first process that counts or waits creates the node.
    ///
    /// # Errors
    /// If `count` is 0: such a latch would never be closed.
    pub fn new(client: &Client, path: impl Into<String>, count: u32) -> Result<Self> {
        if count == 0 {
            return Err(Error::invalid("a latch needs a count of at least one"));
        }
        Ok(CountDownLatch { client: client.clone(), path: path.into(), count })
    }

    /// Counts one, and returns how many are left. On an open latch it does nothing and returns 0.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the latch was created for another count. The outcome is unknown only if the
    /// session ended after a reply was lost.
    pub async fn count_down(&self) -> Result<u32> {
        let session = self.client.connected_session().await?;
        let client = self.client.bound_to(&session);
        let mut witness = Witness::below_node(&client, &session, &self.path);
        loop {
            let (left, node) = self.read(&client).await?;
            let Some(left) = left.checked_sub(1) else {
                return Ok(0);
            };
            let count = Op::set(&self.path, self.encode(left)).version(node.stat.version);
            let open = (left == 0).then(|| Op::create(&self.open_path(), Bytes::new()));
            let ops: Vec<_> = [count].into_iter().chain(open).collect();
            match witness.commit(&ops).await {
                Ok(_) => return Ok(left),
                // Another client was faster, or has removed the latch.
                Err(error) if is_overtaken(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns how many are left.
    pub async fn left(&self) -> Result<u32> {
        Ok(self.read(&self.client).await?.0)
    }

    /// Waits until the latch is open, through outages too; returns at once if it is open. Cancel-safe.
    pub async fn wait(&self) -> Result<()> {
        let client = retrying(&self.client);
        self.read(&client).await?;
        loop {
            let (open, watch) = client.exists(&self.open_path()).watch().await?;
            if open.is_some() {
                return Ok(());
            }
            match watch.await {
                Ok(event) if event.kind == EventType::NodeCreated => return Ok(()),
                // The session ended: the next read is made in the next session, if there is one.
                _ => {}
            }
        }
    }

    /// Like [`CountDownLatch::wait`], but fails with [`Error::TimedOut`] when `limit` has passed.
    pub async fn wait_within(&self, limit: Duration) -> Result<()> {
        at_most(limit, self.wait()).await
    }

    /// Deletes the latch. Processes that still wait keep waiting, for the next latch at this path.
    pub async fn remove(&self) -> Result<()> {
        let delete = || self.client.delete(&self.path).recursive().send();
        Ok(unless(until_known(delete).await, &ErrorKind::NoNode)?)
    }

    /// Returns how many are left, and the node, which is created if it does not exist.
    async fn read(&self, client: &Client) -> Result<(u32, Node)> {
        loop {
            match client.get(&self.path).await {
                Err(error) if error.is_no_node() => self.make(client).await?,
                read => {
                    let node = read?;
                    return Ok((self.decode(&node.data)?, node));
                }
            }
        }
    }

    async fn make(&self, client: &Client) -> Result<()> {
        let make = || async {
            let create = client.create(&self.path, self.encode(self.count)).container_parents();
            create.await.map(drop)
        };
        Ok(unless(until_known(make).await, &ErrorKind::NodeExists)?)
    }

    fn encode(&self, left: u32) -> Bytes {
        format!("{left}/{}", self.count).into()
    }

    fn decode(&self, data: &[u8]) -> Result<u32> {
        match latch_count(data) {
            Some((left, of)) if of == self.count => Ok(left),
            Some((_, of)) => Err(Error::invalid(format!(
                "the latch {} counts {of} things, not {}",
                self.path, self.count
            ))),
            None => Err(self.unreadable(data)),
        }
    }

    fn unreadable(&self, data: &[u8]) -> Error {
        let reason = format!("\"{}\" is not \"<left>/<of>\"", data.escape_ascii());
        Error::Codec { path: self.path.clone(), reason }
    }

    fn open_path(&self) -> String {
        child(&self.path, "open")
    }
}

/// Decodes the data of a latch's node: how many things are left to be counted, and of how many. `None` if the data is
/// not a latch's.
///
/// ```
/// assert_eq!(herdsman_recipes::barrier::latch_count(b"2/5"), Some((2, 5)));
/// assert_eq!(herdsman_recipes::barrier::latch_count(b"6/5"), None);
/// ```
#[must_use]
pub fn latch_count(data: &[u8]) -> Option<(u32, u32)> {
    let slash = data.iter().position(|byte| *byte == b'/')?;
    let (left, of) = (parse(&data[..slash])?, parse(&data[slash + 1..])?);
    (left <= of).then_some((left, of))
}

fn parse(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
