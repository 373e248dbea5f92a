//! The running admin server: one thread with its own runtime, so that an operator's long questions
//! take nothing from clients' threads. What blocks (files, locks, large answers) goes to threads that the
//! runtime keeps for that.
//!
//! In: a server and [`AdminSettings`]. Out: open ports until [`Admin`] is dropped. How connections are
//! served, and their limits, is in `port`. Apache: `JettyAdminServer`.

mod port;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use herdsman_server::ServerHandle;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::guard::guard;
use crate::settings::AdminSettings;
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
    /// Its thread cannot be started.
    #[error("the admin server cannot start: {0}")]
    Io(#[from] io::Error),
}

/// A running admin server. Dropping it ends it, within seconds.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Opens the port and serves it. If the port for metrics cannot be opened, the log says so and the
    /// rest runs without it.
    ///
    /// # Errors
    /// The port cannot be opened.
    pub fn start(server: ServerHandle, settings: AdminSettings) -> Result<Self, AdminError> {
        let (listener, address) = listen(settings.address)?;
        let metrics_port = settings.metrics_address.and_then(open_metrics_port);
        let metrics_address = metrics_port.as_ref().map(|(_, address)| *address);
        let (stop, stopped) = watch::channel(false);
        let limits = port::Limits {
            connections_max: settings.connections_max.max(1),
            idle_timeout: settings.idle_timeout,
        };
        let state = AdminState::new(server, settings);
        let work = move || {
            let serve = serve(
                listener,
                metrics_port.map(|(listener, _)| listener),
                &state,
                limits,
                stopped,
            );
            if let Err(error) = run(serve) {
                error!("the admin server has ended: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(work)?;
        Ok(Admin { address, metrics_address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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
        Err(AdminError::Bind { source, .. } | AdminError::Io(source)) => {
            warn!(
                "no port for metrics on {address}: {source}; see metricsProvider.httpPort. They are at /metrics of the admin port"
            );
            None
        }
    }
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
    listener: TcpListener,
    metrics: Option<TcpListener>,
    state: &AdminState,
    limits: port::Limits,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let metrics = async {
        match metrics {
            None => Ok(()),
            Some(metrics) => {
                port::serve(metrics, metrics_routes(state), limits, stopped.clone()).await
            }
        }
    };
    // It ends with the runtime.
    tokio::spawn(views::sample(state.clone()));
    let all = port::serve(listener, routes(state), limits, stopped.clone());
    tokio::try_join!(all, metrics).map(|_| ())
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
