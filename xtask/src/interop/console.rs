//! The console in a real browser: builds `interop/console`, which starts its own ensemble in its own
//! process, and lets it click. Pictures are kept in `target/console-screenshots`.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::peers::Peer;
use crate::run;
use crate::server::Program;

/// Runs every check.
pub fn run(program: Program) -> Result<()> {
    ensure!(program == Program::Herdsman, "only Herdsman has this console");
    Peer::Browser.ensure()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", "console-test", "--", "--screenshots"]);
    command.arg(paths::target().join("console-screenshots"));
    run::inherit(command.current_dir(paths::root())).context("the console in a browser")
}
