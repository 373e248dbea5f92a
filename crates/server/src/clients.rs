//! From a client's socket to the core and back: the ports, connections, their limits and the table of them all.
//!
//! `client_sockets` opens the ports, [`listener`] accepts connections, `handshakes` does TLS handshakes on dedicated
//! threads, and `io_threads` serve the connections. A [`connection`] cuts frames in [`intake`], answers reads from the
//! tree itself and passes writes to the core; replies and events wait in its [`outbox`], and `io_wakers` wake the I/O
//! thread that owns it. The other modules are limits: descriptors, new sessions, bytes of requests and of unread
//! replies.

pub(crate) mod buffer_pool;
pub(crate) mod client_sockets;
pub(crate) mod connection;
pub(crate) mod descriptors;
pub(crate) mod handshakes;
pub(crate) mod intake;
pub(crate) mod io_threads;
pub(crate) mod io_wakers;
pub(crate) mod limit_reports;
pub(crate) mod listener;
pub(crate) mod outbox;
pub(crate) mod request_bytes;
mod table;
pub(crate) mod throttle;
pub(crate) mod unread_bytes;
pub(crate) mod wire;

pub use table::{Client, Clients, ConnLimits, Refused};
