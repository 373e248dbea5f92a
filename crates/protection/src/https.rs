//! HTTP requests to admin ports, with TLS if the URL begins with `https://`.
//!
//! In: ureq's configuration, and the settings for TLS. Out: an agent. ureq's own TLS supports neither JKS files nor
//! ZooKeeper's rules for checking host names; so this module plugs ours in, through ureq's `unversioned` module.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr};

use herdsman_tls::rustls::{self, ClientConnection, StreamOwned};
use herdsman_tls::{Peer, Side, TlsContext, TlsError, TlsSettings, describe_io_failure};
use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector,
    Transport, TransportAdapter,
};

/// Creates an agent with this configuration. Without settings for TLS its requests to `https://` URLs fail.
///
/// # Errors
/// A file named by the settings cannot be used.
pub fn agent(config: Config, tls: Option<TlsSettings>) -> Result<Agent, TlsError> {
    let context = tls.map(|settings| TlsContext::load(settings, Side::Client)).transpose()?;
    let connector = ().chain(TcpConnector::default()).chain(TlsConnector { context });
    Ok(Agent::with_parts(config, connector, DefaultResolver::default()))
}

/// Adds TLS to an established connection.
struct TlsConnector {
    context: Option<TlsContext>,
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnector").finish_non_exhaustive()
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let context = self.context.as_ref().ok_or_else(|| {
            other(
                "https:// needs --tls-trust-store: the file with the trusted certificates"
                    .to_owned(),
            )
        })?;
        let mut socket = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        let mut session = session(context, details)?;
        session.complete_io(&mut socket).map_err(describe)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { buffers, stream: StreamOwned::new(session, socket) })))
    }
}

fn session(
    context: &TlsContext,
    details: &ConnectionDetails<'_>,
) -> Result<ClientConnection, ureq::Error> {
    let host = details.uri.host().unwrap_or_default().trim_matches(['[', ']']);
    // The previous connector does not say which address it connected to; all of them belong to the host.
    let address = details.addrs.first().map_or(Ipv6Addr::UNSPECIFIED.into(), |addr| addr.ip());
    let peer = Peer::dialled(host, IpAddr::to_canonical(&address));
    let config = context.client_config(&peer).map_err(|error| other(error.to_string()))?;
    ClientConnection::new(config, peer.server_name()).map_err(|error| other(error.to_string()))
}

/// Describes a TLS error for operators; ureq itself reports timeouts. With TLS 1.3 a server that rejects the client's
/// certificate reports it after the handshake.
fn describe(error: io::Error) -> ureq::Error {
    match error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        true => other(describe_io_failure(&error)),
        false => error.into(),
    }
}

fn other(problem: String) -> ureq::Error {
    ureq::Error::Other(problem.into())
}

/// A connection after its handshake.
struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.sock.set_timeout(timeout);
        let bytes = self.stream.read(self.buffers.input_append_buf()).map_err(describe)?;
        self.buffers.input_appended(bytes);
        Ok(bytes > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
