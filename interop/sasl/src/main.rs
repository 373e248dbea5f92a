//! Runs logins between our SASL mechanism and other implementations, and compares how JAAS files are read.
//! The peers are programs controlled through standard input: see the README.

mod files;
mod logins;
mod peer;

use anyhow::Result;
use clap::Parser;

use crate::logins::Transcript;
use crate::peer::Peer;

/// Logins between our SASL mechanism and those of the JDK and of pure-sasl.
#[derive(Debug, Parser)]
struct Arguments {
    /// The command that starts the JDK's side.
    #[arg(long, value_name = "COMMAND")]
    java: String,
    /// The command that starts pure-sasl's side.
    #[arg(long, value_name = "COMMAND")]
    python: String,
    /// The command that starts Cyrus SASL's side; omitted if the library is not installed.
    #[arg(long, value_name = "COMMAND")]
    cyrus: Option<String>,
    /// Print the tokens of every login.
    #[arg(long)]
    show: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let transcript = if arguments.show { Transcript::Shown } else { Transcript::Hidden };
    let mut java = Peer::start("java", &arguments.java)?;
    logins::check_their_client(&mut java, logins::NAMES, transcript)?;
    logins::check_their_server(&mut java, logins::NAMES, transcript)?;
    files::check(&mut java)?;
    java.stop()?;
    let mut python = Peer::start("pure-sasl", &arguments.python)?;
    logins::check_their_client(&mut python, logins::NAMES_FOR_PURE_SASL, transcript)?;
    python.stop()?;
    if let Some(command) = &arguments.cyrus {
        let mut cyrus = Peer::start("cyrus", command)?;
        logins::check_their_client(&mut cyrus, logins::NAMES, transcript)?;
        cyrus.stop()?;
    }
    Ok(())
}
