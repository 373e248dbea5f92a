//! Adds items to a queue: each once, and only if there is room.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Lifetime, Op, Optional, Watch};

use super::capacity::CapacityCheck;
use super::ensure;
use super::receipts::Receipts;
use super::waiting::{Attempt, Source, Wake, in_line, line, should_continue};
use crate::error::{Error, Result};
use crate::line::Line;
use crate::path;
use crate::retrying::retrying;

/// The maximum size of an item's node. Servers accept requests of up to 1 MiB (`jute.maxbuffer`); the rest is
/// reserved for names and for the remainder of the transaction.
pub const ITEM_BYTES_MAX: usize = 1024 * 1024 - 8 * 1024;

/// The directory with the items of one queue.
#[derive(Debug)]
pub(super) struct ItemStore {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) receipts: Arc<Receipts>,
    /// The lifetime of the queue's own node.
    lifetime: Lifetime,
    capacity_check: Option<CapacityCheck>,
    producers: Line,
}

impl ItemStore {
    pub(super) fn new(
        client: &Client,
        path: &str,
        lifetime: Lifetime,
        capacity: Option<usize>,
    ) -> Result<Self> {
        check_path(path)?;
        let capacity_check =
            capacity.map(|capacity| CapacityCheck::new(client, path, capacity)).transpose()?;
        Ok(ItemStore {
            client: client.clone(),
            path: path.to_owned(),
            receipts: Arc::new(Receipts::new(client, path)),
            lifetime,
            capacity_check,
            producers: line(client, path, "producers"),
        })
    }

    /// Puts an item in; waits if the queue is full. `name` is the prefix of its name.
    pub(super) async fn offer(&self, name: &str, data: Bytes) -> Result<()> {
        match self.try_offer(name, &data).await {
            Err(Error::Full { .. }) => {}
            Err(error)
                if self.capacity_check.is_some() && should_continue(&self.client, &error) => {}
            offered => return offered,
        }
        in_line(&self.producers, &WaitingOffer { store: self, name, data }).await
    }

    /// Puts an item in; fails if the queue is full.
    pub(super) async fn try_offer(&self, name: &str, data: &Bytes) -> Result<()> {
        check_size(data.len())?;
        let item = Op::create(&self.child(name), data.clone()).sequential();
        loop {
            let mut ops = Vec::with_capacity(2);
            if let Some(capacity_check) = &self.capacity_check {
                ops.push(capacity_check.check().await?);
            }
            ops.push(item.clone());
            match self.receipts.commit(&ops).await {
                Ok(_) => return Ok(()),
                // The queue's node does not exist (a container may have been deleted), or its capacity node does not.
                Err(error) if error.is_no_node() => self.make().await?,
                // Another producer was faster.
                Err(error) if *error.kind() == ErrorKind::BadVersion => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the names of all children; none if there is no queue.
    pub(super) async fn names(&self) -> Result<Vec<String>> {
        let children = self.client.children(&self.path).await.optional()?;
        Ok(children.map_or_else(Vec::new, |children| children.names))
    }

    /// Returns the names of all children, and a watch for the next change of them. Used by waiters, so it is not
    /// ended by a deadline.
    pub(super) async fn watched_names(&self) -> Result<(Vec<String>, Watch)> {
        let client = retrying(&self.client);
        loop {
            match client.children(&self.path).watch().await {
                Err(error) if error.is_no_node() => self.make().await?,
                children => {
                    let (children, watch) = children?;
                    return Ok((children.names, watch));
                }
            }
        }
    }

    /// Returns the path of a child.
    pub(super) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Creates the directory.
    pub(super) async fn make(&self) -> Result<()> {
        Ok(ensure(&self.client, &self.path, self.lifetime).await?)
    }
}

/// An item that waits for room.
struct WaitingOffer<'q> {
    store: &'q ItemStore,
    name: &'q str,
    data: Bytes,
}

impl Source for WaitingOffer<'_> {
    type Found = ();

    async fn attempt(&self) -> Result<Attempt<()>> {
        let (_, watch) = self.store.watched_names().await?;
        match self.store.try_offer(self.name, &self.data).await {
            Err(Error::Full { .. }) => {
                Ok(Attempt::Nothing(Wake { watches: vec![watch], after: None }))
            }
            offered => offered.map(Attempt::Found),
        }
    }
}

/// Checks the path of a queue: there must be room for other nodes beside it.
pub(super) fn check_path(path: &str) -> Result<()> {
    path::check_below_root("a queue", path)
}

/// Checks the size of an item: with a larger one the server would close the connection.
pub(super) fn check_size(bytes: usize) -> Result<()> {
    if bytes <= ITEM_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the item has {bytes} bytes, more than the limit of {ITEM_BYTES_MAX}");
    Err(Error::InvalidArgument(text))
}
