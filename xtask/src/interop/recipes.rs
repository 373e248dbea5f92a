//! Our recipes against Curator's, ZooKeeper's own and kazoo's on the same paths: compiles the Java
//! contender of `interop/recipes`, starts a server, and lets the package's Rust program drive both
//! contenders. Then all of them contend at an ensemble whose servers are killed, while the Rust program
//! cuts connections.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::ensemble::{Ensemble, Network, Role, Settings};
use crate::paths;
use crate::rng::Rng;
use crate::run;
use crate::server::{Program, Spec};

/// How long all contend with faults, by default.
const SECONDS: u64 = 20;
/// Interval between kills of a server, and the time it stays down.
const KILL_EVERY: Duration = Duration::from_secs(6);
const DOWN_FOR: Duration = Duration::from_secs(1);

/// Runs every check, and a run with faults; only the latter if a duration is given.
pub fn run(program: Program, seconds: Option<u64>) -> Result<()> {
    let work = paths::fresh_dir(&format!("recipes-{}", program.name()))?;
    let folder = paths::root().join("interop/recipes");
    let java = compile(&folder, &work.join("classes"))?;
    let interpreter = paths::peers("venv").join("bin/python");
    let contender = folder.join("python/contender.py");
    let python = format!("{} -B {}", interpreter.display(), contender.display());
    let contention = |servers: &str| -> Result<Command> {
        let mut command = run::workspace_program("contention")?;
        command.args(["--server", servers, "--java", &java, "--python", &python]);
        Ok(command)
    };
    if seconds.is_none() {
        let server = Spec::new(program, &work.join("data")).start()?;
        run::inherit(&mut contention(&server.address)?).context("recipes in three languages")?;
        server.stop()?;
    }
    run_with_faults(program, &work, seconds.unwrap_or(SECONDS), contention)
}

/// All contend for a while; a server is killed every few seconds.
fn run_with_faults(
    program: Program,
    work: &Path,
    seconds: u64,
    contention: impl Fn(&str) -> Result<Command>,
) -> Result<()> {
    let servers = [(program, Role::Participant); 3];
    // Many sessions from one address.
    let mut settings = Settings::new(200, 10);
    settings.lines.push("maxClientCnxns=0".to_owned());
    let mut ensemble =
        Ensemble::new(&work.join("ensemble"), &servers, &settings, Network::Loopback)?;
    ensemble.start_all()?;
    let mut command = contention(&ensemble.addresses().join(","))?;
    let seed = std::process::id().into();
    command.args(["--seconds", &seconds.to_string(), "--seed", &format!("{seed}")]);
    let child = command.stdin(Stdio::null()).spawn().context("starting contention")?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let killed = kill_servers(&mut ensemble, child, seed, end)?;
    println!("{killed} servers killed");
    ensemble.stop_all()
}

fn kill_servers(
    ensemble: &mut Ensemble,
    mut child: Child,
    seed: u64,
    end: Instant,
) -> Result<usize> {
    let mut rng = Rng::new(seed);
    let (mut killed, mut next) = (0, Instant::now() + KILL_EVERY);
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "recipes with faults: contention ended with {status}");
            return Ok(killed);
        }
        if Instant::now() >= next && Instant::now() + DOWN_FOR < end {
            let id = 1 + rng.below(3);
            ensemble.member_mut(id).kill()?;
            sleep(DOWN_FOR);
            ensemble.start(id)?;
            killed += 1;
            next = Instant::now() + KILL_EVERY;
        }
        sleep(Duration::from_millis(50));
    }
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
