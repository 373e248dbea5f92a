//! Runs the package of `interop/sasl`: both sides of a login, ours against others'.

use anyhow::{Context, Result};

use crate::paths;
use crate::run;
use crate::server::Program;

/// Says nothing about Apache's server, so it is left out there.
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
