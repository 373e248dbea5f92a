//! What a connection speaks, and the TLS handshake: between accepting it and serving HTTP on it.
//!
//! In: an accepted socket. Out: [`Opened`], or why not. A port for both tells them apart by the first
//! bytes, and so does a port for HTTPS only, to give those who speak plain HTTP an answer that they
//! understand. Apache: `UnifiedConnectionFactory`.
//!
//! Limits: all of it within [`OPEN_TIME_MAX`]; until then the connection counts as idle (see
//! [`super::connections`]), so handshakes that stall keep no other client out. Changed files are read before a
//! handshake; if they cannot be used, or not be read within [`RELOAD_TIME_MAX`], the old ones stay.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use herdsman_tls::{
    Peer, Reload, Side, TlsContext, TlsError, describe_io_failure, looks_like_tls, subject_name,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

use super::rate_limited_warning::RateLimitedWarning;
use crate::identity::CertificateSubject;
use crate::look_thread::LookThread;
use crate::settings::{PlainHttp, PortTls};

/// How long a connection may take to say what it speaks and to shake hands.
const OPEN_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a handshake waits for changed files.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(1);

/// The TLS of one port.
pub(crate) struct TlsDoor {
    context: Arc<TlsContext>,
    /// Reads files that have changed; starts with the first handshake. Without a thread the files stay as they are.
    files: OnceLock<Option<LookThread<()>>>,
    plain: PlainHttp,
    refused: RateLimitedWarning,
}

/// A connection on which HTTP can begin.
pub(crate) enum Opened {
    Plain(TcpStream),
    /// It speaks plain HTTP, and this port does not.
    PlainRefused(TcpStream),
    Tls(Box<TlsStream<TcpStream>>, Option<CertificateSubject>),
}

/// Why a connection was closed before HTTP began.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("nothing within {} s", OPEN_TIME_MAX.as_secs())]
    Late,
    #[error("it was closed before it said anything")]
    Silent,
    #[error("{0}")]
    Handshake(String),
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl TlsDoor {
    /// Reads the files.
    pub(crate) fn load(tls: PortTls) -> Result<Self, TlsError> {
        let context = Arc::new(TlsContext::load(tls.settings, Side::Server)?);
        for warning in context.warnings() {
            warn!("TLS of the admin server: {warning}");
        }
        let refused = RateLimitedWarning::default();
        Ok(TlsDoor { context, files: OnceLock::new(), plain: tls.plain, refused })
    }

    /// Finds out what a connection speaks, and shakes hands.
    pub(crate) async fn open(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Result<Opened, OpenError> {
        timeout(OPEN_TIME_MAX, self.open_in_time(stream, peer))
            .await
            .unwrap_or(Err(OpenError::Late))
    }

    async fn open_in_time(&self, stream: TcpStream, peer: SocketAddr) -> Result<Opened, OpenError> {
        let mut first = [0; 5];
        let count = stream.peek(&mut first).await.map_err(|_| OpenError::Silent)?;
        if count == 0 {
            return Err(OpenError::Silent);
        }
        // No word of HTTP begins as a TLS record does, so its first byte will do.
        if looks_like_tls(&first[..count]) == Some(false) {
            return Ok(match self.plain {
                PlainHttp::Served => Opened::Plain(stream),
                PlainHttp::Refused => Opened::PlainRefused(stream),
            });
        }
        self.reload().await;
        // Hosts of clients are not checked on this port, so their names are not looked up.
        let peer = Peer::at(peer.ip());
        let acceptor = TlsAcceptor::from(self.context.server_config(&peer)?);
        let stream = acceptor
            .accept(stream)
            .await
            .map_err(|error| OpenError::Handshake(describe_io_failure(&error)))?;
        let subject = subject_of(&stream);
        Ok(Opened::Tls(Box::new(stream), subject))
    }

    async fn reload(&self) {
        let thread = self.files.get_or_init(|| {
            let context = Arc::clone(&self.context);
            LookThread::start("tls-files", move || reload(&context))
                .inspect_err(|error| {
                    warn!("TLS files of the admin server are not read again: {error}");
                })
                .ok()
        });
        if let Some(thread) = thread {
            _ = timeout(RELOAD_TIME_MAX, thread.look()).await;
        }
    }

    /// One line about a connection that was closed.
    pub(crate) fn complain(&self, peer: SocketAddr, error: &OpenError) {
        let line = format_args!("connection from {peer} closed by the admin server: {error}");
        self.refused.warn(line);
    }
}

fn reload(context: &TlsContext) {
    match context.reload_if_changed() {
        Ok(Reload::Reloaded) => {
            info!("TLS files of the admin server have changed and were read again");
        }
        Err(error) => warn!(
            "TLS files of the admin server have changed and cannot be used, the old ones stay: {error}"
        ),
        Ok(Reload::Unchanged) => {}
    }
}

/// The certificate was found good, or there would be no stream.
fn subject_of(stream: &TlsStream<TcpStream>) -> Option<CertificateSubject> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    subject_name(certificate).ok().map(|subject| CertificateSubject(subject.into()))
}
