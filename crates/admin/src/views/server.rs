//! `GET /api/v1/server`: the state of this server.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use herdsman_config::Mode;
use herdsman_node::StorageState;
use herdsman_server::{ServerHandle, ServesAs};
use serde::Serialize;

use crate::error::ApiError;
use crate::state::AdminState;

/// The state of a server.
#[derive(Clone, Debug, Serialize)]
pub struct ServerView {
    version: String,
    role: &'static str,
    server_id: Option<i64>,
    serving: bool,
    zxid: String,
    epoch: Option<u32>,
    uptime_ms: u64,
    znodes: usize,
    data_bytes: u64,
    watches: usize,
    ephemerals: usize,
    sessions: usize,
    connections: usize,
    outstanding: u64,
    client_address: Option<String>,
    data_dir_bytes: u64,
    log_dir_bytes: u64,
    storage: &'static str,
}

/// Returns the state of this server.
///
/// # Errors
/// None but those of the process itself.
pub async fn server(
    State(state): State<AdminState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Result<Json<ServerView>, ApiError> {
    let permit = state.limits.blocking(peer.ip())?;
    let server = state.server;
    // The files of the server are looked at.
    let look = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        ServerView::of(&server)
    });
    look.await.map(Json).map_err(|_| {
        let message = "the server could not be looked at";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Failed", message)
    })
}

/// The role in Apache's words, and one more for a server without a leader.
pub fn role_name(role: Option<ServesAs>) -> &'static str {
    match role {
        None => "looking",
        Some(ServesAs::Standalone) => "standalone",
        Some(ServesAs::Leader) => "leader",
        Some(ServesAs::Follower) => "follower",
        Some(ServesAs::Observer) => "observer",
        Some(ServesAs::ReadOnly) => "read-only",
    }
}

impl ServerView {
    fn of(server: &ServerHandle) -> Self {
        let core = server.core();
        let (storage, epoch, local_sessions) = core.with_node(|node| {
            let epoch = node.zab().map(|zab| zab.epochs().current);
            (node.storage(), epoch, node.sessions().local_len())
        });
        let sizes = server.directory_sizes();
        let tree = core.tree();
        ServerView {
            version: server.version(),
            role: role_name(server.serves_as()),
            server_id: my_id(server),
            serving: server.is_serving(),
            zxid: tree.last_zxid().to_string(),
            epoch,
            uptime_ms: core.clock.monotonic_ms(),
            znodes: tree.node_count(),
            data_bytes: tree.data_size(),
            watches: tree.watches().count(),
            ephemerals: tree.ephemeral_count(),
            sessions: tree.session_count() + local_sessions,
            connections: core.clients.len(),
            outstanding: core.stats.outstanding.load(Ordering::Relaxed),
            client_address: client_address(server),
            data_dir_bytes: sizes.data_bytes,
            log_dir_bytes: sizes.log_bytes,
            storage: match storage {
                StorageState::Writable => "ok",
                StorageState::Full => "full",
                StorageState::Failed => "failed",
            },
        }
    }
}

/// The number of a member of an ensemble.
pub fn my_id(server: &ServerHandle) -> Option<i64> {
    match server.config().mode {
        Mode::Standalone => None,
        Mode::Ensemble { my_id, .. } => Some(my_id.0),
    }
}

/// Where clients connect.
pub fn client_address(server: &ServerHandle) -> Option<String> {
    let listen = &server.config().listen;
    listen.client.as_ref().or(listen.secure_client.as_ref()).map(ToString::to_string)
}
