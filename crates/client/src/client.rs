//! The client: cheap to clone, and usable from any task.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use herdsman_proto::{Acl, path};
use tokio::task::JoinHandle;

use crate::call::{Call, Retries};
use crate::connect_string::ConnectString;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::fenced::Fenced;
use crate::managed::Managed;
use crate::operation::ZnodePath;
use crate::ops::{
    AddCredentials, AddWatch, CountDescendants, Create, CreateCall, DeleteCall, Ephemerals, Exists,
    Get, GetAcl, GetChildren, GetConfig, Lifetime, Op, Read, ReadMany, Reconfig, Set, SetAcl, Sync,
    TransactionCall, WhoAmI,
};
use crate::options::{self, Credentials, Options};
use crate::retry::RetryPolicy;
use crate::session::{ClientShared, Session};
use crate::state::{ConnectionEvents, ConnectionState};
use crate::watches::WatchTable;

/// A client of a ZooKeeper service.
///
/// A *managed* client ([`Client::connect`]) opens a new session whenever one has expired, and
/// reports that in its [events](Client::events). A client *bound* to a session
/// ([`Session::client`], [`Client::bound_to`]) ends with it; use one for everything that depends on
/// ephemerals.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), herdsman_client::Error> {
/// # let server = herdsman_testing::TestServer::start();
/// # let servers = server.connect_string();
/// use herdsman_client::Client;
///
/// let zk = Client::connect(&servers).await?;
/// zk.create("/app/config", "v1").parents().await?;
/// let node = zk.get("/app/config").await?;
/// assert_eq!(node.data, "v1");
/// zk.set("/app/config", "v2").version(node.stat.version).await?;
/// zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    scope: Scope,
    chroot: Arc<str>,
    retry: RetryPolicy,
    deadline: Option<Duration>,
    default_acl: Arc<[Acl]>,
}

#[derive(Clone)]
enum Scope {
    Managed(Arc<Managed>),
    Bound(Session),
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_managed = matches!(self.scope, Scope::Managed(_));
        f.debug_struct("Client")
            .field("session", &self.session())
            .field("managed", &is_managed)
            .field("chroot", &self.chroot)
            .finish()
    }
}

impl Client {
    /// Connects with default options: `host1:2181,host2:2181/chroot`.
    pub async fn connect(servers: &str) -> Result<Client> {
        Client::options().connect(servers).await
    }

    /// Returns the default options, to be changed and connected with.
    #[must_use]
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn managed(servers: ConnectString, options: Options) -> Result<Self> {
        Ok(Client {
            chroot: servers.chroot().into(),
            retry: options.retry.clone(),
            deadline: options.deadline,
            default_acl: options.default_acl.clone(),
            scope: Scope::Managed(Managed::start(servers, options)?),
        })
    }

    /// Creates a client of the same sessions without a chroot.
    pub(crate) fn of_managed(managed: Arc<Managed>) -> Self {
        let bound = Client::bound(managed.session());
        Client { scope: Scope::Managed(managed), chroot: "".into(), ..bound }
    }

    pub(crate) fn bound(session: Session) -> Self {
        let shared = session.shared().clone();
        let chroot = Arc::from(shared.client_shared.servers.borrow().chroot());
        Client {
            chroot,
            retry: shared.options.retry.clone(),
            deadline: shared.options.deadline,
            default_acl: shared.options.default_acl.clone(),
            scope: Scope::Bound(session),
        }
    }

    /// Returns a client with the same namespace and settings, bound to one session.
    #[must_use]
    pub fn bound_to(&self, session: &Session) -> Client {
        Client { scope: Scope::Bound(session.clone()), ..self.clone() }
    }

    /// Returns the current session. It may be disconnected, or may even have expired just now.
    #[must_use]
    pub fn session(&self) -> Session {
        match &self.scope {
            Scope::Managed(managed) => managed.session(),
            Scope::Bound(session) => session.clone(),
        }
    }

    /// Waits for a connected session and returns it. If the session of a managed client expires, waits for the next
    /// one. Fails if there will be no session any more.
    pub async fn connected_session(&self) -> Result<Session> {
        let session = match &self.scope {
            Scope::Managed(managed) => return managed.connected_session().await,
            Scope::Bound(session) => session,
        };
        match session.wait_for(|state| state.is_connected() || state.is_final()).await {
            ConnectionState::Expired => Err(Error::not_applied(ErrorKind::SessionExpired)),
            ConnectionState::AuthFailed => Err(session.shared().auth_failure()),
            ConnectionState::Closed => Err(Error::not_applied(ErrorKind::Closed)),
            _ => Ok(session.clone()),
        }
    }

    /// Returns the current connection state.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        match &self.scope {
            Scope::Managed(managed) => managed.client_shared.states.state(),
            Scope::Bound(session) => session.state(),
        }
    }

    /// Returns a stream of all changes of the connection from now on.
    #[must_use]
    pub fn events(&self) -> ConnectionEvents {
        match &self.scope {
            Scope::Managed(managed) => managed.client_shared.events(),
            Scope::Bound(session) => session.events(),
        }
    }

    /// Returns a client for which `path` is the root of all paths.
    pub fn namespace(&self, path: &str) -> Result<Client> {
        let inside = ZnodePath::new(&self.chroot, path);
        inside.check()?;
        let chroot = if inside.full() == path::ROOT { "" } else { inside.full() };
        Ok(Client { chroot: chroot.into(), ..self.clone() })
    }

    /// Returns the path that is the root of this client's paths; empty if it is the root of the tree.
    #[must_use]
    pub fn chroot(&self) -> &str {
        &self.chroot
    }

    /// Returns the same client with another retry policy.
    #[must_use]
    pub fn with_retry(&self, policy: RetryPolicy) -> Client {
        Client { retry: policy, ..self.clone() }
    }

    /// Returns the same client with a deadline for calls that set none.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client { deadline: Some(deadline), ..self.clone() }
    }

    /// Returns the same client with another default ACL, see [`Options::default_acl`]. Fails if the ACL is empty.
    pub fn with_default_acl(&self, acl: impl Into<Vec<Acl>>) -> Result<Client> {
        let default_acl: Arc<[Acl]> = acl.into().into();
        options::check_default_acl(&default_acl)?;
        Ok(Client { default_acl, ..self.clone() })
    }

    /// Returns a client whose writes fail unless the znode `guard` exists, such as the node of a lock or of a leader.
    #[must_use]
    pub fn fenced_by(&self, guard: &str) -> Fenced {
        Fenced::new(self.clone(), guard)
    }

    /// Ends the session, and with it this client and all its clones. See [`Session::close`].
    pub async fn close(&self) -> Result<()> {
        match &self.scope {
            Scope::Managed(managed) => managed.close().await,
            Scope::Bound(session) => session.close().await,
        }
    }

    /// Replaces the list of servers. The connection moves to another server if its server is not in the new list, or
    /// if this client is chosen at random to move, which keeps the load even. It first waits for the replies to
    /// requests that were sent, at most a third of the session timeout.
    pub fn update_servers(&self, servers: &str) -> Result<()> {
        let servers: ConnectString = servers
            .parse()
            .map_err(|error| Error::invalid_argument(format!("connect string: {error}")))?;
        if servers.chroot() != self.client_shared().servers.borrow().chroot() {
            return Err(Error::invalid_argument("the chroot of a client cannot change"));
        }
        self.client_shared().servers.send_replace(servers);
        Ok(())
    }

    /// Returns the servers that the client uses at present: the initial ones, those of
    /// [`update_servers`](Client::update_servers), or the members that it
    /// [follows](crate::Options::follow_membership).
    #[must_use]
    pub fn servers(&self) -> ConnectString {
        self.client_shared().servers.borrow().clone()
    }

    pub(crate) fn client_shared(&self) -> Arc<ClientShared> {
        match &self.scope {
            Scope::Managed(managed) => managed.client_shared.clone(),
            Scope::Bound(session) => session.shared().client_shared.clone(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    pub(crate) fn default_acl(&self) -> &Arc<[Acl]> {
        &self.default_acl
    }

    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        self.retry.clone()
    }

    /// Whether a new session is opened when one expires.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        matches!(self.scope, Scope::Managed(_))
    }

    /// Whether a call that failed with `error` could ever succeed.
    pub(crate) fn may_still_succeed(&self, error: &Error) -> bool {
        !error.is_session_expired() || self.is_managed()
    }

    pub(crate) fn path(&self, path: &str) -> ZnodePath {
        ZnodePath::new(&self.chroot, path)
    }
}

/// Operations.
impl Client {
    /// Reads the data and stat of a znode.
    pub fn get(&self, path: &str) -> Call<Get> {
        Call::new(self, Get { path: self.path(path) })
    }

    /// Reads the stat of a znode; `None` if the znode does not exist.
    pub fn exists(&self, path: &str) -> Call<Exists> {
        Call::new(self, Exists { path: self.path(path) })
    }

    /// Reads the names of a znode's children, and its stat.
    pub fn children(&self, path: &str) -> Call<GetChildren> {
        Call::new(self, GetChildren { path: self.path(path) })
    }

    /// Creates a znode.
    pub fn create(&self, path: &str, data: impl Into<Bytes>) -> CreateCall {
        CreateCall::new(self, Create::new(self.path(path), Ok(data.into())))
    }

    /// Replaces a znode's data.
    pub fn set(&self, path: &str, data: impl Into<Bytes>) -> Call<Set> {
        Call::new(self, Set::new(self.path(path), Ok(data.into())))
    }

    /// Deletes a znode.
    pub fn delete(&self, path: &str) -> DeleteCall {
        DeleteCall::new(self, self.path(path))
    }

    /// Executes all of these writes, or none. A failure says which write caused it, see [`Error::failed_op`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = herdsman_testing::TestServer::start();
    /// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
    /// use herdsman_client::{ErrorKind, Op};
    ///
    /// zk.transaction([Op::create("/from", "10"), Op::create("/to", "0")]).await?;
    /// let transfer = [Op::set("/from", "5").version(0), Op::set("/to", "5").version(3)];
    /// let error = zk.transaction(transfer).await.unwrap_err();
    /// assert_eq!((error.kind(), error.failed_op()), (&ErrorKind::BadVersion, Some(1)));
    /// assert_eq!(zk.get("/from").await?.data, "10");
    /// # Ok(()) }
    /// ```
    pub fn transaction(&self, ops: impl IntoIterator<Item = Op>) -> TransactionCall {
        let own = |op: Op| op.below(&self.chroot).with_default_acl(&self.default_acl);
        TransactionCall::new(self, ops.into_iter().map(own).collect())
    }

    /// Executes several reads in one request.
    pub fn read_many(&self, reads: impl IntoIterator<Item = Read>) -> Call<ReadMany> {
        let reads = reads.into_iter().map(|read| read.below(&self.chroot)).collect();
        Call::new(self, ReadMany { reads })
    }

    /// Adds a persistent watch: a stream of all changes of a znode.
    pub fn watch(&self, path: &str) -> Call<AddWatch> {
        Call::new(self, AddWatch { path: self.path(path), table: WatchTable::Persistent })
    }

    /// Reads the ACL of a znode, and its stat.
    pub fn acl(&self, path: &str) -> Call<GetAcl> {
        Call::new(self, GetAcl { path: self.path(path) })
    }

    /// Replaces the ACL of a znode.
    pub fn set_acl(&self, path: &str, acl: impl Into<Vec<Acl>>) -> Call<SetAcl> {
        Call::new(self, SetAcl { path: self.path(path), acl: acl.into(), version: -1 })
    }

    /// Waits until the server has applied all writes, of any client, that preceded this call.
    pub fn sync(&self, path: &str) -> Call<Sync> {
        Call::new(self, Sync { path: self.path(path) })
    }

    /// Counts the znodes below a znode.
    pub fn count_descendants(&self, path: &str) -> Call<CountDescendants> {
        Call::new(self, CountDescendants { path: self.path(path) })
    }

    /// Lists the session's own ephemerals below `path`.
    pub fn ephemerals(&self, path: &str) -> Call<Ephemerals> {
        Call::new(self, Ephemerals { path: self.path(path) })
    }

    /// Lists the identities under which the server has authenticated this session.
    pub fn who_am_i(&self) -> Call<WhoAmI> {
        Call::new(self, WhoAmI)
    }

    /// Reads the ensemble's configuration.
    pub fn config(&self) -> Call<GetConfig> {
        Call::new(self, GetConfig)
    }

    /// Changes the ensemble's members.
    pub fn reconfig(&self) -> Call<Reconfig> {
        Call::new(self, Reconfig::default())
    }

    /// Sends credentials, now and on every later connection. Wrong credentials end the session.
    pub fn authenticate(&self, scheme: &str, secret: impl Into<Bytes>) -> Call<AddCredentials> {
        let (scheme, secret) = (scheme.to_owned(), secret.into());
        let remembered = Credentials { scheme: scheme.clone(), secret: secret.clone() };
        let client_shared = self.client_shared();
        let mut credentials = client_shared.credentials.lock();
        if !credentials.contains(&remembered) {
            credentials.push(remembered);
        }
        drop(credentials);
        Call::new(self, AddCredentials { scheme, secret })
    }

    /// Creates a znode and its ancestors if they do not exist, with this lifetime and without data.
    pub async fn ensure(&self, path: &str, lifetime: Lifetime) -> Result<()> {
        let mut retries = Retries::begin(self.retry_policy());
        let mut missing = vec![path.to_owned()];
        while let Some(path) = missing.last() {
            if self.exists(path).await?.is_some() {
                missing.pop();
                continue;
            }
            match self.create(path, Bytes::new()).lifetime(lifetime).await {
                Ok(_) => drop(missing.pop()),
                Err(error) if error.is_node_exists() => drop(missing.pop()),
                Err(error) if error.is_no_node() => {
                    match path::split(path).filter(|(parent, _)| !parent.is_empty()) {
                        Some((parent, _)) => missing.push(parent.to_owned()),
                        None => Box::pin(self.create_chroot(lifetime)).await?,
                    }
                }
                // The znode may exist now; the next iteration checks.
                Err(error)
                    if error.outcome() == Outcome::Unknown
                        && error.is_retriable()
                        && retries.pause(&error).await => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Creates the root of this client's paths if it does not exist.
    pub(crate) async fn create_chroot(&self, lifetime: Lifetime) -> Result<()> {
        let outside = Client { chroot: "".into(), ..self.clone() };
        outside.ensure(&self.chroot, lifetime).await
    }

    /// Spawns a task in the runtime in which the client was created. This may be called outside of any runtime, for
    /// example in a `Drop` implementation. The task ends with that runtime.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.client_shared().runtime.spawn(task)
    }
}
