//! Byte streams to a server, plain or through TLS.
//!
//! In: how servers are reached ([`Reach`]), and one of them. Out: an open [`Transport`]. Opening includes
//! the TLS handshake; whoever opens limits the time. A certificate is checked for the host as it stands
//! in the connect string, also where a program dials in its own way.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use herdsman_tls::{Peer, Reload, Side, TlsContext, describe_failure, describe_io_failure, rustls};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connect_string::HostPort;
use crate::dial::Dial;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use crate::sasl::SaslLogin;

/// How servers are reached: the way there, its protection, and the login at its end.
#[derive(Debug)]
pub(crate) struct Reach {
    dial: Arc<dyn Dial>,
    tls: Option<Arc<TlsContext>>,
    login: Option<SaslLogin>,
}

/// An open connection, both directions.
pub(super) struct Transport {
    pub(super) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) write: Box<dyn AsyncWrite + Send + Unpin>,
    /// What was written goes out with certainty only when it is flushed.
    pub(super) holds_back: bool,
    /// The address at its end.
    pub(super) peer: Option<IpAddr>,
}

impl Reach {
    /// Reads the TLS files, if there are to be any.
    pub(crate) fn prepare(options: &Options) -> Result<Self> {
        let load = |settings| TlsContext::load(settings, Side::Client);
        let tls = options.tls.clone().map(load).transpose();
        let tls = tls.map_err(|error| Error::not_applied(ErrorKind::Tls(error.to_string())))?;
        for warning in tls.iter().flat_map(TlsContext::warnings) {
            tracing::warn!("TLS: {warning}");
        }
        let (dial, login) = (Arc::clone(&options.dial), options.login.clone());
        Ok(Reach { dial, tls: tls.map(Arc::new), login })
    }

    /// The login that each connection begins with.
    pub(super) fn login(&self) -> Option<&SaslLogin> {
        self.login.as_ref()
    }

    /// Opens a connection to the host.
    pub(super) async fn open(&self, host: &HostPort) -> io::Result<Transport> {
        if let Some(tls) = &self.tls {
            reload(tls).await;
        }
        let stream = self.dial.dial(host.host(), host.port()).await?;
        // Requests are small and already gathered; waiting for more only adds latency.
        stream.set_nodelay(true)?;
        match &self.tls {
            Some(tls) => shake_hands(tls, host, stream).await,
            None => {
                let peer = stream.peer_addr().map(|at| at.ip()).ok();
                let (read, write) = stream.into_split();
                let (read, write) = (Box::new(read), Box::new(write));
                Ok(Transport { read, write, holds_back: false, peer })
            }
        }
    }
}

impl Transport {
    /// Sends all of this.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.write_all(bytes).await?;
        self.write.flush().await
    }

    /// Says that nothing more will come. Tried once: who does not take it has gone.
    pub(super) async fn part(&mut self) {
        poll_fn(|context| {
            let _ = Pin::new(&mut self.write).poll_shutdown(context);
            Poll::Ready(())
        })
        .await;
    }
}

/// Reads files that have changed. Files are read on a thread that may wait for a disk.
async fn reload(tls: &Arc<TlsContext>) {
    let context = Arc::clone(tls);
    match tokio::task::spawn_blocking(move || context.reload_if_changed()).await {
        Ok(Ok(Reload::Reloaded)) => tracing::info!("TLS files have changed and were read again"),
        Ok(Err(error)) => {
            tracing::warn!("TLS files have changed and cannot be used, the old ones stay: {error}");
        }
        // The other error is that of a runtime that ends, and with it this attempt.
        Ok(Ok(Reload::Unchanged)) | Err(_) => {}
    }
}

async fn shake_hands(
    tls: &TlsContext,
    host: &HostPort,
    stream: TcpStream,
) -> io::Result<Transport> {
    let mut peer = Peer::dialled(host.host(), stream.peer_addr()?.ip());
    if tls.wants_reverse_lookup(&peer) {
        let address = peer.address();
        peer = tokio::task::spawn_blocking(move || herdsman_tls::reverse_lookup(address)).await?;
    }
    let config = tls.client_config(&peer).map_err(io::Error::other)?;
    let shaking = TlsConnector::from(config).connect(peer.server_name(), stream);
    let stream = shaking.await.map_err(|error| io::Error::other(describe(&error)))?;
    let (read, write) = tokio::io::split(stream);
    let (read, write, peer) = (Box::new(read), Box::new(write), Some(peer.address()));
    Ok(Transport { read, write, holds_back: true, peer })
}

/// Why there was no handshake. A plain port hangs up without a word.
fn describe(error: &io::Error) -> String {
    let words = describe_io_failure(error);
    match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("{words}; is this its TLS port?"),
        _ => words,
    }
}

/// What went wrong. With TLS 1.3 the server's verdict on our certificate comes after the handshake, with
/// the first bytes that are read.
pub(super) fn words(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(tls) => describe_failure(tls),
        None => error.to_string(),
    }
}
