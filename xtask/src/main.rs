//! The project's own commands, run as `cargo xtask COMMAND`. docs/testing.md says what each test
//! shows.

mod advisories;
mod bench;
mod chaos;
mod damage;
mod digest;
mod ensemble;
mod failover;
mod fixtures;
mod fuzz;
mod hostile;
mod instructions;
mod interop;
mod listing;
mod load;
mod mistakes;
mod paths;
mod peers;
mod ports;
mod rng;
mod run;
mod scale;
mod scenario;
mod server;
mod server_log;
mod snapshot;
mod stale_syncs;
mod test;
mod tidy;
mod txnlog;
mod verdict;
mod wire;
mod workloads;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use interop::Suite;
use peers::Peer;
use server::Program;

/// Herdsman's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Run all tests: format, lints, tidy, unit tests, fuzz corpus, and the interop suites.
    ///
    /// Installs what the suites need (see `peers`). Ends with a summary and the line `N passed, N
    /// failed`. Each step's output is in target/test-logs.
    Test(test::Options),
    /// Check the repository's own rules: crate edges, file and line lengths, module docs,
    /// leftovers.
    Tidy,
    /// Look for known vulnerabilities in our dependencies.
    ///
    /// Uses RustSec's database, which is fetched with git. Fails on a vulnerability and on unsound code; reports
    /// crates that are no longer maintained.
    Advisories(advisories::Options),
    /// Install the other programs that the interop suites need.
    ///
    /// Jars, a Python environment and an npm folder go to target/peers; a JDK, a C compiler, the C client
    /// and a Kerberos realm's programs come as Debian packages. A second run only compares stamps.
    Peers {
        /// Install only these; by default all that the tests need.
        #[arg(value_enum)]
        peers: Vec<Peer>,
    },
    /// Run one interop suite.
    Interop {
        /// The suite.
        #[arg(value_enum)]
        suite: Suite,
        /// The server under test. `apache` shows that the suite itself is correct.
        #[arg(long, value_enum, default_value_t = Program::Herdsman)]
        server: Program,
        /// With `recipes`: instead of the checks, contend for this many seconds with connections cut and servers
        /// killed.
        #[arg(long)]
        seconds: Option<u64>,
        /// Arguments of the program that the suite runs (the differential suites), such as `-- --seed 7 --shrink`.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Kill, pause and cut off the servers of an ensemble under load; nothing may be lost.
    Chaos(chaos::Options),
    /// Damage log entries of three servers in every combination, and check that the ensemble heals itself.
    Damage(damage::Options),
    /// Measure the write outage when a leader is killed.
    Failover(failover::Options),
    /// Pause a leader until another is elected, and check that it does not answer syncs with old data.
    StaleSyncs(stale_syncs::Options),
    /// Attack servers with hostile clients, and measure the effect on good clients.
    ///
    /// Fails if a good client gets an error or waits too long, if a server exits, uses too much memory, or does not
    /// release the resources of the attack.
    Hostile(hostile::Options),
    /// Compare the speed of Herdsman and Apache 3.9.5, and write docs/benchmarks.md.
    ///
    /// A full run takes hours; `--only` runs single parts, and `--quick` checks within minutes that they
    /// work. Results are kept in target/bench, and the document is generated from them.
    Bench(bench::Options),
    /// Measure how costs grow up to 100,000 sessions, 1,000,000 children and 20,000,000 znodes.
    ///
    /// Compares the cost of one session, watcher, child or znode at the smallest and the largest size, and
    /// measures what other clients notice meanwhile. A full run takes about an hour. Results are kept in
    /// target/scale, and docs/scale.md is generated from them.
    Scale(scale::Options),
    /// Count the instructions of single operations and compare with benches/instructions/baseline.txt.
    ///
    /// Counts do not depend on how busy the machine is. A case that needs more than the tolerance
    /// allows fails; valgrind is installed where it is missing.
    Instructions(instructions::Options),
    /// Look for inputs that break a decoder, for some minutes.
    ///
    /// Guided by coverage if a nightly toolchain and cargo-fuzz are installed (`cargo install cargo-fuzz`),
    /// else with random mutations of the seeds.
    Fuzz(fuzz::Options),
    /// Make known mistakes in a copy of the sources, and check that the simulator finds each of them.
    ///
    /// The mistakes are the patches in crates/sim/mistakes. Takes about a minute for each.
    Mistakes(mistakes::Options),
    /// Regenerate the data directories in fixtures/ with Apache 3.8.0 and 3.9.5.
    Fixtures,
}

fn main() -> ExitCode {
    match execute(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(task: Task) -> Result<()> {
    match task {
        Task::Test(options) => test::test(&options),
        Task::Tidy => tidy::check(),
        Task::Advisories(options) => advisories::run(&options),
        Task::Peers { peers } if peers.is_empty() => peers::install(&Peer::FOR_TESTS),
        Task::Peers { peers } => peers::install(&peers),
        Task::Interop { suite, server, seconds, arguments } => {
            interop::run(suite, server, seconds, &arguments)
        }
        Task::Chaos(options) => chaos::run(&options),
        Task::Damage(options) => damage::run(&options),
        Task::Failover(options) => failover::run(&options),
        Task::StaleSyncs(options) => stale_syncs::run(&options),
        Task::Hostile(options) => hostile::run(&options),
        Task::Instructions(options) => instructions::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Scale(options) => scale::run(&options),
        Task::Mistakes(options) => mistakes::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Fixtures => {
            peers::install(&[Peer::Java, Peer::Zookeeper, Peer::Zookeeper38])?;
            fixtures::make()
        }
    }
}
