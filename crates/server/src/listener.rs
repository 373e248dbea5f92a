//! The client port: accepts connections and gives them to the I/O threads.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tracing::warn;

use crate::config::Endpoint;
use crate::io_threads::{IoThreads, Shared};
use crate::spawn::spawn;

/// What the system takes by default in Java; ours is larger because accepting is cheap here.
const BACKLOG: i32 = 1024;
/// After a failed accept (no file descriptors left), wait for some to come free.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Opens the port. Without a host it listens on all addresses, IPv6 and IPv4 in one socket.
pub(crate) fn bind(endpoint: &Endpoint, backlog: Option<u32>) -> io::Result<TcpListener> {
    let backlog = backlog.and_then(|backlog| i32::try_from(backlog).ok()).unwrap_or(BACKLOG);
    let Some(host) = endpoint.host.as_deref() else {
        let any = SocketAddr::from(([0u16; 8], endpoint.port));
        return listen(any, backlog).or_else(|_| listen(([0u8; 4], endpoint.port).into(), backlog));
    };
    let mut failure = io::Error::new(io::ErrorKind::NotFound, format!("no address for {host}"));
    for address in (host, endpoint.port).to_socket_addrs()? {
        match listen(address, backlog) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// The accepting thread.
pub(crate) struct Listener {
    address: SocketAddr,
    handle: JoinHandle<IoThreads>,
}

impl Listener {
    pub fn start(
        listener: TcpListener,
        shared: Arc<Shared>,
        threads: IoThreads,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let accept = move || {
            accept_until_stopped(&listener, &shared, &threads);
            threads
        };
        let handle = spawn("accept", accept)?;
        Ok(Listener { address, handle })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting: `Shared::stopping` is set, and a last connection wakes the thread up.
    pub fn stop(self) -> Option<IoThreads> {
        let mut wake = self.address;
        if wake.ip().is_unspecified() {
            wake.set_ip(if wake.is_ipv6() {
                [0, 0, 0, 0, 0, 0, 0, 1u16].into()
            } else {
                [127, 0, 0, 1].into()
            });
        }
        _ = std::net::TcpStream::connect_timeout(&wake, Duration::from_secs(1));
        self.handle.join().ok()
    }
}

fn accept_until_stopped(listener: &TcpListener, shared: &Shared, threads: &IoThreads) {
    loop {
        let accepted = listener.accept();
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        match accepted {
            Ok((stream, peer)) => threads.hand_over(shared, stream, peer),
            Err(error) => {
                warn!("cannot accept connections: {error}");
                std::thread::sleep(ACCEPT_RETRY);
            }
        }
    }
}
