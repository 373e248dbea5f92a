//! Names looked up without asking a server.

use super::record::{Record, Resolved, Walk};
use super::{IDS, NameRegistry, Names};
use crate::cache::{CacheOptions, TreeCache};
use crate::error::Result;

/// A local copy of all names of a registry, which follows the service at a short distance: see
/// [`cache`](crate::cache) for what it promises and costs. While the connection is gone, the last state
/// stays.
#[derive(Debug)]
pub struct CachedNames {
    names: Names,
    cache: TreeCache,
}

impl CachedNames {
    pub(super) async fn open(registry: &NameRegistry) -> Result<Self> {
        let names = registry.names.clone();
        // The nodes of ids come and go, and are not names.
        let ids = format!("/{IDS}");
        let options = CacheOptions::default().filter(move |path| !path.ends_with(&ids));
        let cache = TreeCache::start_with(&registry.client, &names.base, options).await?;
        cache.synced().await?;
        Ok(CachedNames { names, cache })
    }

    /// As [`NameRegistry::lookup`], without asking a server.
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

    /// Whether the copy follows the service at the moment: it does not after an interruption, until it was
    /// compared.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.cache.snapshot().is_synced()
    }

    /// Waits until a name stands for what is wanted. Fails when the client is closed, or when the name
    /// cannot be resolved.
    pub async fn wait_until(
        &self,
        name: &str,
        mut wanted: impl FnMut(Option<&Resolved>) -> bool,
    ) -> Result<Option<Resolved>> {
        // The events are subscribed to first, so that no change falls between a look and the wait.
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
