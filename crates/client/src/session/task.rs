//! A session's task: finds a server, runs the connection until it is lost, finds the next server, and so on
//! until the session has ended.
//!
//! In: the session's queue and requests to close it. Out: published states, completed requests.
//! Invariant: requests that were queued or sent when a connection was lost fail before the next one is
//! used, so a later request never overtakes an earlier one whose caller is still waiting.
//!
//! A session has ended when a server says so, when its owner closes it, or when servers open new
//! sessions but refuse this one for longer than its timeout: then their data is older than what this
//! client has seen, for example because it was restored from a backup.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use herdsman_proto::{SessionId, Zxid};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument as _;

use super::attach::{self, AttachError, Attached, HandshakeParams};
use super::connection::{Connection, ConnectionEnd};
use super::reconnect_delay::ReconnectDelay;
use super::search::ServerSearch;
use super::{SessionIdentity, SessionShared};
use crate::connect_string::{ConnectString, HostPort};
use crate::error::ErrorKind;
use crate::hosts::Hosts;
use crate::state::{ConnectionEvent, ConnectionState, OnExpiry};

/// Runs the session until it has ended.
pub(super) async fn run(shared: Arc<SessionShared>) {
    let servers = shared.client_shared.servers.borrow().to_string();
    let span = tracing::info_span!("session", servers);
    SessionTask::new(shared).run().instrument(span).await;
}

/// How often the delay before a return to a preferred server is doubled at most.
const RETURN_DOUBLINGS_MAX: u32 = 4;

/// The minimum timeout of a handshake with one server.
const ATTEMPT_TIMEOUT_MIN: Duration = Duration::from_millis(500);

/// The state that the session's task keeps between connections.
pub(super) struct SessionTask {
    pub(super) shared: Arc<SessionShared>,
    pub(super) hosts: Hosts,
    pub(super) servers: watch::Receiver<ConnectString>,
    /// The newest zxid in a reply.
    pub(super) last_zxid: Zxid,
    /// A better server than the last one: one that accepts writes, or that is preferred.
    pub(super) found: Option<HostPort>,
    /// The found server that is being tried.
    chosen: Option<HostPort>,
    /// How often in a row a found preferred server did not accept the session, or closed the connection soon.
    failed_returns: u32,
    /// When the last preferred server accepted the session.
    returned_at: Option<Instant>,
    reconnect_delay: ReconnectDelay,
    /// The session was opened by a server with a quorum. A session of a read-only server is known to that server only.
    known_to_quorum: bool,
}

/// Why the session has ended.
enum SessionEnd {
    Closed,
    Expired,
    AuthFailed,
}

impl SessionTask {
    fn new(shared: Arc<SessionShared>) -> Self {
        let mut servers = shared.client_shared.servers.subscribe();
        let preferred = shared.options.preferred.clone().unwrap_or_default();
        let hosts = Hosts::new(&servers.borrow_and_update(), preferred, Rng::new());
        SessionTask {
            hosts,
            servers,
            last_zxid: Zxid(shared.client_shared.last_zxid.load(Ordering::Relaxed)),
            found: None,
            chosen: None,
            failed_returns: 0,
            returned_at: None,
            reconnect_delay: ReconnectDelay::new(Rng::new()),
            known_to_quorum: shared.options.resumed.is_some(),
            shared,
        }
    }

    async fn run(mut self) {
        let end = loop {
            let attached = match self.find_server().await {
                Ok(attached) => attached,
                Err(end) => break end,
            };
            match self.serve(attached).await {
                ConnectionEnd::Closed => break SessionEnd::Closed,
                ConnectionEnd::AuthFailed => break SessionEnd::AuthFailed,
                ConnectionEnd::Broken(reason) => tracing::debug!(reason, "connection ended"),
            }
        };
        self.finish(&end);
    }

    async fn serve(&mut self, attached: Attached) -> ConnectionEnd {
        let (state, event) = self.accept(&attached);
        let mut connection = Connection::new(self, attached);
        self.shared.publish(state, event);
        let since = Instant::now();
        let end = connection.run(self).await;
        self.shared.client_shared.last_zxid.store(self.last_zxid.0, Ordering::Relaxed);
        self.reconnect_delay.connection_lasted(since.elapsed());
        if let ConnectionEnd::Broken(_) = end {
            self.shared.publish(ConnectionState::Suspended, ConnectionEvent::Suspended);
        }
        self.shared.client_shared.watches.disconnected();
        connection.fail_all(&end);
        if let ConnectionEnd::Broken(_) = end {
            self.shared.queue.fail_all(&ErrorKind::ConnectionLoss);
        }
        end
    }

    fn finish(&self, end: &SessionEnd) {
        let (kind, state, event) = match end {
            SessionEnd::Closed => {
                (ErrorKind::Closed, ConnectionState::Closed, ConnectionEvent::Closed)
            }
            SessionEnd::Expired => {
                (ErrorKind::SessionExpired, ConnectionState::Expired, ConnectionEvent::Expired)
            }
            SessionEnd::AuthFailed => {
                (ErrorKind::AuthFailed, ConnectionState::AuthFailed, ConnectionEvent::AuthFailed)
            }
        };
        let client_shared = &self.shared.client_shared;
        client_shared.watches.session_ended(&kind);
        self.shared.queue.close(&kind);
        if client_shared.on_expiry == OnExpiry::End || state != ConnectionState::Expired {
            client_shared.watches.close(&kind);
        }
        self.shared.publish(state, event);
    }

    /// Tries server after server. Requests queued meanwhile wait, but no longer than a session timeout.
    async fn find_server(&mut self) -> Result<Attached, SessionEnd> {
        let mut lost_at = self.lost_at();
        loop {
            if self.shared.queue.is_closed() {
                return Err(SessionEnd::Closed);
            }
            let (host, pause) = self.next_host();
            let (handshake_params, time_limit) = (self.handshake_params(), self.time_limit());
            let connector = Arc::clone(&self.shared.client_shared.connector);
            let attempt = async {
                sleep(pause).await;
                attach::attach(&connector, host.clone(), handshake_params, time_limit).await
            };
            tokio::pin!(attempt);
            let attempted = loop {
                tokio::select! {
                    attempted = &mut attempt => break attempted,
                    () = self.shared.closing.notified() => return Err(SessionEnd::Closed),
                    () = sleep_until(lost_at) => {
                        self.report_loss();
                        lost_at = Instant::now() + self.shared.identity().timeout;
                    }
                }
            };
            match attempted {
                Ok(attached) => return Ok(attached),
                Err(AttachError::Expired) => return Err(SessionEnd::Expired),
                #[cfg(feature = "sasl")]
                Err(AttachError::Login(failure)) => {
                    tracing::warn!(%host, %failure, "the SASL login failed; giving up");
                    *self.shared.login_failure.lock() = Some(format!("{host}: {failure}"));
                    return Err(SessionEnd::AuthFailed);
                }
                Err(AttachError::Refused) if self.is_refused_for_good(&host).await => {
                    tracing::warn!(%host, "giving up the session: the servers' data is older than what it has seen");
                    self.shared.client_shared.last_zxid.store(Zxid::ZERO.0, Ordering::Relaxed);
                    return Err(SessionEnd::Expired);
                }
                Err(error) => {
                    tracing::debug!(%host, %error, "cannot attach the session");
                    *self.shared.last_failure.lock() = Some(format!("{host}: {error}"));
                }
            }
        }
    }

    fn next_host(&mut self) -> (HostPort, Duration) {
        let listed = |host: &HostPort| self.servers.borrow().hosts().contains(host);
        if let Some(host) = self.found.take().filter(listed) {
            self.hosts.choose(&host);
            self.chosen = Some(host.clone());
            return (host, Duration::ZERO);
        }
        if self.servers.has_changed().unwrap_or(false) {
            // There is no connection to move: the new list is simply the one to try.
            let _ = self.hosts.replace(&self.servers.borrow_and_update());
        }
        self.reconnect_delay.pause_before(self.hosts.next())
    }

    /// Starts the search for a better server than the current one, if there can be one.
    pub(super) fn search(&self, serves_as: ConnectionState) -> Option<ServerSearch> {
        let connector = Arc::clone(&self.shared.client_shared.connector);
        if serves_as == ConnectionState::ReadOnly {
            return Some(ServerSearch::for_writes(connector, self.servers.borrow().hosts()));
        }
        let better = self.hosts.better();
        let delay = self.shared.options.return_delay;
        // The delay grows if servers that were found did not accept the session.
        let delay = delay.saturating_mul(1 << self.failed_returns.min(RETURN_DOUBLINGS_MAX));
        (!better.is_empty()).then(|| ServerSearch::for_preferred(connector, better, delay))
    }

    fn handshake_params(&self) -> HandshakeParams {
        let identity = self.shared.identity();
        let session = if self.known_to_quorum { identity.session } else { SessionId::NONE };
        HandshakeParams {
            session,
            password: if self.known_to_quorum { identity.password } else { [0; 16] },
            timeout: self.shared.options.session_timeout,
            last_zxid: self.last_zxid,
            read_only: self.shared.options.read_only,
        }
    }

    /// The timeout of one attempt: a share of the session timeout, so that all servers can be tried within it.
    fn time_limit(&self) -> Duration {
        let servers = u32::try_from(self.servers.borrow().hosts().len()).unwrap_or(u32::MAX);
        (self.shared.identity().timeout / servers.max(1)).max(ATTEMPT_TIMEOUT_MIN)
    }

    fn lost_at(&self) -> Instant {
        let identity = self.shared.identity();
        (identity.last_confirmed + identity.timeout).max(Instant::now())
    }

    /// Handles that there was no contact for a session timeout.
    fn report_loss(&mut self) {
        match self.shared.states.state() {
            ConnectionState::Suspended => {
                self.shared.publish(ConnectionState::Lost, ConnectionEvent::Lost);
            }
            // No server opens a new session: the last zxid of an earlier session may be the reason.
            ConnectionState::Connecting => self.last_zxid = Zxid::ZERO,
            _ => {}
        }
        self.shared.queue.fail_all(&ErrorKind::ConnectionLoss);
    }

    /// Whether servers have refused this session for a session timeout although this one opens new sessions.
    async fn is_refused_for_good(&self, host: &HostPort) -> bool {
        self.shared.states.state() == ConnectionState::Lost
            && attach::is_serving(
                &self.shared.client_shared.connector,
                host.clone(),
                self.handshake_params(),
                self.time_limit(),
            )
            .await
    }

    /// Stores the server's response; returns the state and event to publish.
    fn accept(&mut self, attached: &Attached) -> (ConnectionState, ConnectionEvent) {
        let response = &attached.response;
        let session = response.session;
        let mut identity = self.shared.identity.lock();
        let is_new = identity.session != session
            || self.shared.states.state() == ConnectionState::Connecting;
        let is_read_only = response.read_only == Some(true);
        let last_confirmed =
            if is_read_only { identity.last_confirmed } else { attached.requested };
        *identity = SessionIdentity {
            session,
            password: response.password,
            timeout: Duration::from_millis(u64::from(response.timeout_ms.unsigned_abs())),
            last_confirmed,
        };
        drop(identity);
        self.hosts.succeeded();
        if let Some(returned_at) = self.returned_at.take() {
            let is_kept = returned_at.elapsed() >= self.shared.options.return_delay;
            self.failed_returns = if is_kept { 0 } else { self.failed_returns.saturating_add(1) };
        }
        if let Some(chosen) = self.chosen.take() {
            let is_there = self.hosts.is_at(&chosen);
            if is_there {
                self.returned_at = Some(Instant::now());
            } else {
                self.failed_returns = self.failed_returns.saturating_add(1);
            }
        }
        if is_read_only {
            return (ConnectionState::ReadOnly, ConnectionEvent::ReadOnly);
        }
        self.known_to_quorum = true;
        let event = if is_new {
            ConnectionEvent::Connected { session }
        } else {
            ConnectionEvent::Reconnected { session }
        };
        (ConnectionState::Connected, event)
    }
}
