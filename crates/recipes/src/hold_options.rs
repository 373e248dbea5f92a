//! Settings of everything that is held.

use bytes::Bytes;
use herdsman_client::{Acl, Client, ConnectionState, ErrorKind, Session};
use tokio::time::Instant;

use crate::error::{Error, Result};

/// When a guard counts as lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostWhen {
    /// As soon as the connection is gone. Safe against everything but a pause of this very process, but a fail-over
    /// of the servers ends it.
    #[default]
    Disconnected,
    /// When no server was heard of for a session timeout: a fail-over goes unnoticed, at the price that another may
    /// hold it a moment before this one knows.
    SessionTimedOut,
}

impl LostWhen {
    /// Whether what rests on the session can be trusted at this moment.
    pub(crate) fn trusts(self, session: &Session) -> bool {
        !self.is_loss(session.state()) && session.last_heard() + session.timeout() > Instant::now()
    }

    /// Whether this state of the session ends the trust.
    pub(crate) fn is_loss(self, state: ConnectionState) -> bool {
        match state {
            ConnectionState::Connected | ConnectionState::ReadOnly => false,
            ConnectionState::Suspended => self == LostWhen::Disconnected,
            _ => true,
        }
    }
}

/// Settings of everything that is held: locks, permits, leaderships, tickets, worker ids, places in a double barrier,
/// items of queues. What is not said stays as it was in the recipe.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_server::TestServer::start();
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
    /// Says nothing yet.
    #[must_use]
    pub fn new() -> Self {
        HoldOptions::default()
    }

    /// When a guard counts as lost.
    #[must_use]
    pub fn lost_when(mut self, lost_when: LostWhen) -> Self {
        self.lost_when = Some(lost_when);
        self
    }

    /// What others read about who holds it or waits for it: the data of its node. By default the names of the host and
    /// the process; in an election, the candidate's id. Worker ids and items of queues have other data there, and
    /// ignore this. To find deadlocks it should name what blocks as a whole: a task.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// The ACL of every node that the recipe creates, also of directories that are missing. By default the client's,
    /// [`Options::default_acl`](herdsman_client::Options::default_acl). All who use the same path need the rights to
    /// create and delete there, or fail.
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

/// Who holds something: the client, and what the options say.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// Creates nodes with the right ACL.
    pub(crate) client: Client,
    pub(crate) lost_when: LostWhen,
    /// The data of the node.
    pub(crate) owner: Bytes,
}

impl Holder {
    /// With the defaults, and this text about the owner.
    pub(crate) fn new(client: &Client, owner: impl Into<Bytes>) -> Self {
        let (client, owner) = (client.clone(), owner.into());
        Holder { client, lost_when: LostWhen::default(), owner }
    }

    /// Not lost before the session is.
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

    /// Makes attempts, each in the session of the moment, until one ends otherwise than with its session. (A client
    /// that is bound to one session has no other.)
    pub(crate) async fn in_session<T, F>(&self, mut attempt: impl FnMut(Session) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        loop {
            let session = self.client.connected_session().await?;
            match attempt(session).await {
                Err(error) if self.begins_again_after(&error) => {}
                done => return done,
            }
        }
    }

    /// Whether the session is over, and the client goes on in another one.
    pub(crate) fn begins_again_after(&self, error: &Error) -> bool {
        error.client_kind() == Some(&ErrorKind::SessionExpired) && self.client.is_managed()
    }
}
