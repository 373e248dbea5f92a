//! Operators' doors over HTTP: Apache's admin commands, metrics, REST for znodes, and the console.
//!
//! In: a running server's [`ServerHandle`](herdsman_server::ServerHandle) and [`AdminSettings`]. Out: one
//! port until [`Admin`] is dropped; metrics may have [`MetricsPorts`] of their own. Nothing is open here that
//! the client port would refuse: reads are judged by the tree with the ids that a request's credentials
//! prove, writes go through a session of the server's own client port, in the name of the address that
//! asked.
//!
//! The rooms: [`commands`] is Apache's `AdminServer`, `api` is REST for znodes, `views` shows what
//! the server knows (sessions, ensemble, history, recipes), `console` serves the browser's files.

mod address_block;
mod admin;
pub mod api;
pub mod commands;
pub mod console;
pub mod error;
pub mod guard;
mod health;
pub mod identity;
mod large_answers;
mod look_thread;
mod masks;
mod metrics;
mod metrics_ports;
pub mod settings;
mod stand_ins;
mod state;
pub mod views;

pub use admin::{Admin, AdminError};
pub use identity::Identity;
pub use metrics_ports::MetricsPorts;
pub use settings::{AdminSettings, MetricsSettings};
pub use state::AdminState;
