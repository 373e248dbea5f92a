//! The ports on which only `/metrics` is served: `metricsProvider.httpPort` and `metricsProvider.httpsPort`.
//!
//! In: a server and [`MetricsSettings`]. Out: open ports until [`MetricsPorts`] is dropped. They have a thread
//! of their own and know nothing of the admin server, so they are there when it is switched off or its port is
//! taken. Each port stands for itself, too: one that cannot be opened is a line in the log. Apache:
//! `PrometheusMetricsProvider`.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use herdsman_server::ServerHandle;
use herdsman_tls::{TlsError, TlsSettings};
use tracing::{info, warn};

use crate::admin::connections::Limits;
use crate::admin::handshake::TlsDoor;
use crate::admin::listen;
use crate::admin::port::Port;
use crate::admin::serving::Serving;
use crate::large_answers;
use crate::metrics;
use crate::settings::{MetricsSettings, PlainHttp, PortTls, SecureMetrics};

/// Why a port for metrics is not there.
#[derive(Debug, thiserror::Error)]
enum PortError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Open ports for metrics. Dropping it closes them, within seconds.
#[derive(Debug)]
pub struct MetricsPorts {
    address: Option<SocketAddr>,
    secure_address: Option<SocketAddr>,
    _serving: Option<Serving>,
}

impl MetricsPorts {
    /// Reads the keys and certificates that [`start`](MetricsPorts::start) would read.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn check(settings: MetricsSettings) -> Result<(), TlsError> {
        settings.secure.map(|secure| TlsDoor::load(https_only(secure.tls))).transpose()?;
        Ok(())
    }

    /// Opens the ports that are configured. The log says where they are, and why one is not there.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(server: &ServerHandle, settings: MetricsSettings) -> io::Result<Self> {
        let limits = Limits {
            connections_max: settings.connections_max.max(1),
            idle_timeout: settings.idle_timeout,
        };
        let plain = settings.address.and_then(open_plain);
        let secure = settings.secure.and_then(open_secure);
        let address = plain.as_ref().map(|(_, address)| *address);
        let secure_address = secure.as_ref().map(|(_, address, _)| *address);
        let plain = plain.map(|(listener, _)| (listener, None));
        let secure = secure.map(|(listener, _, tls)| (listener, Some(tls)));
        let routes = routes(server.clone())?;
        let port = |(listener, tls)| Port {
            name: "metrics",
            listener,
            routes: routes.clone(),
            limits,
            tls,
        };
        let ports: Vec<_> = plain.into_iter().chain(secure).map(port).collect();
        let serving = (!ports.is_empty())
            .then(|| Serving::start("metrics", ports, std::future::pending()))
            .transpose()?;
        Ok(MetricsPorts { address, secure_address, _serving: serving })
    }

    /// Where metrics are by HTTP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where metrics are by HTTPS.
    #[must_use]
    pub fn secure_address(&self) -> Option<SocketAddr> {
        self.secure_address
    }
}

fn open_plain(address: SocketAddr) -> Option<(TcpListener, SocketAddr)> {
    match listen(address) {
        Ok((listener, address)) => {
            info!("metrics on http://{address}/metrics");
            Some((listener, address))
        }
        Err(error) => {
            not_there(address, &error.into(), "metricsProvider.httpPort");
            None
        }
    }
}

fn open_secure(metrics: SecureMetrics) -> Option<(TcpListener, SocketAddr, TlsDoor)> {
    let SecureMetrics { address, tls } = metrics;
    let open =
        || -> Result<_, PortError> { Ok((TlsDoor::load(https_only(tls))?, listen(address)?)) };
    match open() {
        Ok((tls, (listener, address))) => {
            info!("metrics on https://{address}/metrics");
            Some((listener, address, tls))
        }
        Err(error) => {
            not_there(address, &error, "metricsProvider.httpsPort");
            None
        }
    }
}

fn not_there(address: SocketAddr, error: &PortError, setting: &str) {
    let remedy = match error {
        PortError::Io(_) => format!("free the port or choose another one in {setting}"),
        _ => "correct the key store and trust store of metricsProvider".to_owned(),
    };
    warn!("cannot serve metrics on {address}: {error}; {remedy}");
}

fn https_only(settings: TlsSettings) -> PortTls {
    PortTls { settings, plain: PlainHttp::Refused }
}

fn routes(server: ServerHandle) -> io::Result<Router> {
    let elsewhere = || async { (StatusCode::NOT_FOUND, "only /metrics is here\n") };
    let count = from_fn_with_state(Arc::default(), large_answers::count);
    Ok(metrics::routes(server)?.fallback(elsewhere).layer(count))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::ConnectInfo;
    use axum::http::Request;
    use herdsman_client::Client;
    use herdsman_testing::TestServer;
    use tower_service::Service;

    use super::*;

    /// Slow readers used to keep any number of them in memory.
    #[tokio::test]
    async fn large_metrics_that_wait_to_be_read_are_limited() {
        let server = TestServer::start();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let long = "n".repeat(500_000);
        let quota = format!("/zookeeper/quota/{long}");
        client.create(&format!("/{long}"), "").await.unwrap();
        client.create(&quota, "").await.unwrap();
        for (name, data) in [("limits", "count=5,bytes=-1"), ("stats", "count=1,bytes=0")] {
            client.create(&format!("{quota}/zookeeper_{name}"), data).await.unwrap();
        }
        let mut routes = routes(server.handle()).unwrap();
        let mut unread = Vec::new();
        // Each is of 2 MB.
        for _ in 0..10 {
            let mut request = Request::get("/metrics").body(Body::empty()).unwrap();
            let peer = SocketAddr::from(([10, 0, 0, 1], 1));
            request.extensions_mut().insert(ConnectInfo(peer));
            unread.push(routes.call(request).await.unwrap());
        }
        let sent = unread.iter().filter(|answer| answer.status() == StatusCode::OK).count();
        assert_eq!(sent, 8);
        assert_eq!(unread[9].status(), StatusCode::TOO_MANY_REQUESTS);
    }
}
