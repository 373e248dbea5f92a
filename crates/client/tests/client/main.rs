//! Tests of the client against real servers in this process, through a proxy that injects faults.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[cfg(feature = "blocking")]
mod blocking;
#[cfg(feature = "tls")]
mod default_acl;
mod dialing;
mod failover;
#[cfg(feature = "json")]
mod json;
mod membership;
mod operations;
mod order;
mod outcomes;
mod persistent_watches;
mod preferences;
mod protected;
mod read_only;
mod reports;
#[cfg(feature = "sasl")]
mod sasl;
#[cfg(feature = "sasl")]
mod secrets;
#[cfg(feature = "tls")]
mod security;
mod sessions;
mod spans;
#[cfg(feature = "tls")]
mod tls;
mod transactions;
mod watch_removal;
mod watches;
mod world;
