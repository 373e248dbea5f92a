//! All tests, one step after another: the command that CI runs is the one a developer runs.
//!
//! In: which steps. Out: a heading and a time for each, a summary, and as the very last line `N
//! passed, N failed`. Each step is a command of its own whose output goes to
//! `target/test-logs/STEP.log`; of a failed one the end is shown. A step whose peers could not be
//! installed fails, unless the caller asked to skip such steps; only the advisories may be missing.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::paths;
use crate::peers::Peer;
use crate::run;

const TAIL_LINES: usize = 60;
const BUILD: &str = "build";

/// Which steps to run.
#[derive(Args)]
pub struct Options {
    /// Run only this step (may be given several times).
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Leave this step out (may be given several times).
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Skip the steps whose peers cannot be installed, instead of failing them.
    #[arg(long)]
    skip_missing: bool,
    /// Show the steps and what each is for, and run nothing.
    #[arg(long)]
    list: bool,
}

struct Step {
    name: &'static str,
    about: &'static str,
    needs: &'static [Peer],
    command: &'static [&'static str],
}

impl Step {
    /// Whether it needs the release build of this very source.
    fn runs_server(&self) -> bool {
        let tasks = ["interop", "chaos", "hostile", "stale-syncs"];
        matches!(self.command, ["xtask", task, ..] if tasks.contains(task))
    }
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

/// In the order they run: what fails soonest and most often first.
const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "the source is formatted as rustfmt does it",
        needs: &[],
        command: &["fmt", "--all", "--check"],
    },
    Step {
        name: "clippy",
        about: "no lint fires, tests included",
        needs: &[],
        command: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    },
    Step {
        name: "tidy",
        about: "the repository's own rules: crate edges, lengths, module docs",
        needs: &[],
        command: &["xtask", "tidy"],
    },
    Step {
        name: "publish",
        about: "the client, the recipes and the crates below them can be packaged for publication",
        needs: &[],
        command: PUBLISH,
    },
    Step {
        name: "advisories",
        about: "no known vulnerability in the crates that we stand on, where the database can be had",
        needs: &[Peer::AdvisoryDatabase],
        command: &["xtask", "advisories"],
    },
    Step {
        name: "unit",
        about: "cargo test: unit, golden and property tests, no network",
        needs: &[],
        command: &["test", "--workspace", "--no-fail-fast"],
    },
    Step {
        name: BUILD,
        about: "the release build that the steps below run",
        needs: &[],
        command: &["build", "--release", "--package", "herdsman"],
    },
    Step {
        name: "sim",
        about: "200 simulated ensembles with faults, and one that nobody has chosen",
        needs: &[],
        command: &[
            "run",
            "--release",
            "--package",
            "herdsman-sim",
            "--",
            "--seeds",
            "200",
            "--fresh",
            "1",
        ],
    },
    Step {
        name: "fuzz",
        about: "every decoder over its corpus of inputs",
        needs: &[],
        command: &["test", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"],
    },
    Step {
        name: "instructions",
        about: "no operation needs noticeably more instructions than the baseline says",
        needs: &[Peer::Valgrind],
        command: &["xtask", "instructions"],
    },
    Step {
        name: "differential",
        about: "seeded random requests, answered alike by Apache 3.9.5 and Herdsman",
        needs: &[Peer::Java, Peer::Zookeeper],
        command: &["xtask", "interop", "differential"],
    },
    Step {
        name: "moves",
        about: "the same with ensembles of three and an observer, and sessions that move",
        needs: &[Peer::Java, Peer::Zookeeper],
        command: &["xtask", "interop", "differential-ensemble"],
    },
    Step {
        name: "crash",
        about: "kill -9 under load loses no acknowledged write",
        needs: &[],
        command: &["xtask", "interop", "crash"],
    },
    Step {
        name: "disk",
        about: "Apache 3.9.5 and Herdsman open each other's data directories",
        needs: &[Peer::Java, Peer::Zookeeper],
        command: &["xtask", "interop", "disk"],
    },
    Step {
        name: "mixed",
        about: "ensembles of Apache 3.9.5 and Herdsman in every combination; a rolling replacement",
        needs: &[Peer::Java, Peer::Zookeeper],
        command: &["xtask", "interop", "mixed"],
    },
    Step {
        name: "chaos",
        about: "servers killed, paused and cut off under load: nothing is lost, all are equal",
        needs: &[],
        command: &["xtask", "chaos", "--seconds", "30", "--seed", "1"],
    },
    Step {
        name: "stale-syncs",
        about: "a leader that was paused and replaced does not answer syncs with old data",
        needs: &[],
        command: &["xtask", "stale-syncs", "--rounds", "8"],
    },
    Step {
        name: "hostile",
        about: "floods, garbage and slow readers beside good clients, who are served all the while",
        needs: &[],
        command: &["xtask", "hostile", "--seconds", "0.5"],
    },
    Step {
        name: "secured",
        about: "TLS, certificates and SASL with Apache's clients and beside Apache's servers",
        needs: &[Peer::Java, Peer::Zookeeper, Peer::OlderClients, Peer::Kazoo, Peer::SecureCClient],
        command: &["xtask", "interop", "secured"],
    },
    Step {
        name: "kerberos",
        about: "Kerberos logins of Apache's clients, kazoo and ours, and beside Apache's servers",
        needs: &[Peer::Java, Peer::Zookeeper, Peer::Kazoo, Peer::Kerberos, Peer::SecureCClient],
        command: &["xtask", "interop", "kerberos"],
    },
    Step {
        name: "admin",
        about: "the admin server answers as Apache's does; snapshots go both ways",
        needs: &[Peer::Java, Peer::Zookeeper],
        command: &["xtask", "interop", "admin"],
    },
    Step {
        name: "c",
        about: "the C client's library and its cli_mt against Herdsman",
        needs: &[Peer::CClient],
        command: &["xtask", "interop", "c"],
    },
    Step {
        name: "zkcli",
        about: "Apache's zkCli prints the same against both servers",
        needs: &[Peer::Java, Peer::Zookeeper],
        command: &["xtask", "interop", "zkcli"],
    },
    Step {
        name: "shell",
        about: "herdsman shell prints what zkCli prints",
        needs: &[Peer::Java, Peer::Zookeeper],
        command: &["xtask", "interop", "shell"],
    },
    Step {
        name: "curator",
        about: "Curator's recipes against Herdsman",
        needs: &[Peer::Java, Peer::Curator],
        command: &["xtask", "interop", "curator"],
    },
    Step {
        name: "recipes",
        about: "our recipes, Curator's, ZooKeeper's and kazoo's on the same paths, also with faults",
        needs: &[Peer::Java, Peer::Curator, Peer::ZookeeperRecipes, Peer::Kazoo],
        command: &["xtask", "interop", "recipes"],
    },
    Step {
        name: "console",
        about: "Chromium clicks through the console of three Herdsman servers",
        needs: &[Peer::Browser],
        command: &["xtask", "interop", "console"],
    },
    Step {
        name: "kazoo",
        about: "kazoo's own test suite against Herdsman",
        needs: &[Peer::Kazoo],
        command: &["xtask", "interop", "kazoo"],
    },
    Step {
        name: "kazoo-three",
        about: "kazoo's tests that need an ensemble, against three Herdsman servers",
        needs: &[Peer::Kazoo],
        command: &["xtask", "interop", "kazoo-ensemble"],
    },
];

enum Verdict {
    Passed,
    Skipped(String),
    Failed,
}

/// Runs the chosen steps; fails if any step failed.
pub fn test(options: &Options) -> Result<()> {
    let steps = chosen(options)?;
    if options.list {
        for step in steps {
            println!("{:13} {}", step.name, step.about);
        }
        return Ok(());
    }
    let mut results: Vec<(&str, Verdict, Duration)> = Vec::new();
    for step in steps {
        println!("\n== {}: {}", step.name, step.about);
        let start = Instant::now();
        let built = !results.iter().any(|(name, v, _)| *name == BUILD && v.is_failure());
        let verdict = if step.runs_server() && !built {
            println!("not run: it would test an old build");
            Verdict::Failed
        } else {
            run_step(step, options.skip_missing)?
        };
        println!("== {}: {} in {}", step.name, verdict.word(), seconds(start.elapsed()));
        results.push((step.name, verdict, start.elapsed()));
    }
    summarize(&results)
}

fn chosen(options: &Options) -> Result<Vec<&'static Step>> {
    for name in options.only.iter().chain(&options.skip) {
        let known = STEPS.iter().any(|step| step.name == name);
        ensure!(known, "no step is called `{name}`; `cargo xtask test --list` shows them");
    }
    let wanted = |step: &&Step| {
        let named = |names: &[String]| names.iter().any(|name| name == step.name);
        (options.only.is_empty() || named(&options.only)) && !named(&options.skip)
    };
    Ok(STEPS.iter().filter(wanted).collect())
}

fn run_step(step: &Step, skip_missing: bool) -> Result<Verdict> {
    for peer in step.needs {
        if let Err(error) = peer.ensure() {
            println!("{error:#}");
            return Ok(if skip_missing || peer.may_be_missing() {
                Verdict::Skipped(format!("{} is missing", peer.name()))
            } else {
                Verdict::Failed
            });
        }
    }
    let log_path = log_path(step)?;
    let log = File::create(&log_path)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(step.command)
        .current_dir(paths::root())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .with_context(|| format!("running cargo {}", step.command.join(" ")))?;
    if status.success() {
        return Ok(Verdict::Passed);
    }
    println!("{}", run::tail(&log_path, TAIL_LINES));
    println!("(all of it: {})", log_path.display());
    Ok(Verdict::Failed)
}

fn log_path(step: &Step) -> Result<PathBuf> {
    let dir = paths::target().join("test-logs");
    fs::create_dir_all(&dir)?;
    Ok(dir.join(format!("{}.log", step.name)))
}

fn summarize(results: &[(&str, Verdict, Duration)]) -> Result<()> {
    println!();
    for (name, verdict, time) in results {
        println!("{name:13} {:8} {}", seconds(*time), verdict.word());
    }
    let count = |wanted: fn(&Verdict) -> bool| results.iter().filter(|(_, v, _)| wanted(v)).count();
    let passed = count(|verdict| matches!(verdict, Verdict::Passed));
    let failed = count(Verdict::is_failure);
    let skipped = count(|verdict| matches!(verdict, Verdict::Skipped(_)));
    let mut line = format!("{passed} passed, {failed} failed");
    if skipped > 0 {
        line += &format!(", {skipped} skipped");
    }
    println!("\n{line}");
    std::io::stdout().flush()?;
    if failed > 0 {
        // The summary above is the message; an error of ours would come behind the last line.
        std::process::exit(1);
    }
    if passed == 0 {
        bail!("no step ran");
    }
    Ok(())
}

impl Verdict {
    fn is_failure(&self) -> bool {
        matches!(self, Verdict::Failed)
    }

    fn word(&self) -> String {
        match self {
            Verdict::Passed => "passed".into(),
            Verdict::Failed => "FAILED".into(),
            Verdict::Skipped(why) => format!("skipped, {why}"),
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(only: &[&str], skip: &[&str]) -> Options {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Options { only: owned(only), skip: owned(skip), skip_missing: false, list: false }
    }

    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        let names = |options| -> Vec<_> {
            chosen(&options).unwrap().iter().map(|step| step.name).collect()
        };
        assert_eq!(names(options(&["tidy", "fmt"], &[])), ["fmt", "tidy"]);
        assert_eq!(names(options(&["tidy", "fmt"], &["fmt"])), ["tidy"]);
        assert_eq!(names(options(&[], &[])).len(), STEPS.len());
    }

    #[test]
    fn an_unknown_step_is_refused() {
        assert!(chosen(&options(&["tydi"], &[])).is_err());
        assert!(chosen(&options(&[], &["tydi"])).is_err());
    }
}
