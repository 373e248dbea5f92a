//! The client port: accepts connections and passes them to the I/O threads.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::info;

use crate::clients::io_threads::{IoThreads, ServerContext};
use crate::clients::wire::handshake::PortProtocol;
use herdsman_config::Endpoint;
use herdsman_runtime::spawn;

/// Wait after a failed accept (no file descriptors left) until some may be free.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The client port. A change of membership may move it while the server runs; existing
/// connections are kept. Apache: `ServerCnxnFactory.reconfigure`.
#[derive(Debug, Default)]
pub struct ClientPort {
    state: Mutex<PortState>,
}

#[derive(Debug, Default)]
struct PortState {
    /// The endpoint in the configuration or the membership.
    endpoint: Option<Endpoint>,
    /// The address on which the thread listens.
    address: Option<SocketAddr>,
    /// The socket on which it is to listen next.
    next: Option<TcpListener>,
}

impl ClientPort {
    /// Creates a port at this endpoint, which is also the one in the membership.
    #[must_use]
    pub fn at(endpoint: Option<Endpoint>) -> Self {
        ClientPort { state: Mutex::new(PortState { endpoint, ..PortState::default() }) }
    }

    /// Moves the port to this endpoint, if it is different.
    ///
    /// # Errors
    /// The new port cannot be opened; the old one stays in use.
    pub fn move_to(&self, endpoint: &Endpoint) -> io::Result<()> {
        let mut state = self.state.lock();
        let Some(old) = state.address else { return Ok(()) };
        if state.endpoint.as_ref().is_some_and(|current| is_same(current, endpoint)) {
            return Ok(());
        }
        let wanted = Endpoint {
            host: endpoint.host.clone().filter(|_| !endpoint.is_wildcard()),
            port: endpoint.port,
        };
        state.next = Some(herdsman_runtime::bind(&wanted, None)?);
        state.endpoint = Some(endpoint.clone());
        drop(state);
        wake(old);
        Ok(())
    }

    /// Records the address on which the thread listens.
    fn opened(&self, address: SocketAddr) {
        self.state.lock().address = Some(address);
    }

    fn take_next(&self) -> Option<TcpListener> {
        self.state.lock().next.take()
    }

    fn address(&self) -> Option<SocketAddr> {
        self.state.lock().address
    }
}

fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    let host = |endpoint: &Endpoint| endpoint.host.clone().filter(|_| !endpoint.is_wildcard());
    one.port == other.port && host(one) == host(other)
}

/// Wakes the accepting thread with a connection that is dropped.
fn wake(mut address: SocketAddr) {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv6() {
            [0, 0, 0, 0, 0, 0, 0, 1u16].into()
        } else {
            [127, 0, 0, 1].into()
        });
    }
    _ = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1));
}

/// The accepting thread.
pub(crate) struct Listener {
    address: SocketAddr,
    port: Arc<ClientPort>,
    handle: JoinHandle<()>,
}

impl Listener {
    pub fn start(
        listener: TcpListener,
        port: Arc<ClientPort>,
        shared: Arc<ServerContext>,
        threads: Arc<IoThreads>,
        protocol: PortProtocol,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        port.opened(address);
        let accepting = Arc::clone(&port);
        let accept =
            move || accept_until_stopped(listener, &accepting, &shared, &threads, protocol);
        let name = if protocol == PortProtocol::Plain { "accept" } else { "accept-tls" };
        let handle = spawn(name, accept)?;
        Ok(Listener { address, port, handle })
    }

    /// Stops accepting: `ServerContext::stopping` is set, and a last connection wakes the thread up.
    pub fn stop(self) {
        wake(self.port.address().unwrap_or(self.address));
        _ = self.handle.join();
    }
}

fn accept_until_stopped(
    mut listener: TcpListener,
    port: &ClientPort,
    shared: &ServerContext,
    threads: &IoThreads,
    protocol: PortProtocol,
) {
    loop {
        let accepted = listener.accept();
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        if let Some(next) = port.take_next()
            && let Ok(address) = next.local_addr()
        {
            info!("now listening for clients on {address}");
            listener = next;
            port.opened(address);
        }
        match accepted {
            Ok((stream, peer)) => threads.dispatch(shared, stream, peer, protocol),
            Err(error) => {
                let report = format_args!("cannot accept connections: {error}");
                shared.limit_reports.accepts.warn(report);
                std::thread::sleep(ACCEPT_RETRY);
            }
        }
    }
}
