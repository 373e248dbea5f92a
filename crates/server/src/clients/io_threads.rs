//! Threads that own connections: one current-thread runtime each; a connection stays on its thread.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use herdsman_proto::Id;
use herdsman_proto::limits::SizeLimits;
use herdsman_tree::auth::Schemes;
use rustls::ServerConnection;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::clients::Client;
use crate::clients::connection::Connection;
use crate::clients::descriptors::ClientDescriptors;
use crate::clients::handshakes::HandshakeThreads;
use crate::clients::intake::Intake;
use crate::clients::limit_reports::LimitReports;
use crate::clients::request_bytes::RequestBytes;
use crate::clients::throttle::SessionThrottle;
use crate::clients::wire::Wire;
use crate::clients::wire::handshake::{PortProtocol, TlsAcceptor};
use crate::clock;
use crate::core::Core;
use crate::handle::Caller;
use crate::log::snapshots::SnapshotService;
use crate::logins::Logins;
use herdsman_config::Config;
use herdsman_runtime::LimitedLog;
use herdsman_runtime::spawn;

/// Accepted connections that may wait for a thread to take them.
pub(crate) const ACCEPTED_MAX: usize = 1024;

/// Settings of connections.
#[derive(Debug)]
pub(crate) struct ConnSettings {
    pub sizes: SizeLimits,
    pub outstanding_max: u64,
    pub in_flight_max: usize,
    /// Bytes of requests that one connection may have in flight.
    pub request_bytes_max: u64,
    pub op_wait_ms_max: Option<u64>,
    pub large_request_bytes_min: Option<u64>,
    pub large_requests_bytes_max: u64,
    pub sessionless_timeout_ms: u64,
    /// How long a server that has lost its leader lets new clients wait for the next one.
    pub role_wait_ms_max: u64,
    pub touch_step_ms: u64,
    pub tcp_keep_alive: bool,
    pub schemes: Schemes,
    /// The schemes of which a client must use one before its first request.
    pub required_schemes: Option<Vec<String>>,
    /// Whether a client whose SASL login failed may continue without one.
    pub tolerate_failed_sasl: bool,
    /// Names of this ensemble that clients may check; `None` disables the scheme `ensemble`.
    pub ensemble_names: Option<Vec<String>>,
}

impl ConnSettings {
    /// Whether a client with these ids still has to log in.
    pub fn asks_for_login(&self, ids: &[Id]) -> bool {
        self.required_schemes
            .as_ref()
            .is_some_and(|schemes| !ids.iter().any(|id| schemes.contains(&id.scheme)))
    }

    /// Whether this scheme is one of the required ones.
    pub fn requires(&self, scheme: &str) -> bool {
        self.required_schemes.as_ref().is_some_and(|schemes| schemes.iter().any(|it| it == scheme))
    }

    /// Returns an intake with the limits of these settings.
    pub fn intake(&self) -> Intake {
        Intake::new(self.sizes.frame_bytes_max())
    }
}

/// What all connections and operator interfaces of a server share.
pub(crate) struct ServerContext {
    pub core: Arc<Core>,
    pub config: Arc<Config>,
    pub settings: ConnSettings,
    pub connection_throttle: SessionThrottle,
    /// Bytes of large requests in flight.
    pub large_bytes: AtomicU64,
    /// Bytes of all requests that are in memory.
    pub request_bytes: RequestBytes,
    /// The file descriptors that clients may use.
    pub client_descriptors: ClientDescriptors,
    pub trace_mask: AtomicU64,
    pub stopping: AtomicBool,
    /// Writes, copies and restores snapshots on request.
    pub snapshots: SnapshotService,
    /// SASL logins.
    pub logins: Logins,
    /// TLS for clients, if there is a port for it.
    pub tls: Option<TlsAcceptor>,
    /// Log lines about limits that were reached.
    pub limit_reports: LimitReports,
    /// Log lines about successful authentications.
    pub logins_done: LimitedLog,
    /// Log lines about failed authentications.
    pub failed_logins: LimitedLog,
}

/// A connection that is passed to its thread.
pub(crate) struct Accepted {
    pub stream: std::net::TcpStream,
    /// The TLS session, after a handshake.
    pub tls: Option<Box<ServerConnection>>,
    pub client: Arc<Client>,
    /// The subject of the client's certificate, if another port of this server has verified it.
    pub vouched_subject: Option<Arc<str>>,
}

/// The running threads.
pub(crate) struct IoThreads {
    senders: Vec<mpsc::Sender<Accepted>>,
    next: AtomicUsize,
    handles: Vec<JoinHandle<()>>,
    /// The threads for TLS handshakes, if there is a TLS port.
    handshakes: Option<HandshakeThreads>,
}

/// A handle to the threads that does not keep them running.
#[derive(Clone)]
pub(crate) struct IoHandle(mpsc::WeakSender<Accepted>);

impl IoHandle {
    /// Passes a connection to one of the threads, unless they are stopping or busy.
    pub fn dispatch(
        &self,
        shared: &ServerContext,
        stream: std::net::TcpStream,
        caller: Caller,
    ) -> io::Result<()> {
        let closed = || io::Error::new(io::ErrorKind::NotConnected, "the server is stopping");
        let sender = self.0.upgrade().ok_or_else(closed)?;
        let client = shared.core.clients.admit(caller.address, 0, clock::wall_ms());
        let client = client.map_err(|refused| {
            shared.core.stats.connections_rejected.add(1);
            io::Error::new(io::ErrorKind::QuotaExceeded, refused)
        })?;
        let vouched_subject = caller.certificate_subject;
        let accepted = Accepted { stream, tls: None, client, vouched_subject };
        sender.try_send(accepted).map_err(|unsent| {
            shared.core.clients.remove(&unsent.into_inner().client);
            io::Error::new(io::ErrorKind::ResourceBusy, "too many new connections at once")
        })
    }
}

impl IoThreads {
    pub fn start(shared: &Arc<ServerContext>, count: usize) -> io::Result<Self> {
        let mut threads = IoThreads {
            senders: Vec::new(),
            next: AtomicUsize::new(0),
            handles: Vec::new(),
            handshakes: None,
        };
        for i in 0..count {
            let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let shared = Arc::clone(shared);
            let work = move || runtime.block_on(serve_connections(shared, i, receiver));
            threads.handles.push(spawn(format!("io-{i}"), work)?);
            threads.senders.push(sender);
        }
        if shared.tls.is_some() {
            threads.handshakes = Some(HandshakeThreads::start(shared, &threads.senders)?);
        }
        Ok(threads)
    }

    /// Passes a new connection to the next thread.
    pub fn dispatch(
        &self,
        shared: &ServerContext,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        protocol: PortProtocol,
    ) {
        // A dual-stack socket reports an IPv4 address as an IPv4-mapped IPv6 address; limits and ACLs use the IPv4 one.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        if let Err(reserved) = shared.client_descriptors.check(&stream) {
            shared.core.stats.connections_rejected.add(1);
            let report = format_args!("connection from {peer} refused: {reserved}");
            shared.limit_reports.refusals.warn(report);
            return;
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        let client = match shared.core.clients.admit(peer, next, clock::wall_ms()) {
            Ok(client) => client,
            Err(refused) => {
                shared.core.stats.connections_rejected.add(1);
                shared
                    .limit_reports
                    .refusals
                    .warn(format_args!("connection from {peer} refused: {refused}"));
                return;
            }
        };
        let is_taken = match protocol {
            PortProtocol::Tls | PortProtocol::Either => {
                let handshakes = self.handshakes.as_ref().expect("a TLS port comes with them");
                handshakes.dispatch(stream, client, protocol)
            }
            PortProtocol::Plain => {
                let accepted = Accepted { stream, tls: None, client, vouched_subject: None };
                let sent = self.senders[next].try_send(accepted);
                sent.map_err(|unsent| shared.core.clients.remove(&unsent.into_inner().client))
                    .is_ok()
            }
        };
        if !is_taken {
            shared.core.stats.connections_rejected.add(1);
            shared.limit_reports.refusals.warn(format_args!(
                "connection from {peer} refused: too many new connections at once"
            ));
        }
    }

    /// Returns a handle for connections that do not come through the client port.
    pub fn handle(&self) -> Option<IoHandle> {
        self.senders.first().map(|sender| IoHandle(sender.downgrade()))
    }

    /// Stops the threads and waits for them.
    pub fn join(self) {
        if let Some(handshakes) = self.handshakes {
            handshakes.join();
        }
        drop(self.senders);
        for handle in self.handles {
            _ = handle.join();
        }
    }
}

/// The main loop of a thread.
async fn serve_connections(
    shared: Arc<ServerContext>,
    thread: usize,
    accepted: mpsc::Receiver<Accepted>,
) {
    let core = Arc::clone(&shared.core);
    let waker = tokio::spawn(async move { core.run_io_waker(thread).await });
    let connections = TaskTracker::new();
    take_connections(shared, accepted, &connections).await;
    // Wait for connections that are closing; they have their own time limit.
    connections.close();
    connections.wait().await;
    waker.abort();
}

async fn take_connections(
    shared: Arc<ServerContext>,
    mut accepted: mpsc::Receiver<Accepted>,
    connections: &TaskTracker,
) {
    while let Some(Accepted { stream, tls, client, vouched_subject }) = accepted.recv().await {
        match prepare(&shared, stream) {
            Ok(stream) => {
                let wire = Wire::new(stream, tls);
                let subject = wire.peer_subject().map(Arc::from).or(vouched_subject);
                let shared = Arc::clone(&shared);
                let connection = Connection::new(shared, client, wire, subject.as_deref());
                connections.spawn(connection.run());
            }
            Err(error) => {
                let report =
                    format_args!("cannot set up the connection from {}: {error}", client.peer);
                shared.limit_reports.set_up.warn(report);
                shared.core.clients.remove(&client);
            }
        }
    }
}

/// Registers a socket with the runtime of this thread.
pub(crate) fn prepare(
    shared: &ServerContext,
    stream: std::net::TcpStream,
) -> io::Result<tokio::net::TcpStream> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    if shared.settings.tcp_keep_alive {
        socket2::SockRef::from(&stream).set_keepalive(true)?;
    }
    tokio::net::TcpStream::from_std(stream)
}
