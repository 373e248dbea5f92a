//! Checks that tests named in documents exist. docs/security.md names, for every interface, limit and known
//! vulnerability, the tests that show it, in the last column of its tables.

use std::collections::BTreeSet;

use super::Source;

const DOCUMENT: &str = "docs/security.md";

/// Names in that column that no function has.
pub fn missing(sources: &[Source]) -> Vec<String> {
    let functions: BTreeSet<&str> =
        sources.iter().filter(|source| source.is_rust()).flat_map(functions).collect();
    let documents = sources.iter().filter(|source| source.path == DOCUMENT);
    let named = documents.flat_map(Source::lines).flat_map(|(number, line)| {
        tests_of_row(line).map(move |name| (number, name)).collect::<Vec<_>>()
    });
    named
        .filter(|(_, name)| !functions.contains(name))
        .map(|(number, name)| format!("{DOCUMENT}:{number}: there is no test `{name}`"))
        .collect()
}

fn functions(source: &Source) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|(_, line)| {
        let (_, rest) = line.split_once("fn ")?;
        rest.split(|char: char| !is_of_name(char)).next()
    })
}

/// The text between backticks in the last cell, if it can be a test's name.
fn tests_of_row(line: &str) -> impl Iterator<Item = &str> {
    let row = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    let cell = row.and_then(|row| row.rsplit('|').next()).unwrap_or_default();
    cell.split('`').skip(1).step_by(2).filter(|text| {
        text.chars().all(is_of_name) && text.chars().filter(|char| *char == '_').count() > 1
    })
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_test_that_is_not_there_is_missed() {
        let document = source(
            DOCUMENT,
            "| what | `some_metric_total` | test |\n|---|---|---|\n\
             | a door | `of_this_column` | `an_unlisted_host_is_rejected`, `interop secured`, `a_friend_gets_in` |\n\
             `not_in_a_table`\n",
        );
        let code = source("crates/x/tests/x.rs", "//! X.\nasync fn a_friend_gets_in() {\n}\n");
        let expected = "docs/security.md:3: there is no test `an_unlisted_host_is_rejected`";
        assert_eq!(missing(&[document, code]), [expected]);
    }
}
