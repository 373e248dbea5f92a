//! Compiles the Java program in `interop/curator` and runs it against a fresh server.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::paths;
use crate::run;
use crate::server::{Program, Spec};

/// Runs every recipe.
pub fn run(program: Program) -> Result<()> {
    let work = paths::fresh_dir(&format!("curator-{}", program.name()))?;
    let classes = work.join("classes");
    let jars = format!("{}/*", paths::peers("curator").display());
    let mut javac = Command::new("javac");
    javac.args(["-nowarn", "--release", "17", "-cp", &jars, "-d"]).arg(&classes).args(sources()?);
    run::output(&mut javac).context("compiling interop/curator")?;

    let server = Spec::new(program, &work.join("data")).start()?;
    let logging = paths::root().join("interop/zookeeper");
    let classpath = format!("{}:{}:{jars}", classes.display(), logging.display());
    let mut java = Command::new("java");
    java.args(["-XX:TieredStopAtLevel=1", "-cp", &classpath, "herdsman.Main", &server.address]);
    run::inherit(&mut java).context("Curator's recipes")?;
    server.stop()
}

fn sources() -> Result<Vec<PathBuf>> {
    let dir = paths::root().join("interop/curator/src/main/java/herdsman");
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}
