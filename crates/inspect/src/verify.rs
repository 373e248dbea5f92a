//! Whether files are sound: every checksum, every digest, every number that must follow another.
//!
//! In: files. Out: a [`Verdict`], a list of findings of which each names its file and what was found.
//! Nothing is changed; `herdsman repair` is apart.

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
    /// It was checked and is right.
    Ok,
    /// Worth knowing, and nothing is lost: what a crash leaves, what could not be checked.
    Note,
    /// Something is wrong.
    Problem,
}

/// One thing that was checked.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// The file, or what else it is about.
    pub(crate) subject: String,
    /// In words.
    pub(crate) text: String,
}

/// All that was checked.
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

    /// How many things are wrong.
    pub(crate) fn problems(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Problem).count()
    }

    /// How a command that has come to this verdict ends.
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

    /// Prints the findings: lines of text, or one object.
    pub(crate) fn print(&self, json: bool, console: &mut Console<'_>) -> Result<Outcome> {
        if json {
            console.say_json(&serde_json::json!({
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
            console.say(format_args!("{mark:<8} {}: {}", finding.subject, finding.text))?;
        }
        console.say(self.summary())?;
        Ok(self.outcome())
    }
}
