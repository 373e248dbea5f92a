//! A secured installation: the same stores, certificates and JAAS file for Apache's programs and ours.
//!
//! `logins` has our DIGEST-MD5 talk to the JDK's and to pure-sasl's. `clients` has Apache's zkCli come in
//! through TLS and with SASL, `c_client` the C client. `refusals` compares every answer to a SASL token with
//! Apache's (`frames`), and has Apache's Java clients of several releases refused (`java_clients`). `quorum` has
//! servers of both kinds form an ensemble with TLS, with logins, and switch from plain to TLS one by one.
//! `--server apache` runs the same with Apache's servers only, which shows that the test itself is right.

mod c_client;
mod clients;
mod frames;
mod java_clients;
mod logins;
mod quorum;
mod refusals;
mod stores;

use anyhow::{Context, Result};

use crate::paths;
use crate::peers::Peer;
use crate::server::Program;
use stores::Stores;

/// All of it.
pub fn run(program: Program) -> Result<()> {
    Program::Apache.ensure_here()?;
    Peer::SecureCClient.ensure()?;
    Peer::OlderClients.ensure()?;
    let work = paths::fresh_dir(&format!("secured-{}", program.name()))?;
    let stores = Stores::make(&work.join("stores")).context("making key stores with keytool")?;
    logins::run(program)?;
    clients::run(program, &work, &stores)?;
    refusals::run(program, &work, &stores)?;
    quorum::run(program, &work, &stores)
}
