//! A typed value that many processes change without losing each other's changes.
//!
//! In: functions from the old value to the new one. Out: the value that was written. Each change is "read, then write
//! if no other client has written since", repeated until it succeeds; in each round one client does.
//!
//! Layout: one persistent node whose data is a line with the id of the write (`w:` and 32 hexadecimal digits), then
//! the value as the [codec](crate::codec) encodes it. With the id a writer recognizes its own write after a lost
//! reply, so a change is neither lost nor made twice. A node without that line is read as a bare value, and gets the
//! line with its next change.
//!
//! One case stays unknown, and is reported as such: the reply was lost, and other clients have changed or deleted the
//! node before it could be read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use herdsman_client::{Client, Error as ClientError, ErrorKind, Node, Optional, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use uuid::Uuid;

use crate::codec::{self, Decode, Encode, Json};
use crate::conditional_set::{ConditionalSet, SameData, Written};
use crate::config::Versioned;
use crate::error::{Error, Result};
use crate::path;

const MARK: &[u8] = b"w:";
/// The mark, the id and the end of the line.
const LINE_BYTES: usize = MARK.len() + 32 + 1;
/// The longest pause after other writers were faster, in ms.
const PAUSE_MAX_MS: u64 = 64;

/// A shared value that is changed with a function. Has no watch and no task.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::versioned_cell::VersionedCell;
///
/// let names = VersionedCell::<Vec<String>>::new(&zk, "/names")?;
/// names
///     .update(|names| {
///         let mut names = names.cloned().unwrap_or_default();
///         names.push("ada".to_owned());
///         names
///     })
///     .await?;
/// assert_eq!(names.read().await?.unwrap().value, ["ada"]);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
pub struct VersionedCell<T> {
    client: Client,
    path: String,
    decode: Arc<dyn Decode<T>>,
    encode: Arc<dyn Encode<T>>,
}

impl<T> Clone for VersionedCell<T> {
    fn clone(&self) -> Self {
        VersionedCell {
            client: self.client.clone(),
            path: self.path.clone(),
            decode: self.decode.clone(),
            encode: self.encode.clone(),
        }
    }
}

impl<T> fmt::Debug for VersionedCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionedCell").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<T: Serialize + DeserializeOwned + 'static> VersionedCell<T> {
    /// Creates a handle for a cell that holds JSON, without any request.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        VersionedCell::with_codec(client, path, Json)
    }
}

impl<T: 'static> VersionedCell<T> {
    /// Creates a handle for a cell that holds values in this codec's format.
    pub fn with_codec<C>(client: &Client, path: &str, codec: C) -> Result<Self>
    where
        C: Decode<T> + Encode<T> + Clone,
    {
        path::check(path)?;
        let (decode, encode) = (Arc::new(codec.clone()), Arc::new(codec));
        Ok(VersionedCell { client: client.clone(), path: path.to_owned(), decode, encode })
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the value; `None` if there is no node.
    pub async fn read(&self) -> Result<Option<Versioned<T>>> {
        self.node().await?.map(|node| self.value_of(&node)).transpose()
    }

    /// Replaces the value with the result of `change` (called with `None` if there is no node), and returns what was
    /// written. `change` is called again whenever another client was faster, so it should have no side effects.
    /// Missing parents are created.
    pub async fn update(&self, mut change: impl FnMut(Option<&T>) -> T) -> Result<Versioned<T>> {
        let written = self.try_update(|value| Some(change(value))).await?;
        written.ok_or_else(|| Error::invalid("a change that always returns a value returned none"))
    }

    /// Does the same, but `change` may find that there is nothing to do: then nothing is written, and the result is
    /// `None`.
    pub async fn try_update(
        &self,
        mut change: impl FnMut(Option<&T>) -> Option<T>,
    ) -> Result<Option<Versioned<T>>> {
        let mut overtaken = 0;
        loop {
            let node = self.node().await?;
            let before = node.as_ref().map(|node| self.value_of(node)).transpose()?;
            let Some(value) = change(before.as_ref().map(|before| &before.value)) else {
                return Ok(None);
            };
            let data = self.marked(&value)?;
            let written = match &node {
                Some(node) => self.replace(node.stat.version, data).await?,
                None => self.create(&data).await?,
            };
            if let Written::Yes(stat) = written {
                return Ok(Some(Versioned::from_service(value, &stat)));
            }
            overtaken += 1;
            sleep(pause_after(overtaken)).await;
        }
    }

    async fn node(&self) -> Result<Option<Node>> {
        Ok(self.client.get(&self.path).await.optional()?)
    }

    fn value_of(&self, node: &Node) -> Result<Versioned<T>> {
        let value = self.decode.decode(without_mark(&node.data)).map_err(codec::at(&self.path))?;
        Ok(Versioned::from_service(value, &node.stat))
    }

    /// Returns the data of a write, with a unique id.
    fn marked(&self, value: &T) -> Result<Bytes> {
        let value = self.encode.encode(value).map_err(codec::at(&self.path))?;
        let mut data = BytesMut::with_capacity(LINE_BYTES + value.len());
        data.put_slice(MARK);
        data.put_slice(Uuid::new_v4().simple().to_string().as_bytes());
        data.put_u8(b'\n');
        data.put_slice(&value);
        Ok(data.freeze())
    }

    async fn replace(&self, version: i32, data: Bytes) -> Result<Written> {
        let (client, path) = (&self.client, &*self.path);
        let same_data = SameData::IsOurs;
        ConditionalSet { client, path, data, version, same_data, along: None }.run().await
    }

    async fn create(&self, data: &Bytes) -> Result<Written> {
        let error = match self.client.create(&self.path, data.clone()).parents().await {
            Ok(created) => return Ok(Written::Yes(created.stat)),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::NodeExists => Ok(Written::Overtaken),
            _ if error.outcome() == Outcome::Unknown => self.resolve_creation(data, error).await,
            _ => Err(error.into()),
        }
    }

    /// Finds out what happened after the reply to a creation was lost.
    async fn resolve_creation(&self, data: &Bytes, lost: ClientError) -> Result<Written> {
        if self.client.sync(&self.path).await.is_err() {
            return Err(lost.into());
        }
        match self.node().await {
            Ok(Some(node)) if node.data == *data => Ok(Written::Yes(node.stat)),
            // It may have been created and deleted, or may still be created: this cannot be known.
            _ => Err(lost.into()),
        }
    }
}

/// Returns the value without the line that identifies the writer.
fn without_mark(data: &[u8]) -> &[u8] {
    let Some((line, value)) = data.split_at_checked(LINE_BYTES) else {
        return data;
    };
    let id = line.strip_prefix(MARK).and_then(|line| line.strip_suffix(b"\n"));
    let is_marked = id.is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit));
    if is_marked { value } else { data }
}

fn pause_after(overtaken: u32) -> Duration {
    let longest = 1_u64.checked_shl(overtaken).unwrap_or(PAUSE_MAX_MS).min(PAUSE_MAX_MS);
    Duration::from_millis(fastrand::u64(0..=longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_mark_is_removed() {
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(without_mark(format!("w:{id}\n{{}}").as_bytes()), b"{}");
        assert_eq!(without_mark(format!("w:{id}\n").as_bytes()), b"");
        for bare in ["", "w:", "{}", &format!("w:{id}"), &format!("w:{}!\n5", &id[1..])] {
            assert_eq!(without_mark(bare.as_bytes()), bare.as_bytes());
        }
    }

    #[test]
    fn pauses_are_bounded() {
        assert!(pause_after(1) <= Duration::from_millis(2));
        assert!((1..200).all(|times| pause_after(times) <= Duration::from_millis(PAUSE_MAX_MS)));
    }
}
