//! The last publications of a configuration, as children of `<path>/history`.
//!
//! Layout: `<path>/history/v-NNNNNNNNNN`, persistent sequential, with the data as it was published. An entry is
//! created in the transaction that publishes, so neither exists without the other. Old entries are deleted
//! afterwards; a publisher that dies before that leaves one too many until the next publication. Nodes with other
//! names are ignored.

use bytes::Bytes;
use herdsman_client::{Client, Lifetime, Op, Optional, Zxid};

use super::publisher::{Published, Publisher};
use crate::error::{Error, Result};

/// A limit beyond any practical use; the list of children arrives in one reply.
const ENTRIES_LIMIT: usize = 10_000;

const PREFIX: &str = "v-";

/// A past publication.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The name of its node; a greater one is later.
    pub name: String,
    /// What was published.
    pub data: Bytes,
    /// The change that published it.
    pub zxid: Zxid,
    /// When it was published by the servers' clock, milliseconds since 1970.
    pub time_ms: i64,
}

#[derive(Debug)]
pub(super) struct History {
    client: Client,
    directory: String,
    entries_max: usize,
}

impl History {
    pub(super) fn new(client: &Client, path: &str, entries_max: usize) -> Result<History> {
        if entries_max == 0 || entries_max > ENTRIES_LIMIT {
            return Err(Error::invalid(format!("a history has 1 to {ENTRIES_LIMIT} entries")));
        }
        let directory = format!("{}/history", path.strip_suffix('/').unwrap_or(path));
        Ok(History { client: client.clone(), directory, entries_max })
    }

    /// Returns the operation that adds an entry.
    pub(super) fn entry(&self, data: &Bytes) -> Op {
        Op::create(&format!("{}/{PREFIX}", self.directory), data.clone()).sequential()
    }

    /// Returns the operations that begin a history.
    pub(super) fn create(&self, data: &Bytes) -> [Op; 2] {
        [Op::create(&self.directory, Bytes::new()), self.entry(data)]
    }

    /// Creates the directory, which may be missing if the first publisher kept no history.
    pub(super) async fn prepare(&self) -> Result<()> {
        Ok(self.client.ensure(&self.directory, Lifetime::Persistent).await?)
    }

    pub(super) async fn trim(&self) -> Result<()> {
        for name in self.names().await?.into_iter().skip(self.entries_max) {
            match self.client.delete(&self.path_of(&name)).await {
                Err(error) if error.is_no_node() => {}
                deleted => deleted?,
            }
        }
        Ok(())
    }

    /// Returns the names of the entries, newest first.
    async fn names(&self) -> Result<Vec<String>> {
        let Some(children) = self.client.children(&self.directory).await.optional()? else {
            return Ok(Vec::new());
        };
        let mut names = children.names;
        names.retain(|name| name.starts_with(PREFIX));
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    async fn read(&self, name: String) -> Result<Option<HistoryEntry>> {
        // Another publisher may have deleted it meanwhile.
        let Some(node) = self.client.get(&self.path_of(&name)).await.optional()? else {
            return Ok(None);
        };
        let (zxid, time_ms) = (node.stat.czxid, node.stat.ctime);
        Ok(Some(HistoryEntry { name, data: node.data, zxid, time_ms }))
    }
}

/// Access to past publications.
impl<T: 'static> Publisher<T> {
    /// Returns the publications that are kept, newest first: the first is the current one.
    pub async fn history(&self) -> Result<Vec<HistoryEntry>> {
        let history = self.kept_history()?;
        let mut entries = Vec::new();
        for name in history.names().await?.into_iter().take(history.entries_max) {
            entries.extend(history.read(name).await?);
        }
        Ok(entries)
    }

    /// Publishes again what was published `publications` publications before the last one; 1 is the one before. The
    /// result is a new publication, so nothing is lost and it can be undone.
    pub async fn rollback(&self, publications: usize) -> Result<Published> {
        if publications == 0 {
            return Err(Error::invalid("a rollback must go back by at least 1 publication"));
        }
        let history = self.kept_history()?;
        let names = history.names().await?;
        let kept = names.len();
        let too_few = || Error::invalid(format!("only {kept} publications are kept"));
        let name = names.into_iter().nth(publications).ok_or_else(too_few)?;
        let entry = history.read(name).await?.ok_or_else(too_few)?;
        self.publish_data(entry.data).await
    }
}
