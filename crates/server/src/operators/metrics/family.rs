//! A metric as plain data: its name, its meaning, and its values.

use std::borrow::Cow;

use crate::operators::stats::{HistogramReading, Percentiles, Series, SharedDistribution};

/// A metric and all its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name, without a prefix.
    pub name: &'static str,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// What may be computed from its values.
    pub kind: Kind,
    /// Its values; several if labels distinguish them.
    pub samples: Vec<Sample>,
}

/// What may be computed from values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Increases and decreases.
    Gauge,
    /// Only increases, unless an operator or a restart resets it.
    Counter,
    /// Count, sum and quantiles.
    Summary,
    /// Counts of values by size.
    Histogram,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The labels that distinguish it from the metric's other values.
    pub labels: Vec<(&'static str, Cow<'static, str>)>,
    /// The value.
    pub reading: Reading,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// Of a gauge or a counter.
    Number(Number),
    /// Of a summary.
    Summary(Summary),
    /// Of a histogram.
    Histogram(HistogramReading),
}

/// A number with the precision with which it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Without a fraction.
    Whole(i64),
    /// With a fraction.
    Fraction(f64),
}

/// The distribution of a series of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Count, sum and extremes.
    pub series: Series,
    /// Its percentiles.
    pub percentiles: Percentiles,
    /// How much of it is shown.
    pub detail: Detail,
}

/// How much of a summary is shown. Apache: `MetricsContext.DetailLevel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// No percentiles; the median only for Prometheus.
    Basic,
    /// All percentiles.
    Advanced,
}

impl Summary {
    pub(super) fn of(spread: &SharedDistribution, detail: Detail) -> Self {
        Summary { series: spread.get(), percentiles: spread.percentiles(), detail }
    }

    pub(super) fn empty(detail: Detail) -> Self {
        Summary { series: Series::default(), percentiles: Percentiles::default(), detail }
    }
}

impl Family {
    fn single(name: &'static str, help: &'static str, kind: Kind, reading: Reading) -> Self {
        Family { name, help, kind, samples: vec![Sample { labels: Vec::new(), reading }] }
    }

    pub(super) fn gauge(name: &'static str, help: &'static str, value: Number) -> Self {
        Self::single(name, help, Kind::Gauge, Reading::Number(value))
    }

    pub(super) fn counter(name: &'static str, help: &'static str, count: u64) -> Self {
        let count = Number::Whole(count.cast_signed());
        Self::single(name, help, Kind::Counter, Reading::Number(count))
    }

    pub(super) fn summary(name: &'static str, help: &'static str, summary: Summary) -> Self {
        Self::single(name, help, Kind::Summary, Reading::Summary(summary))
    }

    pub(super) fn histogram(
        name: &'static str,
        help: &'static str,
        reading: HistogramReading,
    ) -> Self {
        Self::single(name, help, Kind::Histogram, Reading::Histogram(reading))
    }
}
