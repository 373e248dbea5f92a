//! The binary as a process.

mod bench;
#[path = "../../../client/tests/client/certificates.rs"]
mod certificates;
mod client;
mod ensemble;
mod logging;
mod mistakes;
mod process;
mod protection;
mod recipe;
mod secrets;
#[path = "../../../client/tests/client/secured_server.rs"]
mod secured_server;
mod server;
mod tools;
