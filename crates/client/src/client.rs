//! The client that programs hold: cheap to clone, to be used from any task.

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
/// A *managed* client ([`Client::connect`]) opens the next session whenever one has expired, and
/// says so in its [events](Client::events). A client *bound* to a session
/// ([`Session::client`], [`Client::bound_to`]) ends with it, which is what everything needs that
/// rests on ephemerals.
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

    /// Options to connect with.
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

    /// A handle to the same sessions that sees the whole tree.
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

    /// The same namespace and settings, bound to one session.
    #[must_use]
    pub fn bound_to(&self, session: &Session) -> Client {
        Client { scope: Scope::Bound(session.clone()), ..self.clone() }
    }

    /// The session of the moment. It may not be connected, or even have expired just now.
    #[must_use]
    pub fn session(&self) -> Session {
        match &self.scope {
            Scope::Managed(managed) => managed.session(),
            Scope::Bound(session) => session.clone(),
        }
    }

    /// A session that is connected: waits for it, and in a managed client for the next one if
    /// need be. Fails when there will be none any more.
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

    /// The current connection state.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        match &self.scope {
            Scope::Managed(managed) => managed.client_shared.states.state(),
            Scope::Bound(session) => session.state(),
        }
    }

    /// Every change of the connection from now on.
    #[must_use]
    pub fn events(&self) -> ConnectionEvents {
        match &self.scope {
            Scope::Managed(managed) => managed.client_shared.events(),
            Scope::Bound(session) => session.events(),
        }
    }

    /// The same client seen from `path`: that is the root of all its paths.
    pub fn namespace(&self, path: &str) -> Result<Client> {
        let inside = ZnodePath::new(&self.chroot, path);
        inside.check()?;
        let chroot = if inside.full() == path::ROOT { "" } else { inside.full() };
        Ok(Client { chroot: chroot.into(), ..self.clone() })
    }

    /// The path that is the root of this client's paths; empty if it is the tree's own root.
    #[must_use]
    pub fn chroot(&self) -> &str {
        &self.chroot
    }

    /// The same client with another retry policy.
    #[must_use]
    pub fn with_retry(&self, policy: RetryPolicy) -> Client {
        Client { retry: policy, ..self.clone() }
    }

    /// The same client with a deadline for calls that set none.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client { deadline: Some(deadline), ..self.clone() }
    }

    /// The same client with another default ACL, see [`Options::default_acl`]. Fails if it has no entry.
    pub fn with_default_acl(&self, acl: impl Into<Vec<Acl>>) -> Result<Client> {
        let default_acl: Arc<[Acl]> = acl.into().into();
        options::check_default_acl(&default_acl)?;
        Ok(Client { default_acl, ..self.clone() })
    }

    /// A client whose writes fail unless the znode `guard` exists: the node of a lock or of a
    /// leader.
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

    /// Takes another list of servers. The connection moves if its server is no longer among them,
    /// or if this client is chosen at random to move, which keeps the load even. Requests that were sent are
    /// answered first, unless that takes longer than a third of the session timeout.
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

    /// The servers that the client uses at present: those that it was given, at the start or by
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

    /// Whether another session follows when one expires.
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
    /// Data and stat of a znode.
    pub fn get(&self, path: &str) -> Call<Get> {
        Call::new(self, Get { path: self.path(path) })
    }

    /// The stat of a znode, or `None` if there is none.
    pub fn exists(&self, path: &str) -> Call<Exists> {
        Call::new(self, Exists { path: self.path(path) })
    }

    /// Names of a znode's children, and its stat.
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

    /// All of these writes, or none. A failure says which of them was the cause, see
    /// [`Error::failed_op`].
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

    /// Several reads in one request.
    pub fn read_many(&self, reads: impl IntoIterator<Item = Read>) -> Call<ReadMany> {
        let reads = reads.into_iter().map(|read| read.below(&self.chroot)).collect();
        Call::new(self, ReadMany { reads })
    }

    /// A persistent watch: a stream of all changes of a znode.
    pub fn watch(&self, path: &str) -> Call<AddWatch> {
        Call::new(self, AddWatch { path: self.path(path), table: WatchTable::Persistent })
    }

    /// The ACL of a znode, and its stat.
    pub fn acl(&self, path: &str) -> Call<GetAcl> {
        Call::new(self, GetAcl { path: self.path(path) })
    }

    /// Replaces the ACL of a znode.
    pub fn set_acl(&self, path: &str, acl: impl Into<Vec<Acl>>) -> Call<SetAcl> {
        Call::new(self, SetAcl { path: self.path(path), acl: acl.into(), version: -1 })
    }

    /// Waits until the server knows all that was written, by anybody, before this call.
    pub fn sync(&self, path: &str) -> Call<Sync> {
        Call::new(self, Sync { path: self.path(path) })
    }

    /// The number of znodes below a znode.
    pub fn count_descendants(&self, path: &str) -> Call<CountDescendants> {
        Call::new(self, CountDescendants { path: self.path(path) })
    }

    /// The session's own ephemerals below `path`.
    pub fn ephemerals(&self, path: &str) -> Call<Ephemerals> {
        Call::new(self, Ephemerals { path: self.path(path) })
    }

    /// The identities under which the server has authenticated this session.
    pub fn who_am_i(&self) -> Call<WhoAmI> {
        Call::new(self, WhoAmI)
    }

    /// The ensemble's configuration.
    pub fn config(&self) -> Call<GetConfig> {
        Call::new(self, GetConfig)
    }

    /// Changes the ensemble's members.
    pub fn reconfig(&self) -> Call<Reconfig> {
        Call::new(self, Reconfig::default())
    }

    /// Presents credentials, now and on every later connection. Wrong ones end the session.
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

    /// Makes sure that a znode and all above it exist; what is missing gets this lifetime and no
    /// data.
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
                // It may be there now; the next look will tell.
                Err(error)
                    if error.outcome() == Outcome::Unknown
                        && error.is_retriable()
                        && retries.pause(&error).await => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes sure that the root of this client's paths exists.
    pub(crate) async fn create_chroot(&self, lifetime: Lifetime) -> Result<()> {
        let outside = Client { chroot: "".into(), ..self.clone() };
        outside.ensure(&self.chroot, lifetime).await
    }

    /// Runs a task in the runtime in which the client was made. This may be called outside of any runtime, for
    /// example where something is dropped. The task ends with that runtime.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.client_shared().runtime.spawn(task)
    }
}
