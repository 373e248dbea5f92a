//! Writes a report to standard output and to files.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::arguments::{Format, Output};
use crate::report::{Report, json, plot, table};

/// Whether the report was printed completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    Whole,
    OutputClosed,
}

/// Checks before the measurement that the directories of the output files exist.
pub(crate) fn check_paths(output: &Output) -> Result<()> {
    for path in [&output.output, &output.plot].into_iter().flatten() {
        let directory = path.parent().filter(|parent| *parent != Path::new(""));
        let is_there = directory.is_none_or(Path::is_dir) && !path.is_dir();
        ensure!(is_there, "cannot write to {}: its directory must exist", path.display());
    }
    Ok(())
}

/// Writes the files, then prints.
pub(crate) fn deliver(report: &Report, output: &Output) -> Result<Printed> {
    if let Some(path) = &output.output {
        json::write(report, path)?;
    }
    if let Some(path) = &output.plot {
        let picture = plot::overview(report)?;
        fs::write(path, picture).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = match output.format {
        Format::Table => table::render(report, table::Style::Plain),
        Format::Json => json::to_text(report)?,
    };
    print(&text)
}

fn print(text: &str) -> Result<Printed> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Printed::Whole),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Printed::OutputClosed),
        Err(error) => Err(error).context("writing to standard output"),
    }
}
