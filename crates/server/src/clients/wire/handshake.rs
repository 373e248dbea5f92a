//! Turns an accepted socket into a [`Wire`]: detects TLS and does the handshake. Apache:
//! `NettyServerCnxnFactory` with its `DualModeSslHandler` and `CertificateVerifier`.
//!
//! Limits: the time (that of a connection without a session), and handshakes in progress. A handshake costs
//! far more than anything else that an unauthenticated client can request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use herdsman_tls::{Peer, TlsContext, looks_like_tls};
use rustls::ServerConnection;
use tokio::net::TcpStream;

use super::Wire;
use super::tls::TlsWire;
use crate::clients::Client;
use herdsman_runtime::LimitedLog;

/// The protocol of a client port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortProtocol {
    Plain,
    Tls,
    /// Either, as the client's first byte shows.
    Either,
}

/// The TLS of the client ports.
pub(crate) struct TlsAcceptor {
    pub context: Arc<TlsContext>,
    pub handshakes_max: usize,
    pub detection_timeout: Duration,
    under_way: AtomicUsize,
    warnings: LimitedLog,
}

/// A failed handshake.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("{0} TLS handshakes are already in progress (netty.server.outstandingHandshake.limit)")]
    TooMany(usize),
    #[error("{0}")]
    Handshake(String),
    #[error("timed out")]
    Late,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl TlsAcceptor {
    pub fn new(
        context: Arc<TlsContext>,
        handshakes_max: usize,
        detection_timeout: Duration,
    ) -> Self {
        let (under_way, warnings) = (AtomicUsize::new(0), LimitedLog::default());
        TlsAcceptor { context, handshakes_max, detection_timeout, under_way, warnings }
    }

    /// Handshakes in progress.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Opens a connection with the port's protocol; `timeout` is for all of it.
    pub async fn open(
        &self,
        stream: TcpStream,
        protocol: PortProtocol,
        client: &Client,
        timeout: Duration,
    ) -> Result<Wire, HandshakeError> {
        let opening = async {
            if protocol == PortProtocol::Either && !self.begins_with_tls(&stream).await? {
                return Ok(Wire::Plain(stream));
            }
            self.handshake(stream, client).await
        };
        tokio::time::timeout(timeout, opening).await.unwrap_or(Err(HandshakeError::Late))
    }

    /// Logs a failed handshake, rate-limited.
    pub fn log_failure(&self, client: &Client, failure: &HandshakeError) {
        self.warnings.warn(format_args!(
            "connection from {} refused on the TLS port: {failure}",
            client.peer
        ));
    }

    /// Peeks at the first byte.
    async fn begins_with_tls(&self, stream: &TcpStream) -> Result<bool, HandshakeError> {
        let mut first = [0; 1];
        let peeked = tokio::time::timeout(self.detection_timeout, stream.peek(&mut first)).await;
        match peeked.map_err(|_| HandshakeError::Late)?? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            // No plain request begins with the first byte of a TLS record.
            _ => Ok(looks_like_tls(&first) != Some(false)),
        }
    }

    async fn handshake(&self, stream: TcpStream, client: &Client) -> Result<Wire, HandshakeError> {
        let _permit = self.acquire_permit()?;
        let config = self
            .context
            .server_config(&Peer::at(client.peer.ip()))
            .map_err(|error| HandshakeError::Handshake(error.to_string()))?;
        let session = ServerConnection::new(config)
            .map_err(|error| HandshakeError::Handshake(error.to_string()))?;
        let mut wire = TlsWire::new(stream, Box::new(session));
        wire.handshake().await.map_err(|error| describe(&error))?;
        Ok(Wire::Tls(Box::new(wire)))
    }

    fn acquire_permit(&self) -> Result<HandshakePermit<'_>, HandshakeError> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let permit = HandshakePermit(&self.under_way);
        if before >= self.handshakes_max {
            return Err(HandshakeError::TooMany(before));
        }
        Ok(permit)
    }
}

/// Describes an error for operators.
fn describe(error: &io::Error) -> HandshakeError {
    HandshakeError::Handshake(herdsman_tls::describe_io_failure(error))
}

/// A handshake in progress, until dropped.
struct HandshakePermit<'a>(&'a AtomicUsize);

impl Drop for HandshakePermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
