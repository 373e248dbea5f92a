//! Formats stats, data, ACLs and lists, as zkCli prints them and as JSON.

use std::borrow::Cow;
use std::fmt::Write as _;

mod acl;
mod columns;
mod data;
mod stat;

pub(crate) use acl::{acl_json, acl_lines, parse_acl};
pub(crate) use columns::in_columns;
pub(crate) use data::{Encoding, base64_of, data_json, hexdump, text_of};
pub(crate) use stat::{stat_json, stat_lines};

/// `[a, b, c]`, as Java prints a list.
pub(crate) fn bracketed(items: &[String]) -> String {
    format!("[{}]", items.join(", "))
}

/// The text with control characters escaped, so that it cannot affect a terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control())
}

/// As [`printable`], but keeps line ends and tabs.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control() && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_harmful(c) {
            // Writing to a String does not fail.
            let _ = write!(safe, "\\x{:02x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\x1b[31mb\n"), "a\\x1b[31mb\\x0a");
        assert_eq!(printable_lines("a\tb\r\nc\u{9b}"), "a\tb\\x0d\nc\\x9b");
        assert!(matches!(printable("zürich"), Cow::Borrowed(_)));
    }

    #[test]
    fn lists_look_like_javas() {
        assert_eq!(bracketed(&[]), "[]");
        assert_eq!(bracketed(&["a".to_owned(), "b".to_owned()]), "[a, b]");
    }
}
