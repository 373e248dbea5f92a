//! The task that keeps a cache up to date.
//!
//! It sets the watch first and reads afterwards, so no change is missed between the two. Then it follows the watch:
//! what changed is read again. After a gap it compares the whole tree with what it has ([`super::walk`]), after a
//! random pause, so that a thousand caches that lost the same server do not all send requests to the next one at the
//! same moment.

use std::time::Duration;

use herdsman_client::{Client, PersistentWatch};
use tokio::time::sleep;

use super::CacheOptions;
use super::inbox::{DirtyPath, Inbox};
use super::scope::Scope;
use super::state::{CacheState, Change};
use super::walk::{Listings, Step};

/// Nothing more can be read: the client is closed, or the session it was bound to has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// The kind of watch to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchShape {
    Node,
    Tree,
}

/// Sets the watch of a cache.
pub(super) async fn set_watch(
    client: &Client,
    path: &str,
    shape: WatchShape,
) -> herdsman_client::Result<PersistentWatch> {
    match shape {
        WatchShape::Node => client.watch(path).await,
        WatchShape::Tree => client.watch(path).recursive().await,
    }
}

pub(super) struct CacheTask {
    pub(super) client: Client,
    pub(super) scope: Scope,
    pub(super) state: CacheState,
    pub(super) inbox: Inbox,
    /// What the last complete walk has listed.
    pub(super) listings: Listings,
    pub(super) requests_max: usize,
    resync_spread: Duration,
}

impl CacheTask {
    pub(super) fn new(
        client: &Client,
        scope: Scope,
        state: CacheState,
        watch: PersistentWatch,
        options: &CacheOptions,
    ) -> Self {
        CacheTask {
            inbox: Inbox::new(client, &scope, watch),
            client: client.clone(),
            scope,
            state,
            listings: Listings::default(),
            requests_max: options.requests_max,
            resync_spread: options.resync_spread,
        }
    }

    /// Runs until the client is closed. The last known state stays.
    pub(super) async fn run(mut self) {
        let Err(Ended) = self.follow().await;
        self.state.set_out_of_sync();
    }

    async fn follow(&mut self) -> Result<std::convert::Infallible, Ended> {
        self.resync().await?;
        loop {
            if self.inbox.dirty.everything {
                self.state.set_out_of_sync();
                self.pause().await?;
                self.resync().await?;
            } else if self.inbox.dirty.paths.is_empty() {
                self.listen().await?;
            } else {
                self.refresh().await?;
            }
        }
    }

    /// Waits for notifications, and publishes the loss of the connection at once.
    pub(super) async fn listen(&mut self) -> Result<(), Ended> {
        self.inbox.wait().await;
        if std::mem::take(&mut self.inbox.dirty.disconnected) {
            self.state.set_out_of_sync();
        }
        if self.inbox.dirty.closed { Err(Ended) } else { Ok(()) }
    }

    async fn pause(&mut self) -> Result<(), Ended> {
        let pause = sleep(self.resync_spread.mul_f64(fastrand::f64()));
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return Ok(()),
                handled = self.listen() => handled?,
            }
        }
    }

    /// Compares everything. If there was another gap meanwhile, it will have to be done again.
    async fn resync(&mut self) -> Result<(), Ended> {
        self.inbox.forget();
        self.catch_up().await?;
        self.walk().await?;
        if !self.inbox.dirty.everything {
            self.state.set_synced();
        }
        Ok(())
    }

    /// Syncs, because the server of the next session may be behind what this cache has read.
    async fn catch_up(&mut self) -> Result<(), Ended> {
        let sync = self.client.sync(&self.scope.root).send();
        if let Err(error) = self.while_listening(sync).await? {
            // A server without a quorum cannot sync, but then it is not ahead of this cache either.
            tracing::debug!(%error, "the sync failed");
        }
        Ok(())
    }

    /// Reads the nodes that events have named.
    async fn refresh(&mut self) -> Result<(), Ended> {
        let mut changes = Vec::new();
        let mut steps = Vec::new();
        for (path, dirty) in std::mem::take(&mut self.inbox.dirty.paths) {
            match dirty {
                DirtyPath::Unread => steps.push(Step::Read(path)),
                DirtyPath::Deleted(by) => changes.push(Change::Deleted(path, by)),
            }
        }
        self.state.apply(&mut changes);
        self.read_all(steps).await
    }

    /// Awaits a reply, and handles notifications meanwhile.
    pub(super) async fn while_listening<T>(
        &mut self,
        answer: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        tokio::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer),
                handled = self.listen() => handled?,
            }
        }
    }
}
