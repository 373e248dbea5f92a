//! The binary as a process.

mod bench;
mod client;
mod ensemble;
mod logging;
mod mistakes;
mod process;
mod recipe;
mod server;
mod tools;
