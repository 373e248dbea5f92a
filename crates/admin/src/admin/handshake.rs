//! What a connection speaks, and the TLS handshake: between accepting it and serving HTTP on it.
//!
//! In: an accepted socket. Out: [`Opened`], or why not. A port for both tells them apart by the first
//! bytes, and so does a port for HTTPS only, to give those who speak plain HTTP an answer that they
//! understand. Apache: `UnifiedConnectionFactory`.
//!
//! Limits: [`HANDSHAKES_MAX`] at once, the others wait; all of it within [`OPEN_TIME_MAX`]. Changed files
//! are read before a handshake; if they cannot be used, the old ones stay.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use herdsman_tls::{
    Peer, Reload, Side, TlsContext, TlsError, describe_io_failure, looks_like_tls, subject_name,
};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

use crate::identity::CertificateSubject;
use crate::settings::{PlainHttp, PortTls};

/// Handshakes under way at once, of one port. They are the costliest thing that a stranger can ask for.
const HANDSHAKES_MAX: usize = 64;
/// How long a connection may take to say what it speaks and to shake hands.
const OPEN_TIME_MAX: Duration = Duration::from_secs(10);
/// Between two lines in the log about connections that were refused.
const COMPLAINTS_EVERY: Duration = Duration::from_secs(1);

/// The TLS of one port.
pub(crate) struct TlsDoor {
    context: Arc<TlsContext>,
    plain: PlainHttp,
    places: Semaphore,
    complaints: Mutex<Complaints>,
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
        Ok(TlsDoor {
            context,
            plain: tls.plain,
            places: Semaphore::new(HANDSHAKES_MAX),
            complaints: Mutex::default(),
        })
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
        let _place = self.places.acquire().await.map_err(|_| OpenError::Late)?;
        self.reload().await;
        let peer = self.peer(peer).await;
        let acceptor = TlsAcceptor::from(self.context.server_config(&peer)?);
        let stream = acceptor
            .accept(stream)
            .await
            .map_err(|error| OpenError::Handshake(describe_io_failure(&error)))?;
        let subject = subject_of(&stream);
        Ok(Opened::Tls(Box::new(stream), subject))
    }

    async fn peer(&self, address: SocketAddr) -> Peer {
        let peer = Peer::at(address.ip());
        if !self.context.wants_reverse_lookup(&peer) {
            return peer;
        }
        let looking =
            tokio::task::spawn_blocking(move || herdsman_tls::reverse_lookup(address.ip()));
        looking.await.unwrap_or(peer)
    }

    async fn reload(&self) {
        let context = Arc::clone(&self.context);
        match tokio::task::spawn_blocking(move || context.reload_if_changed()).await {
            Ok(Ok(Reload::Reloaded)) => {
                info!("TLS files of the admin server have changed and were read again");
            }
            Ok(Err(error)) => warn!(
                "TLS files of the admin server have changed and cannot be used, the old ones stay: {error}"
            ),
            // The other error is that of a runtime that ends, and with it this connection.
            Ok(Ok(Reload::Unchanged)) | Err(_) => {}
        }
    }

    /// One line about a connection that was closed; a flood of them does not fill the log.
    pub(crate) fn complain(&self, peer: SocketAddr, error: &OpenError) {
        let mut complaints = self.complaints.lock();
        let now = Instant::now();
        if complaints.last.is_some_and(|last| now < last + COMPLAINTS_EVERY) {
            complaints.unsaid += 1;
            return;
        }
        let unsaid = std::mem::take(&mut complaints.unsaid);
        complaints.last = Some(now);
        drop(complaints);
        match unsaid {
            0 => warn!("connection from {peer} closed by the admin server: {error}"),
            _ => warn!(
                "connection from {peer} closed by the admin server: {error}; {unsaid} more since the last such line"
            ),
        }
    }
}

/// What was said about refused connections.
#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
    unsaid: u64,
}

/// The certificate was found good, or there would be no stream.
fn subject_of(stream: &TlsStream<TcpStream>) -> Option<CertificateSubject> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    subject_name(certificate).ok().map(|subject| CertificateSubject(subject.into()))
}
