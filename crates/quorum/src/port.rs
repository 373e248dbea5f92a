//! One listening address of the election port, the quorum port or an observer master's.
//!
//! A host name that does not resolve yet is retried: in an orchestrated cluster a
//! server's own name may appear only after the server has started (ZOOKEEPER-4708). Other failures
//! to open a port are retried as often as `electionPortBindRetry` says, for a minute by
//! default: the port may be in use as the local port of an outgoing connection. Apache:
//! `QuorumCnxManager.Listener`, which counts both, and opens the quorum port only while leading.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use herdsman_proto::membership::Endpoint;
use parking_lot::Mutex;
use tracing::info;

use super::address::resolve;
use super::context::Context;
use super::receiver::{PortFailure, PortKind, bind_advice};
use herdsman_runtime::LimitedLog;

const BIND_RETRY: Duration = Duration::from_secs(1);
/// Pause after a failed accept, until file descriptors are free again.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// Handles a new connection. It blocks the port, so it must not wait for the peer.
pub(crate) type Accept = dyn Fn(TcpStream, SocketAddr) + Send;

/// The number of addresses of one kind of port that are open or still retried. A server with several networks can do
/// without one of them, so only the failure of the last one is reported. Apache: the same.
pub(crate) type AddressesLeft = Arc<AtomicUsize>;

/// A listening address that is open or is being retried.
#[derive(Debug, Default)]
pub(crate) struct Port {
    address: Mutex<Option<SocketAddr>>,
}

enum BindFailure {
    NoAddress(io::Error),
    Refused(io::Error),
}

struct Task {
    port: Arc<Port>,
    context: Arc<Context>,
    kind: PortKind,
    endpoint: Endpoint,
    accept: Box<Accept>,
    addresses_left: AddressesLeft,
    warnings: LimitedLog,
}

impl Port {
    /// Opens the port, immediately if possible, so that a caller who requested port 0 can read the number.
    pub fn open(
        context: &Arc<Context>,
        kind: PortKind,
        endpoint: Endpoint,
        accept: Box<Accept>,
        addresses_left: AddressesLeft,
    ) -> io::Result<Arc<Port>> {
        let port = Arc::new(Port::default());
        let task = Task {
            port: Arc::clone(&port),
            context: Arc::clone(context),
            kind,
            endpoint,
            accept,
            addresses_left,
            warnings: LimitedLog::default(),
        };
        let first = task.bind();
        context.threads.spawn(format!("{}-port", kind.name()), move || {
            if let Some(listener) = task.until_bound(first) {
                task.accept_until_stopped(&listener);
                *task.port.address.lock() = None;
            }
        })?;
        Ok(port)
    }

    /// The address, if the port is open.
    pub fn address(&self) -> Option<SocketAddr> {
        *self.address.lock()
    }

    /// Ends the accepting thread by connecting to the port once.
    pub fn wake(&self) {
        let Some(mut address) = self.address() else { return };
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        _ = TcpStream::connect_timeout(&address, WAKE_TIMEOUT);
    }
}

impl Task {
    fn bind(&self) -> Result<TcpListener, BindFailure> {
        let listener = bind(&self.endpoint)?;
        let address = listener.local_addr().map_err(BindFailure::Refused)?;
        info!("the {} port is {address}", self.kind.name());
        *self.port.address.lock() = Some(address);
        Ok(listener)
    }

    /// Retries until the port is open; `None` if it is given up or the network stops.
    fn until_bound(&self, first: Result<TcpListener, BindFailure>) -> Option<TcpListener> {
        let (mut attempt, mut tries) = (first, 0);
        loop {
            match attempt {
                Ok(listener) => return Some(listener),
                Err(BindFailure::NoAddress(error)) => self.complain(&error),
                Err(BindFailure::Refused(source)) => {
                    tries += 1;
                    let tries_max = match self.kind {
                        // Not fatal: the ensemble works without this port.
                        PortKind::ObserverMaster => None,
                        _ => self.context.settings.bind_tries_max,
                    };
                    if tries_max.is_some_and(|max| tries == max.get())
                        && self.addresses_left.fetch_sub(1, Ordering::AcqRel) == 1
                    {
                        self.give_up(tries, source);
                        return None;
                    }
                    self.complain(&source);
                }
            }
            self.context.threads.pause(BIND_RETRY);
            if self.context.threads.is_stopping() {
                return None;
            }
            attempt = self.bind();
        }
    }

    fn give_up(&self, tries: u32, source: io::Error) {
        let (kind, endpoint) = (self.kind, self.endpoint.clone());
        if let Some(receiver) = self.context.receiver() {
            receiver.handle_port_failed(PortFailure { kind, endpoint, tries, source });
        }
    }

    fn complain(&self, error: &io::Error) {
        let (kind, endpoint) = (self.kind.name(), &self.endpoint);
        self.warnings.warn(format_args!(
            "cannot listen on {endpoint} ({kind} port): {error}; retrying. {}",
            bind_advice(error)
        ));
    }

    fn accept_until_stopped(&self, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.context.threads.is_stopping() {
                return;
            }
            match accepted {
                Ok((stream, peer)) => (self.accept)(stream, peer),
                Err(error) => {
                    let kind = self.kind.name();
                    self.warnings.warn(format_args!(
                        "cannot accept connections on the {kind} port: {error}"
                    ));
                    self.context.threads.pause(ACCEPT_RETRY);
                }
            }
        }
    }
}

/// Like the client port's, but distinguishes an unresolved host from a bind error.
fn bind(endpoint: &Endpoint) -> Result<TcpListener, BindFailure> {
    if endpoint.host.is_none() {
        return herdsman_runtime::bind(endpoint, None).map_err(BindFailure::Refused);
    }
    let addresses = resolve(endpoint).map_err(BindFailure::NoAddress)?;
    let mut failure = BindFailure::NoAddress(io::ErrorKind::NotFound.into());
    for address in addresses {
        let exact = Endpoint { host: Some(address.ip().to_string()), port: address.port() };
        match herdsman_runtime::bind(&exact, None) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = BindFailure::Refused(error),
        }
    }
    Err(failure)
}
