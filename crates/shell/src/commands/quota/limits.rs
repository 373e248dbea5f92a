//! The text of quota znodes. Apache: `StatsTrack`.
//!
//! ```text
//! count=10,bytes=-1=;byteHardLimit=-1;countHardLimit=20
//! ```
//! -1 means no limit. `count` and `bytes` come first and the extra `=` behind them is intentional: it
//! hides the rest from servers before 3.5, which could not read it.

use std::fmt;

use serde_json::{Value, json};

/// Limits of a subtree, or its usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) count: Option<i64>,
    pub(crate) bytes: Option<i64>,
    pub(crate) hard_count: Option<i64>,
    pub(crate) hard_bytes: Option<i64>,
}

impl Limits {
    /// Reads what servers and other clients wrote; an unreadable number counts as no limit.
    pub(crate) fn parse(text: &str) -> Self {
        let mut limits = Limits::default();
        for pair in text.split([',', ';']) {
            let mut parts = pair.split('=');
            let (name, value) = (parts.next(), parts.next());
            let value = value.and_then(|value| value.parse().ok()).filter(|value| *value >= 0);
            match name {
                Some("count") => limits.count = value,
                Some("bytes") => limits.bytes = value,
                Some("countHardLimit") => limits.hard_count = value,
                Some("byteHardLimit") => limits.hard_bytes = value,
                _ => {}
            }
        }
        limits
    }

    /// Takes over the limits that are set in `other`; the rest stay.
    pub(crate) fn take(&mut self, other: &Limits) {
        self.count = other.count.or(self.count);
        self.bytes = other.bytes.or(self.bytes);
        self.hard_count = other.hard_count.or(self.hard_count);
        self.hard_bytes = other.hard_bytes.or(self.hard_bytes);
    }

    /// Warnings for limits that are already exceeded.
    pub(crate) fn warnings(&self, used: &Limits) -> Vec<String> {
        let is_over = |limits: [Option<i64>; 2], used: i64| {
            limits.into_iter().flatten().any(|limit| limit < used)
        };
        let mut warnings = Vec::new();
        let (count, bytes) = (used.count.unwrap_or(0), used.bytes.unwrap_or(0));
        if is_over([self.count, self.hard_count], count) {
            let text = "[Warning]: the count quota you create is less than the existing count";
            warnings.push(format!("{text}:{count}"));
        }
        if is_over([self.bytes, self.hard_bytes], bytes) {
            let text = "[Warning]: the bytes quota you create is less than the existing bytes";
            warnings.push(format!("{text}:{bytes}"));
        }
        warnings
    }

    /// The text of a usage, which has no hard limits.
    pub(crate) fn stats_text(&self) -> String {
        format!("count={},bytes={}", self.count.unwrap_or(-1), self.bytes.unwrap_or(-1))
    }

    pub(crate) fn to_json(self) -> Value {
        json!({
            "count": self.count,
            "bytes": self.bytes,
            "countHardLimit": self.hard_count,
            "byteHardLimit": self.hard_bytes,
        })
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}=;byteHardLimit={};countHardLimit={}",
            self.stats_text(),
            self.hard_bytes.unwrap_or(-1),
            self.hard_count.unwrap_or(-1)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_apaches() {
        let limits = Limits { count: Some(10), hard_count: Some(20), ..Limits::default() };
        let text = "count=10,bytes=-1=;byteHardLimit=-1;countHardLimit=20";
        assert_eq!(limits.to_string(), text);
        assert_eq!(Limits::parse(text), limits);
        assert_eq!(Limits::parse("count=3,bytes=4").stats_text(), "count=3,bytes=4");
        assert_eq!(Limits::parse("garbage,count=x=;=;"), Limits::default());
    }

    #[test]
    fn a_limit_below_what_is_there_is_worth_a_warning() {
        let used = Limits::parse("count=5,bytes=9");
        let limits = Limits { hard_count: Some(4), bytes: Some(9), ..Limits::default() };
        let expected = "[Warning]: the count quota you create is less than the existing count:5";
        assert_eq!(limits.warnings(&used), [expected]);
    }
}
