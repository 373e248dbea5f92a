//! Formats values as text and JSON: times, data, ACLs, sizes.
//!
//! Invariant: no control character from a file reaches a terminal.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use herdsman_proto::{Acl, Perms};
use herdsman_tree::owner::{Owner, OwnerRules};
use jiff::Timestamp;
use serde::Serialize;

/// Bytes of data that are shown without `--data`.
pub(crate) const PREVIEW_BYTES: usize = 48;

/// TTL znodes are shown as TTL znodes, also in a directory of a server that has them disabled.
pub(crate) const OWNER_RULES: OwnerRules =
    OwnerRules { extended_types: true, emulate_353_ttl: false };

/// How much of the data is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataShown {
    /// The beginning.
    Preview,
    /// All of it.
    Whole,
}

impl DataShown {
    /// The value for the flag `--data`.
    pub(crate) fn from_flag(whole: bool) -> Self {
        if whole { DataShown::Whole } else { DataShown::Preview }
    }

    fn bytes_max(self) -> usize {
        match self {
            DataShown::Preview => PREVIEW_BYTES,
            DataShown::Whole => usize::MAX,
        }
    }
}

/// Formats a time, in UTC.
pub(crate) fn time_text(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        Err(_) => format!("{ms} ms after 1970"),
    }
}

/// Escapes the characters of a text that a terminal would interpret.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '\n' => clean.push_str("\\n"),
            '\t' => clean.push_str("\\t"),
            '\r' => clean.push_str("\\r"),
            _ if is_interpreted(symbol) => _ = write!(clean, "\\u{{{:x}}}", symbol as u32),
            _ => clean.push(symbol),
        }
    }
    clean
}

/// Whether a terminal would interpret a character: control characters, and those that change the text direction.
fn is_interpreted(symbol: char) -> bool {
    symbol.is_control()
        || matches!(symbol, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Formats a value as one line of JSON. Characters that a terminal would interpret can only be inside strings, and are
/// escaped there.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String> {
    let line = serde_json::to_string(value).context("writing JSON")?;
    if !line.contains(is_interpreted) {
        return Ok(line);
    }
    let mut clean = String::with_capacity(line.len());
    for symbol in line.chars() {
        if is_interpreted(symbol) {
            let _ = write!(clean, "\\u{:04x}", symbol as u32);
        } else {
            clean.push(symbol);
        }
    }
    Ok(clean)
}

/// Formats a count with its noun.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Formats data as quoted text, or as hex if it is not text.
pub(crate) fn data_text(data: Option<&[u8]>, shown: DataShown) -> String {
    let Some(data) = data else {
        return "null".to_owned();
    };
    let (start, whole) = start_of(data, shown);
    let mut text = match readable(start) {
        Some(text) => format!("\"{}\"", clean(text)),
        None => {
            let mut hex = String::from("0x");
            for byte in start {
                let _ = write!(hex, "{byte:02x}");
            }
            hex
        }
    };
    if !whole {
        let _ = write!(text, "… ({} bytes)", data.len());
    }
    text
}

/// The part of the data that is shown, and whether it is all. Does not split a character.
fn start_of(data: &[u8], shown: DataShown) -> (&[u8], bool) {
    let bytes_max = shown.bytes_max();
    if data.len() <= bytes_max {
        return (data, true);
    }
    let start = &data[..bytes_max];
    match std::str::from_utf8(start) {
        Err(error) if error.error_len().is_none() => (&start[..error.valid_up_to()], false),
        _ => (start, false),
    }
}

/// The data as text, if it is UTF-8 without control characters other than white space.
fn readable(data: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(data).ok()?;
    let is_odd = |symbol: char| symbol.is_control() && !matches!(symbol, '\n' | '\r' | '\t');
    (!text.contains(is_odd)).then_some(text)
}

/// Data in JSON.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DataJson {
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Whether this is only the beginning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl DataJson {
    /// Formats data; null stays null.
    pub(crate) fn of(data: Option<&[u8]>, shown: DataShown) -> Option<Self> {
        let data = data?;
        let (start, whole) = start_of(data, shown);
        let (text, base64) = match readable(start) {
            Some(text) => (Some(text.to_owned()), None),
            None => (None, Some(BASE64.encode(start))),
        };
        Some(DataJson { bytes: data.len(), text, base64, cut: !whole })
    }
}

/// Formats permissions like zkCli.
pub(crate) fn perms_text(perms: Perms) -> String {
    let letters = [
        (Perms::CREATE, 'c'),
        (Perms::DELETE, 'd'),
        (Perms::READ, 'r'),
        (Perms::WRITE, 'w'),
        (Perms::ADMIN, 'a'),
    ];
    let text: String =
        letters.iter().filter(|(perm, _)| perms.intersects(*perm)).map(|(_, c)| *c).collect();
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Formats the entries of an ACL like zkCli.
pub(crate) fn acl_texts(acl: &[Acl]) -> Vec<String> {
    let entry = |acl: &Acl| {
        format!("{}:{}:{}", clean(&acl.id.scheme), clean(&acl.id.id), perms_text(acl.perms))
    };
    acl.iter().map(entry).collect()
}

/// Formats a number of bytes with a unit.
pub(crate) fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Describes a stored owner; `None` for a plain znode.
pub(crate) fn owner_text(stored: i64) -> Option<String> {
    match OWNER_RULES.owner(stored) {
        Owner::None => None,
        Owner::Session(session) => Some(format!("ephemeral of {session}")),
        Owner::Container => Some("container".to_owned()),
        Owner::Ttl(ms) => Some(format!("ttl {ms} ms")),
    }
}

/// Aligns columns; the last one is left as it is.
pub(crate) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (column, cell) in row.iter().enumerate() {
            let is_last = column + 1 == row.len();
            let pad = if is_last { 0 } else { widths[column] - cell.chars().count() + 2 };
            let _ = write!(text, "{cell}{:pad$}", "");
        }
        text.truncate(text.trim_end().len());
        text
    };
    rows.iter().map(line).collect()
}

/// A bar of at most `width` blocks.
pub(crate) fn bar(value: u64, of: u64, width: u64) -> String {
    let blocks = (value * width).div_ceil(of.max(1)).min(width);
    "█".repeat(usize::try_from(blocks).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_shown_safely() {
        let check = |data: Option<&[u8]>, expected: &str| {
            assert_eq!(data_text(data, DataShown::Preview), expected);
        };
        check(None, "null");
        check(Some(b""), "\"\"");
        check(Some("größe\n".as_bytes()), "\"größe\\n\"");
        check(Some(b"\x1b[2J"), "0x1b5b324a");
        check(Some(&[0, 255]), "0x00ff");
        check(Some("\u{202e}gpj".as_bytes()), "\"\\u{202e}gpj\"");
        let long = "ä".repeat(40);
        let shown = data_text(Some(long.as_bytes()), DataShown::Preview);
        assert_eq!(shown, format!("\"{}\"… (80 bytes)", "ä".repeat(24)));
        assert_eq!(data_text(Some(long.as_bytes()), DataShown::Whole), format!("\"{long}\""));
    }

    #[test]
    fn json_stays_json_and_is_escaped() {
        let text = "a\u{9b}2J\u{202e}b\"\u{1b}\u{7f}";
        let line = json_line(&text).unwrap();
        assert!(!line.contains(is_interpreted), "{line:?}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    #[test]
    fn sizes_and_times_are_readable() {
        assert_eq!(size_text(1023), "1023 B");
        assert_eq!(size_text(1536), "1.5 KiB");
        assert_eq!(size_text(5 << 30), "5.0 GiB");
        assert_eq!(time_text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time_text(i64::MAX), "9223372036854775807 ms after 1970");
    }

    #[test]
    fn bars_fill_their_width() {
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(1, 100, 4), "█");
        assert_eq!(bar(0, 0, 4), "");
    }
}
