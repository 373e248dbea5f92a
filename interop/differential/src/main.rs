//! The command line of the differential test.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use differential::action::Action;
use differential::clear::clear;
use differential::pair::{Difference, Print};
use differential::roles::by_role;
use differential::run::{self, Outcome, Servers};
use differential::scenarios::{self, Scenario};
use differential::side::Layout;

/// Compare two ZooKeeper servers, request by request.
#[derive(Debug, Parser)]
#[command(long_about = LONG_ABOUT)]
struct Arguments {
    /// The reference server, Apache ZooKeeper; or all servers of such an ensemble.
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        required_unless_present = "list"
    )]
    a: Vec<String>,
    /// The server or ensemble under test.
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        required_unless_present = "list"
    )]
    b: Vec<String>,
    /// The servers of both ensembles have local sessions, and upgrade them.
    #[arg(long)]
    local_sessions: bool,
    /// Seed of the script, or of the first one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of scripts, with seeds counting up.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Actions in each script.
    #[arg(long, default_value_t = 400)]
    steps: usize,
    /// Sessions in each script.
    #[arg(long, default_value_t = 4)]
    sessions: usize,
    /// Run fixed scenarios instead: a name, or `all`. May be repeated.
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Report every difference of every scenario, without the steps before it.
    #[arg(long)]
    keep_going: bool,
    /// Remove the actions that are not needed to show the difference.
    #[arg(long)]
    shrink: bool,
    /// Print every step and the answers of both servers.
    #[arg(long)]
    verbose: bool,
    /// Print the names of the scenarios.
    #[arg(long)]
    list: bool,
}

const LONG_ABOUT: &str = "\
Sends the same seeded script of requests, over several sessions, to two ZooKeeper servers and compares \
every reply, stat, event, error code and closed connection. Zxids are compared as offsets, sessions by \
number, times by relation. At the first difference it prints the seed, the step, the request, both \
answers and the steps before, and ends with status 1; with status 2 when it could not do its work.

Start both servers with empty data directories and equal settings, for example Apache ZooKeeper as

  java -Dzookeeper.extendedTypesEnabled=true -Dzookeeper.enforceQuota=true \\
       -Dzookeeper.4lw.commands.whitelist='*' -Dznode.container.checkIntervalMs=100000000 \\
       -Dzookeeper.DigestAuthenticationProvider.superDigest=super:\
lK75jTNcA+U9vtVEw5vB51mj/w4= \\
       -cp 'jars/*' org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg

with tickTime=2000 and maxClientCnxns=0 in zoo.cfg, and then

  differential --a 127.0.0.1:2181 --b 127.0.0.1:2182 --scenario all
  differential --a 127.0.0.1:2181 --b 127.0.0.1:2182 --seeds 100

Two ensembles are compared when each side is given the addresses of all servers of its own, separated by \
commas, equally many. Scripts then move sessions between servers, which they name by role: 0 is the leader, \
then come followers, then observers.

The interval keeps the sweep of containers from taking zxids in the middle of a script. The super digest \
is that of super:secret. Other settings work too as long as both servers have them.

Each script works below /d<seed> and each scenario below /s<seed>-<name>; use other seeds when you run \
again against the same pair. After a difference the two servers hold different trees: start fresh \
ones. --shrink clears the script's subtree and repeats it with fewer actions as long as the same \
action still shows a difference.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = if arguments.list {
        list();
        Ok(true)
    } else if arguments.scenario.is_empty() {
        run_seeds(&arguments)
    } else {
        run_scenarios(&arguments)
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("differential: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn list() {
    for scenario in scenarios::ALL.iter().chain(scenarios::ENSEMBLES) {
        println!("{:18} {}", scenario.name, scenario.about);
    }
}

fn servers(arguments: &Arguments) -> Result<Servers> {
    let servers = Servers {
        a: by_role(&resolve_all(&arguments.a)?)?,
        b: by_role(&resolve_all(&arguments.b)?)?,
        local_sessions: arguments.local_sessions,
        print: if arguments.verbose { Print::Everything } else { Print::Nothing },
    };
    ensure!(servers.a.len() == servers.b.len(), "one ensemble has more servers than the other");
    Ok(servers)
}

fn resolve_all(addresses: &[String]) -> Result<Vec<SocketAddr>> {
    addresses.iter().map(|address| resolve(address)).collect()
}

fn resolve(address: &str) -> Result<SocketAddr> {
    let mut addresses =
        address.to_socket_addrs().with_context(|| format!("{address} is not HOST:PORT"))?;
    addresses.next().with_context(|| format!("{address} has no address"))
}

fn run_seeds(arguments: &Arguments) -> Result<bool> {
    let servers = servers(arguments)?;
    let started = Instant::now();
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let first_server = (seed % servers.a.len() as u64) as usize;
        let layout = Layout { slots: arguments.sessions, first_server };
        let outcome = run::seed(&servers, seed, arguments.steps, layout)
            .with_context(|| format!("seed {seed}"))?;
        match outcome {
            Outcome::Equal(steps) => {
                let seconds = started.elapsed().as_secs();
                println!("seed {seed}: {steps} steps equal ({seconds} s)");
            }
            Outcome::Differs(difference, actions) => {
                println!("seed {seed} differs\n{difference}");
                let root = format!("/d{seed}");
                shrunk(arguments, &servers, actions, layout, &root)?;
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn run_scenarios(arguments: &Arguments) -> Result<bool> {
    let servers = servers(arguments)?;
    let mut all_equal = true;
    for scenario in chosen(&arguments.scenario, &servers)? {
        if arguments.keep_going {
            all_equal &= run_to_the_end(&servers, &scenario, arguments.seed)?;
            continue;
        }
        let root = format!("/s{}-{}", arguments.seed, scenario.name);
        let outcome = run::scenario(&servers, &scenario, &root)
            .with_context(|| format!("scenario {}", scenario.name))?;
        match outcome {
            Outcome::Equal(steps) => println!("scenario {}: {steps} steps equal", scenario.name),
            Outcome::Differs(difference, actions) => {
                all_equal = false;
                println!("scenario {} differs\n{difference}", scenario.name);
                shrunk(arguments, &servers, actions, scenario.layout(), &root)?;
                break;
            }
        }
    }
    Ok(all_equal)
}

/// Runs a scenario to its end, despite differences.
fn run_to_the_end(servers: &Servers, scenario: &Scenario, seed: u64) -> Result<bool> {
    let root = format!("/s{seed}-{}", scenario.name);
    let mut differences = 0;
    run::scenario_differences(servers, scenario, &root, |mut difference| {
        differences += 1;
        difference.before.clear();
        println!("{difference}");
    })
    .with_context(|| format!("scenario {}", scenario.name))?;
    println!("scenario {}: {differences} differences", scenario.name);
    Ok(differences == 0)
}

fn chosen(names: &[String], servers: &Servers) -> Result<Vec<Scenario>> {
    if names.iter().any(|name| name == "all") {
        return Ok(scenarios::for_servers(servers.kind()));
    }
    names
        .iter()
        .map(|name| {
            let mut known = scenarios::ALL.iter().chain(scenarios::ENSEMBLES);
            let found = known.find(|known| known.name == *name);
            match found {
                Some(scenario) => Ok(*scenario),
                None => bail!("there is no scenario {name}; --list prints their names"),
            }
        })
        .collect()
}

/// Prints a shorter script with the same difference, if requested.
fn shrunk(
    arguments: &Arguments,
    servers: &Servers,
    actions: Vec<Action>,
    layout: Layout,
    root: &str,
) -> Result<()> {
    if !arguments.shrink {
        return Ok(());
    }
    let before = actions.len();
    let (difference, actions): (Box<Difference>, _) =
        run::shrink(servers, actions, layout, || {
            clear(servers.a[0], root)?;
            clear(servers.b[0], root)
        })?;
    println!("shrunk from {before} to {} actions\n{difference}", actions.len());
    Ok(())
}
