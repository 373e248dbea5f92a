//! The running admin server: one thread with its own runtime, so that an operator's long questions
//! take nothing from clients' threads. What blocks (files, locks, large answers) goes to threads that the
//! runtime keeps for that.
//!
//! In: a server and [`AdminSettings`]. Out: open ports until [`Admin`] is dropped. How connections are
//! served, and their limits, is in `port`. Apache: `JettyAdminServer`.

mod handshake;
mod port;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use futures_util::future::try_join_all;
use herdsman_server::ServerHandle;
use herdsman_tls::{TlsError, TlsSettings};
use tokio::sync::watch;
use tracing::{error, info, warn};

use handshake::TlsDoor;
use port::Port;

use crate::guard::guard;
use crate::settings::{AdminSettings, PlainHttp, PortTls, SecureMetrics};
use crate::state::AdminState;
use crate::{api, commands, console, health, metrics, views};

/// Threads for what blocks. More questions wait for one of them.
const BLOCKING_THREADS_MAX: usize = 16;
/// How long the end waits for a thread that blocks.
const BLOCKING_GRACE: Duration = Duration::from_secs(1);

/// Why the admin server does not run.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// A port cannot be opened.
    #[error(
        "the admin server cannot listen on {address}: {source}; see admin.serverPort and admin.enableServer"
    )]
    Bind {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The files of its TLS cannot be used.
    #[error("the admin server cannot speak TLS: {0}")]
    Tls(#[from] TlsError),
    /// Its thread cannot be started.
    #[error("the admin server cannot start: {0}")]
    Io(#[from] io::Error),
}

/// A running admin server. Dropping it ends it, within seconds.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    secure_metrics_address: Option<SocketAddr>,
    is_https_only: bool,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Reads the keys and certificates that [`start`](Admin::start) would read.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn check(settings: AdminSettings) -> Result<(), AdminError> {
        let metrics = settings.secure_metrics.map(|metrics| https_only(metrics.tls));
        for tls in settings.tls.into_iter().chain(metrics) {
            TlsDoor::load(tls)?;
        }
        Ok(())
    }

    /// Opens the port and serves it. If a port for metrics cannot be opened, the log says so and the
    /// rest runs without it.
    ///
    /// # Errors
    /// The port cannot be opened, or its TLS files cannot be used.
    pub fn start(server: ServerHandle, settings: AdminSettings) -> Result<Self, AdminError> {
        let is_https_only = matches!(settings.tls, Some(PortTls { plain: PlainHttp::Refused, .. }));
        let tls = settings.tls.clone().map(TlsDoor::load).transpose()?;
        let (listener, address) = listen(settings.address)?;
        let metrics = settings.metrics_address.and_then(open_metrics_port);
        let secure_metrics = settings.secure_metrics.clone().and_then(open_secure_metrics_port);
        let metrics_address = metrics.as_ref().map(|(_, address)| *address);
        let secure_metrics_address = secure_metrics.as_ref().map(|(_, address, _)| *address);
        let (stop, stopped) = watch::channel(false);
        let limits = port::Limits {
            connections_max: settings.connections_max.max(1),
            idle_timeout: settings.idle_timeout,
        };
        let state = AdminState::new(server, settings);
        let work = move || {
            let mut ports = vec![Port { listener, routes: routes(&state), limits, tls }];
            ports.extend(metrics.map(|(listener, _)| Port {
                listener,
                routes: metrics_routes(&state),
                limits,
                tls: None,
            }));
            ports.extend(secure_metrics.map(|(listener, _, tls)| Port {
                listener,
                routes: metrics_routes(&state),
                limits,
                tls: Some(tls),
            }));
            let serve = serve(ports, &state, stopped);
            if let Err(error) = run(serve) {
                error!("the admin server has ended: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(work)?;
        Ok(Admin {
            address,
            metrics_address,
            secure_metrics_address,
            is_https_only,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to type into a browser.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.is_https_only { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Where metrics have a port of their own with HTTPS.
    #[must_use]
    pub fn secure_metrics_address(&self) -> Option<SocketAddr> {
        self.secure_metrics_address
    }

    /// Where metrics have a port of their own.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), AdminError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    bound.map_err(|source| AdminError::Bind { address, source })
}

fn open_metrics_port(address: SocketAddr) -> Option<(TcpListener, SocketAddr)> {
    match listen(address) {
        Ok((listener, address)) => {
            info!("metrics on http://{address}/metrics");
            Some((listener, address))
        }
        Err(error) => {
            no_metrics_port(address, &error, "metricsProvider.httpPort");
            None
        }
    }
}

fn open_secure_metrics_port(metrics: SecureMetrics) -> Option<(TcpListener, SocketAddr, TlsDoor)> {
    let SecureMetrics { address, tls } = metrics;
    let tls = TlsDoor::load(https_only(tls));
    let opened = tls.map_err(AdminError::from).and_then(|tls| Ok((tls, listen(address)?)));
    match opened {
        Ok((tls, (listener, address))) => {
            info!("metrics on https://{address}/metrics");
            Some((listener, address, tls))
        }
        Err(error) => {
            no_metrics_port(address, &error, "metricsProvider.httpsPort");
            None
        }
    }
}

fn https_only(settings: TlsSettings) -> PortTls {
    PortTls { settings, plain: PlainHttp::Refused }
}

fn no_metrics_port(address: SocketAddr, error: &AdminError, setting: &str) {
    let why: &dyn std::fmt::Display = match error {
        AdminError::Bind { source, .. } | AdminError::Io(source) => source,
        AdminError::Tls(source) => source,
    };
    warn!(
        "no port for metrics on {address}: {why}; see {setting}. They are at /metrics of the admin port"
    );
}

fn run(serve: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    let served = runtime.block_on(serve);
    runtime.shutdown_timeout(BLOCKING_GRACE);
    served
}

async fn serve(
    ports: Vec<Port>,
    state: &AdminState,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    // It ends with the runtime.
    tokio::spawn(views::sample(state.clone()));
    let serving = ports.into_iter().map(|port| port::serve(port, stopped.clone()));
    try_join_all(serving).await.map(|_| ())
}

fn routes(state: &AdminState) -> Router {
    Router::new()
        .merge(commands::routes(state))
        .merge(health::routes())
        .merge(metrics::routes())
        .nest("/api/v1", api::routes().merge(views::routes()))
        .merge(console::routes())
        .layer(from_fn_with_state(state.clone(), guard))
        .with_state(state.clone())
}

fn metrics_routes(state: &AdminState) -> Router {
    let elsewhere = || async { (StatusCode::NOT_FOUND, "only /metrics is here\n") };
    metrics::routes().fallback(elsewhere).with_state(state.clone())
}
