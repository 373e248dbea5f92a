//! A running server: sockets, threads, timers and the interfaces for operators.
//!
//! [`Server::start`] recovers a data directory and serves clients until it is stopped. Threads: one
//! accepts connections, a few do TLS handshakes, one per core serves connections, one makes txns durable, one
//! runs the timers, one takes snapshots. They share [`core::Core`].
//!
//! A write passes through the folders in this order: `clients/` (listener, connection, intake), [`core`], `log/`
//! (commit), `ensemble/` and `quorum/` where there are other servers, and back through `clients/` (outbox).

pub mod clients;
pub(crate) mod clock;
pub mod core;
pub mod ensemble;
pub(crate) mod error;
pub(crate) mod handle;
pub mod log;
pub(crate) mod logins;
pub mod operators;
pub(crate) mod server;
mod start;
mod ticker;

pub use clients::descriptors::raise_limit as raise_descriptor_limit;
pub use error::{ServerFailure, StartError};
pub use handle::{Caller, ServerHandle};
pub use herdsman_node::ServesAs;
pub use server::Server;
pub use start::certificates::tls_settings;
pub use start::stop_signal::StopSignal;
