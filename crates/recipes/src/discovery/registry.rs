//! Registration of instances, and one-time lookups.

use std::fmt;
use std::marker::PhantomData;

use herdsman_client::{Client, Optional};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cache::ServiceCacheOptions;
use super::connection_count::{ConnectionCountOptions, directory};
use super::instance::{ServiceInstance, ServiceType};
use super::provider::ServiceProviderOptions;
use crate::error::{Error, Result};
use crate::path::{self, check_name, child};
use crate::persistent_node::{PersistentNode, Presence};

/// Reads that are in flight at once.
const PIPELINE: usize = 64;

/// The services below a path, with payloads of one type.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::discovery::{Registry, ServiceInstance};
///
/// let registry: Registry<String> = Registry::new(&zk, "/services")?;
/// let instance = ServiceInstance::new("web").with_address("10.0.0.1").with_port(8080);
/// let registration = registry.register(instance).await?;
///
/// let found = registry.instances("web").await?;
/// assert_eq!(found.instances[0].port, Some(8080));
/// registration.unregister().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
pub struct Registry<P> {
    pub(super) client: Client,
    pub(super) base: String,
    payload: PhantomData<fn() -> P>,
}

impl<P> Clone for Registry<P> {
    fn clone(&self) -> Self {
        Registry { client: self.client.clone(), base: self.base.clone(), payload: PhantomData }
    }
}

impl<P> fmt::Debug for Registry<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("base", &self.base).finish_non_exhaustive()
    }
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup<P> {
    /// The instances that can be read, in the order of their nodes' names.
    pub instances: Vec<ServiceInstance<P>>,
    /// The errors of instances that cannot be decoded.
    pub unreadable: Vec<Error>,
}

impl<P: Send + Sync + 'static> Registry<P> {
    /// Creates a registry of the services below `base`, without any request.
    pub fn new(client: &Client, base: &str) -> Result<Self> {
        path::check(base)?;
        Ok(Registry { client: client.clone(), base: base.to_owned(), payload: PhantomData })
    }

    /// Returns the names of all services. A service without instances may still be listed for a while.
    pub async fn names(&self) -> Result<Vec<String>> {
        let mut names = self.children(&self.base).await?;
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the options to follow the instances of a service.
    pub fn cache(&self, name: &str) -> ServiceCacheOptions<P> {
        ServiceCacheOptions::new(self, name)
    }

    /// Returns the options to pick instances of a service.
    pub fn provider(&self, name: &str) -> ServiceProviderOptions<P> {
        ServiceProviderOptions::new(self, name)
    }

    pub(super) fn service_path(&self, name: &str) -> Result<String> {
        Ok(child(&self.base, check_name("a service's name", name)?))
    }

    async fn children(&self, path: &str) -> Result<Vec<String>> {
        let children = self.client.children(path).await.optional()?;
        Ok(children.map_or_else(Vec::new, |children| children.names))
    }
}

impl<P: Serialize + Send + Sync + 'static> Registry<P> {
    /// Registers an instance, and waits until it is registered. One with the same name and id, from an earlier
    /// session or written by hand, is replaced.
    pub async fn register(&self, instance: ServiceInstance<P>) -> Result<Registration<P>> {
        let service = self.service_path(&instance.name)?;
        let path = child(&service, check_name("an instance's id", &instance.id)?);
        let options = PersistentNode::at(&self.client, &path, instance.encode(&path)?);
        let options = match instance.service_type {
            ServiceType::Dynamic => options,
            // A node beside the service would look like another service.
            ServiceType::DynamicSequential => options.sequential().receipts_beside(&self.base),
            ServiceType::Static | ServiceType::Permanent => options.persistent(),
        };
        let node = options.start()?;
        node.wait_until_present().await?;
        Ok(Registration { registry: self.clone(), instance, node: Some(node) })
    }
}

impl<P: DeserializeOwned + Send + Sync + 'static> Registry<P> {
    /// Returns the current instances of a service, enabled or not; none if there is no such service.
    pub async fn instances(&self, name: &str) -> Result<Lookup<P>> {
        let service = self.service_path(name)?;
        let mut nodes = self.children(&service).await?;
        nodes.sort_unstable();
        let mut found = Lookup { instances: Vec::new(), unreadable: Vec::new() };
        for chunk in nodes.chunks(PIPELINE) {
            let paths: Vec<String> = chunk.iter().map(|node| child(&service, node)).collect();
            let sent: Vec<_> = paths.iter().map(|path| self.client.get(path).send()).collect();
            for (path, reply) in paths.iter().zip(sent) {
                let Some(node) = reply.await.optional()? else {
                    continue;
                };
                match ServiceInstance::decode(path, &node.data) {
                    Ok(instance) => found.instances.push(instance),
                    Err(error) => found.unreadable.push(error),
                }
            }
        }
        Ok(found)
    }

    /// Returns one instance, if it exists.
    pub async fn instance(&self, name: &str, id: &str) -> Result<Option<ServiceInstance<P>>> {
        let path = child(&self.service_path(name)?, check_name("an instance's id", id)?);
        match self.client.get(&path).await {
            Ok(node) => ServiceInstance::decode(&path, &node.data).map(Some),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A registered instance.
///
/// Dropping it has the effect of the end of the program: a dynamic instance is removed in the background, a static or
/// permanent one stays.
#[derive(Debug)]
#[must_use = "a dynamic instance is removed when this is dropped"]
pub struct Registration<P> {
    registry: Registry<P>,
    instance: ServiceInstance<P>,
    /// `None` only while it is being unregistered or dropped.
    node: Option<PersistentNode>,
}

impl<P> Registration<P> {
    /// Returns the instance as it was last registered or updated.
    #[must_use]
    pub fn instance(&self) -> &ServiceInstance<P> {
        &self.instance
    }

    /// Returns whether it is registered at present, as far as is known.
    #[must_use]
    pub fn presence(&self) -> Presence {
        self.node.as_ref().map_or(Presence::Ended, PersistentNode::presence)
    }

    /// Returns the options to publish the number of connections of this instance, for clients that balance by [least
    /// connections](super::ServiceProviderOptions::instance_counts). Waits until the instance is registered.
    ///
    /// ```
    /// # tokio_test_block_on(async {
    /// # let server = herdsman_testing::TestServer::start();
    /// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
    /// use std::time::Duration;
    /// use herdsman_recipes::balance::Algorithm;
    /// use herdsman_recipes::discovery::{Registry, ServiceInstance};
    ///
    /// let registry: Registry<String> = Registry::new(&zk, "/services")?;
    /// let registration = registry.register(ServiceInstance::new("web").with_id("web-1")).await?;
    /// let connections = registration.connection_count().await?.start().await?;
    /// let _connection = connections.begin(); // for each connection that is accepted
    ///
    /// let provider = registry.provider("web").algorithm(Algorithm::LeastConnections);
    /// let provider = provider.instance_counts(Duration::from_secs(30)).open().await?;
    /// assert_eq!(provider.pick("").expect("there is an instance").id, "web-1");
    /// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
    /// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
    /// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    /// # }
    /// ```
    pub async fn connection_count(&self) -> Result<ConnectionCountOptions> {
        let Registry { client, base, .. } = &self.registry;
        loop {
            self.node()?.wait_until_present().await?;
            // Only the path has the number of a sequential node.
            if let Presence::Present { path } = self.presence() {
                let node = path.rsplit('/').next().unwrap_or(&path);
                let path = child(&directory(base, &self.instance.name), node);
                return Ok(ConnectionCountOptions::new(client, path));
            }
        }
    }

    /// Removes it, and waits until it is removed.
    pub async fn unregister(mut self) -> Result<()> {
        match self.node.take() {
            Some(node) => node.close().await,
            None => Ok(()),
        }
    }

    fn node(&self) -> Result<&PersistentNode> {
        self.node.as_ref().ok_or(Error::Lost)
    }
}

impl<P: Serialize> Registration<P> {
    /// Publishes a new state of the same instance, for example a disabled one.
    pub async fn update(&mut self, instance: ServiceInstance<P>) -> Result<()> {
        let before = &self.instance;
        let is_same = (&before.name, &before.id, before.service_type)
            == (&instance.name, &instance.id, instance.service_type);
        if !is_same {
            let what = "an update cannot change an instance's name, id or type";
            return Err(Error::invalid(what));
        }
        let data = instance.encode(self.node()?.path())?;
        self.instance = instance;
        self.node()?.set_data(data).await
    }
}

impl<P> Drop for Registration<P> {
    fn drop(&mut self) {
        if let Some(node) = self.node.take()
            && !self.instance.service_type.is_dynamic()
        {
            node.abandon();
        }
    }
}
