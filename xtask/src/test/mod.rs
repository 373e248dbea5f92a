//! All tests: the command that CI runs is the one a developer runs.
//!
//! In: which steps. Out: a line when a step starts and when it ends, a summary with the times, and as the very last
//! line `N passed, N failed`. Each step is a command of its own whose output goes to `target/test-logs/STEP.log`; of a
//! failed one the end is shown.
//!
//! Everything is built once, in the development profile, and run by path. Then several steps run side by side, because
//! most of them wait most of the time; what measures times runs alone at the end. Meanwhile one thread installs the
//! programs of others. A step whose programs cannot be installed is skipped and named in the summary; with `--strict`,
//! or `CI=true` in the environment, it fails. Only the advisories may always be missing.

mod programs;
mod steps;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::paths;
use crate::run;
use programs::Programs;
use steps::{Run, STEPS, Stage, Step};

const TAIL_LINES: usize = 60;
/// How a suite names the tests that passed only when they were repeated; the summary repeats it.
const RETRIES: &str = "passed with retries: ";

/// Which steps to run.
#[derive(Args)]
pub struct Options {
    /// Run only this step, and the build if it needs that (may be given several times).
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Leave this step out (may be given several times).
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Fail steps whose programs cannot be installed, instead of skipping them. Implied by CI=true.
    #[arg(long)]
    strict: bool,
    /// Run up to this many steps side by side [default: one more than there are processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Show the steps and what each is for, and run nothing.
    #[arg(long)]
    list: bool,
}

/// What became of a step.
enum Verdict {
    /// It passed; perhaps some of its tests only when they were repeated.
    Passed {
        retries: Option<String>,
    },
    Skipped(String),
    Failed,
}

struct Done {
    step: &'static Step,
    verdict: Verdict,
    time: Duration,
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
    let start = Instant::now();
    let runner = Runner {
        programs: &Programs::install(&steps),
        is_strict: options.strict || std::env::var("CI").is_ok_and(|value| value == "true"),
        // By its path of now: the build puts an equal program in its place.
        xtask: std::env::current_exe()?,
        done: Mutex::default(),
    };
    let of_stage = |stage| steps.iter().copied().filter(move |step| step.stage == stage);
    of_stage(Stage::Checks).for_each(|step| runner.run(step));
    of_stage(Stage::Build).for_each(|step| runner.run(step));
    if runner.is_built() {
        runner.run_side_by_side(of_stage(Stage::Tests).collect(), jobs(options));
        of_stage(Stage::Alone).for_each(|step| runner.run(step));
    } else {
        let not_run = |step| runner.finish(step, Verdict::Failed, Duration::ZERO, "not built");
        steps.iter().copied().filter(|step| step.stage > Stage::Build).for_each(not_run);
    }
    let done = runner.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    summarize(&done, start.elapsed())
}

/// The chosen steps, and the build if one of them needs it.
fn chosen(options: &Options) -> Result<Vec<&'static Step>> {
    for name in options.only.iter().chain(&options.skip) {
        let known = STEPS.iter().any(|step| step.name == name);
        ensure!(known, "no step is called `{name}`; `cargo xtask test --list` shows them");
    }
    let named = |names: &[String], step: &Step| names.iter().any(|name| name == step.name);
    let needs_build =
        STEPS.iter().any(|step| step.stage > Stage::Build && named(&options.only, step));
    let wanted = |step: &&Step| {
        let is_needed = step.stage == Stage::Build && needs_build;
        (options.only.is_empty() || named(&options.only, step) || is_needed)
            && !named(&options.skip, step)
    };
    Ok(STEPS.iter().filter(wanted).collect())
}

fn jobs(options: &Options) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    options.jobs.map_or_else(|| processors() + 1, usize::from)
}

struct Runner<'a> {
    programs: &'a Programs,
    is_strict: bool,
    xtask: PathBuf,
    /// In the order in which they ended.
    done: Mutex<Vec<Done>>,
}

impl Runner<'_> {
    fn is_built(&self) -> bool {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        !done.iter().any(|done| done.step.stage == Stage::Build && done.verdict.is_failure())
    }

    /// A step whose programs are still being installed lets others go first.
    fn run_side_by_side(&self, steps: VecDeque<&'static Step>, jobs: usize) {
        let waiting = Mutex::new(steps);
        let next = || {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let ready = waiting.iter().position(|step| self.programs.are_known(step.needs));
            waiting.remove(ready.unwrap_or(0))
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(step) = next() {
                        self.run(step);
                    }
                });
            }
        });
    }

    fn run(&self, step: &'static Step) {
        if let Some((peer, why)) = self.programs.missing(step.needs) {
            let verdict = if self.is_strict && !peer.may_be_missing() {
                Verdict::Failed
            } else {
                Verdict::Skipped(format!("{} is missing", peer.name()))
            };
            return self.finish(step, verdict, Duration::ZERO, &why);
        }
        println!("== {} started: {}", step.name, step.about);
        let start = Instant::now();
        let (verdict, text) = match execute(step, &self.xtask) {
            Ok(result) => result,
            Err(error) => (Verdict::Failed, format!("{error:#}")),
        };
        self.finish(step, verdict, start.elapsed(), &text);
    }

    /// One text for each step, because others may end at the same moment.
    fn finish(&self, step: &'static Step, verdict: Verdict, time: Duration, text: &str) {
        let separator = if text.is_empty() { "" } else { "\n" };
        println!("{text}{separator}== {}: {} in {}", step.name, verdict.text(), seconds(time));
        let done = Done { step, verdict, time };
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }
}

/// Runs a step's command to its end. Returns what to show of its output, too.
fn execute(step: &Step, xtask: &Path) -> Result<(Verdict, String)> {
    let path = log_path(step)?;
    let log = File::create(&path)?;
    let status = command(step.command, xtask)
        .current_dir(paths::root())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .with_context(|| format!("running the step {}", step.name))?;
    if status.success() {
        return Ok((Verdict::Passed { retries: retries(&path)? }, String::new()));
    }
    let tail = run::tail(&path, TAIL_LINES);
    Ok((Verdict::Failed, format!("{tail}\n(all of it: {})", path.display())))
}

fn command(run: Run, xtask: &Path) -> Command {
    let (mut command, arguments) = match run {
        Run::Cargo(arguments) => {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            (Command::new(cargo), arguments)
        }
        Run::Xtask(arguments) => (Command::new(xtask), arguments),
        Run::Built(program, arguments) => (Command::new(paths::built(program)), arguments),
    };
    command.args(arguments);
    if !matches!(run, Run::Cargo(_)) {
        command.env(run::BUILT_VARIABLE, "1").env("HERDSMAN", paths::built("herdsman"));
    }
    command
}

fn retries(log: &Path) -> Result<Option<String>> {
    let text = fs::read(log).with_context(|| format!("reading {}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().find_map(|line| line.strip_prefix(RETRIES)).map(str::to_owned))
}

fn log_path(step: &Step) -> Result<PathBuf> {
    let dir = paths::target().join("test-logs");
    fs::create_dir_all(&dir)?;
    Ok(dir.join(format!("{}.log", step.name)))
}

fn summarize(done: &[Done], time: Duration) -> Result<()> {
    println!();
    for Done { step, verdict, time } in done {
        println!("{:13} {:>8} {}", step.name, seconds(*time), verdict.text());
    }
    println!("{:13} {:>8}", "all", seconds(time));
    let count = |wanted: fn(&Verdict) -> bool| done.iter().filter(|d| wanted(&d.verdict)).count();
    let passed = count(|verdict| matches!(verdict, Verdict::Passed { .. }));
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

    fn text(&self) -> String {
        match self {
            Verdict::Passed { retries: None } => "passed".into(),
            Verdict::Passed { retries: Some(tests) } => format!("{RETRIES}{tests}"),
            Verdict::Skipped(why) => format!("skipped, {why}"),
            Verdict::Failed => "FAILED".into(),
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
        Options { only: owned(only), skip: owned(skip), strict: false, jobs: None, list: false }
    }

    fn names(only: &[&str], skip: &[&str]) -> Vec<&'static str> {
        chosen(&options(only, skip)).unwrap().iter().map(|step| step.name).collect()
    }

    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        assert_eq!(names(&["tidy", "fmt"], &[]), ["fmt", "tidy"]);
        assert_eq!(names(&["tidy", "fmt"], &["fmt"]), ["tidy"]);
        assert_eq!(names(&[], &[]).len(), STEPS.len());
    }

    #[test]
    fn what_runs_the_server_is_built_first() {
        assert_eq!(names(&["crash"], &[]), ["build", "crash"]);
        assert_eq!(names(&["crash"], &["build"]), ["crash"]);
    }

    #[test]
    fn stages_are_in_order() {
        assert!(STEPS.is_sorted_by_key(|step| step.stage));
    }

    #[test]
    fn an_unknown_step_is_refused() {
        assert!(chosen(&options(&["tydi"], &[])).is_err());
        assert!(chosen(&options(&[], &["tydi"])).is_err());
    }

    #[test]
    fn a_failed_step_fails_and_shows_its_output() {
        let step = Step {
            name: "self-test",
            about: "fails",
            needs: &[],
            command: Run::Cargo(&["no-such-command"]),
            stage: Stage::Tests,
        };
        let (verdict, text) = execute(&step, Path::new("xtask")).unwrap();
        assert!(verdict.is_failure());
        assert!(text.contains("no-such-command"), "{text}");
    }

    #[test]
    fn repeated_tests_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        fs::write(&log, "3 passed\npassed with retries: a::b, c::d\n").unwrap();
        assert_eq!(retries(&log).unwrap().as_deref(), Some("a::b, c::d"));
        fs::write(&log, "3 passed\n").unwrap();
        assert_eq!(retries(&log).unwrap(), None);
    }
}
