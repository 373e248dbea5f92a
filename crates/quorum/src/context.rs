//! State that all parts of the network share.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use herdsman_proto::Membership;
use parking_lot::Mutex;
use socket2::SockRef;
use tracing::debug;

use super::receiver::Receiver;
use super::settings::NetworkSettings;
use super::stream::PeerStream;
use super::threads::Threads;

pub(crate) struct Context {
    pub settings: NetworkSettings,
    pub threads: Threads,
    membership: Mutex<Arc<Membership>>,
    /// Set from the start to the stop. The receiver usually owns the network, so keeping it here
    /// would be a reference cycle.
    receiver: Mutex<Option<Arc<dyn Receiver>>>,
}

impl Context {
    pub fn new(settings: NetworkSettings) -> Self {
        let membership = Mutex::new(Arc::clone(&settings.membership));
        Context { settings, threads: Threads::default(), membership, receiver: Mutex::default() }
    }

    pub fn membership(&self) -> Arc<Membership> {
        Arc::clone(&self.membership.lock())
    }

    pub fn set_membership(&self, membership: Arc<Membership>) {
        *self.membership.lock() = membership;
    }

    pub fn receiver(&self) -> Option<Arc<dyn Receiver>> {
        self.receiver.lock().clone()
    }

    pub fn set_receiver(&self, receiver: Arc<dyn Receiver>) {
        *self.receiver.lock() = Some(receiver);
    }

    pub fn forget_receiver(&self) {
        let receiver = self.receiver.lock().take();
        // Dropping it may drop the network, which takes the lock again.
        drop(receiver);
    }

    /// Does the TLS handshake on an accepted socket, if required, before the deadline `by`.
    pub fn protect(
        &self,
        socket: Arc<TcpStream>,
        from: SocketAddr,
        by: Instant,
    ) -> io::Result<PeerStream> {
        self.settings.protection.accept(socket, from, &self.membership(), by)
    }

    /// Sets the options that all connections have. A socket that rejects them is broken, and the next read
    /// reports the error.
    pub fn set_options(&self, stream: &TcpStream, no_delay: NoDelay) {
        let socket = SockRef::from(stream);
        let set = socket
            .set_tcp_nodelay(no_delay == NoDelay::On)
            .and_then(|()| socket.set_keepalive(self.settings.tcp_keep_alive));
        if let Err(error) = set {
            debug!("cannot set the options of a socket: {error}");
        }
    }
}

/// Whether Nagle's algorithm is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoDelay {
    On,
    Off,
}

impl From<bool> for NoDelay {
    fn from(on: bool) -> Self {
        if on { NoDelay::On } else { NoDelay::Off }
    }
}
