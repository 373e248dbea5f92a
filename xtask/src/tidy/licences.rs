//! Licences of the crates that we stand on: each must be one that goes with Apache-2.0.
//!
//! In: what `cargo metadata` says, for every package of the lock file. Out: those with a licence that is
//! not on the list, or with none.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::paths;
use crate::run;

/// Licences that may be taken along.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages that no program of ours holds: tests alone use them.
const TESTS_ONLY: &[&str] = &["libfuzzer-sys", "webdriver"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

/// Packages whose licence does not fit.
pub fn unfit() -> Result<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version=1", "--locked"]).current_dir(paths::root());
    let metadata: Metadata =
        serde_json::from_str(&run::output(&mut command)?).context("reading cargo's metadata")?;
    Ok(metadata.packages.iter().filter_map(problem).collect())
}

fn problem(package: &Package) -> Option<String> {
    let Package { name, version, license } = package;
    match license {
        None => Some(format!("{name} {version}: says nothing about its licence")),
        Some(text) if is_fit(text) || TESTS_ONLY.contains(&name.as_str()) => None,
        Some(text) => Some(format!("{name} {version}: licence `{text}` is not on the list")),
    }
}

/// Whether an SPDX expression can be met with licences of the list. Old packages write `/` for `OR`.
fn is_fit(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words)
}

type Words<'a, 'b> = &'a mut std::iter::Peekable<std::str::SplitWhitespace<'b>>;

/// `A OR B`. Both sides are read to their end, whatever the first one says.
fn any_of(words: Words<'_, '_>) -> bool {
    let mut fit = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        fit |= all_of(words);
    }
    fit
}

/// `A AND B`, which binds more tightly.
fn all_of(words: Words<'_, '_>) -> bool {
    let mut fit = one(words);
    while words.next_if_eq(&"AND").is_some() {
        fit &= one(words);
    }
    fit
}

fn one(words: Words<'_, '_>) -> bool {
    match words.next() {
        Some("(") => {
            let fit = any_of(words);
            fit & words.next_if_eq(&")").is_some()
        }
        Some(name) => match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
            Some(exception) => ALLOWED.contains(&format!("{name} WITH {exception}").as_str()),
            None => ALLOWED.contains(&name),
        },
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_or_not() {
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("ISC AND (Apache-2.0 OR GPL-2.0-only) AND MIT", true),
            ("(MIT OR GPL-2.0-only) AND GPL-2.0-only", false),
            ("GPL-2.0-only OR MIT AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", true),
            ("Apache-2.0 WITH other-exception", false),
            ("", false),
        ] {
            assert_eq!(is_fit(expression), expected, "{expression}");
        }
    }
}
