//! Patterns for names, paths and data: globs as in a Unix shell, and regular expressions.
//!
//! In a glob `*` and `?` do not match slashes, `**` does; `[a-z]`, `[!a-z]` and `{one,two}` mean what
//! they mean in a shell; a backslash escapes the next character.

use std::fmt::Write as _;

use regex::bytes::Regex;

use super::error::{Result, SubtreeError};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// A glob, which matches a whole text.
    pub fn glob(glob: &str) -> Result<Self> {
        let refused =
            |why: &str| SubtreeError::Mistake(format!("{glob:?} is not a glob pattern: {why}"));
        let regex = glob_to_regex(glob).map_err(refused)?;
        Regex::new(&regex).map(Pattern).map_err(|_| refused("a set in [] is empty or invalid"))
    }

    /// A regular expression, which may match any part of a text.
    pub fn regex(regex: &str) -> Result<Self> {
        let compiled = Regex::new(regex);
        compiled.map(Pattern).map_err(|error| {
            // The crate draws an arrow below the expression; its last line says what is wrong.
            let text = error.to_string();
            let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            SubtreeError::Mistake(format!("{regex:?} is not a regular expression: {why}"))
        })
    }

    /// A literal text, which may match any part of a text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let regex = Regex::new(&regex::escape(text));
        Pattern(regex.expect("an escaped text is a regular expression"))
    }

    /// Whether it matches a text.
    #[must_use]
    pub fn is_match(&self, text: impl AsRef<[u8]>) -> bool {
        self.0.is_match(text.as_ref())
    }
}

fn glob_to_regex(glob: &str) -> std::result::Result<String, &'static str> {
    let mut regex = String::from("^(?s:");
    let mut open_braces = 0;
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' if chars.next_if_eq(&'*').is_some() => regex.push_str(".*"),
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => push_set(&mut regex, &mut chars)?,
            '{' => {
                open_braces += 1;
                regex.push_str("(?:");
            }
            '}' if open_braces > 0 => {
                open_braces -= 1;
                regex.push(')');
            }
            ',' if open_braces > 0 => regex.push('|'),
            '\\' => push_literal(&mut regex, chars.next().ok_or("it ends with a backslash")?),
            c => push_literal(&mut regex, c),
        }
    }
    if open_braces > 0 {
        return Err("a { is never closed");
    }
    regex.push_str(")$");
    Ok(regex)
}

fn push_set(
    regex: &mut String,
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
) -> std::result::Result<(), &'static str> {
    regex.push('[');
    if chars.next_if(|c| matches!(c, '!' | '^')).is_some() {
        regex.push('^');
    }
    let mut is_first = true;
    loop {
        match chars.next().ok_or("a [ is never closed")? {
            ']' if !is_first => break,
            '-' => regex.push('-'),
            c => push_literal(regex, c),
        }
        is_first = false;
    }
    regex.push(']');
    Ok(())
}

fn push_literal(regex: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        regex.push('\\');
    }
    // Writing to a String does not fail.
    let _ = regex.write_char(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_in_a_shell() {
        for (glob, matched, missed) in [
            ("a*", &["a", "abc"][..], &["ba", "a/b"][..]),
            ("*.json", &["x.json", ".json"], &["xjson", "x.json5"]),
            ("a?c", &["abc", "aéc"], &["ac", "abbc", "a/c"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "b/a/c"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "-x"]),
            ("[!a-c]x", &["dx"], &["ax"]),
            ("[]x]", &["]", "x"], &["["]),
            ("{one,two}-*", &["one-1", "two-"], &["three-1", "one,two-1"]),
            ("a,b", &["a,b"], &["a", "b"]),
            (r"\*", &["*"], &["a"]),
            ("(a|b)+$", &["(a|b)+$"], &["a"]),
            ("", &[""], &["a"]),
        ] {
            let pattern = Pattern::glob(glob).unwrap();
            for text in matched {
                assert!(pattern.is_match(text), "{glob:?} should match {text:?}");
            }
            for text in missed {
                assert!(!pattern.is_match(text), "{glob:?} should not match {text:?}");
            }
        }
    }

    #[test]
    fn broken_patterns_are_refused_in_one_line() {
        for bad in ["[", "[a", "{a", "a\\", "[z-a]"] {
            let error = Pattern::glob(bad).unwrap_err().to_string();
            assert!(error.contains("is not a glob pattern") && !error.contains('\n'), "{error}");
        }
        let error = Pattern::regex("(a").unwrap_err().to_string();
        assert_eq!(error, r#""(a" is not a regular expression: unclosed group"#);
    }

    #[test]
    fn texts_and_expressions_match_bytes() {
        assert!(Pattern::text("a.b").is_match(b"\xffa.b\0"));
        assert!(!Pattern::text("a.b").is_match("aXb"));
        assert!(Pattern::regex("(?i)HOST=\\d+").unwrap().is_match("host=12"));
    }
}
