//! Makes known mistakes in a copy of the sources, one at a time, and counts the seeds of the simulator that
//! find them: this shows that each checker can fail, and that the defects of the past would be found today.
//!
//! In: `crates/sim/mistakes/NAME.patch`. Its head, before the first `diff --git`, says what the mistake is and
//! which property finds it in which world (see [`patch`]). Out: a table, and a failure for every patch that does
//! not apply or build, or that is not found as its head says. The copy is in `target/mistakes/source`, the build
//! in `target/mistakes/build`: only files that differ are written, so that a build is an incremental one.
//!
//! Deliberately not here: the mistakes that a switch in `herdsman-zab` makes, which the tests of
//! `herdsman-sim` run (`crates/sim/src/mistakes.rs`).

mod findings;
pub mod patch;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::paths;
use crate::run;
use findings::Findings;
use patch::{Patch, SEEDS_DEFAULT};

const PACKAGE: &str = "herdsman-sim";

/// Which mistakes, and for how long each is looked for.
#[derive(Args)]
pub struct Options {
    /// Seeds to run with each mistake, instead of what its patch says.
    #[arg(long)]
    seeds: Option<u64>,
    /// Only these mistakes; all when none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Makes the mistakes in sequence; fails if one of them is not found as it should be.
pub fn run(options: &Options) -> Result<()> {
    let patches = chosen(patch::all(&paths::root())?, &options.names)?;
    let mut failed = Vec::new();
    for (index, patch) in patches.iter().enumerate() {
        println!("[{}/{}] {}: {}", index + 1, patches.len(), patch.name, patch.about);
        let seeds = options.seeds.unwrap_or(patch.seeds.unwrap_or(SEEDS_DEFAULT));
        if let Err(error) = try_patch(patch, seeds) {
            println!("  FAILED: {error:#}");
            failed.push(patch.name.as_str());
        }
    }
    println!("{} mistakes, {} not found as stated in their patches", patches.len(), failed.len());
    ensure!(failed.is_empty(), "not found as stated in their patches: {}", failed.join(", "));
    Ok(())
}

fn chosen(all: Vec<Patch>, names: &[String]) -> Result<Vec<Patch>> {
    for name in names {
        let known = || all.iter().map(|patch| patch.name.as_str()).collect::<Vec<_>>().join(" ");
        let is_known = all.iter().any(|patch| patch.name == *name);
        ensure!(is_known, "there is no mistake `{name}`; the mistakes are: {}", known());
    }
    Ok(all.into_iter().filter(|patch| names.is_empty() || names.contains(&patch.name)).collect())
}

fn try_patch(patch: &Patch, seeds: u64) -> Result<()> {
    let source = paths::target().join("mistakes/source");
    refresh(&paths::root(), &source)?;
    apply(&patch.path, &source)?;
    println!("  building");
    let binary = build(&source)?;
    println!("  {seeds} seeds, {}", patch.world.name());
    let found = findings_of(&binary, patch, seeds, None)?;
    println!("  | {} | {} | {found} |", patch.name, patch.property);
    ensure!(found.of(&patch.property) > 0, "{} found it in no seed", patch.property);
    if patch.only {
        let without = findings_of(&binary, patch, seeds, Some(&patch.property))?;
        println!("  without {}: {without}", patch.property);
        ensure!(without.seeds() == 0, "{} is not the only property that finds it", patch.property);
    }
    Ok(())
}

/// Updates the copy to the content of the repository, writing only files that differ.
fn refresh(root: &Path, copy: &Path) -> Result<()> {
    let names = listed(root)?;
    for name in &names {
        // A file that git tracks may have been removed from the working tree.
        let Ok(bytes) = fs::read(root.join(name)) else { continue };
        let path = copy.join(name);
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            continue;
        }
        let dir = path.parent().context("a file is in a folder")?;
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    for name in files_below(copy)? {
        if !names.contains(&name) {
            fs::remove_file(copy.join(&name)).with_context(|| format!("removing {name}"))?;
        }
    }
    Ok(())
}

/// Lists the files that git tracks, and new ones that it does not ignore.
fn listed(root: &Path) -> Result<BTreeSet<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    Ok(run::output(&mut git)?.split_terminator('\0').map(str::to_owned).collect())
}

/// Lists all files of a directory, with paths as in git.
fn files_below(top: &Path) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    let mut dirs = vec![top.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            } else {
                let path = entry.path();
                files.insert(path.strip_prefix(top)?.to_string_lossy().into_owned());
            }
        }
    }
    Ok(files)
}

fn apply(patch: &Path, copy: &Path) -> Result<()> {
    let above = copy.parent().context("the copy is in a folder")?;
    let mut git = Command::new("git");
    // Otherwise git would apply the patch to the repository that contains the copy.
    git.env("GIT_CEILING_DIRECTORIES", above).current_dir(copy);
    run::output(git.arg("apply").arg(patch)).context("the patch does not apply")?;
    Ok(())
}

fn build(copy: &Path) -> Result<PathBuf> {
    let target = paths::target().join("mistakes/build");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--locked", "--package", PACKAGE]);
    // An interrupted build may leave inconsistent files behind.
    build.env("CARGO_INCREMENTAL", "0");
    build.env("CARGO_TARGET_DIR", &target).current_dir(copy);
    run::output(&mut build).context("it does not build")?;
    Ok(target.join("debug").join(PACKAGE))
}

fn findings_of(
    binary: &Path,
    patch: &Patch,
    seeds: u64,
    without: Option<&str>,
) -> Result<Findings> {
    let mut sim = Command::new(binary);
    sim.args(["--seeds", &seeds.to_string(), "--lines", "0"]).args(patch.world.arguments());
    if let Some(property) = without {
        sim.args(["--without", property]);
    }
    let output = sim.stdin(Stdio::null()).stderr(Stdio::null()).output().context("running it")?;
    let found = Findings::parse(&String::from_utf8_lossy(&output.stdout))?;
    if found.of_all != seeds {
        bail!("the simulator ended with {} after {} seeds", output.status, found.of_all);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_updated_and_equal_files_are_not_written() {
        let (root, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let git = |arguments: &[&str]| {
            run::output(Command::new("git").args(arguments).current_dir(root.path())).unwrap();
        };
        git(&["init", "--quiet"]);
        fs::create_dir(root.path().join("src")).unwrap();
        fs::write(root.path().join("src/same.rs"), "same").unwrap();
        fs::write(root.path().join("src/other.rs"), "right").unwrap();
        git(&["add", "."]);
        refresh(root.path(), copy.path()).unwrap();
        let modified =
            || fs::metadata(copy.path().join("src/same.rs")).unwrap().modified().unwrap();
        let before = modified();
        fs::write(copy.path().join("src/other.rs"), "wrong").unwrap();
        fs::write(copy.path().join("src/new.rs"), "of a patch").unwrap();
        refresh(root.path(), copy.path()).unwrap();
        assert_eq!(fs::read_to_string(copy.path().join("src/other.rs")).unwrap(), "right");
        assert!(!copy.path().join("src/new.rs").exists());
        assert_eq!(modified(), before);
    }

    #[test]
    fn a_patch_that_does_not_apply_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("source");
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("a.txt"), "one\n").unwrap();
        let patch = dir.path().join("a.patch");
        let text = "What.\n\ndiff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n";
        fs::write(&patch, text).unwrap();
        apply(&patch, &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("a.txt")).unwrap(), "two\n");
        assert!(apply(&patch, &copy).is_err());
    }
}
