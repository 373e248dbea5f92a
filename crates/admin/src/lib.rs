//! The HTTP interface for operators: Apache's admin commands, metrics, REST for znodes, and the console.
//!
//! In: a running server's [`ServerHandle`](herdsman_server::ServerHandle) and [`AdminSettings`]. Out: one
//! port until [`Admin`] is dropped; metrics may have separate [`MetricsPorts`]. Nothing is allowed here that
//! the client port would reject: reads are checked by the tree with the ids that a request's credentials
//! prove, writes go through a session of the server's own client port, on behalf of the caller's address.
//!
//! The modules: [`commands`] is Apache's `AdminServer`, `api` is REST for znodes, `views` shows the
//! server's state (sessions, ensemble, history, recipes), `console` serves the browser's files.

mod address_block;
mod admin;
pub mod api;
mod caller_sessions;
pub mod commands;
pub mod console;
pub mod error;
pub mod guard;
mod health;
pub mod identity;
mod large_answers;
mod masks;
mod metrics;
mod metrics_ports;
pub mod settings;
mod shared_result_thread;
mod state;
pub mod views;

pub use admin::{Admin, AdminError};
pub use identity::Identity;
pub use metrics_ports::MetricsPorts;
pub use settings::{AdminSettings, MetricsSettings};
pub use state::AdminState;
