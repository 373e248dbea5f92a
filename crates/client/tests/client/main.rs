//! The client against real servers in this process, through a proxy that misbehaves when told to.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod certificates;
mod dialing;
mod failover;
mod operations;
mod order;
mod outcomes;
mod persistent_watches;
mod protected;
mod read_only;
mod sasl;
mod secrets;
mod secured_server;
mod security;
mod sessions;
mod tls;
mod transactions;
mod watch_removal;
mod watches;
mod world;
