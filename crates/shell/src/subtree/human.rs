//! Sizes, durations and times in readable form.

use std::time::Duration;

use herdsman_client::Zxid;
use jiff::Timestamp;

use super::error::{Result, SubtreeError};

const DURATION_UNITS: [(&str, u64); 6] = [
    // "ms" must come before "m" and "s".
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

const SIZE_UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Reads `500ms`, `30s`, `10m`, `2h`, `7d` or `1w`.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let refused = || {
        let text = format!(
            "{text:?} is not a duration: expected a number and a unit (ms, s, m, h, d, w), such as 10m"
        );
        SubtreeError::Mistake(text)
    };
    let (unit, ms) =
        DURATION_UNITS.into_iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(refused)?;
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| refused())?;
    Ok(Duration::from_millis(number.checked_mul(ms).ok_or_else(refused)?))
}

/// Reads `4096`, `64k`, `2M` or `1G`; units are powers of 1024.
pub fn parse_size(text: &str) -> Result<u64> {
    let refused = || {
        SubtreeError::Mistake(format!(
            "{text:?} is not a size: use a number, with k, M or G if needed"
        ))
    };
    let (number, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1 << 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 1 << 20),
        Some('g' | 'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = number.parse().map_err(|_| refused())?;
    number.checked_mul(unit).ok_or_else(refused)
}

/// Reads a session id: `0x` and hex digits, or a decimal number.
pub fn parse_session(text: &str) -> Result<i64> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map(u64::cast_signed),
        None => text.parse::<i64>(),
    };
    parsed.map_err(|_| {
        SubtreeError::Mistake(format!("{text:?} is not a session id: use the form 0x1234abcd"))
    })
}

/// A size with its unit: `17 B`, `1.5 KiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    let mut shown = bytes as f64;
    let mut unit = 0;
    while shown >= 1024.0 && unit + 1 < SIZE_UNITS.len() {
        shown /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{shown:.1} {}", SIZE_UNITS[unit]) }
}

/// A count and its noun: `1 znode`, `2 znodes`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A zxid or session id in hexadecimal.
#[must_use]
pub fn hex(number: i64) -> String {
    format!("{number:#x}")
}

/// The newest zxid of a stat.
#[must_use]
pub fn newest_zxid(stat: &herdsman_client::Stat) -> Zxid {
    stat.czxid.max(stat.mzxid).max(stat.pzxid)
}

/// Milliseconds since 1970 as a time in UTC; the number itself if it is out of range.
#[must_use]
pub fn time(since_1970_ms: i64) -> String {
    Timestamp::from_millisecond(since_1970_ms)
        .map_or_else(|_| since_1970_ms.to_string(), |time| format!("{time:.3}"))
}

/// Now, in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, ms) in
            [("0s", 0), ("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("1w", 604_800_000)]
        {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for bad in
            ["", "10", "m", "-1s", "1.5h", "1y", "99999999999999999999s", "18446744073709551615w"]
        {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64k", 65_536), ("2M", 2 << 20), ("1g", 1 << 30)]
        {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for bad in ["", "k", "-1", "1.5k", "1T", "99999999999999999999", "é"] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn sessions_are_hex_or_decimal() {
        assert_eq!(parse_session("0x10").unwrap(), 16);
        assert_eq!(parse_session("0xffffffffffffffff").unwrap(), -1);
        assert_eq!(parse_session("16").unwrap(), 16);
        assert!(parse_session("0x").is_err() && parse_session("me").is_err());
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(i64::MAX), i64::MAX.to_string());
    }
}
