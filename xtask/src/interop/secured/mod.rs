//! A secured installation: the same stores, certificates and JAAS file for Apache's programs and ours.
//!
//! In `logins`, our DIGEST-MD5 is used with the JDK's and pure-sasl's. In `clients`, Apache's zkCli
//! connects through TLS and with SASL, in `c_client` the C client does. `refusals` compares every reply to
//! a SASL token with Apache's (`frames`), and has logins of several releases of Apache's Java client
//! rejected (`java_clients`). In `quorum`, servers of both programs form an ensemble with TLS, with logins,
//! and switch from plain to TLS one by one. `--server apache` runs the same with Apache's servers only,
//! which shows that the test itself is correct.

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

/// Runs everything.
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
