//! Rules about the repository itself that neither the compiler nor clippy knows. One small function
//! a rule, each with a test that shows it can fail.
//!
//! In: the files git tracks, and new ones it does not ignore; the packages of the lock file. Out:
//! problems as `file:line: what`, and warnings that do not fail.

mod dependencies;
mod edges;
mod layout;
mod licences;
mod mistakes;
mod named_tests;
mod phrases;
mod text;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::paths;
use crate::run;

/// One file of the repository.
pub struct Source {
    /// Path from the repository's top folder, with `/`.
    pub path: String,
    /// Size in bytes.
    pub bytes: usize,
    /// The content, unless it is not text.
    pub text: Option<String>,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Lines with their numbers, counted from 1; none for a file that is not text.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let text = self.text.as_deref().unwrap_or_default();
        text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Checks everything; fails if any rule is broken.
pub fn check() -> Result<()> {
    let root = paths::root();
    let sources = sources(&root)?;
    for warning in sources.iter().flat_map(text::long_file_warnings) {
        println!("warning: {warning}");
    }
    let mut problems = problems(&sources);
    problems.extend(licences::unfit()?);
    problems.extend(mistakes::useless(&root, &sources));
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} problems", problems.len());
    }
    println!("tidy: {} files", sources.len());
    Ok(())
}

fn problems(sources: &[Source]) -> Vec<String> {
    let mut problems: Vec<String> = sources.iter().flat_map(text::check_file).collect();
    problems.extend(sources.iter().flat_map(phrases::check));
    problems.extend(edges::forbidden_edges(sources));
    problems.extend(dependencies::unused(sources));
    problems.extend(layout::crate_layout(sources));
    problems.extend(named_tests::missing(sources));
    problems
}

fn sources(root: &Path) -> Result<Vec<Source>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let names = run::output(&mut git)?;
    let mut sources = Vec::new();
    for name in names.split_terminator('\0') {
        // A file that git tracks may have been removed from the work tree.
        let Ok(bytes) = fs::read(root.join(name)) else {
            continue;
        };
        let size = bytes.len();
        sources.push(Source {
            path: name.into(),
            bytes: size,
            text: String::from_utf8(bytes).ok(),
        });
    }
    Ok(sources)
}

#[cfg(test)]
fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), bytes: text.len(), text: Some(text.into()) }
}
