//! Servers that reject SASL logins in each of the ways that settings allow, and the reactions of clients.

use std::path::Path;

use anyhow::{Context, Result};

use super::stores::Stores;
use super::{frames, java_clients};
use crate::server::{Program, Server, Spec};

/// How a server treats logins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// Clients may log in; a failed login ends the connection.
    Offered,
    /// Clients have to log in.
    Required,
    /// A failed login has no consequences.
    Tolerant,
    /// There is no JAAS file, so no client can log in.
    NotOffered,
}

impl Setup {
    const ALL: [Setup; 4] = [Setup::Offered, Setup::Required, Setup::Tolerant, Setup::NotOffered];

    fn name(self) -> &'static str {
        match self {
            Setup::Offered => "logins are offered",
            Setup::Required => "logins are required",
            Setup::Tolerant => "failed logins are tolerated",
            Setup::NotOffered => "logins are not offered",
        }
    }

    fn start(self, program: Program, work: &Path, stores: &Stores) -> Result<Server> {
        let folder = format!("{}-{self:?}", program.name()).to_lowercase();
        let mut spec = Spec::new(program, &work.join("refusals").join(folder));
        let provider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
        spec.settings.push(provider.to_owned());
        if self != Setup::NotOffered {
            let jaas = stores.path("jaas.conf").display().to_string();
            spec = spec.property("java.security.auth.login.config", &jaas);
        }
        match self {
            Setup::Required => spec.property("zookeeper.sessionRequireClientSASLAuth", "true"),
            Setup::Tolerant => spec.property("zookeeper.allowSaslFailedClients", "true"),
            Setup::Offered | Setup::NotOffered => spec,
        }
        .start()
    }
}

/// Runs all setups.
pub fn run(program: Program, work: &Path, stores: &Stores) -> Result<()> {
    let classes = java_clients::compile(work)?;
    for setup in Setup::ALL {
        let tested = setup.start(program, work, stores)?;
        let apache = setup.start(Program::Apache, work, stores)?;
        frames::compare(&apache.address, &tested.address).context(setup.name())?;
        apache.stop()?;
        java_clients::run(setup, &classes, &tested.address, stores).context(setup.name())?;
        tested.stop()?;
        println!("ok      answers to SASL tokens, Java clients 3.8.4 to 3.9.5: {}", setup.name());
    }
    Ok(())
}
