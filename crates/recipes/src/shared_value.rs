//! A small value that many processes read and change: Curator's `SharedValue` and `SharedCount`.
//!
//! In: values to set, unconditionally or only if nothing has changed. Out: the current value without waiting, and a
//! stream of later ones.
//!
//! Layout, as in Curator: one persistent node, created with an initial value if it is missing, its parents as
//! containers. Its data is the value: the unchanged bytes of a [`SharedValue`], four big-endian bytes for a
//! [`SharedCount`]. Programs that use Curator can share it.
//!
//! A value does not identify its writer. So if the reply to a [`Shared::try_set`] is lost and the node then holds
//! exactly that value, it cannot be known which client wrote it, and the error's outcome is unknown. A
//! [`VersionedCell`](crate::versioned_cell::VersionedCell) can decide this; its data is not Curator's.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_client::{Client, Error as ClientError};

use crate::codec::{self, BigEndianI32, Decode, Encode, Raw};
use crate::conditional_set::{ConditionalSet, SameData, Written};
use crate::config::{Config, ConfigOptions, ConfigUpdate, Versioned};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::retrying::reply_lost;

/// Shared bytes, as Curator's `SharedValue`.
pub type SharedValue = Shared<Bytes>;

/// A shared number, as Curator's `SharedCount`.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::shared_value::SharedCount;
///
/// let permits = SharedCount::start(&zk, "/permits", 8).await?;
/// let seen = permits.read().await?;
/// assert_eq!(seen.value, 8);
/// assert!(permits.try_set(&seen, 9).await?.is_some());
/// assert!(permits.try_set(&seen, 10).await?.is_none()); // it has changed since
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
pub type SharedCount = Shared<i32>;

/// A value in a node that many processes read and change. Dropping it removes its watch; the node stays.
pub struct Shared<T> {
    client: Client,
    path: String,
    config: Config<T>,
    decode: Arc<dyn Decode<T>>,
    encode: Arc<dyn Encode<T>>,
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Shared<Bytes> {
    /// Creates the node with this initial value if it is missing, and starts to follow it.
    pub async fn start(client: &Client, path: &str, initial: impl Into<Bytes>) -> Result<Self> {
        Shared::start_with(client, path, &initial.into(), Raw).await
    }
}

impl Shared<i32> {
    /// Creates the node with this initial value if it is missing, and starts to follow it.
    pub async fn start(client: &Client, path: &str, initial: i32) -> Result<Self> {
        Shared::start_with(client, path, &initial, BigEndianI32).await
    }
}

impl<T: Send + Sync + 'static> Shared<T> {
    async fn start_with<C>(client: &Client, path: &str, initial: &T, codec: C) -> Result<Self>
    where
        C: Decode<T> + Encode<T> + Clone,
    {
        let data = codec.encode(initial).map_err(codec::at(path))?;
        create_if_missing(client, path, &data).await?;
        let config = ConfigOptions::new(codec.clone()).start(client, path).await?;
        config.synced().await?;
        let (decode, encode) = (Arc::new(codec.clone()), Arc::new(codec));
        Ok(Shared { client: client.clone(), path: path.to_owned(), config, decode, encode })
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the last good value that was received, without a request. It may be slightly out of date, even with
    /// respect to this client's own [`Shared::set`].
    #[must_use]
    pub fn current(&self) -> Option<Arc<Versioned<T>>> {
        self.config.current()
    }

    /// Returns the current value, then all later ones. Data that is not a value is reported, and the stream
    /// continues.
    pub fn changes(&self) -> Events<ConfigUpdate<T>> {
        self.config.changes()
    }

    /// Reads the value from the server.
    pub async fn read(&self) -> Result<Versioned<T>> {
        let node = self.client.get(&self.path).await?;
        let value = self.decode.decode(&node.data).map_err(codec::at(&self.path))?;
        Ok(Versioned::from_service(value, &node.stat))
    }

    /// Sets the value, whatever it was. After a lost reply the error's outcome is unknown; it is safe to set the
    /// value again if it does not matter that other clients may have set it meanwhile.
    pub async fn set(&self, value: T) -> Result<Versioned<T>> {
        let data = self.encode.encode(&value).map_err(codec::at(&self.path))?;
        let stat = self.client.set(&self.path, data).await?;
        Ok(Versioned::from_service(value, &stat))
    }

    /// Sets the value if it is still `previous`; `None` if another client was faster.
    pub async fn try_set(&self, previous: &Versioned<T>, value: T) -> Result<Option<Versioned<T>>> {
        let from_elsewhere = || Error::invalid("the previous value does not come from the service");
        let version = previous.version().ok_or_else(from_elsewhere)?;
        let data = self.encode.encode(&value).map_err(codec::at(&self.path))?;
        let (client, path) = (&self.client, &*self.path);
        let same_data = SameData::ProvesNothing;
        let set = ConditionalSet { client, path, data, version, same_data, along: None };
        Ok(match set.run().await? {
            Written::Yes(stat) => Some(Versioned::from_service(value, &stat)),
            Written::Overtaken => None,
        })
    }
}

/// Makes sure that there is a node. It does not matter whose initial value it has.
async fn create_if_missing(client: &Client, path: &str, data: &Bytes) -> Result<(), ClientError> {
    loop {
        match client.create(path, data.clone()).container_parents().await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_node_exists() => return Ok(()),
            // If it was created, the next attempt reports that it exists.
            Err(error) if reply_lost(&error) => {}
            Err(error) => return Err(error),
        }
    }
}
