//! The common part of all queues with locks: how an item is found, locked and delivered.
//!
//! Invariant: an item is delivered only by the consumer that created its lock node, after the same transaction has
//! shown that the item still existed. It is removed only together with that lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, Lifetime, Node, Optional, Watch};

use super::item::WorkItem;
use super::locked::Locked;
use super::options::{DeadLetter, WorkOptions};
use crate::error::{Error, Result};
use crate::hold_options::LostWhen;
use crate::line::Line;
use crate::queue::clock::ServerClock;
use crate::queue::ensure;
use crate::queue::item_store::{ItemStore, check_path};
use crate::queue::names::{Candidate, Order};
use crate::queue::payload::Content;
use crate::queue::waiting::{Attempt, Source, Wake, in_line, line, should_continue};
use crate::retrying::retrying;

/// A queue whose items are locked while they are worked on.
#[derive(Debug)]
pub(in crate::queue) struct Core {
    pub(in crate::queue) store: ItemStore,
    pub(in crate::queue) clock: ServerClock,
    pub(super) locks: String,
    pub(super) dead_letter: Option<DeadLetter>,
    pub(super) lost_when: LostWhen,
    consumers: Line,
    order: Order,
}

impl Core {
    pub(in crate::queue) fn new(
        client: &Client,
        path: &str,
        options: WorkOptions,
        order: Order,
    ) -> Result<Arc<Self>> {
        options.check(path)?;
        let holder = options.holder(client);
        let client = &holder.client;
        let store = ItemStore::new(client, path, Lifetime::Persistent, options.capacity)?;
        let locks = options.lock_path.unwrap_or_else(|| format!("{path}-locks"));
        check_path(&locks)?;
        if let Some(dead) = &options.dead_letter {
            check_path(&dead.path)?;
        }
        Ok(Arc::new(Core {
            clock: ServerClock::new(store.receipts.clone()),
            store,
            locks,
            dead_letter: options.dead_letter,
            consumers: line(client, path, "consumers"),
            order,
            lost_when: holder.lost_when,
        }))
    }

    /// Puts one node with these payloads in; waits if the queue is full.
    pub(in crate::queue) async fn offer(&self, name: &str, payloads: Vec<Bytes>) -> Result<()> {
        self.store.offer(name, encode(payloads)?).await
    }

    /// Puts one node with these payloads in; [`Error::Full`] if the queue is full.
    pub(in crate::queue) async fn try_offer(&self, name: &str, payloads: Vec<Bytes>) -> Result<()> {
        self.store.try_offer(name, &encode(payloads)?).await
    }

    /// Returns the first item that no consumer works on, if there is one.
    pub(in crate::queue) async fn poll(self: &Arc<Self>) -> Result<Option<WorkItem>> {
        let candidates = self.candidates().await?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let busy = match self.store.client.children(&self.locks).await {
            Err(error) if error.is_no_node() => HashSet::new(),
            children => children?.names.into_iter().collect(),
        };
        let now_ms = self.now_ms().await?;
        self.first_of(&candidates, &busy, now_ms).await
    }

    /// Returns the first item that no consumer works on, as soon as there is one.
    pub(in crate::queue) async fn take(self: &Arc<Self>) -> Result<WorkItem> {
        match self.poll().await {
            Ok(Some(item)) => return Ok(item),
            Ok(None) => {}
            Err(error) if should_continue(&self.store.client, &error) => {}
            Err(error) => return Err(error),
        }
        in_line(&self.consumers, self).await
    }

    /// Returns all items, in order, including those that consumers work on.
    pub(in crate::queue) async fn candidates(&self) -> Result<Vec<Candidate>> {
        Ok(self.order.candidates(self.store.names().await?))
    }

    pub(super) fn lock_of(&self, name: &str) -> String {
        format!("{}/{name}", self.locks)
    }

    /// Removes an item that no consumer works on, without delivering it. Runs to its end even if the caller no longer
    /// waits, so that the item is not left locked.
    pub(in crate::queue) async fn discard(self: &Arc<Self>, name: String) -> Result<bool> {
        let core = self.clone();
        let task = tokio::spawn(async move { core.discard_to_completion(&name).await });
        task.await.unwrap_or_else(|_| Err(crate::queue::abandoned()))
    }

    async fn discard_to_completion(self: &Arc<Self>, name: &str) -> Result<bool> {
        let Some(node) = self.read(name).await? else {
            return Ok(false);
        };
        let Some(locked) = Locked::lock(self, name, &node, node.data.clone()).await? else {
            return Ok(false);
        };
        locked.remove().await.map(|()| true)
    }

    /// Sets watches before it tries, so that nothing is missed between this attempt and the next.
    pub(in crate::queue) async fn attempt(self: &Arc<Self>) -> Result<Attempt<WorkItem>> {
        let (names, items_watch) = self.store.watched_names().await?;
        let candidates = self.order.candidates(names);
        if candidates.is_empty() {
            return Ok(Attempt::Nothing(Wake { watches: vec![items_watch], after: None }));
        }
        let (busy, locks_watch) = self.watched_locks().await?;
        let now_ms = self.now_ms().await?;
        if let Some(item) = self.first_of(&candidates, &busy, now_ms).await? {
            return Ok(Attempt::Found(item));
        }
        let due_ms = candidates.iter().map(|item| item.due_ms).filter(|due| *due > now_ms).min();
        let after = due_ms.map(|due| Duration::from_millis(due.abs_diff(now_ms)));
        Ok(Attempt::Nothing(Wake { watches: vec![items_watch, locks_watch], after }))
    }

    async fn watched_locks(&self) -> Result<(HashSet<String>, Watch)> {
        let client = retrying(&self.store.client);
        loop {
            match client.children(&self.locks).watch().await {
                Err(error) if error.is_no_node() => {
                    ensure(&client, &self.locks, Lifetime::Persistent).await?;
                }
                children => {
                    let (children, watch) = children?;
                    return Ok((children.names.into_iter().collect(), watch));
                }
            }
        }
    }

    /// Returns the server's time, if the order needs it.
    async fn now_ms(&self) -> Result<i64> {
        match self.order {
            Order::Due => self.clock.now_ms().await,
            Order::Name | Order::Arrival => Ok(0),
        }
    }

    async fn first_of(
        self: &Arc<Self>,
        candidates: &[Candidate],
        busy: &HashSet<String>,
        now_ms: i64,
    ) -> Result<Option<WorkItem>> {
        for candidate in candidates {
            if candidate.due_ms > now_ms || busy.contains(&candidate.name) {
                continue;
            }
            if let Some(item) = self.claim(candidate.name.clone()).await? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Claims an item. Runs to its end even if the caller no longer waits: then the item is dropped, which unlocks
    /// it.
    async fn claim(self: &Arc<Self>, name: String) -> Result<Option<WorkItem>> {
        let core = self.clone();
        let task = tokio::spawn(async move { core.claim_to_completion(&name).await });
        task.await.unwrap_or_else(|_| Err(crate::queue::abandoned()))
    }

    async fn claim_to_completion(self: Arc<Self>, name: &str) -> Result<Option<WorkItem>> {
        let Some(node) = self.read(name).await? else {
            return Ok(None);
        };
        match Content::decode(node.data.clone()) {
            Err(reason) => self.remove_unreadable(name, &node, reason).await,
            // Nothing to work on. Curator does not call the consumer for such an item either.
            Ok(content) if content.payloads.is_empty() => {
                self.discard_to_completion(name).await?;
                Ok(None)
            }
            Ok(content) => self.deliver(name, &node, content).await,
        }
    }

    async fn deliver(
        self: &Arc<Self>,
        name: &str,
        node: &Node,
        mut content: Content,
    ) -> Result<Option<WorkItem>> {
        let Some(dead) = &self.dead_letter else {
            let locked = Locked::lock(self, name, node, node.data.clone()).await?;
            return Ok(locked.map(|locked| WorkItem::new(locked, content, 1)));
        };
        if content.deliveries >= dead.deliveries_max {
            tracing::warn!(
                name,
                content.deliveries,
                "an item was not done in the maximum number of deliveries; moved to the dead letters"
            );
            if let Some(locked) = Locked::lock(self, name, node, node.data.clone()).await? {
                locked.move_to_dead_letters().await?;
            }
            return Ok(None);
        }
        content.deliveries += 1;
        let locked = Locked::lock(self, name, node, content.encode()).await?;
        let delivery = content.deliveries;
        Ok(locked.map(|locked| WorkItem::new(locked, content, delivery)))
    }

    /// Removes an item that cannot be decoded, so that it does not block others, and reports it once.
    async fn remove_unreadable(
        self: &Arc<Self>,
        name: &str,
        node: &Node,
        reason: String,
    ) -> Result<Option<WorkItem>> {
        let Some(locked) = Locked::lock(self, name, node, node.data.clone()).await? else {
            return Ok(None);
        };
        let path = locked.path();
        locked.move_to_dead_letters().await?;
        Err(Error::Codec { path, reason })
    }

    async fn read(&self, name: &str) -> Result<Option<Node>> {
        Ok(self.store.client.get(&self.store.child(name)).await.optional()?)
    }
}

impl Source for Arc<Core> {
    type Found = WorkItem;

    async fn attempt(&self) -> Result<Attempt<WorkItem>> {
        Core::attempt(self).await
    }
}

fn encode(payloads: Vec<Bytes>) -> Result<Bytes> {
    if payloads.is_empty() {
        return Err(Error::invalid("a batch needs at least one payload"));
    }
    let payload_bytes = payloads.iter().map(Bytes::len).sum();
    crate::queue::item_store::check_size(payload_bytes)?;
    Ok(Content { payloads, deliveries: 0 }.encode())
}
