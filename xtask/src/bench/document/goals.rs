//! The goals, and whether they are met.
//!
//! In: the table of goals below, and the measurements of the parts. Out: for each goal its numbers, the
//! goal and the result as text, and a verdict. This file contains only goals, no results.

use herdsman_bench::report::{ECHO, Round};

use super::number::{Sample, Unit, digits};
use crate::bench::raw::{APACHE, HERDSMAN, LIMIT, Measured};

/// A row of the table.
pub struct Goal {
    /// The part that measures it.
    pub part: &'static str,
    /// Its title in the table.
    pub title: &'static str,
    /// The unit of all its numbers.
    pub unit: Unit,
    source: Source,
    limit: Limit,
    wanted: &'static [Wanted],
}

/// The number of a part that is compared.
#[derive(Clone, Copy)]
enum Source {
    /// Operations per second.
    Rate,
    /// The median time of an operation, in microseconds.
    P50,
    /// A figure of this name.
    Figure(&'static str),
}

/// What limits the number.
#[derive(Clone, Copy)]
enum Limit {
    /// No measured limit.
    None,
    /// The echo server's number.
    Echo,
    /// The echo server's time, and that of one sync.
    EchoAndSync,
    /// How often the disk can sync.
    SyncRate,
    /// How many appends the disk makes durable, with several for each sync.
    BatchedSyncs,
    /// The figure's own limit, described by this text.
    Figure(&'static str),
}

/// A condition.
#[derive(Clone, Copy)]
enum Wanted {
    /// At least this part of the limit.
    OfLimit(f64),
    /// At least this many times Apache's number.
    TimesApache(f64),
    /// At most this many times the limit.
    WithinLimit(f64),
    /// At most this much more than the limit.
    AboveLimit(f64),
    /// At most this.
    AtMost(f64),
}

/// The numbers of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Herdsman's.
    pub herdsman: Option<Sample>,
    /// Apache's.
    pub apache: Option<Sample>,
    /// The limit.
    pub limit: Option<f64>,
}

/// Whether a goal was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every condition holds.
    Met,
    /// One condition does not hold.
    NotMet,
    /// A number is missing.
    NotMeasured,
    /// The row has no goal.
    NoGoal,
}

impl Verdict {
    /// The text in the table.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::NotMet => "**not met**",
            Verdict::NotMeasured => "not measured",
            Verdict::NoGoal => "–",
        }
    }

    /// The worse of the two.
    fn and(self, other: Verdict) -> Verdict {
        let order = [Verdict::NotMeasured, Verdict::NotMet, Verdict::Met];
        order.into_iter().find(|verdict| [self, other].contains(verdict)).unwrap_or(Verdict::NoGoal)
    }
}

impl Goal {
    /// Selects the numbers of this row from the measurements of its part.
    pub fn outcome(&self, measured: &Measured) -> Outcome {
        let sample = |target| Sample::of(&rounds(self.source, measured, target));
        let echo = sample(ECHO).map(|echo| echo.median);
        let limit = match self.limit {
            Limit::None => None,
            Limit::Echo => echo,
            Limit::EchoAndSync => {
                let sync = sync(measured, |disk| disk.sync.p50_us);
                echo.zip(sync).map(|(echo, sync)| echo + sync)
            }
            Limit::SyncRate => sync(measured, |disk| disk.syncs_per_second),
            Limit::BatchedSyncs => sync(measured, |disk| disk.batched.appends_per_second),
            Limit::Figure(_) => sample(LIMIT).map(|limit| limit.median),
        };
        Outcome { herdsman: sample(HERDSMAN), apache: sample(APACHE), limit }
    }

    /// Describes the limit, with its number.
    pub fn limit_text(&self, outcome: &Outcome) -> String {
        let what = match self.limit {
            Limit::None => return "–".into(),
            Limit::Echo => "echo",
            Limit::EchoAndSync => "sync + echo",
            Limit::SyncRate => "syncs",
            Limit::BatchedSyncs => "appends, batched",
            Limit::Figure(what) => what,
        };
        outcome.limit.map_or("–".into(), |limit| format!("{what} {}", self.unit.text(limit)))
    }

    /// Describes the conditions.
    pub fn wanted_text(&self) -> String {
        let words = self.wanted.iter().map(|wanted| wanted.text(self.unit));
        join(words)
    }

    /// The result, in the terms of the conditions.
    pub fn reached_text(&self, outcome: &Outcome) -> String {
        join(self.wanted.iter().filter_map(|wanted| wanted.reached(outcome, self.unit)))
    }

    /// Whether all conditions hold.
    pub fn verdict(&self, outcome: &Outcome) -> Verdict {
        let verdicts = self.wanted.iter().map(|wanted| wanted.verdict(outcome));
        verdicts.fold(Verdict::NoGoal, Verdict::and)
    }
}

impl Wanted {
    fn text(self, unit: Unit) -> String {
        match self {
            Wanted::OfLimit(part) => format!("≥ {} % of the limit", digits(part * 100.0)),
            Wanted::TimesApache(factor) => format!("≥ {} × Apache", digits(factor)),
            Wanted::WithinLimit(factor) => format!("≤ {} × the limit", digits(factor)),
            Wanted::AboveLimit(more) => format!("≤ the limit + {}", unit.text(more)),
            Wanted::AtMost(most) => format!("≤ {}", unit.text(most)),
        }
    }

    /// Evaluates the condition: the text of the result, and whether the condition holds.
    fn judge(self, outcome: &Outcome) -> Option<(f64, bool)> {
        let own = outcome.herdsman?.median;
        Some(match self {
            Wanted::OfLimit(part) => at_least(ratio(own, outcome.limit?)?, part),
            Wanted::TimesApache(factor) => at_least(ratio(own, outcome.apache?.median)?, factor),
            Wanted::WithinLimit(factor) => at_most(ratio(own, outcome.limit?)?, factor),
            Wanted::AboveLimit(more) => at_most(own - outcome.limit?, more),
            Wanted::AtMost(most) => at_most(own, most),
        })
    }

    fn reached(self, outcome: &Outcome, unit: Unit) -> Option<String> {
        let (value, _) = self.judge(outcome)?;
        Some(match self {
            Wanted::OfLimit(_) => format!("{} %", digits(value * 100.0)),
            Wanted::TimesApache(_) => format!("{} × Apache", digits(value)),
            Wanted::WithinLimit(_) => format!("{} ×", digits(value)),
            Wanted::AboveLimit(_) if value < 0.0 => format!("− {}", unit.text(-value)),
            Wanted::AboveLimit(_) => format!("+ {}", unit.text(value)),
            Wanted::AtMost(_) => unit.text(value),
        })
    }

    fn verdict(self, outcome: &Outcome) -> Verdict {
        match self.judge(outcome) {
            None => Verdict::NotMeasured,
            Some((_, true)) => Verdict::Met,
            Some((_, false)) => Verdict::NotMet,
        }
    }
}

fn at_least(value: f64, wanted: f64) -> (f64, bool) {
    (value, value >= wanted)
}

fn at_most(value: f64, wanted: f64) -> (f64, bool) {
    (value, value <= wanted)
}

fn ratio(value: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| value / of)
}

fn join(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    if words.is_empty() { "–".into() } else { words.join(", ") }
}

fn rounds(source: Source, measured: &Measured, target: &str) -> Vec<f64> {
    let of_rounds = |of: fn(&Round) -> f64| {
        let rows = measured.report.iter().flat_map(|report| &report.rows);
        let own = rows.filter(|row| row.target == target);
        own.flat_map(|row| &row.rounds).map(of).collect()
    };
    match source {
        Source::Rate => of_rounds(Round::rate),
        Source::P50 => of_rounds(|round| round.latency.p50_us),
        Source::Figure(name) => measured.figure(name, target).to_vec(),
    }
}

fn sync(
    measured: &Measured,
    of: impl Fn(&herdsman_bench::report::DiskLimit) -> f64,
) -> Option<f64> {
    let values: Vec<f64> = measured.disks.iter().map(of).collect();
    Sample::of(&values).map(|sample| sample.median)
}

const fn rate(part: &'static str, title: &'static str, wanted: &'static [Wanted]) -> Goal {
    Goal { part, title, unit: Unit::PerSecond, source: Source::Rate, limit: Limit::Echo, wanted }
}

const fn three(part: &'static str, title: &'static str, wanted: &'static [Wanted]) -> Goal {
    Goal { part, title, unit: Unit::PerSecond, source: Source::Rate, limit: Limit::None, wanted }
}

const fn time(
    part: &'static str,
    title: &'static str,
    limit: Limit,
    wanted: &'static [Wanted],
) -> Goal {
    Goal { part, title, unit: Unit::Us, source: Source::P50, limit, wanted }
}

const fn figure(
    part: &'static str,
    title: &'static str,
    name: &'static str,
    unit: Unit,
    limit: Limit,
    wanted: &'static [Wanted],
) -> Goal {
    Goal { part, title, unit, source: Source::Figure(name), limit, wanted }
}

/// The rows, in the order of the parts.
pub const GOALS: &[Goal] = &[
    rate("get-64x1", "get, 64 × 1", &[Wanted::OfLimit(0.75)]),
    rate("get-64x16", "get, 64 × 16", &[Wanted::OfLimit(0.6), Wanted::TimesApache(8.0)]),
    time("get-1x1", "get, 1 × 1, p50", Limit::Echo, &[Wanted::WithinLimit(1.3)]),
    rate("set-64x1", "set, 64 × 1", &[Wanted::TimesApache(2.5)]),
    Goal {
        limit: Limit::BatchedSyncs,
        ..rate("set-64x16", "set, 64 × 16", &[Wanted::TimesApache(4.0)])
    },
    time("set-1x1", "set, 1 × 1, p50", Limit::EchoAndSync, &[Wanted::AboveLimit(60.0)]),
    rate("mixed-64x16", "90/10 mixed, 64 × 16", &[Wanted::TimesApache(5.0)]),
    time("watch", "watch fan-out, 1,000 watchers", Limit::None, &[Wanted::AtMost(3000.0)]),
    Goal {
        part: "sessions",
        title: "new sessions, one after another",
        unit: Unit::PerSecond,
        source: Source::Rate,
        limit: Limit::SyncRate,
        wanted: &[Wanted::TimesApache(4.0)],
    },
    three("three-set-60x1", "3 servers: set, 60 × 1", &[Wanted::TimesApache(3.0)]),
    three("three-set-60x16", "3 servers: set, 60 × 16", &[Wanted::TimesApache(5.0)]),
    three("three-mixed-60x16", "3 servers: 90/10 mixed, 60 × 16", &[Wanted::TimesApache(6.0)]),
    figure(
        "memory",
        "resident memory of a znode, 1 M znodes of 100 bytes",
        "bytes_per_znode",
        Unit::Bytes,
        Limit::Figure("data + name"),
        &[Wanted::AtMost(220.0)],
    ),
    figure(
        "restart",
        "restart with 1 M znodes after kill -9",
        "restart_s",
        Unit::Seconds,
        Limit::Figure("reading the files"),
        &[Wanted::AtMost(1.0)],
    ),
    figure(
        "snapshot",
        "longest gap between replies, 1 M snapshot, mixed load",
        "gap_ms",
        Unit::Ms,
        Limit::None,
        &[Wanted::AtMost(20.0)],
    ),
    figure(
        "idle",
        "resident memory of a session, 10,000 idle ones",
        "bytes_per_session",
        Unit::Bytes,
        Limit::None,
        &[Wanted::AtMost(8192.0)],
    ),
    figure(
        "failover",
        "write outage when a leader is killed",
        "first_write_ms",
        Unit::Ms,
        Limit::None,
        &[],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::parts::PARTS;

    fn outcome(herdsman: f64, apache: f64, limit: f64) -> Outcome {
        Outcome {
            herdsman: Sample::of(&[herdsman]),
            apache: Sample::of(&[apache]),
            limit: Some(limit),
        }
    }

    fn check(wanted: Wanted, enough: f64, too_bad: f64, reached: &str) {
        let met = outcome(enough, 10.0, 100.0);
        assert_eq!(wanted.verdict(&met), Verdict::Met);
        assert_eq!(wanted.reached(&met, Unit::Us).unwrap(), reached);
        assert_eq!(wanted.verdict(&outcome(too_bad, 10.0, 100.0)), Verdict::NotMet);
        assert_eq!(wanted.verdict(&Outcome::default()), Verdict::NotMeasured);
    }

    #[test]
    fn a_condition_holds_at_its_bound() {
        check(Wanted::OfLimit(0.75), 75.0, 74.9, "75 %");
        check(Wanted::TimesApache(8.0), 80.0, 79.9, "8 × Apache");
        check(Wanted::WithinLimit(1.3), 130.0, 130.1, "1.3 ×");
        check(Wanted::AboveLimit(60.0), 160.0, 160.1, "+ 60 µs");
        check(Wanted::AtMost(220.0), 220.0, 220.1, "220 µs");
    }

    #[test]
    fn a_missing_limit_is_not_measured() {
        let broken = outcome(10.0, 0.0, 0.0);
        assert_eq!(Wanted::OfLimit(0.5).verdict(&broken), Verdict::NotMeasured);
        assert_eq!(Wanted::TimesApache(2.0).verdict(&broken), Verdict::NotMeasured);
    }

    #[test]
    fn all_conditions_must_hold() {
        let goal = rate("p", "t", &[Wanted::OfLimit(0.6), Wanted::TimesApache(8.0)]);
        assert_eq!(goal.verdict(&outcome(80.0, 10.0, 100.0)), Verdict::Met);
        assert_eq!(goal.verdict(&outcome(70.0, 10.0, 100.0)), Verdict::NotMet);
        assert_eq!(goal.reached_text(&outcome(70.0, 10.0, 100.0)), "70 %, 7 × Apache");
        let no_apache = Outcome { apache: None, ..outcome(80.0, 0.0, 100.0) };
        assert_eq!(goal.verdict(&no_apache), Verdict::NotMeasured);
        assert_eq!(rate("p", "t", &[]).verdict(&no_apache), Verdict::NoGoal);
    }

    #[test]
    fn every_goal_has_a_part_that_measures_it() {
        for goal in GOALS {
            assert!(PARTS.iter().any(|part| part.name == goal.part), "{}", goal.part);
        }
    }
}
