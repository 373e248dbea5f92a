//! Follows the instances of one service.
//!
//! Invariant: an instance is removed from the set only because a server reported that its node was deleted (or that
//! it cannot be read any more). An outage of the coordination service removes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use herdsman_client::Node;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::instance::ServiceInstance;
use super::registry::Registry;
use super::stabiliser::Stabiliser;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::membership::Change;
use crate::membership::changes::changes_from_nothing;
use crate::membership::roster::{Content, Roster, Snapshot};
use crate::path::child;

/// Options of a [`ServiceCache`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is opened"]
pub struct ServiceCacheOptions<P> {
    registry: Registry<P>,
    name: String,
    removal_delay: Duration,
}

impl<P: Send + Sync + 'static> ServiceCacheOptions<P> {
    pub(super) fn new(registry: &Registry<P>, name: &str) -> Self {
        let registry = registry.clone();
        ServiceCacheOptions { registry, name: name.to_owned(), removal_delay: Duration::ZERO }
    }

    /// Keeps an instance for this long after its node was deleted, so that users of the cache do not notice if it
    /// registers again meanwhile. To remove one at once, publish it as disabled first. Default: zero.
    pub fn removal_delay(mut self, delay: Duration) -> Self {
        self.removal_delay = delay;
        self
    }
}

impl<P: DeserializeOwned + Send + Sync + 'static> ServiceCacheOptions<P> {
    /// Reads the instances, and follows them from now on. The service need not exist yet.
    pub async fn open(self) -> Result<ServiceCache<P>> {
        let service = self.registry.service_path(&self.name)?;
        let directory = service.clone();
        let read = move |node: &str, found: &Node| {
            let instance = ServiceInstance::decode(&child(&directory, node), &found.data);
            Found { node: node.to_owned(), instance: instance.map(Arc::new) }
        };
        let content = Content::Data(Box::new(read));
        let roster = Roster::open(&self.registry.client, &service, content).await?;
        let roster = match self.removal_delay {
            Duration::ZERO => roster,
            delay => stabilised(&roster, delay),
        };
        Ok(ServiceCache { name: self.name, roster })
    }
}

/// A node of the service's directory.
#[derive(Debug)]
pub(super) struct Found<P> {
    /// The node's name.
    pub(super) node: String,
    pub(super) instance: Result<Arc<ServiceInstance<P>>>,
}

/// Returns a roster that keeps removed instances for a while.
fn stabilised<T: Send + Sync + 'static>(roster: &Roster<T>, delay: Duration) -> Roster<T> {
    let mut snapshots = roster.subscribe();
    let first = snapshots.borrow_and_update().clone();
    let mut stabiliser = Stabiliser::new(delay, first.clone());
    let (send, shown) = watch::channel(first);
    tokio::spawn(async move {
        loop {
            let deadline = stabiliser.next_deadline();
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                () = sleep_until_some(deadline) => {}
                () = send.closed() => return,
            }
            let current: Snapshot<T> = snapshots.borrow_and_update().clone();
            send.send_replace(stabiliser.step(&current, Instant::now()));
        }
    });
    Roster::from_snapshots(shown)
}

async fn sleep_until_some(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The instances of a service, kept up to date until this and all streams of its events are dropped. While the
/// coordination service cannot be reached, it keeps the last known instances.
pub struct ServiceCache<P> {
    name: String,
    roster: Roster<Found<P>>,
}

impl<P> Clone for ServiceCache<P> {
    fn clone(&self) -> Self {
        ServiceCache { name: self.name.clone(), roster: self.roster.clone() }
    }
}

impl<P> fmt::Debug for ServiceCache<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServiceCache { name, roster } = self;
        f.debug_struct("ServiceCache").field("name", name).field("nodes", roster).finish()
    }
}

impl<P: Send + Sync + 'static> ServiceCache<P> {
    /// Returns the name of the service.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the instances that can be decoded, enabled or not, in the order of their nodes' names.
    #[must_use]
    pub fn instances(&self) -> Vec<Arc<ServiceInstance<P>>> {
        let snapshot = self.roster.snapshot();
        let readable = |found: &Arc<Found<P>>| found.instance.as_ref().ok().cloned();
        snapshot.iter().filter_map(|(_, found)| readable(found)).collect()
    }

    pub(super) fn found(&self) -> Snapshot<Found<P>> {
        self.roster.snapshot()
    }

    /// Returns every event from now on, beginning with the instances that exist. A slow reader may miss intermediate
    /// states, but never the last one.
    pub fn events(&self) -> Events<ServiceEvent<P>> {
        let mut reported = Reported(BTreeMap::new());
        Events::of(changes_from_nothing(&self.roster), move |change| reported.note(&change))
    }
}

/// A change of the instances of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceEvent<P> {
    /// An instance was added.
    Added(Arc<ServiceInstance<P>>),
    /// An instance has changed, for example its payload.
    Changed(Arc<ServiceInstance<P>>),
    /// An instance was removed.
    Removed(Arc<ServiceInstance<P>>),
    /// A node's data is not an instance. It is left out; if it was one before, that one was removed.
    Unreadable(Error),
}

/// The instances that were reported as existing, by node.
struct Reported<P>(BTreeMap<String, Arc<ServiceInstance<P>>>);

impl<P> Reported<P> {
    fn note(&mut self, change: &Change<Found<P>>) -> Vec<ServiceEvent<P>> {
        let (found, is_there) = match change {
            Change::Joined(found) | Change::Changed(found) => (found, true),
            Change::Left(found) => (found, false),
        };
        match &found.instance {
            Ok(instance) if is_there => {
                let before = self.0.insert(found.node.clone(), Arc::clone(instance));
                let instance = Arc::clone(instance);
                vec![match before {
                    None => ServiceEvent::Added(instance),
                    Some(_) => ServiceEvent::Changed(instance),
                }]
            }
            unusable => {
                let removed = self.0.remove(&found.node);
                let error = unusable.as_ref().err().filter(|_| is_there).cloned();
                let error = error.map(ServiceEvent::Unreadable);
                removed.map(ServiceEvent::Removed).into_iter().chain(error).collect()
            }
        }
    }
}
