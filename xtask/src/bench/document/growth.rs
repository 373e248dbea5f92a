//! How cost grows with size: what is wanted of each curve, and whether it was reached.

use super::goals::Verdict;
use super::number::{Unit, digits, thousands};
use crate::bench::raw::{HERDSMAN, Measured};

/// A row of the table.
pub struct Growth {
    /// The part that measures it.
    pub part: &'static str,
    /// What it is called in the table.
    pub title: &'static str,
    /// The curve's name in the part's file.
    pub curve: &'static str,
    /// What its sizes count.
    pub of: &'static str,
    /// The unit of its numbers.
    pub unit: Unit,
    wanted: Wanted,
}

/// A condition.
#[derive(Clone, Copy)]
enum Wanted {
    /// At the largest size still this part of what it is at the smallest.
    Keeps(f64),
    /// At the largest size at most this many times what it is at the smallest.
    Flat(f64),
    /// For each of the things counted, at the largest size at most `factor` times what it is at the
    /// first size from `from` on; below that, what every request costs hides it.
    Linear { from: f64, factor: f64 },
}

/// A size, and a number at that size.
type Point = (f64, f64);

/// How Herdsman's curve was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What was compared, in words.
    pub reached: String,
    /// Whether it is enough.
    pub verdict: Verdict,
}

impl Growth {
    /// The condition in words.
    pub fn wanted_text(&self) -> String {
        match self.wanted {
            Wanted::Keeps(part) => format!("≥ {} % of the smallest", digits(part * 100.0)),
            Wanted::Flat(factor) => format!("≤ {} × the smallest", digits(factor)),
            Wanted::Linear { from, factor } => {
                format!("each ≤ {} × that at {}", digits(factor), thousands(from))
            }
        }
    }

    /// Judges Herdsman's curve.
    pub fn judge(&self, measured: Option<&Measured>) -> Judged {
        let points = measured.map_or(&[][..], |measured| measured.curve(self.curve, HERDSMAN));
        let Some((small, large, growth)) = self.growth(points) else {
            return Judged { reached: "–".into(), verdict: Verdict::NotMeasured };
        };
        let (growth_text, is_enough) = match self.wanted {
            Wanted::Keeps(part) => (format!("{} %", digits(growth * 100.0)), growth >= part),
            Wanted::Flat(factor) | Wanted::Linear { factor, .. } => {
                (format!("{} ×", digits(growth)), growth <= factor)
            }
        };
        let at =
            |(size, value): (f64, f64)| format!("{} at {}", self.unit.text(value), thousands(size));
        Judged {
            reached: format!("{}, {}: {growth_text}", at(small), at(large)),
            verdict: if is_enough { Verdict::Met } else { Verdict::NotMet },
        }
    }

    /// The two points that are compared, and how the one is to the other.
    fn growth(&self, points: &[Point]) -> Option<(Point, Point, f64)> {
        let from = match self.wanted {
            Wanted::Linear { from, .. } => from,
            Wanted::Keeps(_) | Wanted::Flat(_) => 0.0,
        };
        let small = *points.iter().find(|(size, _)| *size >= from)?;
        let large = *points.last()?;
        let cost = |(size, value): Point| match self.wanted {
            Wanted::Linear { .. } => value / size,
            Wanted::Keeps(_) | Wanted::Flat(_) => value,
        };
        (large.0 > small.0 && cost(small) > 0.0).then(|| (small, large, cost(large) / cost(small)))
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
        title: "leaving watches, one session",
        curve: "register_ms",
        of: "watches",
        unit: Unit::Ms,
        wanted: Wanted::Linear { from: 1000.0, factor: 2.0 },
    },
    Growth {
        part: "scaling-watches",
        title: "telling watchers of one change",
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
    fn one_point_is_no_growth() {
        assert_eq!(judge(Wanted::Flat(2.0), &[(10, 1.0)]).verdict, Verdict::NotMeasured);
        assert_eq!(judge(Wanted::Flat(2.0), &[]).verdict, Verdict::NotMeasured);
        assert_eq!(judge(Wanted::Flat(2.0), &[(10, 1.0), (20, 2.0)]).verdict, Verdict::Met);
        assert_eq!(judge(Wanted::Flat(2.0), &[(10, 1.0), (20, 2.1)]).verdict, Verdict::NotMet);
    }

    #[test]
    fn every_curve_has_a_part_that_measures_it() {
        for growth in GROWTHS {
            assert!(PARTS.iter().any(|part| part.name == growth.part), "{}", growth.part);
        }
    }
}
