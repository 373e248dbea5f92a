//! Views of the server's state: itself, its sessions, its ensemble, the last half hour, and the recipes
//! that clients use.
//!
//! In: a running server, and the caller's read permissions. Out: JSON. Nothing is changed here, except for
//! the log level. Apache has parts of this as text ([`commands`](crate::commands)), but not recipes and
//! history.

pub mod ensemble;
pub mod history;
pub mod log_level;
pub mod memory;
pub mod recipes;
pub mod rendered;
pub mod server;
pub mod sessions;

use axum::Router;
use axum::routing::get;

use crate::state::AdminState;

pub use history::sample;
pub use memory::ViewCaches;

/// The routes of the views.
pub fn routes() -> Router<AdminState> {
    Router::new()
        .route("/server", get(server::server))
        .route("/sessions", get(sessions::sessions))
        .route("/sessions/{id}", get(sessions::session))
        .route("/ensemble", get(ensemble::ensemble))
        .route("/history", get(history::history))
        .route("/recipes", get(recipes::recipes))
        .route("/log-level", get(log_level::show).put(log_level::change))
}
