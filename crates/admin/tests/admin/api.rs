//! REST for znodes, against a real server in this process.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod access;
mod children;
mod cross_site;
mod ensemble;
mod hostile;
mod nodes;
pub mod rest;
mod subtrees;
mod watch;
mod writes;
