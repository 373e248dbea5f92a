//! The C client: compiles `interop/c/client.c` against libzookeeper_mt and runs it, then a few
//! commands of cli_mt.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::run;
use crate::server::{Program, Spec};

const CLI: &str = "/usr/lib/zookeeper/bin/cli_mt";
const SECONDS_MAX: &str = "15";

/// Commands of cli_mt and what each must print, in order, on one server.
const COMMANDS: &[(&str, &[&str])] = &[
    ("create /k", &["[/k]: rc = 0", "name = /k"]),
    ("create +s /k/s-", &["[/k/s-]: rc = 0", "name = /k/s-0000000000"]),
    ("create2 +c /box", &["[/box]: rc = 0", "name = /box", "version=0", "ephemeralOwner = 0"]),
    ("create +t=60000 /ttl", &["[/ttl]: rc = 0", "name = /ttl"]),
    ("create /k", &["[/k]: rc = -110"]),
    ("set /k hello there", &["/k: rc = 0", "version=1"]),
    ("get /k", &["/k: rc = 0", "value_len = 11", "hello there", "version=1"]),
    ("get /nowhere", &["/nowhere: rc = -101"]),
    ("ls /", &["/: rc = 0", "k", "box", "ttl", "zookeeper"]),
    ("ls2 /k", &["/k: rc = 0", "s-0000000000", "version=1"]),
    ("sync /k", &["[/k]: rc = 0"]),
    ("delete /k", &["/k: rc = -111"]),
    ("delete /k/s-0000000000", &["/k/s-0000000000: rc = 0"]),
    ("delete /k", &["/k: rc = 0"]),
];

/// Compiles and runs.
pub fn run(program: Program) -> Result<()> {
    let work = paths::fresh_dir(&format!("c-{}", program.name()))?;
    let binary = work.join("client");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-Wall", "-Wextra", "-O1", "-DTHREADED", "-o"]).arg(&binary);
    gcc.arg(paths::root().join("interop/c/client.c")).args(["-lzookeeper_mt", "-lpthread"]);
    run::output(&mut gcc).context("compiling interop/c/client.c")?;

    let server = Spec::new(program, &work.join("data")).start()?;
    run::inherit(Command::new(&binary).arg(&server.address)).context("the C client")?;
    for (command, expected) in COMMANDS {
        cli(&server.address, command, expected)?;
        println!("ok      cli_mt {command}");
    }
    server.stop()
}

fn cli(address: &str, command: &str, expected: &[&str]) -> Result<()> {
    let printed = printed_by(Path::new(CLI), &[], address, command)?;
    for part in expected {
        ensure!(printed.contains(part), "cli_mt `{command}`: no `{part}` in\n{printed}");
    }
    Ok(())
}

/// Returns what a command-line client of the C library prints for one command, with these flags.
pub fn printed_by(cli: &Path, flags: &[&str], address: &str, command: &str) -> Result<String> {
    // It has no time limit, and retries forever if it is rejected.
    let mut bounded = Command::new("timeout");
    bounded.arg(SECONDS_MAX).arg(cli).args(flags).args(["-h", address, "-c", command]);
    Ok(run::all_output(&mut bounded, "")?.printed)
}
