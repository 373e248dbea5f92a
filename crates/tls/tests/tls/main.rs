//! Handshakes in memory, with generated certificates, and stores written by `keytool` and `openssl`.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod authority;
mod connection;
mod handshakes;
mod hosts;
mod key_stores;
mod reloads;
mod revocation;
mod tools;
mod trust_rules;
