//! One HTTP port: connections come in, are served, and end.
//!
//! Limits, and what happens when they are reached:
//! - so many connections at once; the next ones wait in the system's queue until one ends;
//! - the head of a request must fit into a buffer and be there within the idle timeout, which is also how
//!   long a connection may do nothing between two requests; else it is closed;
//! - a client that does not take what it asked for, for as long, is closed.
//!
//! Bodies are limited by whoever reads them. When the server ends, requests under way get a moment to
//! finish; streams of events would go on for ever and are cut off.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tower_service::Service;
use tracing::{debug, warn};

/// The longest head of a request, and what is read of a body at once.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// What requests under way get when the server ends.
const END_GRACE: Duration = Duration::from_secs(2);
/// A pause when no connection can be accepted, for want of file descriptors most likely.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub connections_max: usize,
    pub idle_timeout: Duration,
}

/// Serves a port until it is stopped.
pub(super) async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: Limits,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let mut end = stopped.clone();
    let ended = async move { drop(end.wait_for(|stop| *stop).await) };
    let accept = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let connection =
                        serve_connection(stream, peer, routes.clone(), limits, stopped.clone());
                    tokio::spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!("the admin server cannot accept a connection: {error}");
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

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Router,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) {
    _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.clone().call(request)
    });
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

/// A stream that breaks when the other end does not take anything for too long.
struct Impatient {
    stream: TcpStream,
    /// No limit if zero.
    patience: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
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

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
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
