//! Replacement text in Java's notation (`Matcher.replaceAll`): `$1` is the first group, `\$` a dollar sign.
//! The crate `regex` has another notation (there, `$1a` is the group named `1a`), so texts from Apache
//! configurations are translated.

use regex::{Captures, Regex};

/// Text with references to groups.
#[derive(Clone, Debug)]
pub(super) struct Replacement(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(char),
    Group(usize),
}

impl Replacement {
    /// Parses a replacement for matches of a pattern. `Err` is the problem.
    pub fn parse(text: &str, pattern: &Regex) -> Result<Self, &'static str> {
        let groups = pattern.captures_len();
        let mut pieces = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            let piece = match char {
                '\\' => Piece::Text(rest.next().ok_or("a `\\` at the end escapes nothing")?),
                '$' => {
                    let digit = rest.next().and_then(digit);
                    let mut group = digit.ok_or("`$` must be followed by a group number")?;
                    // As in Java, further digits belong to the number if such a group exists.
                    while let Some(longer) = rest.peek().copied().and_then(digit_behind(group))
                        && longer < groups
                    {
                        group = longer;
                        rest.next();
                    }
                    if group >= groups {
                        return Err("the pattern does not have that many groups");
                    }
                    Piece::Group(group)
                }
                other => Piece::Text(other),
            };
            pieces.push(piece);
        }
        Ok(Replacement(pieces))
    }

    /// Returns the text for one match.
    pub fn expand(&self, captures: &Captures<'_>) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(char) => text.push(*char),
                Piece::Group(group) => {
                    text.push_str(captures.get(*group).map_or("", |group| group.as_str()));
                }
            }
        }
        text
    }
}

fn digit(char: char) -> Option<usize> {
    char.to_digit(10).and_then(|digit| usize::try_from(digit).ok())
}

fn digit_behind(group: usize) -> impl Fn(char) -> Option<usize> {
    move |char| group.checked_mul(10)?.checked_add(digit(char)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, base: &str, expected: &str) {
        let pattern = Regex::new(pattern).unwrap();
        let replacement = Replacement::parse(text, &pattern).unwrap();
        let replaced = pattern.replace(base, |found: &Captures<'_>| replacement.expand(found));
        assert_eq!(replaced, expected, "{text}");
    }

    #[test]
    fn groups_are_written_as_in_java() {
        check("(a)(b)", "$2$1", "ab", "ba");
        check("(a)(b)", "$2x", "ab", "bx");
        // There is no group 12, so this is group 1 and the digit 2.
        check("(a)(b)", "$12", "ab", "a2");
        check("(a)|(b)", "<$2>", "a", "<>");
        check("a", r"\$1\\", "a", r"$1\");
        check("a", "$0$0", "a", "aa");
    }

    #[test]
    fn what_java_rejects_is_rejected() {
        let pattern = Regex::new("(a)").unwrap();
        for text in ["$", "$x", "$2", "\\"] {
            assert!(Replacement::parse(text, &pattern).is_err(), "{text}");
        }
    }
}
