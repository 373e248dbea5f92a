//! What the server knows, to be looked at: itself, its sessions, its ensemble, the last half hour, and the
//! recipes that people use it for.
//!
//! In: a running server, and what an asker may read. Out: JSON. Nothing is changed here, except for the
//! level of the log. Apache has parts of this as text ([`commands`](crate::commands)); recipes and the
//! past it does not have.

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
pub use memory::Memory;

/// The routes of this room.
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
