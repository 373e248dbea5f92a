//! Splits a line into words by zkCli's rules.
//!
//! A word that begins with a quote, single or double, ends at the next quote of the same kind;
//! there is no escape inside. A quote within a word is an ordinary character, so that
//! `set /a {"b":1}` needs no quotes. Apache: `ZooKeeperMain.MyCommandOptions.parseCommand`, which
//! drops a quote that is never closed; here that is an error.

use crate::failure::Failure;

/// A word and its position in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    /// Without quotes.
    pub(crate) text: &'a str,
    /// Its offset, including its quote.
    pub(crate) start: usize,
    /// The quote that it begins with.
    pub(crate) quote: Option<char>,
    /// Whether it has its closing quote, or needs none.
    pub(crate) is_closed: bool,
}

/// The words of a line. The last one may lack its closing quote.
pub(crate) fn scan(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(begin) = line[at..].find(|c: char| !c.is_whitespace()) {
        let start = at + begin;
        let quote = line[start..].chars().next().filter(|c| matches!(c, '"' | '\''));
        let word = match quote {
            Some(quote) => {
                let inside = &line[start + 1..];
                let end = inside.find(quote);
                let text = &inside[..end.unwrap_or(inside.len())];
                at = start + 1 + text.len() + usize::from(end.is_some());
                Word { text, start, quote: Some(quote), is_closed: end.is_some() }
            }
            None => {
                let rest = &line[start..];
                let text = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
                at = start + text.len();
                Word { text, start, quote: None, is_closed: true }
            }
        };
        words.push(word);
    }
    words
}

/// The words of a whole line; empty for a blank line.
pub(crate) fn split(line: &str) -> Result<Vec<String>, Failure> {
    let words = scan(line);
    if let Some(open) = words.iter().find(|word| !word.is_closed) {
        let quote = open.quote.unwrap_or('"');
        return Err(Failure::usage(format!("missing closing quote: {quote}{}", open.text)));
    }
    Ok(words.into_iter().map(|word| word.text.to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, words: &[&str]) {
        assert_eq!(split(line).expect("the line can be split"), words, "{line:?}");
    }

    #[test]
    fn lines_are_split_as_zkcli_does() {
        check("", &[]);
        check("   \t", &[]);
        check("ls /", &["ls", "/"]);
        check("  set  /a  'b c' ", &["set", "/a", "b c"]);
        check(r#"set /a "it's""#, &["set", "/a", "it's"]);
        check(r#"set /a {"b":1}"#, &["set", "/a", r#"{"b":1}"#]);
        check(r#"set /a '{"b": 1}'"#, &["set", "/a", r#"{"b": 1}"#]);
        check(r#"set /a """#, &["set", "/a", ""]);
        check(r#"'a'b"#, &["a", "b"]);
        check("create /ü ä", &["create", "/ü", "ä"]);
        check(r"set /a b\n", &["set", "/a", r"b\n"]);
    }

    #[test]
    fn an_open_quote_is_an_error_and_the_completer_sees_it() {
        let failure = split("get \"/a b").expect_err("the quote is open");
        assert_eq!(failure.to_string(), "missing closing quote: \"/a b");
        let words = scan("get \"/a b");
        assert_eq!((words[1].text, words[1].start, words[1].is_closed), ("/a b", 4, false));
    }
}
