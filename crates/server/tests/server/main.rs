//! Tests with a real server in this process, over real sockets, by a client that knows only the
//! protocol. One binary for all of them, to link once.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod archive;
mod audit;
mod basics;
mod catch_up;
mod certificates;
mod client;
mod crowd;
mod durability;
mod ensemble;
mod ensemble_security;
mod ensemble_words;
mod handle;
mod handover;
mod hostile;
mod hostile_servers;
mod limits;
mod log;
mod metrics;
mod proxy;
mod sasl;
mod scrub;
mod self_repair;
mod session_passwords;
mod sessions;
mod snapshots;
mod storage;
mod tls;
mod watches;
mod words;
