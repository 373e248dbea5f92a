//! Completion of commands, their flags, the values of flags, and paths on the server.
//!
//! In: the line up to the cursor. Out: where the word begins, and the candidates for it. The commands
//! come from their one description.

use clap::{Arg, Command};

use super::paths::ListChildren;
use crate::commands::description;
use crate::usage;
use crate::words::{self, Word};

/// The candidates for the word at the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The start of the word that is replaced.
    pub(crate) start: usize,
    pub(crate) candidates: Vec<Candidate>,
}

/// A candidate for completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The text in the list of candidates.
    pub(crate) shown: String,
    /// The text inserted into the line.
    pub(crate) text: String,
}

impl Candidate {
    /// A complete word, followed by a space.
    fn word(text: &str) -> Self {
        Candidate { shown: text.to_owned(), text: format!("{text} ") }
    }
}

/// Completes the last word of `line`, which ends at the cursor.
pub(crate) fn complete(line: &str, paths: &dyn ListChildren) -> Completion {
    let mut words = words::scan(line);
    let is_open = words.last().is_some_and(|word| !word.is_closed);
    let is_new = !is_open && line.chars().next_back().is_none_or(char::is_whitespace);
    let current = match words.pop() {
        Some(word) if !is_new => word,
        last => {
            words.extend(last);
            Word { text: "", start: line.len(), quote: None, is_closed: true }
        }
    };
    let candidates = match words.split_first() {
        None => commands_like(current.text),
        Some((name, before)) => usage::find(name.text)
            .map_or_else(Vec::new, |command| arguments_like(command, before, &current, paths)),
    };
    Completion { start: current.start, candidates }
}

fn commands_like(prefix: &str) -> Vec<Candidate> {
    let prefix = prefix.to_ascii_lowercase();
    let shown = description().get_subcommands().filter(|command| !command.is_hide_set());
    let names = shown.flat_map(|command| {
        std::iter::once(command.get_name()).chain(command.get_visible_aliases())
    });
    let mut names: Vec<_> =
        names.filter(|name| name.to_ascii_lowercase().starts_with(&prefix)).collect();
    names.sort_unstable();
    names.into_iter().map(Candidate::word).collect()
}

fn arguments_like(
    command: &Command,
    before: &[Word<'_>],
    current: &Word<'_>,
    paths: &dyn ListChildren,
) -> Vec<Candidate> {
    let expected = expected_argument(command, before);
    let are_flags_over = before.iter().any(|word| word.text == "--");
    let takes_flag = expected.is_none_or(Arg::is_positional) && !are_flags_over;
    if current.text.starts_with('-') && current.quote.is_none() && takes_flag {
        return flags_like(command, current.text);
    }
    if command.get_name() == "help" {
        return commands_like(current.text);
    }
    let Some(expected) = expected else {
        return Vec::new();
    };
    let values = expected.get_possible_values();
    if !values.is_empty() && expected.get_action().takes_values() {
        let prefix = current.text.to_ascii_lowercase();
        let names = values.iter().map(clap::builder::PossibleValue::get_name);
        let like = names.filter(|name| name.to_ascii_lowercase().starts_with(&prefix));
        return like.map(Candidate::word).collect();
    }
    match wants_path(expected, current) {
        true => paths_like(current, paths),
        false => Vec::new(),
    }
}

/// The argument that the next word is: the value of the flag before it, or a positional.
fn expected_argument<'a>(command: &'a Command, before: &[Word<'_>]) -> Option<&'a Arg> {
    let mut positionals = 0;
    let mut expected = None;
    for word in before {
        let flag = word.text.strip_prefix('-').filter(|flag| !flag.is_empty());
        match (expected.take(), flag) {
            // This word is the value of the flag before it.
            (Some(_), _) => {}
            (None, Some(flag)) if word.quote.is_none() => expected = value_flag(command, flag),
            (None, _) => positionals += 1,
        }
    }
    expected.or_else(|| {
        let all: Vec<&Arg> =
            command.get_positionals().filter(|argument| usage::is_shown(argument)).collect();
        let takes_many = |last: &&&Arg| last.get_num_args().is_some_and(|n| n.max_values() > 1);
        // The last one may take any number of words.
        all.get(positionals).or_else(|| all.last().filter(takes_many)).copied()
    })
}

/// The argument of a flag without its first dash, if a value follows it.
fn value_flag<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    let long = flag.strip_prefix('-').unwrap_or(flag);
    let by_name = command.get_arguments().find(|argument| argument.get_long() == Some(long));
    let by_letter = || {
        let letter = flag.chars().next_back();
        command.get_arguments().find(|argument| argument.get_short() == letter)
    };
    by_name.or_else(by_letter).filter(|argument| argument.get_action().takes_values())
}

fn flags_like(command: &Command, prefix: &str) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|arg| usage::is_shown(arg) && !arg.is_positional());
    let mut flags: Vec<String> = Vec::new();
    for argument in shown {
        flags.extend(argument.get_short().map(|short| format!("-{short}")));
        flags.extend(argument.get_long().map(|long| format!("--{long}")));
    }
    flags.retain(|flag| flag.starts_with(prefix));
    flags.sort_unstable();
    flags.iter().map(|flag| Candidate::word(flag)).collect()
}

/// Whether to complete a path. Positionals that begin with a slash are znodes, whatever their name;
/// values of flags only if they are named PATH, because `--file /etc/…` is not one.
fn wants_path(expected: &Arg, current: &Word<'_>) -> bool {
    let names = expected.get_value_names().unwrap_or_default();
    let is_named_path = names.iter().any(|name| name.as_str() == "PATH");
    is_named_path || (expected.is_positional() && current.text.starts_with('/'))
}

fn paths_like(current: &Word<'_>, paths: &dyn ListChildren) -> Vec<Candidate> {
    let Some((parent, prefix)) = current.text.rsplit_once('/') else {
        return match current.text {
            "" => vec![Candidate { shown: "/".to_owned(), text: "/".to_owned() }],
            _ => Vec::new(),
        };
    };
    let listed = if parent.is_empty() { "/" } else { parent };
    let names = paths.children(listed, prefix).into_iter();
    names.filter_map(|name| path_candidate(current, &format!("{parent}/{name}"))).collect()
}

/// The path, in quotes if it needs them, without the closing quote: more may follow.
fn path_candidate(current: &Word<'_>, path: &str) -> Option<Candidate> {
    let needs_quote = path.contains(char::is_whitespace);
    let quote = match current.quote {
        Some(quote) => Some(quote),
        None if needs_quote && path.contains('"') => Some('\''),
        None if needs_quote => Some('"'),
        None => None,
    };
    if quote.is_some_and(|quote| path.contains(quote)) {
        // It cannot be typed.
        return None;
    }
    let text = quote.into_iter().chain(path.chars()).collect();
    Some(Candidate { shown: crate::format::printable(path).into_owned(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl ListChildren for Fixed {
        fn children(&self, path: &str, prefix: &str) -> Vec<String> {
            let names: &[&str] = match path {
                "/" => &["app", "apple", "zookeeper"],
                "/app" => &["a b", "config"],
                _ => &[],
            };
            let like = names.iter().filter(|name| name.starts_with(prefix));
            like.map(|name| (*name).to_owned()).collect()
        }
    }

    fn check(line: &str, start: usize, texts: &[&str]) {
        let completion = complete(line, &Fixed);
        let found: Vec<_> =
            completion.candidates.iter().map(|candidate| candidate.text.as_str()).collect();
        assert_eq!(found, texts, "{line:?}");
        if !texts.is_empty() {
            assert_eq!(completion.start, start, "{line:?}");
        }
    }

    #[test]
    fn commands_are_completed() {
        check("getA", 0, &["getAcl ", "getAllChildrenNumber "]);
        check("geta", 0, &["getAcl ", "getAllChildrenNumber "]);
        check("  sta", 2, &["stat "]);
        check("help sta", 5, &["stat "]);
        check("nonsense ", 9, &[]);
    }

    #[test]
    fn flags_and_their_values_are_completed() {
        check("setquota -", 9, &["-B ", "-N ", "-b ", "-n "]);
        check("reconfig --a", 9, &["--add "]);
        check("addWatch -m ", 12, &["PERSISTENT ", "PERSISTENT_RECURSIVE "]);
        check("addWatch -m persistent_", 12, &["PERSISTENT_RECURSIVE "]);
        check("printwatches o", 13, &["on ", "off "]);
        check("reconfig --file /", 16, &[]);
        check("set -v ", 7, &[]);
    }

    #[test]
    fn paths_are_completed() {
        check("ls ", 3, &["/"]);
        check("ls /", 3, &["/app", "/apple", "/zookeeper"]);
        check("ls -s /ap", 6, &["/app", "/apple"]);
        check("get /app/c", 4, &["/app/config"]);
        check("get /app/a", 4, &["\"/app/a b"]);
        check("get '/app/a ", 4, &["'/app/a b"]);
        check("delete -v 3 /z", 12, &["/zookeeper"]);
        check("set /app /ap", 9, &["/app", "/apple"]);
        check("get /none/", 4, &[]);
        check("ls /app /ap", 8, &[]);
    }
}
