//! HTTP to admin ports, with TLS where the address says `https://`.
//!
//! In: ureq's configuration, and whom to trust. Out: an agent. ureq has a TLS of its own, which knows
//! neither JKS files nor the rules by which ZooKeeper's servers check hosts; so ours goes in between, as
//! ureq's `unversioned` module provides for.

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

/// An agent that asks with this configuration. Without settings for TLS it refuses `https://`.
///
/// # Errors
/// A file that the settings name cannot be used.
pub fn agent(config: Config, tls: Option<TlsSettings>) -> Result<Agent, TlsError> {
    let context = tls.map(|settings| TlsContext::load(settings, Side::Client)).transpose()?;
    let connector = ().chain(TcpConnector::default()).chain(TlsConnector { context });
    Ok(Agent::with_parts(config, connector, DefaultResolver::default()))
}

/// Speaks TLS over a connection that stands.
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
            other("https:// needs --tls-trust-store, to know whom to trust".to_owned())
        })?;
        let mut socket = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        let mut session = session(context, details)?;
        session.complete_io(&mut socket).map_err(broken)?;
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
    // The connector before us does not tell which address answered; all belong to the host.
    let address = details.addrs.first().map_or(Ipv6Addr::UNSPECIFIED.into(), |addr| addr.ip());
    let peer = Peer::dialled(host, IpAddr::to_canonical(&address));
    let config = context.client_config(&peer).map_err(|error| other(error.to_string()))?;
    ClientConnection::new(config, peer.server_name()).map_err(|error| other(error.to_string()))
}

/// What went wrong, in words for an operator; ureq tells by itself of times that are over. With TLS 1.3 a
/// server that refuses our certificate says so after the handshake.
fn broken(error: io::Error) -> ureq::Error {
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
        let bytes = self.stream.read(self.buffers.input_append_buf()).map_err(broken)?;
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
