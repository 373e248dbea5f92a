//! How cost grows with size: the goal for each curve, and whether it is met.

use super::goals::Verdict;
use super::number::{Unit, digits, thousands};
use crate::bench::raw::{HERDSMAN, Measured};

/// A row of the table.
pub struct Growth {
    /// The part that measures it.
    pub part: &'static str,
    /// Its title in the table.
    pub title: &'static str,
    /// The curve's name in the part's file.
    pub curve: &'static str,
    /// What its sizes count.
    pub of: &'static str,
    /// The unit of its numbers.
    pub unit: Unit,
    /// The condition.
    pub wanted: Wanted,
}

/// A condition.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// At the largest size still at least this fraction of the value at the smallest.
    Keeps(f64),
    /// At the largest size at most this multiple of the value at the smallest.
    Flat(f64),
    /// Per counted thing: at the largest size at most `factor` times the value at the first size from
    /// `from` on; at smaller sizes the fixed cost of a request would hide the growth.
    Linear { from: f64, factor: f64 },
    /// Never more than this.
    AtMost(f64),
}

/// A size, and a number at that size.
type Point = (f64, f64);

/// The result for Herdsman's curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The compared values, as text.
    pub reached: String,
    /// Whether the goal is met.
    pub verdict: Verdict,
}

impl Growth {
    /// Describes the condition.
    pub fn wanted_text(&self) -> String {
        match self.wanted {
            Wanted::Keeps(part) => format!("≥ {} % of the smallest", digits(part * 100.0)),
            Wanted::Flat(factor) => format!("≤ {} × the smallest", digits(factor)),
            Wanted::Linear { from, factor } => {
                format!("each ≤ {} × that at {}", digits(factor), thousands(from))
            }
            Wanted::AtMost(most) => format!("≤ {}", self.unit.text(most)),
        }
    }

    /// Returns the row of the table: what, against, goal, result and verdict.
    pub fn row(&self, judged: &Judged) -> String {
        format!(
            "| [{}](#{}) | {} | {} | {} | {} |\n",
            self.title,
            self.part,
            self.of,
            self.wanted_text(),
            judged.reached,
            judged.verdict.word()
        )
    }

    /// Evaluates Herdsman's curve.
    pub fn judge(&self, measured: Option<&Measured>) -> Judged {
        let points = measured.map_or(&[][..], |measured| measured.curve(self.curve, HERDSMAN));
        let times = |growth: f64| format!("{} ×", digits(growth));
        match self.wanted {
            Wanted::Keeps(part) => {
                let percent = |growth: f64| format!("{} %", digits(growth * 100.0));
                self.judge_ends(points, |(_, value)| value, percent, |growth| growth >= part)
            }
            Wanted::Flat(factor) => {
                self.judge_ends(points, |(_, value)| value, times, |growth| growth <= factor)
            }
            Wanted::Linear { from, factor } => {
                let first = points.iter().position(|(size, _)| *size >= from);
                let points = &points[first.unwrap_or(points.len())..];
                self.judge_ends(
                    points,
                    |(size, value)| value / size,
                    times,
                    |growth| growth <= factor,
                )
            }
            Wanted::AtMost(most) => self.judge_worst(points, most),
        }
    }

    /// Compares the cost at the largest size with that at the smallest.
    fn judge_ends(
        &self,
        points: &[Point],
        cost: impl Fn(Point) -> f64,
        words: impl Fn(f64) -> String,
        is_enough: impl Fn(f64) -> bool,
    ) -> Judged {
        let (Some(&small), Some(&large)) = (points.first(), points.last()) else {
            return Judged::nothing();
        };
        if large.0 <= small.0 || cost(small) <= 0.0 {
            return Judged::nothing();
        }
        let growth = cost(large) / cost(small);
        Judged {
            reached: format!("{}, {}: {}", self.at(small), self.at(large), words(growth)),
            verdict: if is_enough(growth) { Verdict::Met } else { Verdict::NotMet },
        }
    }

    fn judge_worst(&self, points: &[Point], most: f64) -> Judged {
        let Some(worst) = points.iter().max_by(|one, other| one.1.total_cmp(&other.1)) else {
            return Judged::nothing();
        };
        let verdict = if worst.1 <= most { Verdict::Met } else { Verdict::NotMet };
        Judged { reached: format!("at most {}", self.at(*worst)), verdict }
    }

    fn at(&self, (size, value): Point) -> String {
        format!("{} at {}", self.unit.text(value), thousands(size))
    }
}

impl Judged {
    fn nothing() -> Judged {
        Judged { reached: "–".into(), verdict: Verdict::NotMeasured }
    }
}

/// The rows.
pub const GROWTHS: &[Growth] = &[
    Growth {
        part: "scaling-znodes",
        title: "reads, keys over the whole tree",
        curve: "all_keys_per_s",
        of: "znodes",
        unit: Unit::PerSecond,
        wanted: Wanted::Keeps(0.75),
    },
    Growth {
        part: "scaling-znodes",
        title: "reads, 1,000 keys of the tree",
        curve: "hot_keys_per_s",
        of: "znodes",
        unit: Unit::PerSecond,
        wanted: Wanted::Keeps(0.75),
    },
    Growth {
        part: "scaling-children",
        title: "getChildren",
        curve: "list_us",
        of: "children",
        unit: Unit::Us,
        wanted: Wanted::Linear { from: 1000.0, factor: 2.0 },
    },
    Growth {
        part: "scaling-children",
        title: "create among many children",
        curve: "create_us",
        of: "children",
        unit: Unit::Us,
        wanted: Wanted::Flat(2.0),
    },
    Growth {
        part: "scaling-children",
        title: "delete among many children",
        curve: "delete_us",
        of: "children",
        unit: Unit::Us,
        wanted: Wanted::Flat(2.0),
    },
    Growth {
        part: "scaling-watches",
        title: "setting watches, one session",
        curve: "register_ms",
        of: "watches",
        unit: Unit::Ms,
        wanted: Wanted::Linear { from: 1000.0, factor: 2.0 },
    },
    Growth {
        part: "scaling-watches",
        title: "notifying watchers of one change",
        curve: "fan_out_ms",
        of: "watchers",
        unit: Unit::Ms,
        wanted: Wanted::Linear { from: 100.0, factor: 2.0 },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::parts::PARTS;

    fn judge(wanted: Wanted, points: &[(usize, f64)]) -> Judged {
        let mut measured = Measured::default();
        for (size, value) in points {
            measured.plot("c", HERDSMAN, *size, *value);
        }
        let (title, curve, of) = ("t", "c", "znodes");
        Growth { part: "p", title, curve, of, unit: Unit::Us, wanted }.judge(Some(&measured))
    }

    #[test]
    fn reads_must_not_fall() {
        let judged = judge(Wanted::Keeps(0.75), &[(10, 100.0), (1000, 10.0), (5000, 75.0)]);
        assert_eq!(judged.verdict, Verdict::Met);
        assert_eq!(judged.reached, "100 µs at 10, 75 µs at 5,000: 75 %");
        let judged = judge(Wanted::Keeps(0.75), &[(10, 100.0), (5000, 74.0)]);
        assert_eq!(judged.verdict, Verdict::NotMet);
    }

    #[test]
    fn linear_is_judged_for_each_and_above_the_noise() {
        let linear = Wanted::Linear { from: 100.0, factor: 2.0 };
        let judged = judge(linear, &[(10, 100.0), (100, 100.0), (1000, 2000.0)]);
        assert_eq!(judged.verdict, Verdict::Met);
        let judged = judge(linear, &[(10, 100.0), (100, 100.0), (1000, 2001.0)]);
        assert_eq!(judged.verdict, Verdict::NotMet);
    }

    #[test]
    fn one_point_does_not_show_growth() {
        assert_eq!(judge(Wanted::Flat(2.0), &[(10, 1.0)]).verdict, Verdict::NotMeasured);
        assert_eq!(judge(Wanted::Flat(2.0), &[]).verdict, Verdict::NotMeasured);
        assert_eq!(judge(Wanted::Flat(2.0), &[(10, 1.0), (20, 2.0)]).verdict, Verdict::Met);
        assert_eq!(judge(Wanted::Flat(2.0), &[(10, 1.0), (20, 2.1)]).verdict, Verdict::NotMet);
    }

    #[test]
    fn the_worst_size_counts_against_a_bound() {
        let judged = judge(Wanted::AtMost(50.0), &[(10, 20.0), (100, 60.0), (1000, 40.0)]);
        assert_eq!(judged.verdict, Verdict::NotMet);
        assert_eq!(judged.reached, "at most 60 µs at 100");
        assert_eq!(judge(Wanted::AtMost(60.0), &[(10, 60.0)]).verdict, Verdict::Met);
        assert_eq!(judge(Wanted::AtMost(60.0), &[]).verdict, Verdict::NotMeasured);
    }

    #[test]
    fn every_curve_has_a_part_that_measures_it() {
        for growth in GROWTHS {
            assert!(PARTS.iter().any(|part| part.name == growth.part), "{}", growth.part);
        }
    }
}
