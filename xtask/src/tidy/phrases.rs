//! Phrases that comments, messages and documents must not use: metaphors, private words, and English that no native
//! speaker would write. Each has a replacement.
//!
//! In: Rust comments and string literals, Markdown, descriptions of packages. Not checked: code, text in backticks, and
//! literals without a space, which are names and values.

use super::Source;

/// A phrase, also in the plural, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    // People and houses.
    ("stranger", "unidentified connection, unlisted server, unauthenticated client"),
    ("impostor", "a peer with another identity"),
    ("whomever", "name the subject"),
    ("anybody's", "name the subject"),
    ("desk", "queue, listener, state"),
    ("bell", "notifier, waker"),
    ("ward", "guard, limit"),
    ("vitals", "health"),
    ("farewell", "close, end of a session"),
    ("vacancy", "free slot"),
    ("loan", "lease"),
    ("standing", "state, role"),
    ("wish", "request"),
    ("daily bread", "basic operations"),
    ("wanted and reached", "goals and results"),
    ("sent away", "rejected"),
    ("sends away", "rejects"),
    ("send away", "reject"),
    ("lets in", "accepts, admits"),
    ("is let in", "is accepted, is admitted"),
    // Verbs.
    ("came back", "returned, reconnected"),
    ("coming back", "returning, reconnecting"),
    ("gave back", "returned, released"),
    ("gives back", "returns, releases"),
    ("gone on", "continued"),
    ("were told", "received, were notified"),
    ("hangs up", "closes the connection"),
    ("hang up", "close the connection"),
    ("hung up", "closed the connection"),
    ("sees to it", "ensures"),
    ("hands on", "passes on"),
    ("handed on", "passed on"),
    ("hand it over", "pass it on"),
    ("takes its turn", "is ordered, waits in the queue"),
    ("let go of", "dropped, released"),
    ("comes free", "is released"),
    ("left to itself", "detached"),
    ("looks after", "watches, checks"),
    ("is spoken", "is supported"),
    ("are spoken", "are supported"),
    ("gets lost", "is lost"),
    ("goodbye", "close, close_notify, closeSession"),
    ("fared", "the result"),
    ("all the while", "all the time"),
    ("a word about", "a line, a message"),
    ("in silence", "silently"),
    ("time of grace", "grace period"),
    ("the very end", "the end"),
    ("what comes in", "what is received, inputs"),
    ("in hand", "being processed"),
    ("out of hand", "processed"),
    ("to and fro", "in both directions"),
    ("in good order", "properly"),
    // Negations: `is not a snapshot`, `not a snapshot (bad magic)`.
    ("begins like none", "bad magic"),
    ("held no longer", "lost"),
    ("is no packet", "is not a packet"),
    ("is no vote", "is not a vote"),
    ("is no frame", "is not a frame"),
    ("is no zxid", "is not a zxid"),
    ("is no text", "is not text"),
    ("is no error", "is not an error"),
    ("is no create", "is not a create"),
    ("is no proof", "does not prove"),
    ("are no text", "are not text"),
];

/// Names of types and modules that need a metaphor explained.
const NAMES: &[&str] = &[
    "Mind", "Desk", "Office", "Bells", "Door", "Ward", "Vitals", "Farewell", "Standing", "Hope",
    "Wish", "Seat", "Loan", "Vacancy", "Stranger", "Impostor",
];
const DECLARATIONS: &[&str] = &["struct", "enum", "trait", "type"];

/// The list itself.
const THIS_FILE: &str = "xtask/src/tidy/phrases.rs";

/// Every use of a phrase or a name of the lists.
pub fn check(source: &Source) -> Vec<String> {
    if source.path == THIS_FILE {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (number, text) in prose(source) {
        let text = without_backticks(&text).to_lowercase();
        for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| contains(&text, phrase)) {
            problems.push(format!("{}:{number}: \"{phrase}\"; write: {instead}", source.path));
        }
    }
    if source.is_rust() {
        let named = source.lines().filter_map(|(number, line)| Some((number, declared(line)?)));
        let what = "a name that needs an explanation; use an ordinary one";
        problems.extend(
            named.map(|(number, name)| format!("{}:{number}: `{name}`: {what}", source.path)),
        );
    }
    problems
}

/// The lines to check, with their numbers.
fn prose(source: &Source) -> Vec<(usize, String)> {
    let owned = |(number, line): (usize, &str)| (number, line.to_owned());
    match source.path.rsplit('.').next() {
        Some("rs") => rust_prose(source.text.as_deref().unwrap_or_default()),
        Some("md") => source.lines().map(owned).collect(),
        Some("toml") => {
            source.lines().filter(|(_, line)| line.starts_with("description")).map(owned).collect()
        }
        _ => Vec::new(),
    }
}

/// The comments and string literals of a Rust file. Block comments count as code.
fn rust_prose(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut number = 1;
    while let Some(at) = rest.find(['/', '"', '\'', 'r', '\n']) {
        let here = &rest[at..];
        let length = if here.starts_with("//") {
            let end = here.find('\n').unwrap_or(here.len());
            found.push((number, here[..end].to_owned()));
            end
        } else if let Some(length) = literal_length(here, &rest[..at]) {
            add_literal(&here[..length], number, &mut found);
            length
        } else {
            character_length(here).unwrap_or(1)
        };
        number += here[..length].matches('\n').count();
        rest = &here[length..];
    }
    found
}

/// The length of the string literal at the start of `here`, which follows `before`.
fn literal_length(here: &str, before: &str) -> Option<usize> {
    if let Some(inner) = here.strip_prefix('"') {
        let mut is_escaped = false;
        let is_end = |c: char| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        };
        return Some(inner.find(is_end).map_or(here.len(), |end| end + 2));
    }
    let is_word =
        before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.ends_with('b');
    let hashes = here.strip_prefix('r')?.bytes().take_while(|byte| *byte == b'#').count();
    if is_word || !here[1 + hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let start = 2 + hashes;
    Some(here[start..].find(&end).map_or(here.len(), |at| start + at + end.len()))
}

/// The length of the character literal at the start of `here`; `None` for a lifetime or anything else.
fn character_length(here: &str) -> Option<usize> {
    let inner = here.strip_prefix('\'')?;
    let first = inner.chars().next()?;
    let length =
        if first == '\\' { 1 + inner[1..].chars().next()?.len_utf8() } else { first.len_utf8() };
    inner[length..].starts_with('\'').then_some(length + 2)
}

fn add_literal(literal: &str, number: usize, found: &mut Vec<(usize, String)>) {
    if literal.contains(' ') {
        found.extend(
            literal.lines().enumerate().map(|(index, line)| (number + index, line.to_owned())),
        );
    }
}

fn without_backticks(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Whether a text has these words, the last one also in the plural. Both are lower-case.
fn contains(text: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let after = &text[at + phrase.len()..];
        let after = after.strip_prefix('s').unwrap_or(after);
        !text[..at].ends_with(is_word) && !after.starts_with(is_word)
    })
}

/// The name of the list that a line of code declares.
fn declared(line: &str) -> Option<&'static str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find(|word| DECLARATIONS.contains(word))?;
    let name = words.next()?;
    NAMES.iter().copied().find(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&source(path, text)).len()
    }

    #[test]
    fn phrases_are_found_in_comments_literals_and_documents() {
        assert_eq!(found("a.rs", "/// Strangers are sent away.\n"), 2);
        assert_eq!(found("a.rs", "let text = \"the peer hangs up\";"), 1);
        assert_eq!(
            found("a.rs", "let text = \"several lines, \\\n    the last of them hung up\";"),
            1
        );
        assert_eq!(found("a.rs", "let text = br#\"a \"stranger\" calls\"#;"), 1);
        assert_eq!(found("a.md", "It is no vote.\n"), 1);
        assert_eq!(found("crates/a/Cargo.toml", "description = \"The daily bread\"\n"), 1);
        assert_eq!(found("crates/a/Cargo.toml", "# The daily bread\n"), 0);
    }

    #[test]
    fn code_names_and_values_are_not_checked() {
        assert_eq!(found("a.rs", "let stranger = in_hand(wish);"), 0);
        assert_eq!(found("a.rs", "check(\"stranger\", b'\"', '\"', '\\'', \"a name\");"), 0);
        assert_eq!(
            found(
                "a.rs",
                "fn f<'a>(x: &'a str, r: u8) -> bool { r == 1 } // `stranger` is a variable"
            ),
            0
        );
        assert_eq!(found("a.md", "Use `wish` for it; it is rewarding.\n"), 0);
        assert_eq!(found(THIS_FILE, "// stranger\n"), 0);
    }

    #[test]
    fn problems_have_the_line_and_the_replacement() {
        let text = "let a = \"one\n two\";\nlet b = \"x y\";\n// It hung up.\n";
        let expected = "a.rs:4: \"hung up\"; write: closed the connection";
        assert_eq!(check(&source("a.rs", text)), [expected]);
    }

    #[test]
    fn names_with_a_metaphor_are_found() {
        assert_eq!(found("a.rs", "pub(crate) struct Desk {"), 1);
        assert_eq!(found("a.rs", "enum Standing<T> {"), 1);
        assert_eq!(found("a.rs", "struct DeskLamp;"), 0);
        assert_eq!(found("a.rs", "let desk: Desk = new();"), 0);
    }
}
