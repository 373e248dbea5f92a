//! Byte streams to a server, plain or through TLS.
//!
//! In: a [`Connector`], and a server. Out: an open [`Transport`]. Opening includes the TLS handshake; the
//! caller limits the time. A certificate is checked for the host as written in the connect string, even if
//! the program opens connections in its own way ([`Dial`]).

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

#[cfg(feature = "tls")]
use herdsman_tls::TlsContext;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::connect_string::HostPort;
use crate::dial::Dial;
use crate::error::Result;
use crate::options::Options;
#[cfg(feature = "sasl")]
use crate::sasl::SaslLogin;

#[cfg(feature = "tls")]
mod tls;

/// Opens connections to servers; has the settings of TLS and the login.
#[derive(Debug)]
pub(crate) struct Connector {
    dial: Arc<dyn Dial>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<TlsContext>>,
    #[cfg(feature = "sasl")]
    login: Option<SaslLogin>,
}

/// An open connection, both directions.
pub(super) struct Transport {
    pub(super) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) write: Box<dyn AsyncWrite + Send + Unpin>,
    /// Written bytes are certain to be sent only after a flush.
    pub(super) needs_flush: bool,
    /// The address of the server.
    #[cfg_attr(not(feature = "sasl"), expect(dead_code, reason = "only logins use it"))]
    pub(super) peer: Option<IpAddr>,
}

impl Connector {
    /// Creates a connector; reads the TLS files, if there are any.
    pub(crate) fn prepare(options: &Options) -> Result<Self> {
        Ok(Connector {
            dial: Arc::clone(&options.dial),
            #[cfg(feature = "tls")]
            tls: tls::load(options)?,
            #[cfg(feature = "sasl")]
            login: options.login.clone(),
        })
    }

    /// Returns the login that each connection begins with.
    #[cfg(feature = "sasl")]
    pub(super) fn login(&self) -> Option<&SaslLogin> {
        self.login.as_ref()
    }

    /// Opens a connection to the host.
    #[cfg(feature = "tls")]
    pub(super) async fn open(&self, host: &HostPort) -> io::Result<Transport> {
        match &self.tls {
            Some(tls) => {
                tls::reload(tls).await;
                tls::handshake(tls, host, self.dial(host).await?).await
            }
            None => Ok(plain(self.dial(host).await?)),
        }
    }

    /// Opens a connection to the host.
    #[cfg(not(feature = "tls"))]
    pub(super) async fn open(&self, host: &HostPort) -> io::Result<Transport> {
        Ok(plain(self.dial(host).await?))
    }

    async fn dial(&self, host: &HostPort) -> io::Result<TcpStream> {
        let stream = self.dial.dial(host.host(), host.port()).await?;
        // Requests are small and already batched; Nagle's algorithm would only add latency.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

fn plain(stream: TcpStream) -> Transport {
    let peer = stream.peer_addr().map(|at| at.ip()).ok();
    let (read, write) = stream.into_split();
    Transport { read: Box::new(read), write: Box::new(write), needs_flush: false, peer }
}

impl Transport {
    /// Sends all of these bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.write_all(bytes).await?;
        self.write.flush().await
    }

    /// Shuts down the sending direction. Polls only once, because the server may not be reading any more.
    pub(super) async fn shutdown(&mut self) {
        poll_fn(|context| {
            let _ = Pin::new(&mut self.write).poll_shutdown(context);
            Poll::Ready(())
        })
        .await;
    }
}

/// Describes an I/O error.
pub(super) fn describe(error: &io::Error) -> String {
    #[cfg(feature = "tls")]
    if let Some(describe) = tls::describe_tls_failure(error) {
        return describe;
    }
    error.to_string()
}
