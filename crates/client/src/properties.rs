//! The syntax of Java properties files, in which Apache's clients are configured.
//!
//! In: text. Out: names and values; what they mean is not known here. The grammar is that of
//! `java.util.Properties.load`: `name=value`, `name:value` or `name value`, comments with `#` or `!`,
//! a backslash escapes and at the end of a line joins the next one. Of equal names the last wins.

use std::collections::BTreeMap;

/// What may stand around a separator and before a name.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// A `\u` without four hexadecimal digits behind it, the only thing that Java refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadEscape {
    /// The line, counted from 1, on which its name stands.
    pub(crate) line: usize,
}

/// The names and their values, trimmed.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, String>, BadEscape> {
    let mut values = BTreeMap::new();
    let mut lines =
        text.lines().zip(1..).map(|(text, line)| (text.trim_start_matches(BLANKS), line));
    while let Some((text, line)) = lines.next() {
        if text.is_empty() || text.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = text.to_owned();
        while is_continued(&whole) {
            whole.pop();
            whole.push_str(lines.next().map_or("", |(text, _)| text));
        }
        let (name, value) = split(&whole);
        let plain = |text| unescaped(text).ok_or(BadEscape { line });
        values.insert(plain(name)?.trim().to_owned(), plain(value)?.trim().to_owned());
    }
    Ok(values)
}

/// The last backslash is not escaped itself.
fn is_continued(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

/// Name and value, both with their escapes.
fn split(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line.find(|c: char| {
        let ends = !is_escaped && (matches!(c, '=' | ':') || BLANKS.contains(&c));
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(BLANKS);
    (name, rest.strip_prefix(['=', ':']).unwrap_or(rest))
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let (digits, rest) = chars.as_str().split_at_checked(4)?;
                let number = u16::from_str_radix(digits, 16).ok()?;
                // Halves of a character, which paths and passwords have no use for.
                out.push(char::from_u32(number.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
                chars = rest.chars();
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        assert_eq!(parse(text), Ok(expected.iter().map(own).collect()), "{text:?}");
    }

    #[test]
    fn a_file_is_read_as_java_reads_it() {
        check("a=1\nb: 2\r\nc 3\n d = 4 \n", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
        check("# no\n  ! no\n\na=1 # yes\n", &[("a", "1 # yes")]);
        check("a=one\\\n   two\\\\\nb", &[("a", "onetwo\\"), ("b", "")]);
        check("a\\ b\\=c=\\u0041\\t\\x", &[("a b=c", "A\tx")]);
        check("a=1\na=2", &[("a", "2")]);
        check("a=b\\", &[("a", "b")]);
        check("a==b", &[("a", "=b")]);
        check("", &[]);
    }

    #[test]
    fn a_broken_escape_is_found() {
        for text in ["#\na=\\u12", "\na=\\u12x4", "\n\\u=1", "\na=\\uéé"] {
            assert_eq!(parse(text), Err(BadEscape { line: 2 }), "{text:?}");
        }
    }
}
