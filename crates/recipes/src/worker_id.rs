//! Worker ids: small numbers from a range, each leased to one process at a time.
//!
//! In: a range. Out: a lease of the smallest free number, which reports when it is lost.
//!
//! ```text
//! <path>/workers/<n>               ephemeral; data: a UUID that distinguishes this lease from all others
//! <path>/times/<n>                 persistent; data: a time in ms since 1970, as text
//! <path>/identities/<identity>     persistent; data: the n that this identity had last, as text
//! ```
//! Ours: Curator has no such recipe.
//!
//! # Why no two processes use one number for the same time
//! A lease alone cannot guarantee that: a process that was paused does not know that its session has ended. So a
//! lease also reserves *time*: a process that wants to use `n` together with a timestamp first moves `times/<n>`
//! beyond that timestamp. A lease is taken in one transaction with a change of `times/<n>`, each later change depends
//! on the version before it, and a new owner begins after the time that it found. Therefore the timestamps of two
//! owners never overlap, whatever clocks, pauses and networks do. Releasing a lease depends on the version too, so
//! that a late or repeated request cannot delete the node of the next owner.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use herdsman_client::{Client, Node};

use crate::error::{Error, Result};
use crate::hold_options::{HoldOptions, Holder};
use crate::path::{self, child};

mod lease;
mod search;

pub use lease::WorkerLease;
use search::Search;

/// A range of worker ids to lease from.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::WorkerIds;
///
/// let workers = WorkerIds::new(&zk, "/ids/workers", 0..=1023)?;
/// let (mine, other) = (workers.lease().await?, workers.lease().await?);
/// assert_eq!((mine.id(), other.id()), (0, 1));
/// mine.release().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct WorkerIds {
    holder: Holder,
    path: String,
    range: RangeInclusive<u16>,
    identity: Option<String>,
}

impl WorkerIds {
    /// Creates a handle for the numbers of `range`, stored below `path`, without any request. All clients that share
    /// a path should use the same range.
    ///
    /// # Errors
    /// If the range is empty.
    pub fn new(
        client: &Client,
        path: impl Into<String>,
        range: RangeInclusive<u16>,
    ) -> Result<Self> {
        if range.is_empty() {
            return Err(Error::invalid("the range of worker ids is empty"));
        }
        let holder = Holder::new(client, "").until_session_timeout();
        Ok(WorkerIds { holder, path: path.into(), range, identity: None })
    }

    /// Prefers the number that this identity had last, if no other client has it now: a host name, for example.
    ///
    /// # Errors
    /// If it cannot be the name of a node.
    pub fn identity(mut self, identity: impl Into<String>) -> Result<Self> {
        let identity = identity.into();
        let is_name = !identity.is_empty() && !identity.contains('/');
        if !is_name || path::check(&format!("/{identity}")).is_err() {
            return Err(Error::invalid(format!("{identity:?} cannot be the name of a node")));
        }
        self.identity = Some(identity);
        Ok(self)
    }

    /// Sets when a lease counts as lost, and the ACL of the nodes.
    #[must_use]
    pub fn options(mut self, options: &HoldOptions) -> Self {
        self.holder.set(options);
        self
    }

    /// Returns the numbers to lease from.
    #[must_use]
    pub fn range(&self) -> RangeInclusive<u16> {
        self.range.clone()
    }

    /// Leases the smallest free number. A number whose time, as its last owner left it, is still in the future is
    /// taken only if there is no other. Dropping the future releases the number.
    ///
    /// # Errors
    /// [`Error::Full`] if all are taken.
    pub async fn lease(&self) -> Result<WorkerLease> {
        let session = self.holder.client.connected_session().await?;
        let workers = self.clone();
        let search = async move { Search::new(&workers, session).run().await };
        // Runs to its end even if the caller no longer waits: a lease that is not received is dropped, and thereby
        // released.
        self.holder.client.spawn(search).await.unwrap_or(Err(Error::Lost))
    }

    fn worker_path(&self, id: u16) -> String {
        child(&self.path, &format!("workers/{id}"))
    }

    fn time_path(&self, id: u16) -> String {
        child(&self.path, &format!("times/{id}"))
    }

    fn identity_path(&self) -> Option<String> {
        let identity = self.identity.as_ref()?;
        Some(child(&self.path, &format!("identities/{identity}")))
    }
}

fn parse<T: std::str::FromStr>(data: &[u8]) -> Option<T> {
    std::str::from_utf8(data).ok()?.parse().ok()
}

fn parse_time(path: &str, node: &Node) -> Result<u64> {
    parse(&node.data).ok_or_else(|| Error::Codec {
        path: path.to_owned(),
        reason: format!("\"{}\" is not a time in milliseconds", node.data.escape_ascii()),
    })
}

/// Returns the clock's time in milliseconds since 1970; 0 if it shows a time before that.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
