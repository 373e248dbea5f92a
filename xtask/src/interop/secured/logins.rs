//! Runs the package `interop/sasl`: both sides of a login, ours with other implementations.

use anyhow::{Context, Result};

use crate::paths;
use crate::run;
use crate::server::Program;

/// Skipped for Apache's server, because it does not involve a server.
pub fn run(program: Program) -> Result<()> {
    if program != Program::Herdsman {
        return Ok(());
    }
    let folder = paths::root().join("interop/sasl");
    let java = format!("java -XX:TieredStopAtLevel=1 {}", folder.join("java/Peer.java").display());
    let interpreter = paths::peers("venv").join("bin/python");
    let python =
        format!("{} -B {}", interpreter.display(), folder.join("python/peer.py").display());
    let mut command = run::workspace_program("logins")?;
    command.args(["--java", &java, "--python", &python]);
    run::inherit(&mut command).context("logins with other libraries")
}
