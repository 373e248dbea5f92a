//! The writing side of a configuration.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{
    Client, Error as ClientError, ErrorKind, Lifetime, Node, Op, OpResult, Optional, Outcome, Stat,
    Zxid,
};
use serde::Serialize;

use super::history::History;
use crate::codec::{self, Encode, Json};
use crate::conditional_set::{ConditionalSet, SameData, Written};
use crate::error::{Error, Result};
use crate::path;

/// A value that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Version of the node's data: the version to compare with next time.
    pub version: i32,
    /// The change that wrote it.
    pub zxid: Zxid,
}

impl From<Stat> for Published {
    fn from(stat: Stat) -> Self {
        Published { version: stat.version, zxid: stat.mzxid }
    }
}

/// Publishes values of a configuration.
///
/// After a lost reply the node is read before a result is returned: if it has the next version and exactly the
/// published data, the value counts as published. (If another client has published the very same data over the very
/// same version, both publishers get this result; the two cases are indistinguishable and equivalent.) If another
/// client has written since, the error's outcome is unknown.
pub struct Publisher<T> {
    client: Client,
    path: String,
    codec: Arc<dyn Encode<T>>,
    history: Option<History>,
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<T: Serialize + 'static> Publisher<T> {
    /// Creates a publisher of JSON, without any request.
    pub fn new(client: &Client, path: &str) -> Result<Publisher<T>> {
        Publisher::with_codec(client, path, Json)
    }
}

impl<T: 'static> Publisher<T> {
    /// Creates a publisher of values in this codec's format, without any request.
    pub fn with_codec(client: &Client, path: &str, codec: impl Encode<T>) -> Result<Publisher<T>> {
        path::check(path)?;
        let codec = Arc::new(codec);
        Ok(Publisher { client: client.clone(), path: path.to_owned(), codec, history: None })
    }

    /// Keeps the last `entries_max` publications as children of `<path>/history`, for [`Publisher::rollback`]. Each
    /// publication and its entry are written together or not at all.
    pub fn with_history(mut self, entries_max: usize) -> Result<Publisher<T>> {
        self.history = Some(History::new(&self.client, &self.path, entries_max)?);
        Ok(self)
    }

    /// Returns the past publications, if they are kept.
    pub(super) fn kept_history(&self) -> Result<&History> {
        self.history.as_ref().ok_or_else(|| Error::invalid("this publisher keeps no history"))
    }

    /// Publishes a value, whatever was there before. Creates missing nodes.
    pub async fn publish(&self, value: &T) -> Result<Published> {
        self.publish_data(self.encode(value)?).await
    }

    /// Publishes a value if the current one has this version, and fails with [`ErrorKind::BadVersion`] otherwise.
    pub async fn compare_and_publish(&self, version: i32, value: &T) -> Result<Published> {
        let data = self.encode(value)?;
        match self.replace(version, data).await? {
            Written::Yes(stat) => Ok(stat.into()),
            Written::Overtaken => Err(ClientError::not_applied(ErrorKind::BadVersion).into()),
        }
    }

    fn encode(&self, value: &T) -> Result<Bytes> {
        self.codec.encode(value).map_err(codec::at(&self.path))
    }

    pub(super) async fn publish_data(&self, data: Bytes) -> Result<Published> {
        loop {
            let stat = match self.read().await? {
                Some(node) => self.replace(node.stat.version, data.clone()).await?,
                None => self.create(&data).await?,
            };
            // Another publisher was faster: its value is replaced then.
            if let Written::Yes(stat) = stat {
                return Ok(stat.into());
            }
        }
    }

    async fn replace(&self, version: i32, data: Bytes) -> Result<Written> {
        if let Some(history) = &self.history {
            history.prepare().await?;
        }
        let along = self.history.as_ref().map(|history| history.entry(&data));
        let (client, path) = (&self.client, &*self.path);
        let same_data = SameData::IsOurs;
        let set = ConditionalSet { client, path, data, version, same_data, along };
        let written = set.run().await?;
        self.trim_history().await;
        Ok(written)
    }

    async fn create(&self, data: &Bytes) -> Result<Written> {
        let mut ops = vec![Op::create(&self.path, data.clone())];
        if let Some(history) = &self.history {
            ops.extend(history.create(data));
        }
        let error = match self.client.transaction(ops).await {
            Ok(results) => return self.created(results).await,
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::NodeExists => Ok(Written::Overtaken),
            ErrorKind::NoNode => {
                let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                let parent = if parent.is_empty() { "/" } else { parent };
                self.client.ensure(parent, Lifetime::Persistent).await?;
                Ok(Written::Overtaken)
            }
            _ if error.outcome() == Outcome::Unknown => self.resolve_creation(data, error).await,
            _ => Err(error.into()),
        }
    }

    async fn created(&self, results: Vec<OpResult>) -> Result<Written> {
        match results.into_iter().next() {
            // Servers before 3.5 leave the stat out of a transaction's reply; a read has it.
            Some(OpResult::Created(created)) if created.stat.czxid != Zxid::ZERO => {
                Ok(Written::Yes(created.stat))
            }
            _ => Ok(self.read().await?.map_or(Written::Overtaken, |node| Written::Yes(node.stat))),
        }
    }

    /// Finds out what happened after the reply to a creation was lost.
    async fn resolve_creation(&self, data: &Bytes, lost: ClientError) -> Result<Written> {
        let found = match self.client.sync(&self.path).await {
            Ok(()) => self.read().await,
            Err(_) => return Err(lost.into()),
        };
        match found {
            Ok(None) => Ok(Written::Overtaken),
            Ok(Some(node)) if node.data == *data => Ok(Written::Yes(node.stat)),
            _ => Err(lost.into()),
        }
    }

    async fn read(&self) -> Result<Option<Node>> {
        Ok(self.client.get(&self.path).await.optional()?)
    }

    /// Deletes old entries. The value is published: a failure here is not one of the publication.
    async fn trim_history(&self) {
        if let Some(history) = &self.history
            && let Err(error) = history.trim().await
        {
            tracing::warn!(%error, path = self.path, "old history entries were not deleted");
        }
    }
}
