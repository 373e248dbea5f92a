//! Formats numbers with three significant digits and a unit.

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations per second.
    PerSecond,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A plain number.
    Count,
}

/// The median of some rounds, with the lowest and the highest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Sample {
    /// `None` for no rounds.
    pub fn of(rounds: &[f64]) -> Option<Sample> {
        let low = rounds.iter().copied().min_by(f64::total_cmp)?;
        let high = rounds.iter().copied().max_by(f64::total_cmp)?;
        Some(Sample { median: crate::bench::raw::median(rounds), low, high })
    }

    /// The median with its unit.
    pub fn text(&self, unit: Unit) -> String {
        unit.text(self.median)
    }

    /// Lowest to highest; empty if there is no spread.
    pub fn spread(&self, unit: Unit) -> String {
        if self.low == self.high {
            return "–".into();
        }
        format!("{} to {}", unit.text(self.low), unit.text(self.high))
    }
}

impl Unit {
    /// A value in this unit, or in a larger one of its kind.
    pub fn text(self, value: f64) -> String {
        match self {
            Unit::PerSecond if value >= 999_500.0 => format!("{} M/s", digits(value / 1e6)),
            Unit::PerSecond if value >= 999.5 => format!("{} k/s", digits(value / 1e3)),
            Unit::PerSecond => format!("{} /s", digits(value)),
            Unit::Us if value >= 999_500.0 => format!("{} s", digits(value / 1e6)),
            Unit::Us if value >= 999.5 => format!("{} ms", digits(value / 1e3)),
            Unit::Us => format!("{} µs", digits(value)),
            Unit::Ms if value >= 9_995.0 => format!("{} s", digits(value / 1e3)),
            Unit::Ms => format!("{} ms", digits(value)),
            Unit::Seconds => format!("{} s", digits(value)),
            Unit::Bytes if value >= 1023.5 => format!("{} KiB", digits(value / 1024.0)),
            Unit::Bytes => format!("{} B", digits(value)),
            Unit::Count => digits(value),
        }
    }
}

/// Three significant digits, and all digits before the point.
pub fn digits(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_string();
    }
    text
}

/// A whole number with commas between thousands.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_grow_with_the_value() {
        let table = [
            (Unit::PerSecond, 1_240_000.0, "1.24 M/s"),
            (Unit::PerSecond, 86_240.0, "86.2 k/s"),
            (Unit::PerSecond, 812.4, "812 /s"),
            (Unit::PerSecond, 999_900.0, "1 M/s"),
            (Unit::Us, 98.44, "98.4 µs"),
            (Unit::Us, 17_000.0, "17 ms"),
            (Unit::Ms, 2.514, "2.51 ms"),
            (Unit::Seconds, 9.1, "9.1 s"),
            (Unit::Bytes, 214.2, "214 B"),
            (Unit::Bytes, 8192.0, "8 KiB"),
            (Unit::Count, 0.0, "0"),
        ];
        for (unit, value, text) in table {
            assert_eq!(unit.text(value), text, "{unit:?} {value}");
        }
    }

    #[test]
    fn thousands_have_commas() {
        assert_eq!(thousands(5.0), "5");
        assert_eq!(thousands(123_456.0), "123,456");
        assert_eq!(thousands(1_000_000.0), "1,000,000");
    }

    #[test]
    fn a_sample_has_a_spread() {
        assert_eq!(Sample::of(&[]), None);
        let sample = Sample::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((sample.low, sample.median, sample.high), (1.0, 2.0, 3.0));
        assert_eq!(sample.spread(Unit::Seconds), "1 s to 3 s");
        assert_eq!(Sample::of(&[3.0]).unwrap().spread(Unit::Seconds), "–");
    }
}
