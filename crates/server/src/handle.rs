//! A handle to a running server, for other interfaces in the same process: the admin server, metrics, the console.
//!
//! A handle may outlive the server; it then shows the final state, and cannot open connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use herdsman_node::{Node, ServesAs};
use herdsman_tree::auth::Schemes;

use crate::clients::io_threads::{IoHandle, ServerContext};
use crate::core::Core;
use crate::operators::words;
use herdsman_config::Config;

/// A handle to inspect a running server and to connect to it from inside the process.
#[derive(Clone)]
pub struct ServerHandle {
    pub(crate) shared: Arc<ServerContext>,
    io_handle: Option<IoHandle>,
}

/// Sizes of the server's directories. If data and logs share one, both are its total size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectorySizes {
    /// Bytes below `dataDir`.
    pub data_bytes: u64,
    /// Bytes below `dataLogDir`.
    pub log_bytes: u64,
}

/// The client on whose behalf an in-process connection is opened, as another interface has authenticated it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its address.
    pub address: SocketAddr,
    /// The subject of its TLS certificate, in the form that ACLs use.
    pub certificate_subject: Option<Arc<str>>,
}

impl From<SocketAddr> for Caller {
    /// A caller of whom only the address is known.
    fn from(address: SocketAddr) -> Self {
        Caller { address, certificate_subject: None }
    }
}

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerHandle").finish_non_exhaustive()
    }
}

impl ServerHandle {
    pub(crate) fn new(shared: Arc<ServerContext>, io_handle: Option<IoHandle>) -> Self {
        ServerHandle { shared, io_handle }
    }

    /// The node, the tree and the connections.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.shared.core
    }

    /// The configuration, with the actual ports where it says 0.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The authentication schemes of clients.
    #[must_use]
    pub fn schemes(&self) -> &Schemes {
        &self.shared.settings.schemes
    }

    /// Returns the role in which it serves clients; `None` while there is no leader.
    #[must_use]
    pub fn serves_as(&self) -> Option<ServesAs> {
        self.core().with_node(Node::serves_as)
    }

    /// Whether clients are being served.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        !self.is_stopping() && self.core().with_node(Node::serves_clients)
    }

    /// Whether the server is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// The version as four-letter words show it: `<release>-<revision>, built on <time>`.
    #[must_use]
    pub fn version(&self) -> String {
        words::full_version()
    }

    /// Returns the disk usage of snapshots and logs. Reads the metadata of all files, so do not call it on a thread
    /// that must not block.
    #[must_use]
    pub fn directory_sizes(&self) -> DirectorySizes {
        let (data_bytes, log_bytes) = words::directory_sizes(&self.shared);
        DirectorySizes { data_bytes, log_bytes }
    }

    /// Opens a connection as the caller would get it from the client port: the same limits, the same handshake,
    /// and the server treats the caller as the peer. So the connection has the rights of the caller's address and
    /// certificate, not those of this machine.
    ///
    /// # Errors
    /// The server is stopping, has no client port, or a limit on connections is reached.
    pub fn connect_as(&self, caller: impl Into<Caller>) -> io::Result<TcpStream> {
        let no_port =
            || io::Error::new(io::ErrorKind::NotConnected, "the server has no client port");
        let io_handle = self.io_handle.as_ref().ok_or_else(no_port)?;
        let (inner, outer) = loopback_pair()?;
        io_handle.dispatch(&self.shared, inner, caller.into())?;
        Ok(outer)
    }
}

/// Returns the two ends of one connection over loopback. Another process may connect to the port first;
/// its connection is dropped.
fn loopback_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let outer = TcpStream::connect(listener.local_addr()?)?;
    let expected = outer.local_addr()?;
    loop {
        let (inner, from) = listener.accept()?;
        if from == expected {
            return Ok((inner, outer));
        }
    }
}
