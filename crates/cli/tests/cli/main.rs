//! The binary as a process.

mod client;
mod ensemble;
mod logging;
mod mistakes;
mod process;
mod recipe;
mod server;
mod tools;
