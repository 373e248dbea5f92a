//! One HTTP port, with or without TLS: accepts, serves and closes connections.
//!
//! Limits, and what happens when they are reached:
//! - connections, in total and for one network: see [`super::connections`];
//! - the head of a request must fit into a buffer; else it is rejected;
//! - the head of the first request must arrive within [`FIRST_HEAD_TIME_MAX`], and that of a later one within the
//!   idle timeout, which also limits the pause between two requests; else the connection is closed;
//! - a connection whose client reads too slowly is closed: see [`super::write_timeout_stream`].
//!
//! Bodies are limited where they are read. When the server stops, requests in progress get a moment to
//! finish; event streams, which never end, are cut off.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::header::{CONNECTION, RETRY_AFTER, STRICT_TRANSPORT_SECURITY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use herdsman_runtime::LimitedLog;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tower_service::Service;
use tracing::debug;

use super::connections::{ActiveRequest, Admission, Connection, Connections, Limits};
use super::handshake::{Opened, TlsPort};
use super::write_timeout_stream::WriteTimeoutStream;
use crate::error::ApiError;
use crate::health;
use crate::identity::CertificateSubject;

/// The longest head of a request, and most bytes of a body that are read at once.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// The time for requests in progress when the server stops.
const END_GRACE: Duration = Duration::from_secs(2);
/// The time to answer a request that arrived on a connection which was just chosen to be closed.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// How long a new connection may take to send its first request.
const FIRST_HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// A pause if no connection can be accepted, most likely for lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Browsers that have used HTTPS here must use it for a day. The same value as Apache's.
const HTTPS_FROM_NOW_ON: HeaderValue = HeaderValue::from_static("max-age=86400; includeSubDomains");

/// A port to be served.
pub(crate) struct Port {
    /// Its name in the log.
    pub name: &'static str,
    pub listener: TcpListener,
    pub routes: Router,
    pub limits: Limits,
    /// TLS; without it the port uses plain HTTP.
    pub tls: Option<TlsPort>,
}

/// Serves a port until it is stopped.
pub(crate) async fn serve(port: Port, stopped: watch::Receiver<bool>) -> io::Result<()> {
    let Port { name, listener, routes, limits, tls } = port;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let tls = tls.map(Arc::new);
    let connections = Connections::new(limits.connections_max);
    let (crowded, failed) = (LimitedLog::default(), LimitedLog::default());
    let mut end = stopped.clone();
    let ended = async move { drop(end.wait_for(|stop| *stop).await) };
    let accept = async {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    failed
                        .warn(format_args!("the {name} port cannot accept a connection: {error}"));
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            let connection = connections.admit(peer.ip());
            if connection.as_ref().is_none_or(|one| one.admission() == Admission::Reserved) {
                let max = limits.connections_max;
                crowded.warn(format_args!(
                    "connection from {peer} to the {name} port: the limit of busy connections is reached, in \
                     may have, {max} in all and a quarter of them for each address; only health \
                     checks are answered on this one"
                ));
            }
            let Some(connection) = connection else { continue };
            let (routes, stopped) = (routes.clone(), stopped.clone());
            let host =
                ConnectionServer { routes, idle_timeout: limits.idle_timeout, connection, stopped };
            tokio::spawn(host.serve_any(stream, peer, tls.clone()));
        }
    };
    tokio::select! {
        () = accept => {}
        () = ended => {}
    }
    drop(listener);
    _ = timeout(END_GRACE, connections.all_ended()).await;
    Ok(())
}

/// Serves one connection.
struct ConnectionServer {
    routes: Router,
    idle_timeout: Duration,
    connection: Arc<Connection>,
    stopped: watch::Receiver<bool>,
}

impl ConnectionServer {
    /// Serves a connection to its end.
    async fn serve_any(self, stream: TcpStream, peer: SocketAddr, tls: Option<Arc<TlsPort>>) {
        _ = stream.set_nodelay(true);
        let Some(tls) = tls else { return self.serve_plain(stream, peer).await };
        let mut stopped = self.stopped.clone();
        let opened = tokio::select! {
            opened = tls.open(stream, peer) => opened,
            () = self.connection.must_close() => return,
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
            Err(error) => tls.log_failure(peer, &error),
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

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        peer: SocketAddr,
        service: impl Answer,
    ) {
        let ConnectionServer { idle_timeout, connection: counted, mut stopped, .. } = self;
        let stream = WriteTimeoutStream::new(stream, idle_timeout, Arc::clone(&counted));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).max_buf_size(HEAD_BYTES_MAX);
        builder.keep_alive(counted.admission() == Admission::Regular);
        // Without a timeout hyper would use its own.
        builder.header_read_timeout((!idle_timeout.is_zero()).then_some(idle_timeout));
        let service = counting(service, Arc::clone(&counted));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = async move { drop(stopped.wait_for(|stop| *stop).await) };
        // The connection first: a request that arrived too late is rejected before the connection is closed.
        let served = tokio::select! {
            biased;
            served = connection.as_mut() => served,
            () = counted.must_close() => {
                debug!(%peer, "closed an idle connection of the admin server to make room");
                // No request is in progress, but one may just have arrived too late.
                let grace = if counted.has_refused() { CLOSE_GRACE } else { Duration::ZERO };
                timeout(grace, connection).await.unwrap_or(Ok(()))
            }
            () = first_head_is_late(&counted) => {
                debug!(%peer, "closed a connection of the admin server: no request in time");
                Ok(())
            }
            () = ended => {
                connection.as_mut().graceful_shutdown();
                timeout(END_GRACE, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = served {
            debug!(%peer, "a connection of the admin server failed: {error}");
        }
    }
}

/// Waits until the time for a connection's first request is over.
async fn first_head_is_late(connection: &Connection) {
    tokio::time::sleep(FIRST_HEAD_TIME_MAX).await;
    if connection.has_asked() {
        std::future::pending::<()>().await;
    }
}

/// Answers requests.
trait Answer:
    hyper::service::Service<
        hyper::Request<Incoming>,
        Response = Response,
        Error = Infallible,
        Future: Send,
    >
{
}

impl<S> Answer for S where
    S: hyper::service::Service<
            hyper::Request<Incoming>,
            Response = Response,
            Error = Infallible,
            Future: Send,
        >
{
}

/// Counts requests as in progress until their responses are written, and rejects those that are not admitted. Health
/// checks are answered anyway: a rejection would say that the server is unhealthy. They change nothing, so it does no
/// harm if the connection is closed before the response is written.
fn counting(service: impl Answer, connection: Arc<Connection>) -> impl Answer {
    service_fn(move |request: hyper::Request<Incoming>| {
        let is_check = health::is_check(request.uri().path());
        let is_regular = connection.admission() == Admission::Regular;
        let request_guard = connection.begin_request();
        let is_answered = is_check || (is_regular && request_guard.is_some());
        let answering = is_answered.then(|| service.call(request));
        async move {
            let response = match (answering, &request_guard) {
                (Some(answering), Some(_)) => answering.await?,
                (Some(answering), None) => closing(answering.await?),
                (None, Some(_)) => too_many_connections(),
                (None, None) => closed_for_another(),
            };
            Ok(response.map(|body| Body::new(CountedBody { body, _request: request_guard })))
        }
    })
}

/// The body of a response, whose request is in progress until this is dropped.
struct CountedBody {
    body: Body,
    _request: Option<ActiveRequest>,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn too_many_connections() -> Response {
    let error = ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "TooManyConnections",
        "this port has reached its limit of connections, in total or for this address, and all are \
         in use; only health checks are answered on this connection; try again later",
    );
    ([(RETRY_AFTER, "1")], error).into_response()
}

/// The connection was chosen to be closed just before the request came.
fn closed_for_another() -> Response {
    let error = ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "ConnectionClosing",
        "this idle connection is being closed because the port needs it for another client; nothing was done; \
         send the request again on a new connection",
    );
    closing(error.into_response())
}

fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// An error instead of a redirect: the request has already crossed the network unencrypted, and its sender
/// should notice.
fn https_only() -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        "HttpsOnly",
        "this port accepts only HTTPS: use https:// in the address",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    fn host(stopped: &watch::Sender<bool>) -> ConnectionServer {
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        ConnectionServer {
            routes: Router::new(),
            idle_timeout: Duration::ZERO,
            connection: Connections::new(1).admit(peer.ip()).unwrap(),
            stopped: stopped.subscribe(),
        }
    }

    /// The response to a connection that sends this and then waits, and how long the connection was open.
    async fn served(sent: &'static [u8]) -> (Vec<u8>, Duration) {
        let (stop, (mut near, far)) = (watch::Sender::new(false), duplex(1000));
        let ok = service_fn(|_: hyper::Request<Incoming>| async { Ok("ok".into_response()) });
        let start = Instant::now();
        let reads = async {
            near.write_all(sent).await.unwrap();
            let mut response = Vec::new();
            let end = near.read_to_end(&mut response);
            // A connection with one request is not closed by the server.
            _ = timeout(FIRST_HEAD_TIME_MAX * 100, end).await;
            (response, start.elapsed())
        };
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        tokio::select! {
            response = reads => response,
            () = async { host(&stop).serve(far, peer, ok).await; std::future::pending().await } => unreachable!(),
        }
    }

    /// The handler used to run, and was dropped half-way when the connection was closed.
    #[tokio::test]
    async fn a_request_on_a_connection_that_is_being_closed_is_not_started() {
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        for _ in 0..50 {
            let (stop, (mut near, far)) = (watch::Sender::new(false), duplex(1000));
            let calls = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&calls);
            let service = service_fn(move |_: hyper::Request<Incoming>| {
                counted.fetch_add(1, Ordering::Relaxed);
                async { Ok("ok".into_response()) }
            });
            let host = host(&stop);
            let connections = Arc::clone(host.connection.table());
            let serving = tokio::spawn(host.serve(far, peer, service));
            near.write_all(b"PUT / HTTP/1.1\r\n").await.unwrap();
            // It waits for the rest of the head.
            tokio::task::yield_now().await;
            let _next = connections.admit(peer.ip()).unwrap();
            near.write_all(b"Host: x\r\n\r\n").await.unwrap();
            serving.await.unwrap();
            let mut response = String::new();
            near.read_to_string(&mut response).await.unwrap();
            assert_eq!(calls.load(Ordering::Relaxed), 0);
            assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
            assert!(
                response.contains("connection: close") && response.contains("nothing was done")
            );
        }
    }

    /// The response used to be 503, which says that the server is unhealthy.
    #[tokio::test]
    async fn a_health_check_on_a_connection_that_is_being_closed_is_answered() {
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        let (stop, (mut near, far)) = (watch::Sender::new(false), duplex(1000));
        let service = service_fn(|_: hyper::Request<Incoming>| async {
            // The response takes some time.
            tokio::task::yield_now().await;
            Ok("well".into_response())
        });
        let host = host(&stop);
        let connections = Arc::clone(host.connection.table());
        let serving = tokio::spawn(host.serve(far, peer, service));
        near.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
        tokio::task::yield_now().await;
        let _next = connections.admit(peer.ip()).unwrap();
        near.write_all(b"Host: x\r\n\r\n").await.unwrap();
        serving.await.unwrap();
        let mut response = String::new();
        near.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("well"), "{response}");
        assert!(response.contains("connection: close"), "{response}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_must_come_in_time() {
        assert_eq!(served(b"").await, (Vec::new(), FIRST_HEAD_TIME_MAX));
        let (response, open) = served(b"GET / HTTP/1.1\r\nHost: ").await;
        assert_eq!((response.as_slice(), open), (&b""[..], FIRST_HEAD_TIME_MAX));
        let (response, open) = served(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(response.ends_with(b"ok") && open == FIRST_HEAD_TIME_MAX * 100, "{open:?}");
    }
}
