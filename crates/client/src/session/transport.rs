//! Byte streams to a server, plain or through TLS.
//!
//! In: how servers are reached ([`Connector`]), and one of them. Out: an open [`Transport`]. Opening includes
//! the TLS handshake; whoever opens limits the time. A certificate is checked for the host as it stands
//! in the connect string, also where a program dials in its own way.

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

/// How servers are reached: the way there, its protection, and the login at its end.
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
    /// What was written goes out with certainty only when it is flushed.
    pub(super) needs_flush: bool,
    /// The address at its end.
    #[cfg_attr(not(feature = "sasl"), expect(dead_code, reason = "only logins ask for it"))]
    pub(super) peer: Option<IpAddr>,
}

impl Connector {
    /// Reads the TLS files, if there are to be any.
    pub(crate) fn prepare(options: &Options) -> Result<Self> {
        Ok(Connector {
            dial: Arc::clone(&options.dial),
            #[cfg(feature = "tls")]
            tls: tls::load(options)?,
            #[cfg(feature = "sasl")]
            login: options.login.clone(),
        })
    }

    /// The login that each connection begins with.
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
                tls::shake_hands(tls, host, self.dial(host).await?).await
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
        // Requests are small and already gathered; waiting for more only adds latency.
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
    /// Sends all of this.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.write_all(bytes).await?;
        self.write.flush().await
    }

    /// Says that nothing more will come. Tried once: who does not take it has gone.
    pub(super) async fn shutdown(&mut self) {
        poll_fn(|context| {
            let _ = Pin::new(&mut self.write).poll_shutdown(context);
            Poll::Ready(())
        })
        .await;
    }
}

/// What went wrong.
pub(super) fn describe(error: &io::Error) -> String {
    #[cfg(feature = "tls")]
    if let Some(describe) = tls::describe_tls_failure(error) {
        return describe;
    }
    error.to_string()
}
