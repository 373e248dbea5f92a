//! The console in a real browser: builds `interop/console`, which starts its own ensemble in its own
//! process, and drives the browser. Screenshots are kept in `target/console-screenshots`.

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::peers::Peer;
use crate::run;
use crate::server::Program;

/// Runs every check.
pub fn run(program: Program) -> Result<()> {
    ensure!(program == Program::Herdsman, "only Herdsman has this console");
    Peer::Browser.ensure()?;
    let mut command = run::workspace_program("console-test")?;
    command.arg("--screenshots").arg(paths::target().join("console-screenshots"));
    run::inherit(&mut command).context("the console in a browser")
}
