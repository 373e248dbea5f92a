//! The results of a run as numbers: the engine fills it in, tables, JSON and plots are made from it, and
//! programs that start servers read it. Nothing is measured or printed here.
//!
//! A report has rows. A row is one workload against one target; its rounds were interleaved with those of
//! the other targets, so that a disturbance of the machine affects all of them.

pub mod json;
pub mod plot;
#[cfg(test)]
pub(crate) mod samples;
pub mod table;
pub mod units;

use serde::{Deserialize, Serialize};

/// A run of the load generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The rows, in the requested order: all targets of the first workload, then of the next.
    pub rows: Vec<Row>,
    /// The limits of the disk, if they were measured.
    pub disk: Option<DiskLimit>,
}

/// The machine, as far as it explains the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// Kernel and release.
    pub system: String,
}

/// One workload against one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The workload as on the command line: `get`, `set`, `mixed`.
    pub workload: String,
    /// The target's name; [`ECHO`] is the roofline.
    pub target: String,
    /// Connections, each with its own session.
    pub connections: usize,
    /// Requests that a connection keeps in flight.
    pub depth: usize,
    /// Size of a value in bytes.
    pub value_bytes: usize,
    /// Znodes that the workload works on.
    pub keys: usize,
    /// The rounds.
    pub rounds: Vec<Round>,
}

/// The target whose server only replies and does nothing else.
pub const ECHO: &str = "echo";

/// The target that others are compared with, if it is present.
pub const APACHE: &str = "apache";

/// One round against one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Operations that succeeded.
    pub ops: u64,
    /// Operations that failed, had a wrong reply, or none.
    pub errors: u64,
    /// The first error.
    pub first_error: Option<String>,
    /// The duration of the measurement.
    pub seconds: f64,
    /// From request to reply, in microseconds.
    pub latency: Latency,
    /// The longest time without any reply, in microseconds.
    pub longest_gap_us: u64,
}

/// Percentiles in microseconds, with fractions: a loopback reply takes only tens of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half are faster.
    pub p50_us: f64,
    /// 99 of 100 are faster.
    pub p99_us: f64,
    /// 999 of 1000 are faster.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
}

/// The results of a loop of small appends, each made durable before the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskLimit {
    /// Appends made durable in a second.
    pub syncs_per_second: f64,
    /// Latency of one append and its `fdatasync`, in microseconds.
    pub sync: Latency,
    /// Bytes in one append.
    pub bytes: usize,
    /// The same with several appends for each `fdatasync`, as a server does under load.
    #[serde(default)]
    pub batched: BatchedSyncs,
}

/// Several appends for each `fdatasync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchedSyncs {
    /// Appends in a batch.
    pub appends: usize,
    /// Appends made durable in a second.
    pub appends_per_second: f64,
    /// Latency of one batch and its `fdatasync`, in microseconds.
    pub sync: Latency,
}

impl Round {
    /// Operations per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.ops as f64 / self.seconds } else { 0.0 }
    }
}

impl Row {
    /// The median of `value` over the rounds.
    #[must_use]
    pub fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        match values.len() {
            0 => 0.0,
            n if n % 2 == 1 => values[n / 2],
            n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
        }
    }

    /// Operations per second: the median of the rounds.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.median(Round::rate)
    }

    /// The largest deviation of a round from the median, as a fraction of the median. `None` if there are
    /// fewer than two rounds.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        let median = self.rate();
        if self.rounds.len() < 2 || median <= 0.0 {
            return None;
        }
        let farthest = self.rounds.iter().map(|round| (round.rate() - median).abs());
        Some(farthest.fold(0.0, f64::max) / median)
    }

    /// Percentiles: the median of the rounds, but the maximum over all of them.
    #[must_use]
    pub fn latency(&self) -> Latency {
        Latency {
            p50_us: self.median(|round| round.latency.p50_us),
            p99_us: self.median(|round| round.latency.p99_us),
            p999_us: self.median(|round| round.latency.p999_us),
            max_us: self.rounds.iter().map(|round| round.latency.max_us).fold(0.0, f64::max),
        }
    }

    /// The longest time without a reply in any round, in microseconds.
    #[must_use]
    pub fn longest_gap_us(&self) -> u64 {
        self.rounds.iter().map(|round| round.longest_gap_us).max().unwrap_or(0)
    }

    /// Operations that succeeded and operations that failed, in all rounds.
    #[must_use]
    pub fn ops_and_errors(&self) -> (u64, u64) {
        self.rounds
            .iter()
            .fold((0, 0), |(ops, errors), round| (ops + round.ops, errors + round.errors))
    }

    /// Connections and depth, for display.
    #[must_use]
    pub fn shape(&self) -> String {
        format!("{} × {}", self.connections, self.depth)
    }

    /// Whether the other row has the same workload and shape, against any target.
    #[must_use]
    pub fn is_like(&self, other: &Row) -> bool {
        let shape = |row: &Row| (row.connections, row.depth, row.value_bytes, row.keys);
        self.workload == other.workload && shape(self) == shape(other)
    }
}

impl Report {
    /// Names of the targets in order of appearance, without [`ECHO`].
    #[must_use]
    pub fn targets(&self) -> Vec<&str> {
        let mut targets = Vec::new();
        for row in &self.rows {
            let name = row.target.as_str();
            if name != ECHO && !targets.contains(&name) {
                targets.push(name);
            }
        }
        targets
    }

    /// The target that the others are compared with: `apache` if it is present, else the last. With fewer
    /// than two targets there is none.
    #[must_use]
    pub fn baseline(&self) -> Option<&str> {
        let targets = self.targets();
        if targets.len() < 2 {
            return None;
        }
        targets.iter().find(|name| **name == APACHE).or(targets.last()).copied()
    }

    /// The rate relative to that of the same workload against another target, if both have one.
    #[must_use]
    pub fn ratio(&self, row: &Row, target: &str) -> Option<f64> {
        let (rate, other) = (row.rate(), self.beside(row, target)?.rate());
        (rate > 0.0 && other > 0.0).then(|| rate / other)
    }

    /// The row with the same workload and shape against another target.
    #[must_use]
    pub fn beside(&self, row: &Row, target: &str) -> Option<&Row> {
        self.rows.iter().find(|other| other.target == target && row.is_like(other))
    }
}
