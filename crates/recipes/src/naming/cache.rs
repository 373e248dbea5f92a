//! Lookups of names without a request.

use super::record::{Record, Resolved, Walk};
use super::{IDS, NameRegistry, Names};
use crate::cache::{CacheOptions, TreeCache};
use crate::error::Result;

/// A local copy of all names of a registry, which follows the service with a short delay: see [`cache`](crate::cache)
/// for its guarantees and cost. While the connection is lost, the last state stays.
#[derive(Debug)]
pub struct CachedNames {
    names: Names,
    cache: TreeCache,
}

impl CachedNames {
    pub(super) async fn open(registry: &NameRegistry) -> Result<Self> {
        let names = registry.names.clone();
        // The nodes of ids are created and deleted, and are not names.
        let ids = format!("/{IDS}");
        let options = CacheOptions::default().filter(move |path| !path.ends_with(&ids));
        let cache = TreeCache::start_with(&registry.client, &names.base, options).await?;
        cache.synced().await?;
        Ok(CachedNames { names, cache })
    }

    /// Like [`NameRegistry::lookup`], without a request.
    pub fn lookup(&self, name: &str) -> Result<Option<Resolved>> {
        let snapshot = self.cache.snapshot();
        let mut walk = Walk::new(name, self.names.aliases_max);
        loop {
            let path = self.names.value_path(walk.name())?;
            let found = snapshot.get(&path).map(|node| Record::decode(&path, &node.data));
            if let Some(end) = walk.step(found.transpose()?)? {
                return Ok(end);
            }
        }
    }

    /// Returns whether the copy follows the service at the moment: it does not after an interruption, until it was
    /// compared.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.cache.snapshot().is_synced()
    }

    /// Waits until what a name stands for meets the condition. Fails when the client is closed, or when the name
    /// cannot be resolved.
    pub async fn wait_until(
        &self,
        name: &str,
        mut wanted: impl FnMut(Option<&Resolved>) -> bool,
    ) -> Result<Option<Resolved>> {
        // The events are subscribed to first, so that no change is missed between a lookup and the wait.
        let mut events = self.cache.events();
        loop {
            let found = self.lookup(name)?;
            if wanted(found.as_ref()) {
                return Ok(found);
            }
            if events.next().await.is_none() {
                return Err(herdsman_client::Error::not_applied(
                    herdsman_client::ErrorKind::Closed,
                )
                .into());
            }
        }
    }
}
