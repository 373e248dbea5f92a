//! Settings of a followed configuration, and its start.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use herdsman_client::Client;
use serde::de::DeserializeOwned;

use super::Config;
use super::fallback_file::FallbackFile;
use super::follow::{self, Reading};
use super::update::{Source, Versioned};
use crate::cache::{CacheOptions, Mirror};
use crate::codec::{Decode, Json, Reason};
use crate::error::{Error, Result};

/// How a configuration is read, and what is used when it cannot be read.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::config::ConfigOptions;
///
/// let workers = ConfigOptions::<usize>::json()
///     .default_value(4)
///     .validate(|workers| if *workers > 0 { Ok(()) } else { Err("no workers".into()) })
///     .start(&zk, "/config/workers")
///     .await?;
/// assert_eq!(workers.current().unwrap().value, 4);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
pub struct ConfigOptions<T> {
    reading: Reading<T>,
    default: Option<T>,
    file: Option<FallbackFile>,
    cache: CacheOptions,
}

impl<T> fmt::Debug for ConfigOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigOptions").field("file", &self.file).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> ConfigOptions<T> {
    /// Creates options for a node that holds JSON.
    #[must_use]
    pub fn json() -> Self {
        ConfigOptions::new(Json)
    }
}

impl<T: Send + Sync + 'static> ConfigOptions<T> {
    /// Creates options for a node that holds data in this codec's format.
    #[must_use]
    pub fn new(codec: impl Decode<T>) -> Self {
        let reading = Reading { codec: Arc::new(codec), validate: None };
        ConfigOptions { reading, default: None, file: None, cache: CacheOptions::default() }
    }

    /// Sets a value that is in force until there is one from the file or the service.
    #[must_use]
    pub fn default_value(mut self, value: T) -> Self {
        self.default = Some(value);
        self
    }

    /// Rejects values that can be decoded but are not valid. They are reported as
    /// [`Invalid`](super::ConfigUpdate::Invalid).
    #[must_use]
    pub fn validate(
        mut self,
        check: impl Fn(&T) -> Result<(), Reason> + Send + Sync + 'static,
    ) -> Self {
        self.reading.validate = Some(Arc::new(check));
        self
    }

    /// Keeps the last good data in this file, which is in force at the next start until the node has been read. The
    /// directory must exist; the file is replaced as a whole, never in part.
    #[must_use]
    pub fn fallback_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(FallbackFile::new(path.into()));
        self
    }

    /// Sets the options of the cache below, for instance how long to wait after a reconnection.
    #[must_use]
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// Starts to follow a node. Needs no connection: the value that is known locally is in force at once, and
    /// [`Config::synced`] waits for the service.
    pub async fn start(self, client: &Client, path: &str) -> Result<Config<T>> {
        if let Some(file) = self.file.as_ref().filter(|file| file.path().file_name().is_none()) {
            let shown = file.path().display();
            return Err(Error::invalid(format!("the fallback file {shown} has no file name")));
        }
        if let (Some(value), Some(validate)) = (&self.default, &self.reading.validate) {
            validate(value).map_err(|reason| {
                Error::invalid(format!("the default value is not valid: {reason}"))
            })?;
        }
        let mirror = Mirror::start_node_offline(client, path, self.cache)?;
        let default = self.default.map(|value| Versioned { value, source: Source::Default });
        Ok(follow::start(mirror, self.reading, default, self.file).await)
    }
}
