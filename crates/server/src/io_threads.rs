//! Threads that own connections: one current-thread runtime each, connections stay where they are.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use herdsman_tree::auth::Schemes;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::clients::Client;
use crate::clock;
use crate::config::Config;
use crate::connection::Connection;
use crate::core::Core;
use crate::intake::Intake;
use crate::snapshots::SnapshotDesk;
use crate::spawn::spawn;
use crate::throttle::SessionThrottle;

/// Accepted connections that may wait for a thread to take them.
const ACCEPTED_MAX: usize = 1024;

/// What connections need to know, computed once.
#[derive(Debug)]
pub(crate) struct ConnSettings {
    pub frame_bytes_max: usize,
    pub field_bytes_max: usize,
    pub outstanding_max: u64,
    pub in_flight_max: usize,
    pub op_wait_ms_max: Option<u64>,
    pub large_request_bytes_min: Option<u64>,
    pub large_requests_bytes_max: u64,
    pub sessionless_timeout_ms: u64,
    pub touch_step_ms: u64,
    pub tcp_keep_alive: bool,
    pub schemes: Schemes,
}

impl ConnSettings {
    /// Where a connection's bytes come in.
    pub fn intake(&self) -> Intake {
        Intake::new(self.frame_bytes_max)
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub core: Arc<Core>,
    pub config: Arc<Config>,
    pub settings: ConnSettings,
    pub connection_throttle: SessionThrottle,
    /// Bytes of large requests in flight.
    pub large_bytes: AtomicU64,
    pub trace_mask: AtomicU64,
    pub stopping: AtomicBool,
    /// Where snapshots are asked for.
    pub snapshots: SnapshotDesk,
}

type Accepted = (std::net::TcpStream, Arc<Client>);

/// The running threads.
pub(crate) struct IoThreads {
    senders: Vec<mpsc::Sender<Accepted>>,
    next: AtomicUsize,
    handles: Vec<JoinHandle<()>>,
}

/// A way to the threads that does not keep them running.
#[derive(Clone)]
pub(crate) struct IoDoor(mpsc::WeakSender<Accepted>);

impl IoDoor {
    /// Gives one of the threads a connection, unless they are ending or busy.
    pub fn hand_over(
        &self,
        shared: &Shared,
        stream: std::net::TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let closed = || io::Error::new(io::ErrorKind::NotConnected, "the server is stopping");
        let sender = self.0.upgrade().ok_or_else(closed)?;
        let client = shared.core.clients.admit(peer, 0, clock::wall_ms()).map_err(|refused| {
            shared.core.stats.connections_rejected.add(1);
            io::Error::new(io::ErrorKind::QuotaExceeded, refused)
        })?;
        sender.try_send((stream, client)).map_err(|unsent| {
            let (_, client) = unsent.into_inner();
            shared.core.clients.remove(&client);
            io::Error::new(io::ErrorKind::ResourceBusy, "too many new connections at once")
        })
    }
}

impl IoThreads {
    pub fn start(shared: &Arc<Shared>, count: usize) -> io::Result<Self> {
        let mut threads =
            IoThreads { senders: Vec::new(), next: AtomicUsize::new(0), handles: Vec::new() };
        for i in 0..count {
            let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let shared = Arc::clone(shared);
            let work = move || runtime.block_on(serve_connections(shared, i, receiver));
            threads.handles.push(spawn(format!("io-{i}"), work)?);
            threads.senders.push(sender);
        }
        Ok(threads)
    }

    /// Gives a new connection to the next thread.
    pub fn hand_over(&self, shared: &Shared, stream: std::net::TcpStream, peer: SocketAddr) {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        let client = match shared.core.clients.admit(peer, next, clock::wall_ms()) {
            Ok(client) => client,
            Err(refused) => {
                shared.core.stats.connections_rejected.add(1);
                warn!(%peer, "connection refused: {refused}");
                return;
            }
        };
        if let Err(unsent) = self.senders[next].try_send((stream, client)) {
            let (_, client) = unsent.into_inner();
            warn!(%peer, "connection refused: too many new connections at once");
            shared.core.clients.remove(&client);
        }
    }

    /// A way to them for connections that do not come through the client port.
    pub fn door(&self) -> Option<IoDoor> {
        self.senders.first().map(|sender| IoDoor(sender.downgrade()))
    }

    /// Lets the threads end, and waits for them.
    pub fn join(self) {
        drop(self.senders);
        for handle in self.handles {
            _ = handle.join();
        }
    }
}

/// All that a thread does.
async fn serve_connections(shared: Arc<Shared>, thread: usize, accepted: mpsc::Receiver<Accepted>) {
    let core = Arc::clone(&shared.core);
    let bell = tokio::spawn(async move { core.attend_bell(thread).await });
    let connections = TaskTracker::new();
    take_connections(shared, accepted, &connections).await;
    // Connections that are closing get the time that they allow themselves.
    connections.close();
    connections.wait().await;
    bell.abort();
}

async fn take_connections(
    shared: Arc<Shared>,
    mut accepted: mpsc::Receiver<Accepted>,
    connections: &TaskTracker,
) {
    while let Some((stream, client)) = accepted.recv().await {
        match prepare(&shared, stream) {
            Ok(stream) => {
                let connection = Connection::new(Arc::clone(&shared), client, stream);
                connections.spawn(connection.run());
            }
            Err(error) => {
                warn!(peer = %client.peer, "connection lost before it began: {error}");
                shared.core.clients.remove(&client);
            }
        }
    }
}

fn prepare(shared: &Shared, stream: std::net::TcpStream) -> io::Result<tokio::net::TcpStream> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    if shared.settings.tcp_keep_alive {
        socket2::SockRef::from(&stream).set_keepalive(true)?;
    }
    tokio::net::TcpStream::from_std(stream)
}
