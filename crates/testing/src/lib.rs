//! Servers for tests: [`TestServer`] and [`TestEnsemble`] run in the test's own process, on free ports and
//! in a temporary directory. [`TestProxy`] sits between a client and a server and cuts connections, delays
//! or loses messages, [`expire_session`] expires a client's session, and [`Authority`] makes certificates.
//!
//! A dev-dependency only: methods panic where a test cannot continue.

pub mod certificates;
pub mod ensemble;
pub mod expire_session;
pub mod proxy;
pub mod server;

pub use certificates::Authority;
pub use ensemble::TestEnsemble;
pub use expire_session::expire_session;
pub use proxy::TestProxy;
pub use server::TestServer;
