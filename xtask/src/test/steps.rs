//! The table of the steps.

use crate::peers::Peer;

/// One step: a command with its output in a log file of its own.
pub struct Step {
    /// Its name, for `--only` and `--skip`.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// What must be installed first.
    pub needs: &'static [Peer],
    /// What it runs.
    pub command: Run,
    /// When it runs.
    pub stage: Stage,
}

/// What a step runs.
#[derive(Clone, Copy)]
pub enum Run {
    /// cargo, with these arguments.
    Cargo(&'static [&'static str]),
    /// This program, with these arguments.
    Xtask(&'static [&'static str]),
    /// A program of the workspace that the build has made, with these arguments.
    Built(&'static str, &'static [&'static str]),
}

/// When a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// First, one after the other: what fails soonest.
    Checks,
    /// Builds all programs and tests that the later steps run.
    Build,
    /// Beside other steps. Most of these wait for other programs, for timeouts and for the disk.
    Tests,
    /// Last, and alone, because it measures times.
    Alone,
}

/// Without the build of each package, which takes minutes and compiles the same sources as the other steps. What a
/// package lacks, such as a dependency that cannot be published, is found all the same.
const PUBLISH: &[&str] = &[
    "publish",
    "--dry-run",
    "--no-verify",
    "--allow-dirty",
    "--package=herdsman-proto",
    "--package=herdsman-properties",
    "--package=herdsman-secret",
    "--package=herdsman-gssapi",
    "--package=herdsman-tls",
    "--package=herdsman-sasl",
    "--package=herdsman-client",
    "--package=herdsman-recipes",
];

const fn checks(
    name: &'static str,
    about: &'static str,
    needs: &'static [Peer],
    command: Run,
) -> Step {
    Step { name, about, needs, command, stage: Stage::Checks }
}

const fn tests(
    name: &'static str,
    about: &'static str,
    needs: &'static [Peer],
    command: Run,
) -> Step {
    Step { name, about, needs, command, stage: Stage::Tests }
}

/// In the order in which they start. Within [`Stage::Tests`] the longest are first, so that none of them is left over
/// when all others are done.
pub const STEPS: &[Step] = &[
    checks(
        "fmt",
        "the source is formatted as rustfmt does it",
        &[Peer::Rustfmt],
        Run::Cargo(&["fmt", "--all", "--check"]),
    ),
    checks(
        "tidy",
        "the repository's own rules: crate edges, lengths, module docs",
        &[],
        Run::Xtask(&["tidy"]),
    ),
    checks(
        "publish",
        "the client, the recipes and the crates below them can be packaged for publication",
        &[],
        Run::Cargo(PUBLISH),
    ),
    checks(
        "advisories",
        "no known vulnerability in the dependencies, where the database can be had",
        &[Peer::AdvisoryDatabase],
        Run::Xtask(&["advisories"]),
    ),
    checks(
        "clippy",
        "no lint fires, tests included",
        &[Peer::Clippy],
        Run::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ),
    Step {
        name: "build",
        about: "the programs and tests that the steps below run",
        needs: &[],
        command: Run::Cargo(&["build", "--workspace", "--bins", "--tests", "--examples"]),
        stage: Stage::Build,
    },
    tests(
        "unit",
        "cargo test: unit, golden and property tests, fuzz corpora, no network",
        &[],
        Run::Cargo(&["test", "--workspace", "--no-fail-fast"]),
    ),
    tests(
        "kazoo",
        "kazoo's own test suite against Herdsman",
        &[Peer::Kazoo],
        Run::Xtask(&["interop", "kazoo"]),
    ),
    tests(
        "secured",
        "TLS, certificates and SASL with Apache's clients and beside Apache's servers",
        &[Peer::Java, Peer::Zookeeper, Peer::OlderClients, Peer::Kazoo, Peer::SecureCClient],
        Run::Xtask(&["interop", "secured"]),
    ),
    tests(
        "kerberos",
        "Kerberos logins of Apache's clients, kazoo and ours, and beside Apache's servers",
        &[Peer::Java, Peer::Zookeeper, Peer::Kazoo, Peer::Kerberos, Peer::SecureCClient],
        Run::Xtask(&["interop", "kerberos"]),
    ),
    tests(
        "mixed",
        "ensembles of Apache 3.9.5 and Herdsman in every combination; a rolling replacement",
        &[Peer::Java, Peer::Zookeeper],
        Run::Xtask(&["interop", "mixed"]),
    ),
    tests(
        "moves",
        "the same requests to two ensembles of three and an observer, and sessions that move",
        &[Peer::Java, Peer::Zookeeper],
        Run::Xtask(&["interop", "differential-ensemble"]),
    ),
    tests(
        "recipes",
        "our recipes, Curator's, ZooKeeper's and kazoo's on the same paths, also with faults",
        &[Peer::Java, Peer::Curator, Peer::ZookeeperRecipes, Peer::Kazoo],
        Run::Xtask(&["interop", "recipes"]),
    ),
    tests(
        "console",
        "Chromium clicks through the console of three Herdsman servers",
        &[Peer::Browser],
        Run::Xtask(&["interop", "console"]),
    ),
    tests(
        "chaos",
        "servers killed, paused and cut off under load: nothing is lost, all are equal",
        &[],
        Run::Xtask(&["chaos", "--seconds", "30", "--seed", "1"]),
    ),
    tests(
        "chaos-damage",
        "the same while servers also lose log records, snapshots and data directories: they heal",
        &[],
        Run::Xtask(&["chaos", "--damage", "--seconds", "20"]),
    ),
    tests(
        "damage",
        "log entries damaged on three servers: 30 combinations heal, 6 wait for what is lost",
        &[],
        Run::Xtask(&["damage"]),
    ),
    tests(
        "damaged-bytes",
        "a byte of a server's log zeroed, inverted or unreadable: 12 of 669 cases heal",
        &[Peer::CClient],
        Run::Xtask(&["damage", "--bytes"]),
    ),
    tests(
        "differential",
        "seeded random requests, answered alike by Apache 3.9.5 and Herdsman",
        &[Peer::Java, Peer::Zookeeper],
        Run::Xtask(&["interop", "differential"]),
    ),
    tests(
        "stale-syncs",
        "a leader that was paused and replaced does not answer syncs with old data",
        &[],
        Run::Xtask(&["stale-syncs", "--rounds", "8"]),
    ),
    tests(
        "admin",
        "the admin server answers as Apache's does; snapshots go both ways",
        &[Peer::Java, Peer::Zookeeper],
        Run::Xtask(&["interop", "admin"]),
    ),
    tests(
        "curator",
        "Curator's recipes against Herdsman",
        &[Peer::Java, Peer::Curator],
        Run::Xtask(&["interop", "curator"]),
    ),
    tests(
        "shell",
        "herdsman shell prints what zkCli prints",
        &[Peer::Java, Peer::Zookeeper],
        Run::Xtask(&["interop", "shell"]),
    ),
    tests(
        "kazoo-three",
        "kazoo's tests that need an ensemble, against three Herdsman servers",
        &[Peer::Kazoo],
        Run::Xtask(&["interop", "kazoo-ensemble"]),
    ),
    tests(
        "disk",
        "Apache 3.9.5 and Herdsman open each other's data directories",
        &[Peer::Java, Peer::Zookeeper],
        Run::Xtask(&["interop", "disk"]),
    ),
    tests(
        "zkcli",
        "Apache's zkCli prints the same against both servers",
        &[Peer::Java, Peer::Zookeeper],
        Run::Xtask(&["interop", "zkcli"]),
    ),
    tests(
        "c",
        "the C client's library and its cli_mt against Herdsman",
        &[Peer::CClient],
        Run::Xtask(&["interop", "c"]),
    ),
    tests(
        "crash",
        "kill -9 under load loses no acknowledged write",
        &[],
        Run::Xtask(&["interop", "crash"]),
    ),
    tests(
        "sim",
        "200 simulated ensembles with faults, and one with a seed that nobody chose",
        &[],
        Run::Built("herdsman-sim", &["--seeds", "200", "--fresh", "1"]),
    ),
    tests(
        "rotting",
        "60 simulated ensembles in which records of several servers are damaged again and again",
        &[],
        Run::Built("herdsman-sim", &["--rotting", "--seeds", "60", "--fresh", "1"]),
    ),
    tests(
        "instructions",
        "no operation needs noticeably more instructions than the baseline says",
        &[Peer::Valgrind],
        Run::Xtask(&["instructions"]),
    ),
    Step {
        name: "hostile",
        about: "floods, garbage and slow readers beside good clients, which are still served",
        needs: &[],
        command: Run::Xtask(&["hostile", "--seconds", "0.5"]),
        stage: Stage::Alone,
    },
];
