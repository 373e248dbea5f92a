//! Servers for tests: [`TestServer`] and [`TestEnsemble`] run in the test's own process, on free ports and in a
//! temporary directory. [`TestProxy`] stands between a client and a server and cuts, delays or loses what passes,
//! [`expire_session`] ends a client's session, and [`Authority`] makes certificates.
//!
//! A dev-dependency only: their methods panic where a test cannot go on.

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
