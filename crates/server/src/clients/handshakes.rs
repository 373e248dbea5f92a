//! Threads that do the TLS handshakes of new connections, before an I/O thread serves them.
//!
//! A handshake takes about as long as a thousand reads. On the I/O threads, connected clients would wait
//! behind connecting ones, and after a restart all of them connect at once. Here connecting clients wait only for
//! each other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use herdsman_node::Node;
use tokio::sync::mpsc;

use crate::clients::Client;
use crate::clients::io_threads::{ACCEPTED_MAX, Accepted, ServerContext, prepare};
use crate::clients::wire::Wire;
use crate::clients::wire::handshake::{HandshakeError, PortProtocol};
use herdsman_runtime::spawn;

/// Number of I/O threads for each of these threads.
const IO_THREADS_PER_THREAD: usize = 4;

/// An accepted connection before its handshake.
struct NewConnection {
    stream: std::net::TcpStream,
    admitted: AdmittedClient,
    protocol: PortProtocol,
}

/// A client in the table of connections; dropping this removes it.
struct AdmittedClient {
    shared: Arc<ServerContext>,
    client: Option<Arc<Client>>,
}

impl AdmittedClient {
    fn client(&self) -> &Arc<Client> {
        self.client.as_ref().expect("taken at the end only")
    }

    /// Returns the client; the caller has to remove it.
    fn into_client(mut self) -> Arc<Client> {
        self.client.take().expect("taken once")
    }
}

impl Drop for AdmittedClient {
    fn drop(&mut self) {
        if let Some(client) = &self.client {
            self.shared.core.clients.remove(client);
        }
    }
}

/// The running threads.
pub(crate) struct HandshakeThreads {
    shared: Arc<ServerContext>,
    senders: Vec<mpsc::Sender<NewConnection>>,
    next: AtomicUsize,
    handles: Vec<JoinHandle<()>>,
}

impl HandshakeThreads {
    /// Starts as many as these I/O threads need.
    pub fn start(
        shared: &Arc<ServerContext>,
        io_threads: &[mpsc::Sender<Accepted>],
    ) -> io::Result<Self> {
        let mut threads = HandshakeThreads {
            shared: Arc::clone(shared),
            senders: Vec::new(),
            next: AtomicUsize::new(0),
            handles: Vec::new(),
        };
        for i in 0..io_threads.len().div_ceil(IO_THREADS_PER_THREAD) {
            let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let io_threads: Arc<[_]> = io_threads.into();
            // Handshakes that are in progress when the server stops end with the runtime.
            let work = move || runtime.block_on(open_connections(receiver, io_threads));
            threads.handles.push(spawn(format!("handshake-{i}"), work)?);
            threads.senders.push(sender);
        }
        Ok(threads)
    }

    /// Passes a new connection to the next thread; returns false if too many connections wait there.
    pub fn dispatch(
        &self,
        stream: std::net::TcpStream,
        client: Arc<Client>,
        protocol: PortProtocol,
    ) -> bool {
        let admitted = AdmittedClient { shared: Arc::clone(&self.shared), client: Some(client) };
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        self.senders[next].try_send(NewConnection { stream, admitted, protocol }).is_ok()
    }

    /// Stops the threads, and the handshakes in progress.
    pub fn join(self) {
        drop(self.senders);
        for handle in self.handles {
            _ = handle.join();
        }
    }
}

async fn open_connections(
    mut arrived: mpsc::Receiver<NewConnection>,
    io_threads: Arc<[mpsc::Sender<Accepted>]>,
) {
    while let Some(arrived) = arrived.recv().await {
        tokio::spawn(open_and_pass_on(arrived, Arc::clone(&io_threads)));
    }
}

/// Opens a connection and passes it to its I/O thread.
async fn open_and_pass_on(arrived: NewConnection, io_threads: Arc<[mpsc::Sender<Accepted>]>) {
    let NewConnection { stream, admitted, protocol } = arrived;
    let shared = Arc::clone(&admitted.shared);
    let Some(wire) = open(&shared, admitted.client(), stream, protocol).await else { return };
    let Ok((stream, tls)) = wire.into_parts() else { return };
    // Reserve the slot first, so that the client is removed if the server stops meanwhile.
    let Ok(place) = io_threads[admitted.client().thread].reserve().await else { return };
    place.send(Accepted { stream, tls, client: admitted.into_client(), vouched_subject: None });
}

/// Opens a connection of a TLS port, or logs why it cannot.
async fn open(
    shared: &ServerContext,
    client: &Client,
    stream: std::net::TcpStream,
    protocol: PortProtocol,
) -> Option<Wire> {
    let tls = shared.tls.as_ref()?;
    let stats = &shared.core.stats;
    if shared.config.client_tls.drop_while_not_serving
        && shared.core.with_node(Node::serves_as).is_none()
    {
        stats.connections_rejected.add(1);
        shared.limit_reports.refusals.warn(format_args!(
            "connection from {} refused: there is no leader (netty.server.earlyDropSecureConnectionHandshakes)",
            client.peer
        ));
        return None;
    }
    let timeout = Duration::from_millis(shared.settings.sessionless_timeout_ms);
    let opened = match prepare(shared, stream) {
        Ok(stream) => tls.open(stream, protocol, client, timeout).await,
        Err(error) => Err(error.into()),
    };
    let failure = match opened {
        Ok(wire) => return Some(wire),
        Err(failure) => failure,
    };
    match failure {
        HandshakeError::TooMany(_) => stats.tls_handshakes_refused.add(1),
        _ => {
            stats.tls_handshakes_failed.add(1);
            stats.auth_failed.add(1);
        }
    }
    tls.log_failure(client, &failure);
    None
}
