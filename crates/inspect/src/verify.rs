//! Verifies files: every checksum, every digest, every zxid that must follow another.
//!
//! In: files. Out: a [`Verdict`]: a list of findings, each with its file and a description.
//! Nothing is changed; that is `herdsman repair`.

pub(crate) mod data_dir;
pub(crate) mod log;
mod replay;
pub(crate) mod snapshot;

use anyhow::Result;
use serde::Serialize;

use crate::console::{Console, Outcome};

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Checked and correct.
    Ok,
    /// Worth knowing, but nothing is lost: what a crash leaves, what could not be checked.
    Note,
    /// Something is wrong.
    Problem,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// The file, or the subject of the check.
    pub(crate) subject: String,
    /// The description.
    pub(crate) text: String,
}

/// The results of all checks.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Verdict {
    pub(crate) findings: Vec<Finding>,
}

impl Verdict {
    fn add(&mut self, level: Level, subject: &str, text: impl Into<String>) {
        self.findings.push(Finding { level, subject: subject.to_owned(), text: text.into() });
    }

    pub(crate) fn ok(&mut self, subject: &str, text: impl Into<String>) {
        self.add(Level::Ok, subject, text);
    }

    pub(crate) fn note(&mut self, subject: &str, text: impl Into<String>) {
        self.add(Level::Note, subject, text);
    }

    pub(crate) fn problem(&mut self, subject: &str, text: impl Into<String>) {
        self.add(Level::Problem, subject, text);
    }

    /// The number of problems.
    pub(crate) fn problems(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Problem).count()
    }

    /// The outcome of a command with this verdict.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.problems() == 0 { Outcome::Sound } else { Outcome::Problems }
    }

    /// The last line.
    pub(crate) fn summary(&self) -> String {
        match self.problems() {
            0 => "sound".to_owned(),
            1 => "1 problem found".to_owned(),
            many => format!("{many} problems found"),
        }
    }

    /// Prints the findings: lines of text, or one JSON object.
    pub(crate) fn print(&self, json: bool, console: &mut Console<'_>) -> Result<Outcome> {
        if json {
            console.print_json(&serde_json::json!({
                "sound": self.problems() == 0,
                "problems": self.problems(),
                "findings": self.findings,
            }))?;
            return Ok(self.outcome());
        }
        for finding in &self.findings {
            let mark = match finding.level {
                Level::Ok => "ok",
                Level::Note => "note",
                Level::Problem => "PROBLEM",
            };
            console.print(format_args!("{mark:<8} {}: {}", finding.subject, finding.text))?;
        }
        console.print(self.summary())?;
        Ok(self.outcome())
    }
}
