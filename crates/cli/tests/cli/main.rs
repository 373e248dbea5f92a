//! The binary as a process.

mod archive;
mod bench;
mod client;
mod ensemble;
mod logging;
mod mistakes;
mod process;
mod protection;
mod recipe;
mod secrets;
mod server;
mod tools;
