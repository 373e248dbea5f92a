//! Rust, Java (Curator and ZooKeeper's own recipes) and Python (kazoo) processes contend for the same
//! paths of one server.
//!
//! In: a server and the commands that start the contenders. Out: a line for each check, and failure if one
//! does not hold. Each check has its own directory.

mod checks;
mod contender;
mod long_run;
mod world;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use world::World;

/// Rust, Java and Python contend for the same paths.
#[derive(Parser)]
struct Options {
    /// The server's address.
    #[arg(long)]
    server: String,
    /// The Java contender's command, without the address; words separated by spaces.
    #[arg(long)]
    java: String,
    /// The Python contender's command, without the address.
    #[arg(long)]
    python: String,
    /// Run only the checks whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Instead of the checks, let all contend for this many seconds while connections are cut; `--server` then names
    /// all servers of an ensemble, as addresses.
    #[arg(long)]
    seconds: Option<u64>,
    /// Which faults, with `--seconds`.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(run(&options))
}

async fn run(options: &Options) -> Result<ExitCode> {
    if let Some(seconds) = options.seconds {
        let Options { server, java, python, seed, .. } = options;
        let setting = long_run::Setting { servers: server, java, python, seconds, seed: *seed };
        let is_good = long_run::run(&setting).await?;
        return Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let world = World::start(&options.server, &options.java, &options.python).await?;
    let (mut passed, mut failed) = (0, 0);
    for check in checks::ALL.iter().filter(|check| check.name.contains(&options.only)) {
        match world.run(check).await {
            Ok(()) => {
                passed += 1;
                println!("ok      {}", check.name);
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {}: {error:#}", check.name);
            }
        }
    }
    world.end().await?;
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
