//! Where a report goes: standard output, and files.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::arguments::{Format, Output};
use crate::report::{Report, json, plot, table};

/// What is read by nobody any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    Whole,
    ReaderGone,
}

/// Says before anything is measured that there is no place for a file.
pub(crate) fn check_places(output: &Output) -> Result<()> {
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
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Printed::ReaderGone),
        Err(error) => Err(error).context("writing to standard output"),
    }
}
