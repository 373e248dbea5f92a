//! One session: from the handshake that opens it to the moment the servers end it.
//!
//! In: requests, in program order. Out: answers, watch events, and the state of the connection.
//! A task of its own ([`task`]) finds servers, reconnects and keeps the session alive; what is here
//! is the handle that programs hold. When the last handle is dropped, the session is closed.
//!
//! Deliberately not here: retries and the next session. Those are the [`Client`]'s.

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

/// What the consecutive sessions of one client share.
#[derive(Debug)]
pub(crate) struct ClientShared {
    pub(crate) watches: Arc<Watches>,
    pub(crate) credentials: Mutex<Vec<Credentials>>,
    pub(crate) servers: watch::Sender<ConnectString>,
    /// How servers are reached, and as whom.
    pub(crate) connector: Arc<Connector>,
    /// Every change of every session.
    pub(crate) states: StatePublisher,
    /// Whether another session follows when one expires.
    pub(crate) on_expiry: OnExpiry,
    /// Where their tasks run.
    pub(crate) runtime: Handle,
    /// Newest txn that one of them has seen, so that the next one does not go back in time.
    pub(crate) last_zxid: AtomicI64,
}

impl ClientShared {
    /// Fails if TLS files cannot be used, and where there is no runtime to run in.
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

/// The runtime from which a client is started; without one, that of the clients that are used without async.
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

/// What the session's task and its handles share.
#[derive(Debug)]
pub(crate) struct SessionShared {
    pub(crate) queue: Arc<RequestQueue>,
    pub(crate) client_shared: Arc<ClientShared>,
    pub(crate) options: Options,
    pub(crate) states: StatePublisher,
    identity: Mutex<SessionIdentity>,
    /// The last handle is gone, or somebody closed the session.
    closing: Notify,
    /// Why the last attempt to connector a server led nowhere.
    last_failure: Mutex<Option<String>>,
    /// Why a server refused our login, or we refused the server.
    login_failure: Mutex<Option<String>>,
}

/// Who we are to the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionIdentity {
    pub(crate) session: SessionId,
    pub(crate) password: Password,
    pub(crate) timeout: Duration,
    /// A request sent at this time was answered.
    pub(crate) last_confirmed: Instant,
}

impl SessionShared {
    pub(crate) fn identity(&self) -> SessionIdentity {
        *self.identity.lock()
    }

    pub(crate) fn publish(&self, state: ConnectionState, event: ConnectionEvent) {
        tracing::debug!(?event, "connection");
        // The client's states is changed inside of the session's, so that who waits for a session to
        // connect then finds the client connected.
        self.states
            .publish(state, event, || self.client_shared.states.publish(state, event, || {}));
    }

    /// What a session that has ended with [`ConnectionState::AuthFailed`] leaves for its callers.
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
/// // What rests on ephemerals belongs to one session and ends with it.
/// let session = zk.connected_session().await?;
/// let bound = zk.bound_to(&session);
/// bound.create("/worker", "").ephemeral().await?;
/// # server.expire_session(session.id());
/// // … the session expires …
/// assert_eq!(session.ended().await, ConnectionState::Expired);
/// let error = bound.get("/worker").await.unwrap_err();
/// assert_eq!(*error.kind(), ErrorKind::SessionExpired);
/// // The managed client goes on in the next one.
/// assert_eq!(zk.exists("/worker").await?, None);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Session {
    handle: Arc<SessionHandle>,
}

/// What all handles share.
struct SessionHandle {
    shared: Arc<SessionShared>,
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        // The task sends the goodbye if it can; nobody is left to wait for the answer.
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
    /// A session of its own, without a successor.
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

    /// The session's id; [`SessionId::NONE`] before it is established.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.shared().identity().session
    }

    /// The password with which another client could go on with this session.
    #[must_use]
    pub fn password(&self) -> Password {
        self.shared().identity().password
    }

    /// The timeout that the servers have settled on; before that, the one asked for.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.shared().identity().timeout
    }

    /// When the last request was sent that a server has answered: the session was alive then, and
    /// [`Session::timeout`] later the servers may end it. The answer itself came later than this,
    /// but servers count from the request.
    #[must_use]
    pub fn last_heard(&self) -> Instant {
        self.shared().identity().last_confirmed
    }

    /// How things stand.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.shared().states.state()
    }

    /// Every change from now on.
    #[must_use]
    pub fn events(&self) -> ConnectionEvents {
        ConnectionEvents::new(&self.shared().states, OnExpiry::End)
    }

    /// Waits for a state.
    pub async fn wait_for(
        &self,
        mut wanted: impl FnMut(ConnectionState) -> bool,
    ) -> ConnectionState {
        let mut state = self.shared().states.subscribe();
        let reached = state.wait_for(|state| wanted(*state)).await;
        reached.map_or(ConnectionState::Closed, |state| *state)
    }

    /// Resolves when the session is over.
    pub async fn ended(&self) -> ConnectionState {
        self.shared().ended().await
    }

    /// A client all of whose operations belong to this session: when it is over, they fail.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::bound(self.clone())
    }

    /// Ends the session on the servers: its ephemerals go at once. Requests that were made before
    /// are answered first, later ones fail. Closing what is over already is fine.
    ///
    /// On this side the session is over in any case when this returns. An error means that no
    /// server has confirmed it: they may keep its ephemerals until the session timeout has passed.
    pub async fn close(&self) -> Result<()> {
        let goodbye = self.shared().queue.push_close_session();
        self.shared().closing.notify_one();
        let answered = match goodbye {
            Ok(receive) => receive.await.unwrap_or_else(|_| Err(lost_goodbye())).map(drop),
            // Closed already, by somebody else or by the servers.
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

    /// Puts a request into the session's order now, if there is room.
    pub(crate) fn try_submit(&self, request: &Submission<'_>) -> Option<SubmitResult> {
        let permit = self.shared().queue.try_permit()?;
        Some(self.submit_with(request, permit))
    }

    /// Puts a request into the session's order as soon as there is room.
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

/// A queued request: its answer will come here.
pub(crate) type SubmitResult = Result<oneshot::Receiver<Result<Answer>>>;

/// A request and the watch it sets.
pub(crate) struct Submission<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) watch: Option<WatchRequest<'a>>,
}

/// Which watch a request sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchRequest<'a> {
    pub(crate) path: &'a str,
    pub(crate) table: WatchTable,
    pub(crate) lifetime: WatchLifetime,
    pub(crate) chroot_bytes: usize,
}

fn lost_goodbye() -> Error {
    Error::unknown(ErrorKind::ConnectionLoss)
}
