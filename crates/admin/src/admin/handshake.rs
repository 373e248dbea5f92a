//! Protocol detection and the TLS handshake: between accepting a connection and serving HTTP on it.
//!
//! In: an accepted socket. Out: [`Opened`], or an error. A port for both protocols distinguishes them by the
//! first bytes, and so does an HTTPS-only port, to give plain HTTP clients a response that they understand.
//! Apache: `UnifiedConnectionFactory`.
//!
//! Limits: everything within [`OPEN_TIME_MAX`]; until then the connection counts as idle (see
//! [`super::connections`]), so stalled handshakes do not block other clients. Changed files are read before a
//! handshake; if they are invalid, or cannot be read within [`RELOAD_TIME_MAX`], the old ones stay in use.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use herdsman_runtime::LimitedLog;
use herdsman_tls::{
    Peer, Reload, Side, TlsContext, TlsError, describe_io_failure, looks_like_tls, subject_name,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

use crate::identity::CertificateSubject;
use crate::settings::{PlainHttp, PortTls};
use crate::shared_result_thread::SharedResultThread;

/// How long a connection may take for its first bytes and the handshake.
const OPEN_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a handshake waits for changed files.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(1);

/// The TLS of one port.
pub(crate) struct TlsPort {
    context: Arc<TlsContext>,
    /// Reads changed files; started by the first handshake. Without a thread the old files stay in use.
    files: OnceLock<Option<SharedResultThread<()>>>,
    plain: PlainHttp,
    refused: LimitedLog,
}

/// A connection that is ready for HTTP.
pub(crate) enum Opened {
    Plain(TcpStream),
    /// The client uses plain HTTP, and this port does not allow it.
    PlainRefused(TcpStream),
    Tls(Box<TlsStream<TcpStream>>, Option<CertificateSubject>),
}

/// Why a connection was closed before HTTP began.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("timed out: no complete handshake within {} s", OPEN_TIME_MAX.as_secs())]
    Late,
    #[error("the client closed it before sending anything")]
    Silent,
    #[error("{0}")]
    Handshake(String),
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl TlsPort {
    /// Reads the files.
    pub(crate) fn load(tls: PortTls) -> Result<Self, TlsError> {
        let context = Arc::new(TlsContext::load(tls.settings, Side::Server)?);
        for warning in context.warnings() {
            warn!("TLS of the admin server: {warning}");
        }
        let refused = LimitedLog::default();
        Ok(TlsPort { context, files: OnceLock::new(), plain: tls.plain, refused })
    }

    /// Detects the protocol, and does the TLS handshake.
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
        // No HTTP request begins like a TLS record, so the first byte is enough.
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
            SharedResultThread::start("tls-files", move || reload(&context))
                .inspect_err(|error| {
                    warn!("changes of the admin server's TLS files will not be read: {error}");
                })
                .ok()
        });
        if let Some(thread) = thread {
            _ = timeout(RELOAD_TIME_MAX, thread.result()).await;
        }
    }

    /// Logs why a connection was closed.
    pub(crate) fn log_failure(&self, peer: SocketAddr, error: &OpenError) {
        let line = format_args!("connection from {peer} closed by the admin server: {error}");
        self.refused.warn(line);
    }
}

fn reload(context: &TlsContext) {
    match context.reload_if_changed() {
        Ok(Reload::Reloaded) => {
            info!("TLS files of the admin server have changed and were reloaded");
        }
        Err(error) => warn!(
            "TLS files of the admin server have changed but cannot be used; the old ones stay in use: {error}"
        ),
        Ok(Reload::Unchanged) => {}
    }
}

/// The subject of the client's certificate, which was verified in the handshake.
fn subject_of(stream: &TlsStream<TcpStream>) -> Option<CertificateSubject> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    subject_name(certificate).ok().map(|subject| CertificateSubject(subject.into()))
}
