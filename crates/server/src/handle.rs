//! A running server as its other doors see it: the admin server, its metrics, the console.
//!
//! A handle may outlive the server; what it shows then is how things were at the end, and it opens no
//! connections any more.

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

/// A running server, for those who look at it or connect from inside the process.
#[derive(Clone)]
pub struct ServerHandle {
    pub(crate) shared: Arc<ServerContext>,
    io_handle: Option<IoHandle>,
}

/// What is in the server's directories. Where data and logs share one, both are all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectorySizes {
    /// Bytes below `dataDir`.
    pub data_bytes: u64,
    /// Bytes below `dataLogDir`.
    pub log_bytes: u64,
}

/// On whose behalf a connection from inside is opened: what another door has found out about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where they are.
    pub address: SocketAddr,
    /// The subject of the certificate that they have shown, as ACLs have it.
    pub certificate_subject: Option<Arc<str>>,
}

impl From<SocketAddr> for Caller {
    /// Somebody of whom nothing but the address is known.
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

    /// What the server was told, with the ports that it really has.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The schemes by which clients say who they are.
    #[must_use]
    pub fn schemes(&self) -> &Schemes {
        &self.shared.settings.schemes
    }

    /// As what it serves; `None` while there is no leader.
    #[must_use]
    pub fn serves_as(&self) -> Option<ServesAs> {
        self.core().with_node(Node::serves_as)
    }

    /// Whether clients are served at this moment.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        !self.is_stopping() && self.core().with_node(Node::serves_clients)
    }

    /// Whether the server is about to end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// The version as the four-letter words tell it: `<release>-<revision>, built on <time>`.
    #[must_use]
    pub fn version(&self) -> String {
        words::full_version()
    }

    /// How much the snapshots and logs take up on disk. Looks at all files: not for a thread that others
    /// wait for.
    #[must_use]
    pub fn directory_sizes(&self) -> DirectorySizes {
        let (data_bytes, log_bytes) = words::directory_sizes(&self.shared);
        DirectorySizes { data_bytes, log_bytes }
    }

    /// A connection as the caller would get it from the client port: the same limits, the same handshake,
    /// and the server takes the caller for the other end. So whoever acts on behalf of somebody elsewhere
    /// has the rights of their address and certificate, not those of this machine.
    ///
    /// # Errors
    /// The server stops, has no client port, or a limit on connections is reached.
    pub fn connect_as(&self, caller: impl Into<Caller>) -> io::Result<TcpStream> {
        let no_port = || io::Error::new(io::ErrorKind::NotConnected, "there is no client port");
        let io_handle = self.io_handle.as_ref().ok_or_else(no_port)?;
        let (inner, outer) = loopback_pair()?;
        io_handle.dispatch(&self.shared, inner, caller.into())?;
        Ok(outer)
    }
}

/// Two ends of one connection inside this machine. Somebody else may connect to the port in between;
/// that one is turned away.
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
