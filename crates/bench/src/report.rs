//! What was measured, as numbers: the engine fills it in, tables, JSON and plots are made of it, and
//! programs that start servers read it back. Nothing here measures, and nothing here prints.
//!
//! A report has rows. A row is one workload against one target; its rounds were interleaved with those of the
//! other targets, so that a bad moment of the machine falls on all of them.

pub mod json;
pub mod plot;
#[cfg(test)]
pub(crate) mod samples;
pub mod table;
pub mod units;

use serde::{Deserialize, Serialize};

/// One run of the load generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// In the order in which they were asked for: all targets of the first workload, then of the next.
    pub rows: Vec<Row>,
    /// What the disk can do, if that was asked for.
    pub disk: Option<DiskLimit>,
}

/// The machine, as far as it explains numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// The processor's own name.
    pub processor: String,
    /// Kernel and release.
    pub system: String,
}

/// One workload against one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// As on the command line: `get`, `set`, `mixed`.
    pub workload: String,
    /// The target's name; [`ECHO`] is the roofline.
    pub target: String,
    /// Connections, each with its own session.
    pub connections: usize,
    /// Requests that a connection keeps in flight.
    pub depth: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Znodes that the workload works on.
    pub keys: usize,
    /// One for each round.
    pub rounds: Vec<Round>,
}

/// The target whose server only answers, and does nothing.
pub const ECHO: &str = "echo";

/// The target that others are compared with if it is there.
pub const APACHE: &str = "apache";

/// One round against one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Operations that were answered well.
    pub ops: u64,
    /// Operations that were answered with an error, wrongly, or not at all.
    pub errors: u64,
    /// The first error, in words.
    pub first_error: Option<String>,
    /// How long was measured.
    pub seconds: f64,
    /// From request to reply, in microseconds.
    pub latency: Latency,
    /// The longest time in which no reply came at all, in microseconds.
    pub longest_gap_us: u64,
}

/// Percentiles, in microseconds with a fraction: a loopback reply takes tens of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half are faster.
    pub p50_us: f64,
    /// 99 of 100 are faster.
    pub p99_us: f64,
    /// 999 of 1000 are faster.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

/// A loop of small appends, each made durable before the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskLimit {
    /// Appends made durable in a second.
    pub syncs_per_second: f64,
    /// Of one append and its `fdatasync`, in microseconds.
    pub sync: Latency,
    /// Bytes in one append.
    pub bytes: usize,
    /// The same with several appends made durable by one `fdatasync`, as a server under load does it.
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
    /// Of one batch and its `fdatasync`, in microseconds.
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
    /// The median of what the rounds say.
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

    /// How far the round that is farthest from the median is away from it, as a share of the median. `None`
    /// says that there is nothing to compare.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        let median = self.rate();
        if self.rounds.len() < 2 || median <= 0.0 {
            return None;
        }
        let farthest = self.rounds.iter().map(|round| (round.rate() - median).abs());
        Some(farthest.fold(0.0, f64::max) / median)
    }

    /// Percentiles: the median of the rounds, but the slowest request of all of them.
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

    /// Operations that were answered well, and those that were not, in all rounds.
    #[must_use]
    pub fn ops_and_errors(&self) -> (u64, u64) {
        self.rounds
            .iter()
            .fold((0, 0), |(ops, errors), round| (ops + round.ops, errors + round.errors))
    }

    /// Connections and depth, as people say it.
    #[must_use]
    pub fn shape(&self) -> String {
        format!("{} × {}", self.connections, self.depth)
    }

    /// Whether the other one is the same workload in the same shape, against whatever target.
    #[must_use]
    pub fn is_like(&self, other: &Row) -> bool {
        let shape = |row: &Row| (row.connections, row.depth, row.value_bytes, row.keys);
        self.workload == other.workload && shape(self) == shape(other)
    }
}

impl Report {
    /// Names of the targets in the order in which they appear; [`ECHO`] is not among them.
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

    /// The target that the others are compared with: `apache` if there is one, else the last. With fewer than
    /// two targets there is none.
    #[must_use]
    pub fn baseline(&self) -> Option<&str> {
        let targets = self.targets();
        if targets.len() < 2 {
            return None;
        }
        targets.iter().find(|name| **name == APACHE).or(targets.last()).copied()
    }

    /// How many times as fast as the same workload against another target, if both did anything.
    #[must_use]
    pub fn ratio(&self, row: &Row, target: &str) -> Option<f64> {
        let (rate, other) = (row.rate(), self.beside(row, target)?.rate());
        (rate > 0.0 && other > 0.0).then(|| rate / other)
    }

    /// The same workload in the same shape against another target.
    #[must_use]
    pub fn beside(&self, row: &Row, target: &str) -> Option<&Row> {
        self.rows.iter().find(|other| other.target == target && row.is_like(other))
    }
}
