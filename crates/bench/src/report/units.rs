//! Formats numbers for people: three significant digits and a unit. For programs there is [`super::json`].

/// Shown instead of a missing number.
pub const NOTHING: &str = "–";

/// Formats operations per second: `1.05 M/s`, `54.3 k/s`, `987 /s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    format!("{}/s", scaled(per_second, &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]))
}

/// Formats a time: `98.0 µs`, `1.25 ms`, `2.30 s`.
#[must_use]
pub fn micros(us: f64) -> String {
    scaled(us, &[(1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")])
}

/// Formats a number at an axis, without insignificant digits: `10 k`, `2.5 M`.
#[must_use]
pub fn amount_tick(value: f64) -> String {
    without_zeros(&scaled(value, &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]))
}

/// Formats a time at an axis: `100 µs`, `1 ms`.
#[must_use]
pub fn micros_tick(us: f64) -> String {
    without_zeros(&micros(us))
}

/// Formats a fraction as a percentage: `75 %`, `4.2 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// Formats a factor: `8.31 ×`.
#[must_use]
pub fn times(ratio: f64) -> String {
    format!("{} ×", three_digits(ratio))
}

/// Formats a whole number with thousands separators: `1,000,000`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the value in the largest unit in which it is at least 1 after rounding; in the last unit if
/// there is none.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value == 0.0 {
        let (_, unit) = units.iter().find(|(size, _)| *size <= 1.0).unwrap_or(&(1.0, ""));
        return format!("0 {unit}");
    }
    // 999.6 is 1.00 k and not 1000.
    let fits = |size: f64| value.abs() / size >= 0.9995;
    let (size, unit) =
        *units.iter().find(|(size, _)| fits(*size)).or(units.last()).unwrap_or(&(1.0, ""));
    format!("{} {unit}", three_digits(value / size))
}

fn without_zeros(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        large if large >= 99.95 => format!("{value:.0}"),
        middle if middle >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        for (value, expected) in [
            (0.0, "0 /s"),
            (0.5, "0.50 /s"),
            (987.4, "987 /s"),
            (999.7, "1.00 k/s"),
            (54_321.0, "54.3 k/s"),
            (131_000.0, "131 k/s"),
            (1_049_000.0, "1.05 M/s"),
            (2.5e9, "2.50 G/s"),
            (f64::NAN, "–/s"),
        ] {
            assert_eq!(rate(value), expected, "{value}");
        }
    }

    #[test]
    fn times_shares_and_counts() {
        assert_eq!(micros(0.25), "250 ns");
        assert_eq!(micros(98.04), "98.0 µs");
        assert_eq!(micros(1250.0), "1.25 ms");
        assert_eq!(micros(2_300_000.0), "2.30 s");
        assert_eq!(micros(0.0), "0 µs");
        assert_eq!(percent(0.754), "75 %");
        assert_eq!(percent(0.0421), "4.2 %");
        assert_eq!(percent(0.0999), "10 %");
        assert_eq!(times(8.314), "8.31 ×");
        assert_eq!(amount_tick(0.0), "0");
        assert_eq!(amount_tick(10_000.0), "10 k");
        assert_eq!(amount_tick(2_500.0), "2.5 k");
        assert_eq!(amount_tick(100.0), "100");
        assert_eq!(micros_tick(200.0), "200 µs");
        assert_eq!(micros_tick(1000.0), "1 ms");
        for (value, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(value), expected);
        }
    }
}
