//! Our recipes against Curator's, ZooKeeper's own and kazoo's on the same paths: compiles the Java contender of
//! `interop/recipes`, starts a server, and lets the package's Rust program drive both contenders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::paths;
use crate::run;
use crate::server::{Program, Spec};

/// Runs every check.
pub fn run(program: Program) -> Result<()> {
    let work = paths::fresh_dir(&format!("recipes-{}", program.name()))?;
    let folder = paths::root().join("interop/recipes");
    let java = compile(&folder, &work.join("classes"))?;
    let interpreter = paths::peers("venv").join("bin/python");
    let contender = folder.join("python/contender.py");
    let python = format!("{} -B {}", interpreter.display(), contender.display());
    let server = Spec::new(program, &work.join("data")).start()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--release", "--package", "contention", "--"]);
    command.args(["--server", &server.address, "--java", &java, "--python", &python]);
    run::inherit(command.current_dir(paths::root())).context("recipes in three languages")?;
    server.stop()
}

/// The command that starts the Java contender.
fn compile(folder: &Path, classes: &Path) -> Result<String> {
    let (curator, zookeeper) = (paths::peers("curator"), paths::peers("zookeeper-recipes"));
    let jars = format!("{}/*:{}/*", curator.display(), zookeeper.display());
    let mut javac = Command::new("javac");
    javac.args(["-nowarn", "--release", "17", "-cp", &jars, "-d"]).arg(classes);
    javac.args(sources(&folder.join("java/src/main/java/herdsman/recipes"))?);
    run::output(&mut javac).context("compiling interop/recipes")?;
    let logging = paths::root().join("interop/zookeeper");
    let classpath = format!("{}:{}:{jars}", classes.display(), logging.display());
    Ok(format!("java -XX:TieredStopAtLevel=1 -cp {classpath} herdsman.recipes.Contender"))
}

fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}
