//! One HTTP port, with TLS or without: connections come in, are served, and end.
//!
//! Limits, and what happens when they are reached:
//! - so many connections at once; the next ones wait in the system's queue until one ends;
//! - the head of a request must fit into a buffer and be there within the idle timeout, which is also how
//!   long a connection may do nothing between two requests; else it is closed;
//! - a client that does not take what it asked for, for as long, is closed.
//!
//! Bodies are limited by whoever reads them. When the server ends, requests under way get a moment to
//! finish; streams of events would go on for ever and are cut off.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::header::STRICT_TRANSPORT_SECURITY;
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_rustls::server::TlsStream;
use tower_service::Service;
use tracing::{debug, warn};

use super::handshake::{Opened, TlsDoor};
use crate::error::ApiError;
use crate::identity::CertificateSubject;

/// The longest head of a request, and what is read of a body at once.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// What requests under way get when the server ends.
const END_GRACE: Duration = Duration::from_secs(2);
/// A pause when no connection can be accepted, for want of file descriptors most likely.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Browsers that were here once by HTTPS come by HTTPS for a day. Apache's words.
const HTTPS_FROM_NOW_ON: HeaderValue = HeaderValue::from_static("max-age=86400; includeSubDomains");

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub connections_max: usize,
    pub idle_timeout: Duration,
}

/// A port to be served.
pub(crate) struct Port {
    /// What the log calls it.
    pub name: &'static str,
    pub listener: TcpListener,
    pub routes: Router,
    pub limits: Limits,
    /// Without it, it is plain HTTP.
    pub tls: Option<TlsDoor>,
}

/// Serves a port until it is stopped.
pub(crate) async fn serve(port: Port, stopped: watch::Receiver<bool>) -> io::Result<()> {
    let Port { name, listener, routes, limits, tls } = port;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let tls = tls.map(Arc::new);
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let mut end = stopped.clone();
    let ended = async move { drop(end.wait_for(|stop| *stop).await) };
    let accept = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let host = Host { routes: routes.clone(), limits, stopped: stopped.clone() };
                    let tls = tls.clone();
                    tokio::spawn(async move {
                        host.welcome(stream, peer, tls).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!("the {name} port cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = ended => {}
    }
    drop(listener);
    let all = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    _ = timeout(END_GRACE, places.acquire_many(all)).await;
    Ok(())
}

/// What one connection needs.
struct Host {
    routes: Router,
    limits: Limits,
    stopped: watch::Receiver<bool>,
}

impl Host {
    /// Serves a connection to its end.
    async fn welcome(self, stream: TcpStream, peer: SocketAddr, tls: Option<Arc<TlsDoor>>) {
        _ = stream.set_nodelay(true);
        let Some(tls) = tls else { return self.serve_plain(stream, peer).await };
        let mut stopped = self.stopped.clone();
        let opened = tokio::select! {
            opened = tls.open(stream, peer) => opened,
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        match opened {
            Ok(Opened::Plain(stream)) => self.serve_plain(stream, peer).await,
            Ok(Opened::PlainRefused(stream)) => {
                let refuse = service_fn(|_: hyper::Request<Incoming>| async {
                    Ok::<_, Infallible>(https_only().into_response())
                });
                self.serve(stream, peer, refuse).await;
            }
            Ok(Opened::Tls(stream, subject)) => self.serve_tls(*stream, peer, subject).await,
            Err(error) => tls.complain(peer, &error),
        }
    }

    async fn serve_plain(self, stream: TcpStream, peer: SocketAddr) {
        let routes = self.routes.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            routes.clone().call(request)
        });
        self.serve(stream, peer, service).await;
    }

    async fn serve_tls(
        self,
        stream: TlsStream<TcpStream>,
        peer: SocketAddr,
        subject: Option<CertificateSubject>,
    ) {
        let routes = self.routes.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            if let Some(subject) = &subject {
                request.extensions_mut().insert(subject.clone());
            }
            let answering = routes.clone().call(request);
            async {
                let mut response = answering.await?;
                response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, HTTPS_FROM_NOW_ON);
                Ok::<_, Infallible>(response)
            }
        });
        self.serve(stream, peer, service).await;
    }

    async fn serve<S, H>(self, stream: S, peer: SocketAddr, service: H)
    where
        S: AsyncRead + AsyncWrite + Unpin,
        H: hyper::service::Service<
                hyper::Request<Incoming>,
                Response = axum::response::Response,
                Error = Infallible,
            >,
    {
        let Host { limits, mut stopped, .. } = self;
        let stream = Impatient { stream, patience: limits.idle_timeout, deadline: None };
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).max_buf_size(HEAD_BYTES_MAX);
        if !limits.idle_timeout.is_zero() {
            builder.header_read_timeout(limits.idle_timeout);
        }
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = async move { drop(stopped.wait_for(|stop| *stop).await) };
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = ended => {
                connection.as_mut().graceful_shutdown();
                timeout(END_GRACE, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = served {
            debug!(%peer, "a connection of the admin server broke: {error}");
        }
    }
}

/// Not a redirect: whatever the request held has gone through the network in the clear, and its sender
/// should notice.
fn https_only() -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        "HttpsOnly",
        "this port takes HTTPS only: use https:// in the address",
    )
}

/// A stream that breaks when the other end does not take anything for too long.
struct Impatient<S> {
    stream: S,
    /// No limit if zero.
    patience: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    /// Something could be written, or not: then the time runs.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() || self.patience.is_zero() {
            self.deadline = None;
            return written;
        }
        let patience = self.patience;
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end reads nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
