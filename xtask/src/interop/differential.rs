//! Starts Apache 3.9.5 and the server under test, both empty and with equal settings, and passes them to
//! `interop/differential`, which sends both the same requests: first the fixed scenarios, then seeded
//! random scripts. Then the same with ensembles, whose sessions move between servers: once with global
//! sessions, once with local ones.

use std::path::Path;

use anyhow::{Context, Result};

use crate::ensemble::{Ensemble, Network, Role, Settings};
use crate::paths;
use crate::run;
use crate::server::{Program, Spec};

const SEEDS: &str = "40";
const ENSEMBLE_SEEDS: &str = "10";
/// Ensembles settle after every action, so scripts of the usual length would take long.
const ENSEMBLE_STEPS: &str = "250";
const ENSEMBLE: [Role; 4] =
    [Role::Participant, Role::Participant, Role::Participant, Role::Observer];
const TICK_MS: u32 = 2000;
/// A change of leader within a script would change the zxids on one side.
const SYNC_LIMIT: u32 = 20;
/// The system properties of every server.
const PROPERTIES: [(&str, &str); 3] = [
    // `super:secret`, which the scripts use.
    ("zookeeper.DigestAuthenticationProvider.superDigest", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="),
    ("zookeeper.enforceQuota", "true"),
    // No sweep uses zxids in the middle of a script.
    ("znode.container.checkIntervalMs", "100000000"),
];

/// Compares one server of each program. Arguments replace the default scenarios and scripts.
pub fn run(program: Program, arguments: &[String]) -> Result<()> {
    let work = paths::fresh_dir(&format!("differential-{}", program.name()))?;
    let right = spec(Program::Apache, &work.join("right")).start()?;
    let tested = spec(program, &work.join("tested")).start()?;
    let sides = [right.address.clone(), tested.address.clone()];
    if arguments.is_empty() {
        compare(&sides, &["--scenario", "all", "--keep-going"]).context("the scenarios")?;
        compare(&sides, &["--seeds", SEEDS]).context("the random scripts")?;
    } else {
        compare(&sides, arguments)?;
    }
    tested.stop()?;
    right.stop()
}

/// Compares an ensemble of each program.
pub fn run_ensemble(program: Program, arguments: &[String]) -> Result<()> {
    with_ensembles(program, Sessions::Global, arguments)?;
    with_ensembles(program, Sessions::Local, arguments)
}

/// Which servers know a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sessions {
    /// All servers.
    Global,
    /// The server that opened it, until it owns an ephemeral.
    Local,
}

impl Sessions {
    fn name(self) -> &'static str {
        match self {
            Sessions::Global => "global",
            Sessions::Local => "local",
        }
    }

    /// Lines of every zoo.cfg.
    fn lines(self) -> Vec<String> {
        let names = match self {
            Sessions::Global => &[][..],
            Sessions::Local => &["localSessionsEnabled", "localSessionsUpgradingEnabled"][..],
        };
        names.iter().map(|name| format!("{name}=true")).collect()
    }
}

fn with_ensembles(program: Program, sessions: Sessions, arguments: &[String]) -> Result<()> {
    println!("ensembles with {} sessions", sessions.name());
    let work = paths::fresh_dir(&format!("differential-{}-{}", sessions.name(), program.name()))?;
    let mut settings = Settings::new(TICK_MS, SYNC_LIMIT);
    for (name, value) in PROPERTIES {
        settings = settings.property(name, value);
    }
    settings.lines = sessions.lines();
    let ensemble = |program: Program, name: &str| {
        let servers = ENSEMBLE.map(|role| (program, role));
        Ensemble::new(&work.join(name), &servers, &settings, Network::Loopback)
    };
    let mut right = ensemble(Program::Apache, "right")?;
    let mut tested = ensemble(program, "tested")?;
    right.start_all()?;
    tested.start_all()?;
    let sides = [right.addresses().join(","), tested.addresses().join(",")];
    let compare = |arguments: &[&str]| {
        let kind = (sessions == Sessions::Local).then_some("--local-sessions");
        compare(&sides, &kind.into_iter().chain(arguments.iter().copied()).collect::<Vec<_>>())
    };
    if arguments.is_empty() {
        compare(&["--scenario", "all", "--keep-going"]).context("the scenarios")?;
        compare(&["--seeds", ENSEMBLE_SEEDS, "--steps", ENSEMBLE_STEPS])
            .context("the random scripts")?;
    } else {
        compare(&arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    tested.stop_all()?;
    right.stop_all()
}

fn compare(sides: &[String; 2], arguments: &[impl AsRef<std::ffi::OsStr>]) -> Result<()> {
    let mut command = run::workspace_program("differential")?;
    run::inherit(command.args(["--a", &sides[0], "--b", &sides[1]]).args(arguments))
}

fn spec(program: Program, data_dir: &Path) -> Spec {
    PROPERTIES
        .iter()
        .fold(Spec::new(program, data_dir), |spec, (name, value)| spec.property(name, value))
}
