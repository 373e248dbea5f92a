//! Java properties files, the syntax of zoo.cfg, of the dynamic membership file, and of what configures
//! Apache's clients.
//!
//! In: the bytes of a file. Out: its keys and values, each with the line it came from. What a key
//! means is not known here. The grammar is that of `java.util.Properties.load`: `key=value`,
//! `key:value` or `key value`, comments with `#` or `!`, backslash escapes, `\uXXXX`, and a
//! backslash at the end of a line joins it to the next one. Keys and values are trimmed, as Apache
//! does after loading, and the last of several equal keys wins.
//!
//! One difference: Java reads the bytes as ISO-8859-1. We read a file that is valid UTF-8 as UTF-8
//! and only others as ISO-8859-1, because UTF-8 is what an editor wrote; for ASCII files, which is
//! all but a few, there is no difference. [`Properties::beyond_ascii`] returns where there is one, and
//! [`Properties::parse_as_java`] what Java would have read. A byte order mark is dropped here and part of the
//! first key in Java; [`Properties::has_byte_order_mark`] reports it.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// What the key-value separator and the start of a line skip.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// U+FEFF in UTF-8, which some editors put in front of a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// One key of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value, unescaped and trimmed.
    pub value: String,
    /// Blanks at its end were cut off. Apache does not cut them everywhere.
    pub was_padded: bool,
    /// The line of the key, counted from 1.
    pub line: usize,
}

/// A parsed properties file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// The last value of each key.
    pub entries: BTreeMap<String, Entry>,
    /// Keys that a later line overrode, with the line that lost.
    pub overridden: Vec<(String, usize)>,
    /// Lines outside comments that were read as UTF-8 where Java would read ISO-8859-1.
    pub beyond_ascii: Vec<usize>,
    /// The file begins with a byte order mark, which Java takes for a part of the first line.
    pub has_byte_order_mark: bool,
}

/// Why the bytes are not a properties file. Java rejects nothing else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed \\u escape: four hexadecimal digits must follow, as in \\u00e9")]
pub struct BadEscape {
    /// The line of the key, counted from 1.
    pub line: usize,
}

impl Properties {
    /// Parses the bytes of a properties file.
    ///
    /// # Errors
    /// A `\u` without four hexadecimal digits after it.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadEscape> {
        let (text, utf8) = decode(bytes);
        let mut properties = Self::parse_text(&text, utf8)?;
        properties.has_byte_order_mark = bytes.starts_with(BYTE_ORDER_MARK);
        Ok(properties)
    }

    /// Parses the bytes as Java does, as ISO-8859-1 whatever they are.
    ///
    /// # Errors
    /// A `\u` without four hexadecimal digits after it.
    pub fn parse_as_java(bytes: &[u8]) -> Result<Self, BadEscape> {
        Self::parse_text(&latin1(bytes), false)
    }

    fn parse_text(text: &str, utf8: bool) -> Result<Self, BadEscape> {
        let mut properties = Self::default();
        for Logical { first: line, text: logical, .. } in logical_lines(text) {
            if utf8 && !logical.is_ascii() {
                properties.beyond_ascii.push(line);
            }
            let (key, value) = split(&logical);
            let key = java_trim(&unescape(key).ok_or(BadEscape { line })?).to_owned();
            let padded = unescape(value).ok_or(BadEscape { line })?;
            let value = java_trim(&padded).to_owned();
            let was_padded = padded.ends_with(|c| c <= ' ');
            let entry = Entry { value, was_padded, line };
            if let Some(lost) = properties.entries.insert(key.clone(), entry) {
                properties.overridden.push((key, lost.line));
            }
        }
        Ok(properties)
    }

    /// The value of a key, if the file has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// All keys in the order of their lines.
    #[must_use]
    pub fn in_file_order(&self) -> Vec<(&str, &Entry)> {
        let mut all: Vec<_> =
            self.entries.iter().map(|(key, entry)| (key.as_str(), entry)).collect();
        all.sort_by_key(|(_, entry)| entry.line);
        all
    }
}

/// Bytes to text, and whether they were UTF-8. A byte order mark is dropped.
fn decode(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)), true),
        Err(_) => (Cow::Owned(latin1(bytes)), false),
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// The lines of a file that hold keys, as they are, but with `…` for the values that are not to be seen.
/// Comments are left out: a line that is disabled with a `#` may be a secret as well.
pub fn without_values(bytes: &[u8], is_hidden: impl Fn(&str) -> bool) -> String {
    let (text, _) = decode(bytes);
    let text = text.replace("\r\n", "\n");
    let lines: Vec<&str> = text.split_terminator(['\n', '\r']).collect();
    let mut shown = String::with_capacity(text.len());
    for Logical { first, last, text } in logical_lines(&text) {
        let key = unescape(split(&text).0).unwrap_or_default();
        match java_trim(&key) {
            key if is_hidden(key) => shown.extend([key, "=…\n"]),
            _ => lines[first - 1..last].iter().for_each(|line| shown.extend([line, "\n"])),
        }
    }
    shown
}

/// A line that holds a key, with the lines that continue it.
struct Logical {
    /// The number of its first line, counted from 1.
    first: usize,
    last: usize,
    text: String,
}

fn logical_lines(text: &str) -> Vec<Logical> {
    let text = text.replace("\r\n", "\n");
    let mut logical_lines = Vec::new();
    let mut logical = String::new();
    let (mut first, mut last) = (0, 0);
    let mut open = false;
    for (line, number) in text.split_terminator(['\n', '\r']).zip(1..) {
        let line = line.trim_start_matches(BLANKS);
        if logical.is_empty() {
            open = false;
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            first = number;
        }
        last = number;
        logical.push_str(line);
        open = ends_in_continuation(&logical);
        if open {
            logical.pop();
        } else {
            logical_lines.push(Logical { first, last, text: std::mem::take(&mut logical) });
        }
    }
    if open {
        logical_lines.push(Logical { first, last, text: logical });
    }
    logical_lines
}

/// An odd number of backslashes at the end: the last of them is not escaped.
fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// Cuts a logical line into its key and value, both still escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .char_indices()
        .find(|&(_, c)| {
            let ends = !escaped && (c == '=' || c == ':' || BLANKS.contains(&c));
            escaped = c == '\\' && !escaped;
            ends
        })
        .map_or(line.len(), |(index, _)| index);
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(BLANKS))
}

/// Resolves backslash escapes; `None` for a malformed `\u`.
fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    // UTF-16 units, so that two \u escapes can form one character.
    let mut units = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let plain = match c {
            '\\' => match chars.next() {
                Some('u') => {
                    units.push(hex_unit(&mut chars)?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&units))
}

fn hex_unit(chars: &mut std::str::Chars<'_>) -> Option<u16> {
    let mut unit = 0;
    for _ in 0..4 {
        let digit = chars.next()?.to_digit(16)?;
        unit = unit << 4 | u16::try_from(digit).ok()?;
    }
    Some(unit)
}

/// `String.trim` of Java: everything up to and including the space goes.
fn java_trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: impl AsRef<[u8]>, expected: &[(&str, &str, usize)]) {
        let text = text.as_ref();
        let parsed = Properties::parse(text).expect("the text parses");
        let found: Vec<_> = parsed
            .in_file_order()
            .into_iter()
            .map(|(key, entry)| (key, entry.value.as_str(), entry.line))
            .collect();
        assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(text));
    }

    #[test]
    fn keys_and_values_are_cut_as_java_cuts_them() {
        check("a=1", &[("a", "1", 1)]);
        check("a:1", &[("a", "1", 1)]);
        check("a 1", &[("a", "1", 1)]);
        check("  a\t=\t 1  ", &[("a", "1", 1)]);
        check("a = = 1", &[("a", "= 1", 1)]);
        check("a : 1:2", &[("a", "1:2", 1)]);
        check("a", &[("a", "", 1)]);
        check("=1", &[("", "1", 1)]);
        check("a\\=b=1", &[("a=b", "1", 1)]);
        check("a\\ b 1", &[("a b", "1", 1)]);
        check("a\\\\=1", &[("a\\", "1", 1)]);
        check("dir=C:\\\\data", &[("dir", "C:\\data", 1)]);
        check("server.1=[::1]:2888:3888;2181", &[("server.1", "[::1]:2888:3888;2181", 1)]);
    }

    #[test]
    fn comments_and_blank_lines_carry_nothing() {
        check("# a=1\n! b=2\n\n \t\n  # c\\\nd=4", &[("d", "4", 6)]);
        check("a=1 # not a comment", &[("a", "1 # not a comment", 1)]);
        check("", &[]);
    }

    #[test]
    fn any_line_ending_ends_a_line() {
        check("a=1\r\nb=2\rc=3\n", &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3)]);
        check("a=x\\\r\n   y\r\nb=2", &[("a", "xy", 1), ("b", "2", 3)]);
    }

    #[test]
    fn a_last_backslash_joins_lines() {
        check("a=1,\\\n    2,\\\n    3\nb=4", &[("a", "1,2,3", 1), ("b", "4", 4)]);
        check("a=1\\\\\nb=2", &[("a", "1\\", 1), ("b", "2", 2)]);
        check("a=1\\\n# part of it", &[("a", "1# part of it", 1)]);
        check("a=1\\", &[("a", "1", 1)]);
        check("\\\n\nb=1", &[("b", "1", 3)]);
        check("\\\n# c\nb=1", &[("b", "1", 3)]);
        check("\\", &[("", "", 1)]);
    }

    #[test]
    fn escapes_are_resolved() {
        check("a=\\u0041\\u00e9", &[("a", "A\u{e9}", 1)]);
        check("a=\\uD83D\\uDE00", &[("a", "\u{1f600}", 1)]);
        check("a=x\\ty\\nz\\q", &[("a", "x\ty\nzq", 1)]);
        for bad in ["a=\\u12", "a=\\u12g4", "ok=1\na\\u=1"] {
            let line = bad.lines().count();
            assert_eq!(Properties::parse(bad.as_bytes()), Err(BadEscape { line }), "{bad:?}");
        }
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        let parsed = Properties::parse(b"a=1\nb=2\na=3").expect("the text parses");
        assert_eq!(parsed.get("a").map(|entry| entry.value.as_str()), Some("3"));
        assert_eq!(parsed.overridden, vec![("a".to_owned(), 1)]);
    }

    #[test]
    fn bytes_are_utf8_if_they_can_be_and_latin1_otherwise() {
        check("dir=/donn\u{e9}es", &[("dir", "/donn\u{e9}es", 1)]);
        check(b"dir=/donn\xe9es", &[("dir", "/donn\u{e9}es", 1)]);
        check("\u{feff}a=1", &[("a", "1", 1)]);
        let utf8 = Properties::parse("# \u{e9}\na=\u{e9}".as_bytes()).expect("the text parses");
        assert_eq!(utf8.beyond_ascii, vec![2]);
        let latin1 = Properties::parse(b"a=\xe9").expect("the text parses");
        assert_eq!(latin1.beyond_ascii, Vec::<usize>::new());
    }

    #[test]
    fn what_java_reads_otherwise_can_be_told() {
        let value = |parsed: Result<Properties, BadEscape>, key: &str| {
            parsed.expect("the text parses").get(key).map(|entry| entry.value.clone())
        };
        let text = "dir=/donn\u{e9}es\nescaped=\\u00e9".as_bytes();
        let java = Properties::parse_as_java(text);
        assert_eq!(value(java.clone(), "dir").as_deref(), Some("/donn\u{c3}\u{a9}es"));
        assert_eq!(value(java, "escaped").as_deref(), Some("\u{e9}"));
        let marked = "\u{feff}a=1".as_bytes();
        assert!(Properties::parse(marked).is_ok_and(|parsed| parsed.has_byte_order_mark));
        assert_eq!(value(Properties::parse(marked), "a").as_deref(), Some("1"));
        assert_eq!(value(Properties::parse_as_java(marked), "a"), None);
        let padded = |text: &[u8]| {
            Properties::parse(text).expect("the text parses").get("a").map(|entry| entry.was_padded)
        };
        assert_eq!(padded(b"a= 1"), Some(false));
        assert_eq!(padded(b"a=1 \t"), Some(true));
        assert_eq!(padded(b"a="), Some(false));
    }

    /// Writes any text as a properties file would hold it.
    fn escape(text: &str) -> String {
        text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
    }

    #[test]
    fn what_is_escaped_comes_back() {
        let alphabet = ['a', '=', ':', ' ', '\\', '#', '!', '\n', '\u{e9}', '\u{1f600}', 'u'];
        for seed in 0..2_000_usize {
            let pick = |step: usize| alphabet[(seed / step + seed * step) % alphabet.len()];
            let text: String = (1..6).map(pick).collect();
            let file = format!("{}={}", escape(&format!("k{text}")), escape(&text));
            let key = java_trim(&format!("k{text}")).to_owned();
            check(&file, &[(&key, java_trim(&text), 1)]);
        }
    }

    #[test]
    fn hidden_values_are_hidden_however_they_are_written() {
        let hide = |text: &str| without_values(text.as_bytes(), |key| key == "pw");
        assert_eq!(hide("a=1\n# pw=y\n\npw=x\nb=2,\\\n3"), "a=1\npw=…\nb=2,\\\n3\n");
        for line in
            ["pw x", "pw:x", "  pw = x", "p\\w=x", "p\\u0077=x", "pw=\\\n  x", "p\\\nw=\\\nx"]
        {
            assert_eq!(hide(&format!("a=1\r\n{line}\nb=2\n")), "a=1\npw=…\nb=2\n", "{line:?}");
        }
    }

    #[test]
    fn no_bytes_panic() {
        let alphabet = *b"a=:\\u0\n\r #!\xff\xc3";
        for seed in 0..200_000_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let bytes: Vec<u8> = (0..12)
                .map(|_| {
                    state = state.rotate_left(7).wrapping_mul(0x2545_f491_4f6c_dd1d);
                    alphabet[usize::try_from(state >> 33).expect("31 bits fit") % alphabet.len()]
                })
                .collect();
            let _ = Properties::parse(&bytes);
            without_values(&bytes, |key| key == "a");
        }
    }
}
