//! An axis whose scale is chosen at run time, with round numbers at its ticks. In the plotting crate the
//! scale is a type, and its logarithmic scale has no ticks between powers of ten.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// How values are mapped to distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Equal steps are equal distances.
    Linear,
    /// Equal ratios are equal distances.
    Log,
}

/// The range from a minimum to a larger maximum; both finite, and positive on a logarithmic scale.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    min: f64,
    max: f64,
}

/// The range of an axis without values.
const EMPTY: Range<f64> = 1.0..10.0;

impl Axis {
    /// Creates a linear axis from zero to a round number above all values.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let largest = values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max);
        let max = if largest > 0.0 { largest } else { EMPTY.end };
        let step = round_step(max, 6);
        Axis { scale: Scale::Linear, min: 0.0, max: (max / step).ceil() * step }
    }

    /// Creates a logarithmic axis for all values above zero.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Self {
        let (min, max) = extent(values.into_iter().filter(|v| *v > 0.0));
        let (min, max) = (round_down(min), round_up(max));
        let max = if max > min { max } else { min * 10.0 };
        Axis { scale: Scale::Log, min, max }
    }

    /// Creates an axis with the given scale.
    pub(super) fn new(scale: Scale, values: impl IntoIterator<Item = f64>) -> Self {
        match scale {
            Scale::Linear => Axis::from_zero(values),
            Scale::Log => Axis::log(values),
        }
    }

    /// Moves the lower end down by a factor, so that the smallest value is not at the edge.
    pub(super) fn with_room_below(mut self, factor: f64) -> Self {
        if self.scale == Scale::Log {
            self.min /= factor;
        }
        self
    }

    pub(super) fn min(&self) -> f64 {
        self.min
    }

    /// Whether the axis can show the value.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Returns round numbers for ticks, at most the requested number.
    fn ticks(&self, count_max: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = round_step(self.max - self.min, count_max);
                let count = ((self.max - self.min) / step + 1e-9).floor() as usize;
                (0..=count).map(|index| self.min + index as f64 * step).collect()
            }
            Scale::Log => [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]]
                .into_iter()
                .map(|digits| self.log_ticks(digits))
                .find(|ticks| ticks.len() <= count_max)
                .unwrap_or_else(|| thinned(&self.log_ticks(&[1.0]), count_max)),
        }
    }

    /// Returns the given digits in each decade.
    fn log_ticks(&self, digits: &[f64]) -> Vec<f64> {
        let decades = self.min.log10().floor() as i32..=self.max.log10().ceil() as i32;
        let all = decades.flat_map(|decade| digits.iter().map(move |d| d * 10f64.powi(decade)));
        all.filter(|tick| (self.min * 0.999..=self.max * 1.001).contains(tick)).collect()
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Log => (value.max(self.min) / self.min).ln() / (self.max / self.min).ln(),
        };
        let length = f64::from(limit.1 - limit.0);
        limit.0 + (part.clamp(0.0, 1.0) * length).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.max_num_points() {
            0 => Vec::new(),
            count_max => self.ticks(count_max),
        }
    }

    fn range(&self) -> Range<f64> {
        self.min..self.max
    }
}

/// The other axis of a chart of rows: pixels below its top, without ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FromTop {
    pub(super) height: i32,
}

impl Ranged for FromTop {
    type FormatOption = DefaultFormatting;
    type ValueType = i32;

    fn map(&self, value: &i32, (bottom, top): (i32, i32)) -> i32 {
        top.min(bottom) + value
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<i32> {
        Vec::new()
    }

    fn range(&self) -> Range<i32> {
        0..self.height
    }
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = values.filter(|value| value.is_finite());
    let (min, max) = values.fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), value| {
        (min.min(value), max.max(value))
    });
    if min.is_finite() { (min, max) } else { (EMPTY.start, EMPTY.end) }
}

/// Returns 1, 2 or 5 times a power of ten, such that at most `count_max` steps reach `length`.
fn round_step(length: f64, count_max: usize) -> f64 {
    let least = length / count_max.max(1) as f64;
    round_up(least)
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let digits = [1.0, 2.0, 5.0, 10.0];
    let fits = digits.into_iter().find(|digit| digit * decade >= value * 0.999_999);
    fits.unwrap_or(10.0) * decade
}

/// Rounds down to 1, 2 or 5 times a power of ten.
fn round_down(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let digits = [5.0, 2.0, 1.0];
    let fits = digits.into_iter().find(|digit| digit * decade <= value * 1.000_001);
    fits.unwrap_or(1.0) * decade
}

/// Keeps every second, third, … tick, until there are few enough.
fn thinned(ticks: &[f64], count_max: usize) -> Vec<f64> {
    let every = ticks.len().div_ceil(count_max.max(1)).max(1);
    ticks.iter().copied().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(axis: &Axis, count_max: usize, expected: &[f64]) {
        let ticks = axis.ticks(count_max);
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= b.abs() * 1e-9;
        assert!(
            ticks.len() == expected.len() && ticks.iter().zip(expected).all(close),
            "{axis:?}: {ticks:?}"
        );
    }

    #[test]
    fn ticks_are_round() {
        check(&Axis::from_zero([93.0]), 6, &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        check(&Axis::from_zero([1.58e6]), 5, &[0.0, 5e5, 1e6, 1.5e6, 2e6]);
        check(&Axis::log([120.0, 900.0]), 6, &[100.0, 200.0, 500.0, 1000.0]);
        check(&Axis::log([1.0, 9e5]), 7, &[1.0, 10.0, 1e2, 1e3, 1e4, 1e5, 1e6]);
        check(&Axis::log([1.0, 9e5]), 4, &[1.0, 100.0, 1e4, 1e6]);
    }

    #[test]
    fn an_axis_can_have_no_values() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY], vec![-1.0]] {
            for scale in [Scale::Linear, Scale::Log] {
                let axis = Axis::new(scale, values.clone());
                assert!(axis.min.is_finite() && axis.max > axis.min, "{axis:?}");
            }
        }
        assert!(Axis::log([7.0]).max > 7.0);
    }

    #[test]
    fn values_are_placed_by_their_ratio_on_a_log_axis() {
        let axis = Axis::log([1.0, 10_000.0]);
        assert_eq!(axis.map(&1.0, (0, 400)), 0);
        assert_eq!(axis.map(&100.0, (0, 400)), 200);
        assert_eq!(axis.map(&10_000.0, (0, 400)), 400);
        assert_eq!(axis.map(&0.0, (0, 400)), 0);
        assert!(!axis.shows(0.0) && !axis.shows(f64::NAN));
    }
}
