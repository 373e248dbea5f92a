//! The ports that serve only `/metrics`: `metricsProvider.httpPort` and `metricsProvider.httpsPort`.
//!
//! In: a server and [`MetricsSettings`]. Out: open ports until [`MetricsPorts`] is dropped. They have a separate
//! thread and do not depend on the admin server, so they work when it is switched off or its port is in use.
//! They do not depend on each other either: a port that cannot be opened is only logged. Apache:
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
use crate::admin::handshake::TlsPort;
use crate::admin::listen;
use crate::admin::port::Port;
use crate::admin::serving::Serving;
use crate::large_answers;
use crate::metrics;
use crate::settings::{MetricsSettings, PlainHttp, PortTls, SecureMetrics};

/// Why a port for metrics cannot be opened.
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
    /// Fails if they cannot be used.
    pub fn check(settings: MetricsSettings) -> Result<(), TlsError> {
        settings.secure.map(|secure| TlsPort::load(https_only(secure.tls))).transpose()?;
        Ok(())
    }

    /// Opens the configured ports. Logs their addresses, and why a port could not be opened.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
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

    /// The address of metrics by HTTP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The address of metrics by HTTPS.
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
            log_failure(address, &error.into(), "metricsProvider.httpPort");
            None
        }
    }
}

fn open_secure(metrics: SecureMetrics) -> Option<(TcpListener, SocketAddr, TlsPort)> {
    let SecureMetrics { address, tls } = metrics;
    let open =
        || -> Result<_, PortError> { Ok((TlsPort::load(https_only(tls))?, listen(address)?)) };
    match open() {
        Ok((tls, (listener, address))) => {
            info!("metrics on https://{address}/metrics");
            Some((listener, address, tls))
        }
        Err(error) => {
            log_failure(address, &error, "metricsProvider.httpsPort");
            None
        }
    }
}

fn log_failure(address: SocketAddr, error: &PortError, setting: &str) {
    let remedy = match error {
        PortError::Io(_) => format!("free the port or set another one in {setting}"),
        _ => "correct the key store and trust store of metricsProvider".to_owned(),
    };
    warn!("cannot serve metrics on {address}: {error}; {remedy}");
}

fn https_only(settings: TlsSettings) -> PortTls {
    PortTls { settings, plain: PlainHttp::Refused }
}

fn routes(server: ServerHandle) -> io::Result<Router> {
    let elsewhere = || async { (StatusCode::NOT_FOUND, "this port serves only /metrics\n") };
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

    /// Slow readers used to keep any number of responses in memory.
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
        // Each has 2 MB.
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
