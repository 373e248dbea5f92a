//! Picks an instance of a service.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::cache::{ServiceCache, ServiceCacheOptions};
use super::connection_count::directory;
use super::instance::ServiceInstance;
use super::instance_counts::InstanceCounts;
use super::loads::{Counted, SharedLoads};
use super::registry::Registry;
use crate::balance::{Algorithm, Balancer, InFlight, Instance, OutlierPolicy};
use crate::error::{Error, Result};
use crate::path::child;

type Weigh<P> = Arc<dyn Fn(&ServiceInstance<P>) -> u32 + Send + Sync>;

/// Options of a [`ServiceProvider`].
#[must_use = "nothing happens until it is opened"]
pub struct ServiceProviderOptions<P> {
    registry: Registry<P>,
    cache: ServiceCacheOptions<P>,
    name: String,
    algorithm: Algorithm,
    outlier_policy: OutlierPolicy,
    weigh: Weigh<P>,
    publish_interval: Duration,
    /// How long the counts of instances are valid, if they are used.
    stale_after: Option<Duration>,
}

impl<P> fmt::Debug for ServiceProviderOptions<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProviderOptions")
            .field("name", &self.name)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl<P: Send + Sync + 'static> ServiceProviderOptions<P> {
    pub(super) fn new(registry: &Registry<P>, name: &str) -> Self {
        ServiceProviderOptions {
            registry: registry.clone(),
            cache: registry.cache(name),
            name: name.to_owned(),
            algorithm: Algorithm::RoundRobin,
            outlier_policy: OutlierPolicy::default(),
            weigh: Arc::new(|_| 1),
            publish_interval: Duration::from_secs(1),
            stale_after: None,
        }
    }

    /// Sets how to pick. Default: round robin.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Sets when to stop using an instance with errors.
    pub fn outlier_policy(mut self, policy: OutlierPolicy) -> Self {
        self.outlier_policy = policy;
        self
    }

    /// Sets how much traffic an instance should get in comparison with others, usually from its payload. Default: the
    /// same for all.
    pub fn weight(
        mut self,
        of: impl Fn(&ServiceInstance<P>) -> u32 + Send + Sync + 'static,
    ) -> Self {
        self.weigh = Arc::new(of);
        self
    }

    /// See [`ServiceCacheOptions::removal_delay`].
    pub fn removal_delay(mut self, delay: Duration) -> Self {
        self.cache = self.cache.removal_delay(delay);
        self
    }

    /// For least connections: sets how often, at most, this client publishes what it has in flight. Default: once a
    /// second.
    pub fn publish_interval(mut self, interval: Duration) -> Self {
        self.publish_interval = interval;
        self
    }

    /// For least connections: uses the counts that the instances publish themselves (see
    /// [`Registration::connection_count`](super::Registration::connection_count)) instead of those of all clients.
    /// This client then publishes nothing. A count is stale when no write of it was seen for `stale_after`. While the
    /// count of an enabled instance is stale or missing, only this client's requests in flight count, for all
    /// instances.
    pub fn instance_counts(mut self, stale_after: Duration) -> Self {
        self.stale_after = Some(stale_after);
        self
    }
}

impl<P: DeserializeOwned + Send + Sync + 'static> ServiceProviderOptions<P> {
    /// Reads the instances, and follows them from now on.
    pub async fn open(self) -> Result<ServiceProvider<P>> {
        if self.publish_interval.is_zero() || self.stale_after.is_some_and(|time| time.is_zero()) {
            return Err(Error::invalid(
                "publish_interval and stale_after must be longer than zero",
            ));
        }
        let cache = self.cache.open().await?;
        let rng = fastrand::Rng::new();
        let Registry { client, base, .. } = &self.registry;
        let (loads, strategy) = match (self.algorithm, self.stale_after) {
            (Algorithm::LeastConnections, Some(stale_after)) => {
                let directory = directory(base, &self.name);
                let counts = InstanceCounts::open(client, &directory, stale_after).await?;
                (None, self.algorithm.strategy(rng, counts))
            }
            (Algorithm::LeastConnections, None) => {
                let directory = child(&format!("{base}-loads"), &self.name);
                let board = SharedLoads::open(client, &directory, self.publish_interval).await?;
                let strategy = self.algorithm.strategy(rng, board.counts());
                (Some(board), strategy)
            }
            _ => (None, self.algorithm.strategy(rng, ())),
        };
        let balancer = Balancer::with_policy(strategy, self.outlier_policy);
        let balancer = Arc::new(Mutex::new(balancer));
        Ok(ServiceProvider { cache, balancer, loads, weigh: self.weigh })
    }
}

/// Picks instances of a service.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::balance::Algorithm;
/// use herdsman_recipes::discovery::{Registry, ServiceInstance};
///
/// let registry: Registry<String> = Registry::new(&zk, "/services")?;
/// let instance = ServiceInstance::new("web").with_address("10.0.0.1");
/// let _registration = registry.register(instance).await?;
///
/// let provider = registry.provider("web").algorithm(Algorithm::LeastConnections).open().await?;
/// let picked = provider.pick("client 7").expect("there is an instance");
/// assert_eq!(picked.address.as_deref(), Some("10.0.0.1"));
/// // … a request to it; it counts as in flight meanwhile …
/// picked.succeeded();
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
pub struct ServiceProvider<P> {
    cache: ServiceCache<P>,
    balancer: Arc<Mutex<Balancer>>,
    /// Only for least connections.
    loads: Option<SharedLoads>,
    weigh: Weigh<P>,
}

impl<P> fmt::Debug for ServiceProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProvider")
            .field("cache", &self.cache)
            .field("balancer", &self.balancer)
            .finish_non_exhaustive()
    }
}

/// An instance that can be picked, identified by its node's name: two sequential instances may have the same id.
struct Offer<P> {
    node: String,
    weight: u32,
    instance: Arc<ServiceInstance<P>>,
}

impl<P> Instance for Offer<P> {
    fn id(&self) -> &str {
        &self.node
    }

    fn weight(&self) -> u32 {
        self.weight
    }
}

impl<P: Send + Sync + 'static> ServiceProvider<P> {
    /// Returns the cache of the instances, which also contains those that are disabled.
    #[must_use]
    pub fn cache(&self) -> &ServiceCache<P> {
        &self.cache
    }

    /// Returns an enabled instance for a request from `source`: an address, a user, a key, or whatever else should go
    /// to the same instance each time; only the source hash uses it. `None` if there is no enabled instance.
    #[must_use]
    pub fn pick(&self, source: impl AsRef<[u8]>) -> Option<Picked<P>> {
        let offers = self.offers();
        let mut balancer = self.balancer.lock();
        let offer = balancer.pick(&offers, source, Instant::now())?;
        let in_flight = balancer.begin(&offer.node);
        Some(Picked {
            instance: Arc::clone(&offer.instance),
            node: offer.node.clone(),
            balancer: Arc::clone(&self.balancer),
            _in_flight: in_flight,
            _counted: self.loads.as_ref().map(|loads| loads.begin(&offer.node)),
        })
    }

    fn offers(&self) -> Vec<Offer<P>> {
        let found = self.cache.found();
        let offer = |(node, found): (&str, &Arc<super::cache::Found<P>>)| {
            let instance = found.instance.as_ref().ok().filter(|instance| instance.enabled)?;
            let weight = (self.weigh)(instance);
            Some(Offer { node: node.to_owned(), weight, instance: Arc::clone(instance) })
        };
        found.iter().filter_map(offer).collect()
    }
}

/// An instance that was picked for one request. The request counts as in flight until this is dropped.
#[must_use = "the request counts as in flight until this is dropped"]
pub struct Picked<P> {
    instance: Arc<ServiceInstance<P>>,
    node: String,
    balancer: Arc<Mutex<Balancer>>,
    _in_flight: InFlight,
    _counted: Option<Counted>,
}

impl<P> fmt::Debug for Picked<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Picked").field(&self.node).finish()
    }
}

impl<P> Picked<P> {
    /// Returns the instance.
    #[must_use]
    pub fn instance(&self) -> &Arc<ServiceInstance<P>> {
        &self.instance
    }

    /// Records that the request failed and that the instance is at fault: after some failures it is not used for a
    /// while.
    pub fn failed(self) {
        self.balancer.lock().note_error(&self.node, Instant::now());
    }

    /// Records that the request succeeded: earlier failures do not add to later ones. Optional.
    pub fn succeeded(self) {
        self.balancer.lock().note_success(&self.node);
    }
}

impl<P> Deref for Picked<P> {
    type Target = ServiceInstance<P>;

    fn deref(&self) -> &ServiceInstance<P> {
        &self.instance
    }
}
