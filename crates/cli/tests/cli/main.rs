//! The binary as a process.

mod client;
mod ensemble;
mod mistakes;
mod process;
mod recipe;
mod server;
