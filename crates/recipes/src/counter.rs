//! Counters that many processes share.
//!
//! In: additions and comparisons. Out: the numbers before and after, or an error that says whether the change
//! happened. Deliberately not here: watching a counter.
//!
//! One persistent node, whose data is the number in big-endian bytes: 8 for [`AtomicLong`], 4 for [`AtomicInt`], as
//! in Curator's `DistributedAtomicLong` and `DistributedAtomicInteger`. The latter is also the format of kazoo's
//! `Counter` with `support_curator=True`. No node and no data both mean 0. Sums wrap around, as in Curator.
//!
//! # When a reply is lost
//! A change is "read, then write if no other client has written since". If the reply to the write is lost, the node
//! is read again. If it is unchanged, or another client has written a different number first, then this write was
//! certainly not applied, and it is tried again. Otherwise it cannot be known which client wrote, and the error's
//! outcome is `Unknown`. [`Counter::add_exactly_once`] can decide this, at the cost of a transaction.

use std::time::Duration;

use herdsman_client::{Client, ErrorKind, Node};

use crate::error::{Error, Result};
use crate::retrying::{is_overtaken, reply_lost, unknown};
use crate::until_known::{unless, until_known};

mod exactly_once;
mod number;

pub use number::Number;

/// A shared 64-bit counter, as Curator's `DistributedAtomicLong`.
pub type AtomicLong = Counter<i64>;

/// A shared 32-bit counter, as Curator's `DistributedAtomicInteger`.
pub type AtomicInt = Counter<i32>;

/// A shared counter.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::AtomicLong;
///
/// let visits = AtomicLong::new(&zk, "/stats/visits");
/// let change = visits.add(5).await?;
/// assert_eq!((change.before, change.after), (0, 5));
/// assert!(visits.compare_and_set(5, 100).await?);
/// assert_eq!(visits.get().await?, 100);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Counter<N> {
    client: Client,
    path: String,
    attempts_max: u32,
    number: std::marker::PhantomData<N>,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<N> {
    /// The number before it.
    pub before: N,
    /// The number after it.
    pub after: N,
}

/// The result of a single write.
enum Written {
    Yes,
    /// Another client wrote first; this write was not applied.
    TooLate(herdsman_client::Error),
}

/// How often a change is tried while other clients are faster, by default.
const ATTEMPTS_MAX: u32 = 100;
/// The longest pause after other clients were faster.
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl<N: Number> Counter<N> {
    /// Creates a handle for the counter at `path`, without any request.
    #[must_use]
    pub fn new(client: &Client, path: impl Into<String>) -> Self {
        let path = path.into();
        let number = std::marker::PhantomData;
        Counter { client: client.clone(), path, attempts_max: ATTEMPTS_MAX, number }
    }

    /// Sets how often a change is tried while other clients are faster, with random pauses that grow to 100 ms.
    /// Default 100. Each failure is the success of another client, so the limit is reached only under very high
    /// contention.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.attempts_max = attempts.max(1);
        self
    }

    /// Returns the number.
    pub async fn get(&self) -> Result<N> {
        Ok(self.read().await?.0)
    }

    /// Adds, wrapping around at the limits of the type.
    ///
    /// # Errors
    /// [`ErrorKind::BadVersion`] if other clients were faster each time. The outcome is unknown if a reply was lost
    /// and the node does not show who has written.
    pub async fn add(&self, delta: N) -> Result<Change<N>> {
        self.update(|number| number.wrapping_add(delta)).await
    }

    /// Adds one.
    pub async fn increment(&self) -> Result<Change<N>> {
        self.add(N::ONE).await
    }

    /// Subtracts one.
    pub async fn decrement(&self) -> Result<Change<N>> {
        self.update(|number| number.wrapping_sub(N::ONE)).await
    }

    /// Replaces the number by the result of `next`, which is called once for each attempt.
    ///
    /// # Errors
    /// As for [`Counter::add`].
    pub async fn update(&self, mut next: impl FnMut(N) -> N) -> Result<Change<N>> {
        for attempt in 1.. {
            let (before, node) = self.read().await?;
            let after = next(before);
            match self.write(after, node.as_ref()).await? {
                Written::Yes => return Ok(Change { before, after }),
                Written::TooLate(error) if attempt >= self.attempts_max => {
                    return Err(error.into());
                }
                Written::TooLate(_) => pause(attempt).await,
            }
        }
        unreachable!("attempts are limited")
    }

    /// Writes `new` if the number is `expected`, and returns whether it was.
    ///
    /// A counter that does not exist is 0 here. Curator refuses to compare it with anything; programs that share it
    /// with Curator should [`initialize`](Self::initialize) it.
    ///
    /// # Errors
    /// As for [`Counter::add`].
    pub async fn compare_and_set(&self, expected: N, new: N) -> Result<bool> {
        loop {
            let (number, node) = self.read().await?;
            if number != expected {
                return Ok(false);
            }
            // Another client wrote meanwhile, perhaps the same number: read again.
            if let Written::Yes = self.write(new, node.as_ref()).await? {
                return Ok(true);
            }
        }
    }

    /// Writes the number, whatever it was. If the reply is lost it is written again, over what other clients may have
    /// written meanwhile.
    pub async fn set(&self, number: N) -> Result<()> {
        let write = || async {
            match self.client.set(&self.path, number.encode()).await {
                Err(error) if error.is_no_node() => {}
                set => return set.map(drop),
            }
            let create = self.client.create(&self.path, number.encode()).container_parents();
            match create.await {
                // Created just now by another client; it is to be replaced.
                Err(error) if error.is_node_exists() => {
                    self.client.set(&self.path, number.encode()).await.map(drop)
                }
                created => created.map(drop),
            }
        };
        Ok(until_known(write).await?)
    }

    /// Creates the counter with this number if it does not exist, and returns whether it was created. If a reply was
    /// lost, `false` may also mean that it was created by this very call.
    pub async fn initialize(&self, number: N) -> Result<bool> {
        let create = || async {
            let create = self.client.create(&self.path, number.encode()).container_parents();
            create.await.map(|_| true)
        };
        Ok(unless(until_known(create).await, &ErrorKind::NodeExists)?)
    }

    /// Returns the number, and the node that holds it.
    async fn read(&self) -> Result<(N, Option<Node>)> {
        match self.client.get(&self.path).await {
            Err(error) if error.is_no_node() => Ok((N::default(), None)),
            read => {
                let node = read?;
                Ok((N::decode(&self.path, &node.data)?, Some(node)))
            }
        }
    }

    /// Writes `number` if the node has not changed since it was read.
    async fn write(&self, number: N, read: Option<&Node>) -> Result<Written> {
        check_version(&self.path, read)?;
        let mut is_uncertain = false;
        loop {
            let written = match read {
                Some(node) => {
                    let set = self.client.set(&self.path, number.encode());
                    set.version(node.stat.version).await.map(drop)
                }
                None => {
                    let create = self.client.create(&self.path, number.encode());
                    create.container_parents().await.map(drop)
                }
            };
            let error = match written {
                Ok(()) => return Ok(Written::Yes),
                Err(error) => error,
            };
            if is_overtaken(&error) {
                let is_known = !is_uncertain || self.was_another(number, read).await?;
                return match is_known {
                    true => Ok(Written::TooLate(error)),
                    false => Err(unknown(&error).into()),
                };
            }
            // The same write can be sent again without harm: at most one of the two succeeds.
            let can_be_repeated = reply_lost(&error);
            match is_uncertain {
                _ if can_be_repeated => is_uncertain = true,
                true => return Err(unknown(&error).into()),
                false => return Err(error.into()),
            }
        }
    }

    /// Returns whether it is certain that the change which made this write fail is another client's: it was the very
    /// next change, and wrote other data.
    async fn was_another(&self, number: N, read: Option<&Node>) -> Result<bool> {
        let Ok(now) = self.client.get(&self.path).await else {
            return Ok(false);
        };
        let is_next = match read {
            Some(before) => {
                now.stat.czxid == before.stat.czxid
                    && now.stat.version == before.stat.version.wrapping_add(1)
            }
            None => now.stat.version == 0,
        };
        Ok(is_next && now.data != number.encode())
    }
}

/// Fails if the version is -1, as after 2³² - 1 writes: a request takes -1 for "any", so the write would not notice
/// those of other clients.
pub(crate) fn check_version(path: &str, node: Option<&Node>) -> Result<()> {
    match node {
        Some(node) if node.stat.version == -1 => Err(Error::Codec {
            path: path.to_owned(),
            reason: "its version is -1, which cannot be compared; set it once".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Waits a moment, the longer the more often other clients were faster.
async fn pause(attempt: u32) {
    let bound_ms = 1_u64 << attempt.min(16);
    let pause = Duration::from_millis(fastrand::u64(0..=bound_ms)).min(PAUSE_MAX);
    tokio::time::sleep(pause).await;
}
