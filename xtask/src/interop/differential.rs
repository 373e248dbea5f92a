//! Starts Apache 3.9.5 and the server under test, both empty and alike, and hands them to
//! `interop/differential`, which sends both the same requests: first the fixed scenarios, then
//! seeded random scripts.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::paths;
use crate::run;
use crate::server::{Program, Spec};

const SEEDS: &str = "40";
/// `super:secret`, which the scripts know.
const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// Runs the scenarios and the scripts.
pub fn run(program: Program) -> Result<()> {
    let work = paths::fresh_dir(&format!("differential-{}", program.name()))?;
    let right = spec(Program::Apache, &work.join("right")).start()?;
    let tested = spec(program, &work.join("tested")).start()?;
    let compare = |arguments: &[&str]| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["run", "--quiet", "--release", "--package", "differential", "--"]);
        command.args(["--a", &right.address, "--b", &tested.address]).args(arguments);
        run::inherit(command.current_dir(paths::root()))
    };
    compare(&["--scenario", "all", "--keep-going"]).context("the scenarios")?;
    compare(&["--seeds", SEEDS]).context("the random scripts")?;
    tested.stop()?;
    right.stop()
}

fn spec(program: Program, data_dir: &Path) -> Spec {
    Spec::new(program, data_dir)
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST)
        .property("zookeeper.enforceQuota", "true")
        // No sweep takes zxids in the middle of a script.
        .property("znode.container.checkIntervalMs", "100000000")
}
