//! Client options.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use herdsman_proto::connect::Password;
use herdsman_proto::{Acl, SessionId};
#[cfg(feature = "tls")]
use herdsman_tls::TlsSettings;

use crate::client::Client;
use crate::connect_string::{ConnectString, ConnectStringError, HostPort};
use crate::dial::{Dial, Tcp};
use crate::error::{Error, Result};
use crate::follow::ClientPort;
use crate::report::{CallReport, OnCall};
use crate::retry::RetryPolicy;
#[cfg(feature = "sasl")]
use crate::sasl::SaslLogin;
use crate::session::Session;

/// Settings of a client, each with a sensible default.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// let zk = herdsman_client::Client::options()
///     .session_timeout(Duration::from_secs(10))
///     .connect("zk1:2181,zk2:2181,zk3:2181/app")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) read_only: ReadOnlyServers,
    pub(crate) in_flight_max: usize,
    pub(crate) request_bytes_max: usize,
    pub(crate) reply_bytes_max: usize,
    pub(crate) credentials: Vec<Credentials>,
    pub(crate) retry: RetryPolicy,
    pub(crate) deadline: Option<Duration>,
    pub(crate) default_acl: Arc<[Acl]>,
    pub(crate) on_call: Option<OnCall>,
    pub(crate) resumed: Option<(SessionId, Password)>,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) follow_membership: bool,
    pub(crate) preferred: std::result::Result<Arc<[HostPort]>, ConnectStringError>,
    pub(crate) return_delay: Duration,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsSettings>,
    #[cfg(feature = "sasl")]
    pub(crate) login: Option<SaslLogin>,
}

/// Whether to use a read-only server, which has lost its quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadOnlyServers {
    /// Use only servers that accept writes.
    #[default]
    Refused,
    /// Use a read-only server until one that accepts writes is found.
    Accepted,
}

/// Credentials of a scheme, sent on every new connection.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) scheme: String,
    pub(crate) secret: Bytes,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// The default `jute.maxbuffer` of servers.
const REQUEST_BYTES_MAX: usize = (1 << 20) - 1;

impl Default for Options {
    fn default() -> Self {
        Options {
            session_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            read_only: ReadOnlyServers::Refused,
            in_flight_max: 1024,
            request_bytes_max: REQUEST_BYTES_MAX,
            reply_bytes_max: 64 << 20,
            credentials: Vec::new(),
            retry: RetryPolicy::default(),
            deadline: None,
            default_acl: Arc::new([Acl::open()]),
            on_call: None,
            resumed: None,
            dial: Arc::new(Tcp),
            follow_membership: false,
            preferred: Ok(Arc::default()),
            return_delay: Duration::from_secs(30),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "sasl")]
            login: None,
        }
    }
}

impl Options {
    /// Sets the session timeout to request; the servers may negotiate another one, see [`Session::timeout`].
    /// Default 30 s.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long [`Options::connect`] waits for the first session. Default 30 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets whether to use read-only servers. Default: they are refused.
    #[must_use]
    pub fn read_only_servers(mut self, read_only: ReadOnlyServers) -> Self {
        self.read_only = read_only;
        self
    }

    /// Limits the number of requests in flight; further ones wait for a reply to arrive. Default 1024.
    #[must_use]
    pub fn in_flight_max(mut self, requests: usize) -> Self {
        self.in_flight_max = requests;
        self
    }

    /// Limits the size of a request; a larger one fails with
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge). Default 1 MiB − 1, the default
    /// `jute.maxbuffer` of servers: they close the connection without a reply when a request is larger,
    /// and everything in flight is lost.
    #[must_use]
    pub fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.request_bytes_max = bytes;
        self
    }

    /// Limits the size of a reply; a larger one is skipped, and its call fails with
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge). Default 64 MiB, because lists of children
    /// can be much larger than any request.
    #[must_use]
    pub fn reply_bytes_max(mut self, bytes: usize) -> Self {
        self.reply_bytes_max = bytes;
        self
    }

    /// Sends credentials on every connection. Their form depends on the scheme; for `digest` it is
    /// `user:password`.
    #[must_use]
    pub fn credentials(mut self, scheme: impl Into<String>, secret: impl Into<Bytes>) -> Self {
        self.credentials.push(Credentials { scheme: scheme.into(), secret: secret.into() });
        self
    }

    /// Sets how often, and after which pauses, a call that failed for a temporary reason is retried.
    /// See [`crate::retry`].
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Sets a deadline for every call that has none of its own. Default: none; a call ends when its
    /// reply arrives or the connection has been lost for a session timeout.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the ACL of every znode that is created without its own ACL
    /// ([`CreateCall::acl`](crate::ops::CreateCall::acl), [`Op::acl`](crate::Op::acl)): by single
    /// creations, in transactions, as missing parents, and by everything that creates znodes through
    /// this client or its clones. Default: [`Acl::open`], all permissions for everyone.
    ///
    /// Connecting fails with
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the list is empty. With
    /// an ACL that needs an identity, such as [`Acl::creator_all`], creations of a client without
    /// credentials fail with [`ErrorKind::InvalidAcl`](crate::ErrorKind::InvalidAcl).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = herdsman_testing::TestServer::start();
    /// # let servers = server.connect_string();
    /// use herdsman_client::{Acl, Client, Perms};
    ///
    /// let zk = Client::options()
    ///     .credentials("digest", "app:secret")
    ///     .default_acl([Acl::creator_all(), Acl::read_only()])
    ///     .connect(&servers)
    ///     .await?;
    /// zk.create("/app/config", "v1").parents().await?;
    /// let (acl, _) = zk.acl("/app").await?;
    /// assert_eq!(acl, [Acl::digest("app", "secret", Perms::ALL), Acl::read_only()]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn default_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.default_acl = acl.into().into();
        self
    }

    /// Calls `hook` with a report of every call that has ended, for metrics. Default: none, which costs
    /// nothing.
    ///
    /// The hook runs in the task that awaits the call, before the task gets the result, so it should be
    /// quick. A panic in it is logged and does not affect the call. A call that takes several requests (a
    /// creation with parents, a recursive deletion) is reported once for each request. A call whose future
    /// is dropped is not reported.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = herdsman_testing::TestServer::start();
    /// # let servers = server.connect_string();
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let failures = Arc::new(AtomicU64::new(0));
    /// let counted = failures.clone();
    /// let zk = herdsman_client::Client::options()
    ///     .on_call(move |call| {
    ///         if call.result.is_err() {
    ///             counted.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     })
    ///     .connect(&servers)
    ///     .await?;
    /// zk.create("/a", "").await?;
    /// zk.get("/missing").await.unwrap_err();
    /// assert_eq!(failures.load(Ordering::Relaxed), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn on_call(mut self, hook: impl Fn(&CallReport<'_>) + Send + Sync + 'static) -> Self {
        self.on_call = Some(OnCall::new(hook));
        self
    }

    /// Resumes a session with this id and password instead of opening a new one.
    #[must_use]
    pub fn resume(mut self, session: SessionId, password: Password) -> Self {
        self.resumed = Some((session, password));
        self
    }

    /// Sets another way to open connections than TCP to the named host.
    #[must_use]
    pub fn dial(mut self, dial: Arc<dyn Dial>) -> Self {
        self.dial = dial;
        self
    }

    /// Follows the membership of the ensemble: when servers join, leave or move to other ports
    /// (`reconfig`), the client's list of servers changes with them, as by
    /// [`Client::update_servers`]. The servers of the connect string need not be all of them, and are
    /// tried again when no server has answered for a session timeout.
    ///
    /// For this the members must name their client ports (`server.1=zk1:2888:3888;2181`; with TLS the
    /// second one, which Apache has from 3.10 on), and the client must be able to reach them at these
    /// addresses: not through a proxy, and not through address translation. A member that names none is
    /// left out. If no member names one, the connect string stays in effect.
    ///
    /// Only for managed clients.
    #[must_use]
    pub fn follow_membership(mut self) -> Self {
        self.follow_membership = true;
        self
    }

    /// Sets servers to use before all others of the list, in order of preference: `zk1:2181,zk2:2181`, for example
    /// those in the client's data center, or an observer on its own machine. They are tried first. A client that had
    /// to use another server returns when a preferred one serves again, after a [delay](Options::return_delay). The
    /// order is strict: all clients with the same first entry use that server while it serves, so vary the order to
    /// spread the load.
    ///
    /// The session keeps its ephemerals and watches. The client first waits for the replies to what it has sent, at
    /// most a third of the session timeout; what is unanswered then fails with `ConnectionLoss`, as when a
    /// connection breaks. Each return is a [`Suspended`](crate::ConnectionEvent::Suspended) followed by a
    /// [`Reconnected`](crate::ConnectionEvent::Reconnected), as after any change of the server. So a return ends
    /// every lock, permit and leadership with the default `LostWhen::Disconnected` of `herdsman-recipes`; use
    /// `LostWhen::SessionTimedOut` together with preferred servers.
    ///
    /// Host and port are compared as text with the list in use; a chroot is ignored. Entries that are not in the
    /// list have no effect until they are. With [`follow_membership`](Options::follow_membership), write them as
    /// the members name their client addresses. A client with preferred servers does not change servers just to
    /// balance load when the list changes.
    ///
    /// The client uses the four-letter word `srvr` to find out whether a server serves clients. Servers allow it by
    /// default; one that does not allow it counts as serving. If a server looks available but does not accept the
    /// session, the delay doubles each time, up to 16 times, until a return succeeds.
    ///
    /// `connect` and `start` fail with `InvalidArgument` if the text is empty or cannot be read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), herdsman_client::Error> {
    /// # let (one, two) = (herdsman_testing::TestServer::start(), herdsman_testing::TestServer::start());
    /// # let (near, far) = (one.connect_string(), two.connect_string());
    /// let zk = herdsman_client::Client::options()
    ///     .prefer(&near)
    ///     .connect(&format!("{far},{near}"))
    ///     .await?;
    /// # zk.create("/a", "").await?;
    /// # assert_eq!((one.session_count(), two.session_count()), (1, 0));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn prefer(mut self, servers: &str) -> Self {
        self.preferred = servers.parse().map(|list: ConnectString| list.hosts().into());
        self
    }

    /// Sets the delay before looking for a better [preferred](Options::prefer) server, and between attempts. Each
    /// wait is random, from 0.5 to 1.5 times this, so that clients do not all return at once to a server that was
    /// restarted. Default 30 s.
    #[must_use]
    pub fn return_delay(mut self, delay: Duration) -> Self {
        self.return_delay = delay;
        self
    }

    pub(crate) fn client_port(&self) -> ClientPort {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return ClientPort::Tls;
        }
        ClientPort::Plain
    }

    /// Uses TLS for all connections. The certificate of a server must be for its host as written in
    /// the connect string, unless the settings say otherwise.
    ///
    /// The files are read when the client is started, which fails if they cannot be used. They are
    /// checked again before each new connection: files that have changed are read again, and if they
    /// cannot be used, the previous contents stay in use and the log says why.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use herdsman_client::tls::{StoreSettings, TlsSettings};
    /// let tls = TlsSettings {
    ///     key_store: Some(StoreSettings::new("client.pem")),
    ///     trust_store: Some(StoreSettings::new("ca.pem")),
    ///     ..TlsSettings::default()
    /// };
    /// let zk = herdsman_client::Client::options().tls(tls).connect("zk1.example.com:2281").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, settings: TlsSettings) -> Self {
        self.tls = Some(settings);
        self
    }

    /// Logs in with SASL (DIGEST-MD5) on every connection, before any other request. The server has
    /// to prove that it knows the password, too. A login that fails is final: the client ends with
    /// [`ErrorKind::AuthFailed`](crate::ErrorKind::AuthFailed).
    ///
    /// The password itself is not sent, but an attacker who records the login can try to guess it: use
    /// [TLS](Options::tls) on networks that are not trusted.
    #[cfg(feature = "sasl")]
    #[must_use]
    pub fn sasl(self, username: impl Into<String>, password: impl Into<String>) -> Self {
        let password = herdsman_sasl::Secret::new(password);
        let credentials = herdsman_sasl::Credentials { username: username.into(), password };
        self.log_in(SaslLogin::Password(credentials))
    }

    /// Logs in with SASL on every connection, with a password or with Kerberos, before any other request.
    /// The server has to authenticate itself, too. A login that fails is final: the client ends with
    /// [`ErrorKind::AuthFailed`](crate::ErrorKind::AuthFailed). It is retried only if no server of the
    /// Kerberos realm responds.
    ///
    /// Kerberos needs the feature `kerberos` of this crate; without it, every such login fails with an error
    /// that says so.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use herdsman_client::sasl::{InitiatorKeys, KerberosSettings, SaslLogin};
    /// let keys = InitiatorKeys::KeyTable {
    ///     principal: "app@EXAMPLE.COM".to_owned(),
    ///     file: Some("/etc/app.keytab".into()),
    /// };
    /// let login = SaslLogin::Kerberos(KerberosSettings { keys, ..Default::default() });
    /// let zk = herdsman_client::Client::options().log_in(login).connect("zk1.example.com:2181").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sasl")]
    #[must_use]
    pub fn log_in(mut self, login: SaslLogin) -> Self {
        self.login = Some(login);
        self
    }

    /// Connects and returns a managed client, which opens a new session whenever one has expired.
    pub async fn connect(self, servers: &str) -> Result<Client> {
        let connect_timeout = self.connect_timeout;
        let client = self.start(servers)?;
        client.session().established(connect_timeout).await?;
        Ok(client)
    }

    /// Returns a managed client at once; it connects in the background, and calls wait for the connection.
    /// Outside of a tokio runtime, the client uses the background thread of [`blocking`](crate::blocking);
    /// without that feature, this fails.
    pub fn start(self, servers: &str) -> Result<Client> {
        let servers = self.checked(servers)?;
        Client::managed(servers, self)
    }

    /// Connects and returns one session, which is not replaced when it ends.
    pub async fn connect_session(self, servers: &str) -> Result<Session> {
        if self.follow_membership {
            return Err(Error::invalid_argument("only a managed client can follow the membership"));
        }
        let servers = self.checked(servers)?;
        let connect_timeout = self.connect_timeout;
        let session = Session::start_alone(servers, self)?;
        session.established(connect_timeout).await?;
        Ok(session)
    }

    fn checked(&self, servers: &str) -> Result<ConnectString> {
        if self.in_flight_max == 0 {
            return Err(Error::invalid_argument("in_flight_max must be at least 1"));
        }
        check_default_acl(&self.default_acl)?;
        if let Err(error) = &self.preferred {
            return Err(Error::invalid_argument(format!("preferred servers: {error}")));
        }
        if self.session_timeout.as_millis() == 0 {
            return Err(Error::invalid_argument("session_timeout must be at least 1 ms"));
        }
        if i32::try_from(self.session_timeout.as_millis()).is_err() {
            return Err(Error::invalid_argument("session_timeout must be below 24 days"));
        }
        servers.parse().map_err(|error| Error::invalid_argument(format!("connect string: {error}")))
    }
}

/// Fails for an empty ACL, which servers would refuse only when a znode is created.
pub(crate) fn check_default_acl(acl: &[Acl]) -> Result<()> {
    match acl.is_empty() {
        true => Err(Error::invalid_argument("default_acl must have at least one entry")),
        false => Ok(()),
    }
}
