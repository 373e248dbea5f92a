//! Reports as JSON, for programs that start servers and compare them, and for archiving. The file contains
//! the version of the format; other versions are rejected.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::Report;

/// The version of the format: incremented when a reader of the old one would misinterpret the new one.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Written<'a> {
    schema: u32,
    #[serde(flatten)]
    report: &'a Report,
}

/// The fields of every version of the format.
#[derive(Deserialize)]
struct AnyVersion {
    schema: u32,
}

/// Returns the report as text with a final line end.
pub fn to_text(report: &Report) -> Result<String> {
    let mut text = serde_json::to_string_pretty(&Written { schema: SCHEMA, report })
        .context("cannot write the report as JSON")?;
    text.push('\n');
    Ok(text)
}

/// Parses a report.
pub fn from_text(text: &str) -> Result<Report> {
    let AnyVersion { schema } =
        serde_json::from_str(text).context("not a report of `herdsman bench`")?;
    ensure!(
        schema == SCHEMA,
        "the report has version {schema}, but this program reads version {SCHEMA}: run the benchmark again"
    );
    serde_json::from_str(text).context("the report is damaged")
}

/// Writes the report to a file, replacing its content.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    fs::write(path, to_text(report)?)
        .with_context(|| format!("cannot write the report to {}", path.display()))
}

/// Reads a report from a file.
pub fn read(path: &Path) -> Result<Report> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the report {}", path.display()))?;
    from_text(&text).with_context(|| format!("cannot use the report {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn reports_round_trip() {
        for report in [Report::default(), samples::two_targets_and_echo()] {
            let text = to_text(&report).unwrap();
            assert_eq!(from_text(&text).unwrap(), report);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        write(&samples::two_targets_and_echo(), &path).unwrap();
        assert_eq!(read(&path).unwrap(), samples::two_targets_and_echo());
    }

    #[test]
    fn the_version_comes_first() {
        let text = to_text(&Report::default()).unwrap();
        assert!(text.starts_with("{\n  \"schema\": 1,\n"), "{text}");
    }

    #[test]
    fn other_versions_and_other_files_are_rejected() {
        let newer = to_text(&Report::default()).unwrap().replace("\"schema\": 1", "\"schema\": 2");
        let error = from_text(&newer).unwrap_err().to_string();
        assert!(
            error.contains("version 2") && error.contains("run the benchmark again"),
            "{error}"
        );
        for other in ["", "[]", "{}", "not JSON"] {
            let error = from_text(other).unwrap_err().to_string();
            assert_eq!(error, "not a report of `herdsman bench`");
        }
        assert_eq!(from_text("{\"schema\": 1}").unwrap_err().to_string(), "the report is damaged");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("/no/such/report.json")).unwrap_err().to_string();
        assert_eq!(error, "cannot read the report /no/such/report.json");
    }
}
