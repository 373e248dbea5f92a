//! Settings of all recipes with guards.

use bytes::Bytes;
use herdsman_client::{Acl, Client, ConnectionState, Session};

use crate::contact::is_silent;
use crate::error::{Error, Result};

/// When a guard counts as lost. Locks, permits and leaderships default to `Disconnected`; tickets, worker ids, double
/// barriers and queue items to `SessionTimedOut`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostWhen {
    /// As soon as the connection is lost, even if the client then finds a read-only server. Only a pause of this
    /// process can hide a loss, but every fail-over ends the guard.
    #[default]
    Disconnected,
    /// When no server has answered for a session timeout. The guard survives a fail-over, but another client may hold
    /// it for a moment before this one knows.
    SessionTimedOut,
}

impl LostWhen {
    /// Returns whether a hold that depends on the session can be trusted at this moment.
    pub(crate) fn trusts(self, session: &Session) -> bool {
        !self.is_loss(session.state()) && !is_silent(session)
    }

    /// Returns whether this state of the session means a loss.
    pub(crate) fn is_loss(self, state: ConnectionState) -> bool {
        match state {
            ConnectionState::Connected => false,
            ConnectionState::Suspended | ConnectionState::ReadOnly => {
                self == LostWhen::Disconnected
            }
            _ => true,
        }
    }
}

/// Settings of all recipes with guards: locks, permits, leaderships, tickets, worker ids, places in a double barrier,
/// items of queues. What is not set keeps the recipe's default.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::Acl;
/// use herdsman_recipes::{HoldOptions, Lock, LostWhen, Semaphore};
///
/// zk.authenticate("digest", "backup:secret").await?;
/// let options = HoldOptions::new()
///     .lost_when(LostWhen::SessionTimedOut)
///     .owner("the nightly backup")
///     .acl([Acl::creator_all()])?;
/// let lock = Lock::new(&zk, "/backup/lock")?.options(&options);
/// let slots = Semaphore::new(&zk, "/backup/slots", 3)?.options(&options);
/// # lock.acquire().await?.release().await?;
/// # slots.acquire().await?.release().await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldOptions {
    lost_when: Option<LostWhen>,
    owner: Option<String>,
    acl: Option<Vec<Acl>>,
}

impl HoldOptions {
    /// Creates options that set nothing.
    #[must_use]
    pub fn new() -> Self {
        HoldOptions::default()
    }

    /// Sets when a guard counts as lost.
    #[must_use]
    pub fn lost_when(mut self, lost_when: LostWhen) -> Self {
        self.lost_when = Some(lost_when);
        self
    }

    /// Sets the owner text that other clients read about the client that holds it or waits for it: the data of its
    /// node (in a lease lock, a field of it). The default is host and process id for locks and semaphores, the
    /// candidate's id in an election, and empty for tickets and double barriers. Worker ids and queue items have
    /// other data there and ignore this. To find deadlocks, it should name the task that waits as a whole.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the ACL of every node that the recipe creates, including missing directories, and the default ACL of the
    /// guard's `client()` and `fenced()`: set an explicit ACL for what you create through them. The default is the
    /// client's [`Options::default_acl`](herdsman_client::Options::default_acl). Existing nodes keep theirs. Every
    /// client that uses the path needs the permissions to read, create and delete there; otherwise its calls fail
    /// with `NoAuth`.
    ///
    /// # Errors
    /// If it has no entry.
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> Result<Self> {
        let acl = acl.into();
        if acl.is_empty() {
            return Err(Error::invalid("an ACL needs at least one entry"));
        }
        self.acl = Some(acl);
        Ok(self)
    }
}

/// The client that holds something, with its options.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// The client, which creates nodes with the right ACL.
    pub(crate) client: Client,
    pub(crate) lost_when: LostWhen,
    /// The data of the node.
    pub(crate) owner: Bytes,
}

impl Holder {
    /// Creates a holder with the defaults, and this text about the owner.
    pub(crate) fn new(client: &Client, owner: impl Into<Bytes>) -> Self {
        let (client, owner) = (client.clone(), owner.into());
        Holder { client, lost_when: LostWhen::default(), owner }
    }

    /// Makes the default that a hold is not lost before its session times out.
    pub(crate) fn until_session_timeout(mut self) -> Self {
        self.lost_when = LostWhen::SessionTimedOut;
        self
    }

    pub(crate) fn set(&mut self, options: &HoldOptions) {
        if let Some(lost_when) = options.lost_when {
            self.lost_when = lost_when;
        }
        if let Some(owner) = &options.owner {
            self.owner = owner.clone().into();
        }
        if let Some(acl) = &options.acl {
            let client = self.client.with_default_acl(acl.clone());
            self.client = client.expect("an ACL of options has an entry");
        }
    }

    /// Makes attempts, each in the then current session, until one ends otherwise than by the end of its session. (A
    /// client that is bound to one session has no other.)
    pub(crate) async fn in_session<T, F>(&self, mut attempt: impl FnMut(Session) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        loop {
            let session = self.client.connected_session().await?;
            match attempt(session).await {
                Err(error) if error.is_session_expired() && self.client.is_managed() => {}
                done => return done,
            }
        }
    }
}
