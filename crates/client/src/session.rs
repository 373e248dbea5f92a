//! One session: from the handshake that opens it until it expires or is closed.
//!
//! In: requests, in program order. Out: replies, watch events, and the state of the connection.
//! A background task ([`task`]) finds servers, reconnects and keeps the session alive; this module
//! contains the handle that programs use. When the last handle is dropped, the session is closed.
//!
//! Deliberately not here: retries and the next session. Those belong to [`Client`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use herdsman_proto::connect::Password;
use herdsman_proto::{Request, SessionId, Zxid};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot, watch};
use tokio::time::{Instant, timeout};

use crate::client::Client;
use crate::connect_string::ConnectString;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Credentials, Options};
use crate::request_queue::{Answer, RequestQueue};
use crate::state::{ConnectionEvent, ConnectionEvents, ConnectionState, OnExpiry, StatePublisher};
use crate::watches::{WatchLifetime, WatchTable, Watches};

mod attach;
mod connection;
#[cfg(feature = "sasl")]
mod login;
mod reconnect_delay;
mod search;
mod task;
mod transport;

pub(crate) use transport::Connector;

/// The state shared by the consecutive sessions of one client.
#[derive(Debug)]
pub(crate) struct ClientShared {
    pub(crate) watches: Arc<Watches>,
    pub(crate) credentials: Mutex<Vec<Credentials>>,
    pub(crate) servers: watch::Sender<ConnectString>,
    /// How connections to servers are opened, secured and authenticated.
    pub(crate) connector: Arc<Connector>,
    /// Publishes every change of every session.
    pub(crate) states: StatePublisher,
    /// Whether a new session is opened when one expires.
    pub(crate) on_expiry: OnExpiry,
    /// The runtime of their tasks.
    pub(crate) runtime: Handle,
    /// The newest txn that one of them has seen, so that the next one does not see an older state.
    pub(crate) last_zxid: AtomicI64,
}

impl ClientShared {
    /// Fails if the TLS files cannot be used, or if there is no runtime.
    pub(crate) fn new(
        servers: ConnectString,
        options: &Options,
        on_expiry: OnExpiry,
    ) -> Result<Self> {
        let runtime = runtime()?;
        Ok(ClientShared {
            watches: Arc::default(),
            credentials: Mutex::new(options.credentials.clone()),
            servers: watch::Sender::new(servers),
            connector: Arc::new(Connector::prepare(options)?),
            states: StatePublisher::new(),
            on_expiry,
            runtime,
            last_zxid: AtomicI64::new(Zxid::ZERO.0),
        })
    }

    pub(crate) fn events(&self) -> ConnectionEvents {
        ConnectionEvents::new(&self.states, self.on_expiry)
    }
}

/// Returns the current runtime; without one, the background runtime of blocking clients.
fn runtime() -> Result<Handle> {
    if let Ok(current) = Handle::try_current() {
        return Ok(current);
    }
    #[cfg(feature = "blocking")]
    return crate::blocking::background().map_err(|error| {
        let text = format!("cannot start the background thread: {error}");
        Error::not_applied(ErrorKind::ConnectFailed(text))
    });
    #[cfg(not(feature = "blocking"))]
    Err(Error::invalid_argument(
        "no tokio runtime: start the client inside one, or enable the feature `blocking` of herdsman-client",
    ))
}

/// The state shared by the session's task and its handles.
#[derive(Debug)]
pub(crate) struct SessionShared {
    pub(crate) queue: Arc<RequestQueue>,
    pub(crate) client_shared: Arc<ClientShared>,
    pub(crate) options: Options,
    pub(crate) states: StatePublisher,
    identity: Mutex<SessionIdentity>,
    /// The last handle was dropped, or the session was closed.
    closing: Notify,
    /// Why the last attempt to reach a server failed.
    last_failure: Mutex<Option<String>>,
    /// Why a server refused the client's login, or the client refused the server.
    login_failure: Mutex<Option<String>>,
}

/// The session as the servers know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionIdentity {
    pub(crate) session: SessionId,
    pub(crate) password: Password,
    pub(crate) timeout: Duration,
    /// A request sent at this time got a reply, so the session was alive then.
    pub(crate) last_confirmed: Instant,
}

impl SessionShared {
    pub(crate) fn identity(&self) -> SessionIdentity {
        *self.identity.lock()
    }

    pub(crate) fn publish(&self, state: ConnectionState, event: ConnectionEvent) {
        tracing::debug!(?event, "connection");
        // The client's state is changed within the session's, so that a task that waits for the session
        // to connect then finds the client connected.
        self.states
            .publish(state, event, || self.client_shared.states.publish(state, event, || {}));
    }

    /// Returns the error of a session that has ended with [`ConnectionState::AuthFailed`].
    pub(crate) fn auth_failure(&self) -> Error {
        let reason = self.login_failure.lock();
        Error::not_applied(ErrorKind::AuthFailed).because(reason.as_deref())
    }

    /// Resolves when the session has reached its final state.
    pub(crate) async fn ended(&self) -> ConnectionState {
        let mut state = self.states.subscribe();
        let ended = state.wait_for(|state| state.is_final()).await;
        ended.map_or(ConnectionState::Closed, |state| *state)
    }
}

/// A session. Clones are handles to the same one; dropping the last closes it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_client::{ConnectionState, ErrorKind};
///
/// // Everything that depends on ephemerals belongs to one session and ends with it.
/// let session = zk.connected_session().await?;
/// let bound = zk.bound_to(&session);
/// bound.create("/worker", "").ephemeral().await?;
/// # server.expire_session(session.id());
/// // … the session expires …
/// assert_eq!(session.ended().await, ConnectionState::Expired);
/// let error = bound.get("/worker").await.unwrap_err();
/// assert_eq!(*error.kind(), ErrorKind::SessionExpired);
/// // The managed client continues with the next one.
/// assert_eq!(zk.exists("/worker").await?, None);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Session {
    handle: Arc<SessionHandle>,
}

/// The state behind all handles; dropping it closes the session.
struct SessionHandle {
    shared: Arc<SessionShared>,
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        // The task sends the request if it can; no caller is left to wait for the reply.
        drop(self.shared.queue.push_close_session());
        self.shared.closing.notify_one();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id()).field("state", &self.state()).finish()
    }
}

impl Session {
    /// Starts a session that is not replaced when it expires.
    pub(crate) fn start_alone(servers: ConnectString, options: Options) -> Result<Self> {
        let client_shared = ClientShared::new(servers, &options, OnExpiry::End)?;
        Ok(Session::start(Arc::new(client_shared), options))
    }

    /// Starts the session's task; it connects in the background.
    pub(crate) fn start(client_shared: Arc<ClientShared>, options: Options) -> Self {
        let (session, password) = options.resumed.unwrap_or((SessionId::NONE, [0; 16]));
        let queue = Arc::new(RequestQueue::new(options.in_flight_max, options.request_bytes_max));
        client_shared.watches.attach(&queue);
        let timeout = options.session_timeout;
        let shared = Arc::new(SessionShared {
            queue,
            client_shared,
            states: StatePublisher::new(),
            identity: Mutex::new(SessionIdentity {
                session,
                password,
                timeout,
                last_confirmed: Instant::now(),
            }),
            closing: Notify::new(),
            last_failure: Mutex::default(),
            login_failure: Mutex::default(),
            options,
        });
        shared.client_shared.runtime.spawn(task::run(shared.clone()));
        Session { handle: Arc::new(SessionHandle { shared }) }
    }

    pub(crate) fn shared(&self) -> &Arc<SessionShared> {
        &self.handle.shared
    }

    /// Returns the session's id; [`SessionId::NONE`] before it is established.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.shared().identity().session
    }

    /// Returns the password with which another client can resume this session.
    #[must_use]
    pub fn password(&self) -> Password {
        self.shared().identity().password
    }

    /// Returns the timeout negotiated with the servers; before that, the requested one.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.shared().identity().timeout
    }

    /// Returns when the last request that got a reply was sent: the session was alive then, and
    /// [`Session::timeout`] later the servers may end it. The reply itself came later than this,
    /// but servers count from the request. Replies of a read-only server do not count: the other
    /// servers may have ended the session without it.
    #[must_use]
    pub fn last_contact(&self) -> Instant {
        self.shared().identity().last_confirmed
    }

    /// Returns the current state.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.shared().states.state()
    }

    /// Returns a stream of all changes from now on.
    #[must_use]
    pub fn events(&self) -> ConnectionEvents {
        ConnectionEvents::new(&self.shared().states, OnExpiry::End)
    }

    /// Waits for a state that `wanted` accepts, and returns it.
    pub async fn wait_for(
        &self,
        mut wanted: impl FnMut(ConnectionState) -> bool,
    ) -> ConnectionState {
        let mut state = self.shared().states.subscribe();
        let reached = state.wait_for(|state| wanted(*state)).await;
        reached.map_or(ConnectionState::Closed, |state| *state)
    }

    /// Waits until the session has ended, and returns its final state.
    pub async fn ended(&self) -> ConnectionState {
        self.shared().ended().await
    }

    /// Returns a client bound to this session: when the session has ended, its operations fail.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::bound(self.clone())
    }

    /// Ends the session on the servers, which delete its ephemerals at once. Requests that were made
    /// before get their replies first, later ones fail. Closing a session that has ended already is fine.
    ///
    /// On the client the session has ended in any case when this returns. An error means that no
    /// server has confirmed it: the servers may keep its ephemerals for up to the session timeout.
    pub async fn close(&self) -> Result<()> {
        let closing = self.shared().queue.push_close_session();
        self.shared().closing.notify_one();
        let answered = match closing {
            Ok(receive) => receive.await.unwrap_or_else(|_| Err(lost_reply())).map(drop),
            // Already closed, by another handle or by the servers.
            Err(_) => Ok(()),
        };
        match self.ended().await {
            ConnectionState::Expired => Ok(()),
            _ => answered,
        }
    }

    pub(crate) async fn established(&self, wait_max: Duration) -> Result<()> {
        let reached =
            timeout(wait_max, self.wait_for(|state| state != ConnectionState::Connecting));
        match reached.await {
            Ok(ConnectionState::AuthFailed) => Err(self.shared().auth_failure()),
            Ok(ConnectionState::Expired) => Err(Error::not_applied(ErrorKind::SessionExpired)),
            Ok(ConnectionState::Closed) => Err(Error::not_applied(ErrorKind::Closed)),
            Ok(_) => Ok(()),
            Err(_) => {
                let tried = self.shared().client_shared.servers.borrow().to_string();
                let mut text = format!("none of {tried} opened a session within {wait_max:?}");
                if let Some(failure) = self.shared().last_failure.lock().as_deref() {
                    text.push_str(&format!("; last attempt: {failure}"));
                }
                Err(Error::not_applied(ErrorKind::ConnectFailed(text)))
            }
        }
    }

    /// Queues a request now, if not too many are in flight.
    pub(crate) fn try_submit(&self, request: &Submission<'_>) -> Option<SubmitResult> {
        let permit = self.shared().queue.try_permit()?;
        Some(self.submit_with(request, permit))
    }

    /// Queues a request as soon as not too many are in flight.
    pub(crate) async fn submit(&self, request: &Submission<'_>) -> SubmitResult {
        let permit = self.shared().queue.permit().await;
        self.submit_with(request, permit)
    }

    fn submit_with(&self, request: &Submission<'_>, permit: OwnedSemaphorePermit) -> SubmitResult {
        let shared = self.shared();
        let expected = request.watch.map(|watch| {
            shared.client_shared.watches.expect(
                watch.path,
                watch.table,
                watch.lifetime,
                watch.chroot_bytes,
            )
        });
        shared.queue.push(&request.request, expected, permit)
    }
}

/// The receiver of a queued request's reply, or why the request was not queued.
pub(crate) type SubmitResult = Result<oneshot::Receiver<Result<Answer>>>;

/// A request and the watch it sets.
pub(crate) struct Submission<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) watch: Option<WatchRequest<'a>>,
}

/// The watch that a request sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchRequest<'a> {
    pub(crate) path: &'a str,
    pub(crate) table: WatchTable,
    pub(crate) lifetime: WatchLifetime,
    pub(crate) chroot_bytes: usize,
}

fn lost_reply() -> Error {
    Error::unknown(ErrorKind::ConnectionLoss)
}
