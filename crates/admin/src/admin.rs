//! The admin server: one thread with its own runtime, so that expensive requests of operators do not slow
//! down clients. Work that blocks (files, locks, large responses) runs on the runtime's blocking threads.
//!
//! In: a server and [`AdminSettings`]. Out: an open port until [`Admin`] is dropped. `port` serves
//! connections, `connections` limits their number, `serving` has the thread. The metrics ports are in
//! `metrics_ports`, because they must not depend on this one. Apache: `JettyAdminServer`.

pub(crate) mod connections;
pub(crate) mod handshake;
pub(crate) mod port;
pub(crate) mod serving;
mod write_timeout_stream;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use herdsman_server::ServerHandle;
use herdsman_tls::TlsError;

use connections::Limits;
use handshake::TlsPort;
use port::Port;
use serving::Serving;

use crate::guard::guard;
use crate::large_answers;
use crate::settings::{AdminSettings, PlainHttp, PortTls};
use crate::state::AdminState;
use crate::{api, commands, console, health, metrics, views};

/// Why the admin server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// A port cannot be opened.
    #[error(
        "the admin server cannot listen on {address}: {source}; see admin.serverPort and admin.enableServer"
    )]
    Bind {
        /// Its address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Its TLS files cannot be used.
    #[error("the admin server cannot use TLS: {0}")]
    Tls(#[from] TlsError),
    /// Its thread cannot be started.
    #[error("the admin server cannot start: {0}")]
    Io(#[from] io::Error),
}

/// A running admin server. Dropping it ends it, within seconds.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    is_https_only: bool,
    _serving: Serving,
}

impl Admin {
    /// Reads the keys and certificates that [`start`](Admin::start) would read.
    ///
    /// # Errors
    /// Fails if they cannot be used.
    pub fn check(settings: AdminSettings) -> Result<(), AdminError> {
        settings.tls.map(TlsPort::load).transpose()?;
        Ok(())
    }

    /// Opens the port and serves it.
    ///
    /// # Errors
    /// Fails if the port cannot be opened, or its TLS files cannot be used.
    pub fn start(server: ServerHandle, settings: AdminSettings) -> Result<Self, AdminError> {
        let is_https_only = matches!(settings.tls, Some(PortTls { plain: PlainHttp::Refused, .. }));
        let tls = settings.tls.clone().map(TlsPort::load).transpose()?;
        let (listener, address) = listen(settings.address)
            .map_err(|source| AdminError::Bind { address: settings.address, source })?;
        let limits = Limits {
            connections_max: settings.connections_max.max(1),
            idle_timeout: settings.idle_timeout,
        };
        let state = AdminState::new(server, settings);
        let routes = routes(&state)?;
        let port = Port { name: "admin", listener, routes, limits, tls };
        let serving = Serving::start("admin", vec![port], views::sample(state))?;
        Ok(Admin { address, is_https_only, _serving: serving })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for a browser.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.is_https_only { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

/// Binds a port. Returns its address too, because port 0 stands for any free port.
pub(crate) fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn routes(state: &AdminState) -> io::Result<Router> {
    let counted = |routes: Router<AdminState>| {
        routes.layer(from_fn_with_state(Arc::clone(&state.limits), large_answers::count))
    };
    let routes = Router::new()
        .merge(counted(commands::routes(state)))
        .merge(health::routes(state.server.clone())?)
        .merge(counted(metrics::routes(state.server.clone())?))
        .nest("/api/v1", counted(api::routes().merge(views::routes())))
        .merge(console::routes())
        .layer(from_fn_with_state(state.clone(), guard))
        .with_state(state.clone());
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::ConnectInfo;
    use axum::http::Request;
    use herdsman_client::{Client, Op};
    use herdsman_testing::TestServer;
    use tower_service::Service;

    use super::*;

    /// They grow with the quotas that users set, and each of any number of slow readers used to keep a copy.
    #[tokio::test]
    async fn large_metrics_are_counted() {
        let server = TestServer::start();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let long = "n".repeat(large_answers::LARGE_BYTES / 4);
        let quota = format!("/zookeeper/quota/{long}");
        let limits = Op::create(&format!("{quota}/zookeeper_limits"), "count=5,bytes=-1");
        let stats = Op::create(&format!("{quota}/zookeeper_stats"), "count=1,bytes=0");
        let namespace = Op::create(&format!("/{long}"), "");
        let all = [namespace, Op::create(&quota, ""), limits, stats];
        client.transaction(all).await.unwrap();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let mut routes = routes(&state).unwrap();
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut ask = async || {
            let mut request = Request::get("/metrics").body(Body::empty()).unwrap();
            request.extensions_mut().insert(ConnectInfo(peer));
            routes.call(request).await.unwrap()
        };
        let unread = state.limits.answer(peer.ip(), usize::MAX).unwrap();
        assert_eq!(ask().await.status(), 429);
        drop(unread);
        let answer = ask().await;
        assert_eq!(answer.status(), 200);
        assert!(
            state.limits.answer(peer.ip(), usize::MAX).is_err(),
            "the response is still unread"
        );
    }
}
