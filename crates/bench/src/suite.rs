//! A whole run: prepares every target, interleaves their rounds, and cleans up.
//!
//! In: the arguments. Out: a [`Report`], also after an interrupt. If a target cannot be reached at the start, the run
//! ends before anything was changed; a target that fails later gets rounds with errors, and the others continue.

use anyhow::{Context as _, Result};

use crate::arguments::{Arguments, FillArguments};
use crate::machine::this_machine;
use crate::names::Family;
use crate::progress::Progress;
use crate::protection;
use crate::report::{Report, Round, Row, units};
use crate::round::{RoundContext, family_of, run_round};
use crate::script::run_to_end;
use crate::setup::{Keys, Setup};
use crate::spawned_echo::SpawnedEcho;
use crate::stop::Stop;
use crate::target::Target;
use crate::workload::Workload;

/// Runs the measurements of these arguments.
pub fn measure(arguments: &Arguments, progress: Progress, stop: &Stop) -> Result<Report> {
    let echo = match arguments.shape.echo {
        true => Some(SpawnedEcho::start(arguments.znodes.value_bytes, arguments.shape.children)?),
        false => None,
    };
    let mut targets = resolve(arguments)?;
    targets.extend(echo.as_ref().map(SpawnedEcho::target));
    let suite = Suite { arguments, targets: &targets, progress, stop };
    suite.check()?;
    let prepared = suite.prepare();
    let report = prepared.map(|()| suite.run());
    let cleaned = suite.clean();
    let report = report?;
    // The results are worth showing nevertheless.
    if let Err(error) = cleaned {
        progress.print(&format!("some znodes could not be deleted: {error:#}"));
    }
    Ok(report)
}

/// Creates the keys, and keeps them.
pub fn fill(arguments: &FillArguments, progress: Progress, stop: &Stop) -> Result<()> {
    let tls = protection::load(&arguments.target_arguments.tls)?;
    for spec in &arguments.target_arguments.targets {
        let target = spec.resolve(tls.as_ref())?;
        let keys = Keys::FillIn;
        Setup { target: &target, znodes: &arguments.znodes, keys, progress }.prepare(stop)?;
        anyhow::ensure!(
            !stop.is_requested(),
            "interrupted: the keys are not complete; run `herdsman bench fill` again"
        );
    }
    Ok(())
}

fn resolve(arguments: &Arguments) -> Result<Vec<Target>> {
    let specs = &arguments.target_arguments.targets;
    for (index, spec) in specs.iter().enumerate() {
        let is_double = specs[..index].iter().any(|other| other.name() == spec.name());
        anyhow::ensure!(
            !is_double,
            "two targets have the name {}: give each its own name",
            spec.name()
        );
    }
    let tls = protection::load(&arguments.target_arguments.tls)?;
    specs.iter().map(|spec| spec.resolve(tls.as_ref())).collect()
}

struct Suite<'a> {
    arguments: &'a Arguments,
    targets: &'a [Target],
    progress: Progress,
    stop: &'a Stop,
}

impl Suite<'_> {
    fn setups(&self) -> impl Iterator<Item = Setup<'_>> {
        let uses_keys = self.arguments.workloads.iter().any(|workload| workload.uses_keys());
        let keys = match (self.arguments.shape.filled, uses_keys) {
            (true, _) => Keys::AlreadyThere,
            (false, true) => Keys::FillIn,
            (false, false) => Keys::Unused,
        };
        let real = self.targets.iter().filter(|target| !target.is_echo());
        real.map(move |target| Setup {
            target,
            znodes: &self.arguments.znodes,
            keys,
            progress: self.progress,
        })
    }

    /// Checks that every target can be prepared.
    fn check(&self) -> Result<()> {
        self.setups().try_for_each(|setup| setup.check())
    }

    fn prepare(&self) -> Result<()> {
        for setup in self.setups() {
            setup.prepare(self.stop)?;
            for &workload in &self.arguments.workloads {
                if self.stop.is_requested() {
                    return Ok(());
                }
                self.prepare_workload(&setup, workload).with_context(|| {
                    format!("target {}: preparing {}", setup.target.name(), workload.name())
                })?;
            }
        }
        Ok(())
    }

    /// Creates the znodes that a workload needs besides the keys.
    fn prepare_workload(&self, setup: &Setup<'_>, workload: Workload) -> Result<()> {
        if workload.uses_keys() || workload == Workload::Session {
            return Ok(());
        }
        let (znodes, shape) = (&self.arguments.znodes, &self.arguments.shape);
        let family = family_of(workload, znodes, shape);
        setup.create_parents(&family, self.stop)?;
        if workload == Workload::Children {
            self.create_children(setup, &family)?;
        }
        Ok(())
    }

    fn create_children(&self, setup: &Setup<'_>, family: &Family) -> Result<()> {
        let meter = self.progress.waiting("creating children");
        let load =
            crate::workload::children::CreateChildren::new(family, self.arguments.shape.children);
        run_to_end(setup.target, load, &meter, self.stop).map(|_| ())
    }

    /// Deletes what was created. On a target that was not prepared, only leftovers of earlier runs are deleted.
    fn clean(&self) -> Result<()> {
        if self.arguments.shape.keep {
            return Ok(());
        }
        let mut result = Ok(());
        for setup in self.setups() {
            result = result.and(setup.clean());
        }
        result
    }

    fn run(&self) -> Report {
        let mut report = Report { machine: this_machine(), ..Report::default() };
        for &workload in &self.arguments.workloads {
            if !self.stop.is_requested() {
                report.rows.extend(self.run_workload(workload));
            }
        }
        report
    }

    /// Runs all rounds of one workload, interleaving the targets.
    fn run_workload(&self, workload: Workload) -> Vec<Row> {
        let mut rows: Vec<(Row, &Target)> = self
            .targets
            .iter()
            .filter(|target| !target.is_echo() || workload.suits_echo())
            .map(|target| (self.empty_row(workload, target), target))
            .collect();
        for number in 1..=self.arguments.shape.rounds {
            for (row, target) in &mut rows {
                if !self.stop.is_requested() {
                    row.rounds.push(self.run_round(workload, target, number));
                }
            }
        }
        rows.into_iter().map(|(row, _)| row).filter(|row| !row.rounds.is_empty()).collect()
    }

    fn empty_row(&self, workload: Workload, target: &Target) -> Row {
        let (shape, znodes) = (&self.arguments.shape, &self.arguments.znodes);
        Row {
            workload: workload.name().to_owned(),
            target: target.name().to_owned(),
            connections: shape.connections,
            depth: if workload.is_pipelined() { shape.depth } else { 1 },
            value_bytes: znodes.value_bytes,
            keys: if workload.uses_keys() { znodes.keys as usize } else { 0 },
            rounds: Vec::new(),
        }
    }

    fn run_round(&self, workload: Workload, target: &Target, number: usize) -> Round {
        let rounds = self.arguments.shape.rounds;
        let what = format!("{} {} round {number}/{rounds}", workload.name(), target.name());
        let meter = self.progress.waiting(&what);
        let context = RoundContext {
            target,
            shape: &self.arguments.shape,
            znodes: &self.arguments.znodes,
            stop: self.stop,
            progress: self.progress,
            seed: number as u64,
        };
        let round = run_round(workload, &context).unwrap_or_else(|error| Round {
            errors: 1,
            first_error: Some(format!("{error:#}")),
            ..Round::default()
        });
        drop(meter);
        self.progress.print(&format!("{what}: {}", round_line(&round)));
        round
    }
}

/// Describes a round in one line.
fn round_line(round: &Round) -> String {
    let latency = &round.latency;
    let mut line = format!(
        "{}, p50 {}, p99 {}, longest gap {}",
        units::rate(round.rate()),
        units::micros(latency.p50_us),
        units::micros(latency.p99_us),
        units::micros(round.longest_gap_us as f64)
    );
    if let Some(words) = &round.first_error {
        line.push_str(&format!("; {} errors, the first: {words}", round.errors));
    }
    line
}
