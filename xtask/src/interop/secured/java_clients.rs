//! Logins with several releases of Apache's Java client.
//!
//! A client that is rejected must report that, once and permanently. How it finds out differs: it reads the
//! token of the reply before the error, and treats a reply that is too short as a lost connection.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::refusals::Setup;
use super::stores::Stores;
use crate::paths;
use crate::peers;
use crate::run;
use crate::server;

/// The section of the JAAS file with the right password.
const RIGHT: &str = "Client";
/// The one with a wrong password.
const WRONG: &str = "WrongClient";

const ACCEPTED: [&str; 3] = ["event SaslAuthenticated", "read ok", "state CONNECTED"];
const REFUSED: [&str; 3] = ["event AuthFailed", "read AUTHFAILED", "state AUTH_FAILED"];

/// Compiles the program, and returns the folder of its class.
pub fn compile(work: &Path) -> Result<PathBuf> {
    let classes = work.join("classes");
    let mut javac = Command::new("javac");
    javac.args(["-cp", &server::apache_classpath(), "-d"]).arg(&classes);
    javac.arg(paths::root().join("interop/sasl/java/Login.java"));
    run::output(&mut javac)?;
    Ok(classes)
}

/// Logs in with clients of every release, with a right and with a wrong password.
pub fn run(setup: Setup, classes: &Path, address: &str, stores: &Stores) -> Result<()> {
    let older = peers::OLDER_RELEASES
        .map(|release| (release, format!("{}/*", peers::older_client_jars(release).display())));
    let newest = [("3.9.5", server::apache_classpath())];
    for (release, jars) in older.into_iter().chain(newest) {
        for section in [RIGHT, WRONG] {
            let is_let_in = section == RIGHT && setup != Setup::NotOffered;
            let expected = if is_let_in { ACCEPTED } else { REFUSED };
            let printed =
                log_in(&format!("{}:{jars}", classes.display()), section, address, stores)?;
            let said: Vec<_> = printed.lines().filter(|line| is_result(line)).collect();
            ensure!(
                said.first() == Some(&"event SyncConnected") && said[1..] == expected,
                "client {release} as {section}, expected {expected:?}:\n{printed}"
            );
        }
    }
    Ok(())
}

/// Whether a line is from the program itself, and not from the client's log.
fn is_result(line: &str) -> bool {
    ["event ", "read ", "state "].iter().any(|start| line.starts_with(start))
}

fn log_in(classpath: &str, section: &str, address: &str, stores: &Stores) -> Result<String> {
    let mut java = Command::new("java");
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", classpath]);
    let jaas = stores.path("jaas.conf");
    java.arg(format!("-Djava.security.auth.login.config={}", jaas.display()));
    java.arg(format!("-Dzookeeper.sasl.clientconfig={section}"));
    // The client does not support DIGEST-MD5 otherwise.
    java.args(["-Dzookeeper.fips-mode=false", "Login", address]);
    Ok(run::all_output(&mut java, "")?.printed)
}
