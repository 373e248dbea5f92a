//! Looks up our dependencies in RustSec's database of vulnerabilities.
//!
//! In: the lock file and the database. Out: the advisories for the versions in them. The check fails on a
//! vulnerability and on code that is known to be unsound; a crate that is no longer maintained is only reported.
//!
//! The database is a git repository and not in a package registry. On a machine that can only reach
//! registries, the step of `cargo xtask test` is skipped, with a message.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustsec::advisory::Informational;
use rustsec::report::Settings;
use rustsec::{Database, Lockfile, Report, Vulnerability, Warning};

use crate::paths;
use crate::peers::{self, Peer};

const LOCK_FILE: &str = "Cargo.lock";

/// Where to look.
#[derive(Args)]
pub struct Options {
    /// A copy of the database; without it, git brings one.
    #[arg(long, value_name = "DIR")]
    database: Option<PathBuf>,
}

/// What is known of the packages of a lock file.
#[derive(Debug, Default)]
struct Findings {
    /// These fail.
    problems: Vec<String>,
    /// These are only reported.
    notes: Vec<String>,
}

/// Looks everything up.
pub fn run(options: &Options) -> Result<()> {
    let folder = match &options.database {
        Some(folder) => folder.clone(),
        None => {
            Peer::AdvisoryDatabase.ensure()?;
            peers::advisory_database()
        }
    };
    let database = open(&folder)?;
    println!("{} advisories", database.iter().count());
    let lock = Lockfile::load(paths::root().join(LOCK_FILE))
        .with_context(|| format!("reading {LOCK_FILE}"))?;
    let found = findings(&database, &lock);
    for note in &found.notes {
        println!("note: {note}");
    }
    for problem in &found.problems {
        println!("{problem}");
    }
    println!("{} packages, {} problems", lock.packages.len(), found.problems.len());
    match found.problems.len() {
        0 => Ok(()),
        count => bail!("{count} problems are known: update those crates, or remove them"),
    }
}

fn open(folder: &Path) -> Result<Database> {
    Database::open(folder)
        .with_context(|| format!("{} is not an advisory database", folder.display()))
}

fn findings(database: &Database, lock: &Lockfile) -> Findings {
    let settings = Settings {
        informational_warnings: vec![Informational::Unmaintained, Informational::Unsound],
        ..Settings::default()
    };
    let report = Report::generate(database, lock, &settings);
    let mut found = Findings::default();
    found.problems.extend(report.vulnerabilities.list.iter().map(vulnerability));
    for warning in report.warnings.values().flatten() {
        match warning.is_unsound() {
            true => found.problems.push(described(warning)),
            false => found.notes.push(described(warning)),
        }
    }
    found
}

fn vulnerability(known: &Vulnerability) -> String {
    let (package, advisory) = (&known.package, &known.advisory);
    let patched: Vec<_> = known.versions.patched().iter().map(ToString::to_string).collect();
    let remedy = match patched.is_empty() {
        true => "no version is known to be better".to_owned(),
        false => format!("fixed in {}", patched.join(", ")),
    };
    let (name, version, id) = (&package.name, &package.version, &advisory.id);
    format!("{name} {version}: {id}: {}; {remedy}", advisory.title)
}

fn described(warning: &Warning) -> String {
    let (name, version) = (&warning.package.name, &warning.package.version);
    let about = warning.advisory.as_ref();
    let about = about.map(|about| format!("{}: {}", about.id, about.title)).unwrap_or_default();
    format!("{name} {version}: {}: {about}", warning.kind.as_str())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LOCK: &str = r#"
version = 4

[[package]]
name = "sheep"
version = "1.2.0"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "goat"
version = "0.3.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
"#;

    /// A database with one advisory about `sheep`.
    fn database(more: &str, patched: &str) -> (tempfile::TempDir, Database) {
        let folder = tempfile::tempdir().unwrap();
        let of_package = folder.path().join("crates/sheep");
        fs::create_dir_all(&of_package).unwrap();
        let text = format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2026-0001\"\npackage = \"sheep\"\ndate = \"2026-01-02\"\n\
             {more}\n[versions]\npatched = [{patched}]\n```\n\n# It bites\n\nBadly.\n"
        );
        fs::write(of_package.join("RUSTSEC-2026-0001.md"), text).unwrap();
        let database = open(folder.path()).unwrap();
        (folder, database)
    }

    fn look_up(more: &str, patched: &str) -> (Vec<String>, Vec<String>) {
        let (_folder, database) = database(more, patched);
        let Findings { problems, notes } = findings(&database, &LOCK.parse().unwrap());
        (problems, notes)
    }

    #[test]
    fn a_version_with_a_vulnerability_is_a_problem() {
        let expected = "sheep 1.2.0: RUSTSEC-2026-0001: It bites; fixed in >=1.2.1";
        assert_eq!(look_up("", "\">=1.2.1\""), (vec![expected.to_owned()], vec![]));
        assert_eq!(look_up("", "\">=1.2.0\""), (vec![], vec![]));
    }

    #[test]
    fn unsound_code_is_a_problem_and_a_crate_that_nobody_keeps_is_a_note() {
        let told = |kind: &str| vec![format!("sheep 1.2.0: {kind}: RUSTSEC-2026-0001: It bites")];
        assert_eq!(look_up("informational = \"unsound\"", ""), (told("unsound"), vec![]));
        let (problems, notes) = look_up("informational = \"unmaintained\"", "");
        assert_eq!((problems, notes), (vec![], told("unmaintained")));
    }

    #[test]
    fn a_folder_without_advisories_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("is not an advisory database"), "{error}");
    }
}
