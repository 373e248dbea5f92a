//! The client ports during startup: bound early, so that an occupied port fails the start before
//! anything else begins; opened last.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use herdsman_tls::TlsContext;

use crate::clients::io_threads::{IoThreads, ServerContext};
use crate::clients::listener::{ClientPort, Listener};
use crate::clients::wire::handshake::{PortProtocol, TlsAcceptor};
use crate::error::StartError;
use crate::start::settings;
use herdsman_config::{Config, Endpoint};

/// Concurrent TLS handshakes unless a limit is set.
const HANDSHAKES_MAX: usize = 1024;

/// The bound sockets, and the keys of the TLS one.
pub(crate) struct ClientSockets {
    plain: Option<TcpListener>,
    secure: Option<(TcpListener, Arc<TlsContext>)>,
}

/// Resolves the hosts of the client ports, as Apache does when it reads the configuration.
pub(crate) fn check_hosts(config: &Config) -> Result<(), StartError> {
    let listen = &config.listen;
    let ports =
        [("clientPortAddress", &listen.client), ("secureClientPortAddress", &listen.secure_client)];
    for (key, endpoint) in ports {
        let Some(Endpoint { host: Some(host), port }) = endpoint else { continue };
        (host.as_str(), *port).to_socket_addrs().map_err(|source| StartError::NoAddress {
            key,
            host: host.clone(),
            source,
        })?;
    }
    Ok(())
}

impl ClientSockets {
    /// Binds the ports. Replaces port 0 in the configuration with the actual port.
    pub fn bind(config: &mut Config, tls: Option<Arc<TlsContext>>) -> Result<Self, StartError> {
        let backlog = config.listen.backlog;
        let plain = config.listen.client.as_mut().map(|at| bind(at, backlog)).transpose()?;
        let secure = match (&mut config.listen.secure_client, tls) {
            (Some(at), Some(context)) => Some((bind(at, backlog)?, context)),
            _ => None,
        };
        Ok(ClientSockets { plain, secure })
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.plain.as_ref()?.local_addr().ok()
    }

    pub fn secure_address(&self) -> Option<SocketAddr> {
        self.secure.as_ref()?.0.local_addr().ok()
    }

    pub fn tls_acceptor(&self, config: &Config) -> Option<TlsAcceptor> {
        let (_, context) = self.secure.as_ref()?;
        let handshakes_max =
            config.client_tls.handshakes_max.map_or(HANDSHAKES_MAX, |max| max.get() as usize);
        let detection = Duration::from_millis(config.tls.detection_timeout_ms.max(1).into());
        Some(TlsAcceptor::new(Arc::clone(context), handshakes_max, detection))
    }

    /// Starts to accept clients.
    pub fn open(
        self,
        port: Arc<ClientPort>,
        shared: &Arc<ServerContext>,
    ) -> io::Result<(Option<Arc<IoThreads>>, Vec<Listener>)> {
        let secure_port = Arc::new(ClientPort::at(shared.config.listen.secure_client.clone()));
        let secure_protocol = match shared.config.client_tls.port_unification {
            true => PortProtocol::Either,
            false => PortProtocol::Tls,
        };
        let plain = self.plain.map(|socket| (socket, port, PortProtocol::Plain));
        let secure = self.secure.map(|(socket, _)| (socket, secure_port, secure_protocol));
        let sockets: Vec<_> = plain.into_iter().chain(secure).collect();
        if sockets.is_empty() {
            return Ok((None, Vec::new()));
        }
        let threads = Arc::new(IoThreads::start(shared, settings::io_threads())?);
        let listen = |(socket, port, protocol)| {
            Listener::start(socket, port, Arc::clone(shared), Arc::clone(&threads), protocol)
        };
        let listeners = sockets.into_iter().map(listen).collect::<io::Result<_>>()?;
        Ok((Some(threads), listeners))
    }
}

fn bind(endpoint: &mut Endpoint, backlog: Option<u32>) -> Result<TcpListener, StartError> {
    let listener = herdsman_runtime::bind(endpoint, backlog)
        .map_err(|source| StartError::Bind { endpoint: endpoint.to_string(), source })?;
    endpoint.port = listener.local_addr()?.port();
    Ok(listener)
}
