//! The server around the core: sockets, threads, timers, configuration and operators' doors.
//!
//! [`Server::start`] recovers a data directory and serves clients until it is stopped. Threads: one
//! accepts connections, a few open those with TLS, one per core serves them, one makes txns durable, one
//! ticks, one takes snapshots. They meet in [`core::Core`].

pub mod audit;
mod bells;
mod certificates;
mod client_sockets;
pub mod clients;
pub mod clock;
pub mod commit;
mod connection;
pub mod core;
mod descriptors;
pub mod disk_keeper;
pub mod error;
pub mod handle;
mod handshakes;
pub mod intake;
mod io_threads;
mod limit_reports;
mod line_limit;
pub mod listener;
pub mod log_level;
pub mod logins;
pub mod metrics;
pub mod outbox;
pub mod peers;
pub mod quorum;
mod reports;
mod request_bytes;
pub mod role_log;
pub mod server;
pub mod session_passwords;
mod settings;
mod slow_requests;
pub mod snapshots;
mod spare;
mod spawn;
mod startup;
pub mod stats;
pub mod throttle;
mod ticker;
pub mod unread_bytes;
mod wire;
pub mod words;

pub use certificates::tls_settings;
pub use descriptors::raise_limit as raise_descriptor_limit;
pub use error::StartError;
pub use handle::{Caller, ServerHandle};
pub use herdsman_node::ServesAs;
pub use server::Server;
