//! Directories whose names Apache's server decodes differently.
//!
//! Java reads zoo.cfg as ISO-8859-1, and almost every editor writes UTF-8. A `dataDir` with letters beyond ASCII
//! is therefore another directory to Apache's server. A server that took the name at its face value would not find
//! the data that Apache's server has left, and would start empty.

use std::path::Path;

use herdsman_properties::Properties;

use super::error::{ConfigError, Location};
use super::load::{Files, Loading};

/// Takes the directories that Apache's server uses, where only those exist. If both do, only the operator
/// knows which one is meant.
pub(super) fn choose_directories(
    loading: &mut Loading,
    path: &Path,
    file: &Properties,
    bytes: &[u8],
    files: Files<'_>,
) -> Result<(), ConfigError> {
    // What we can read Java can read: escapes are the same in both.
    let Ok(java) = Properties::parse_as_java(bytes) else { return Ok(()) };
    for key in ["dataDir", "dataLogDir"] {
        let (Some(ours), Some(theirs)) = (file.get(key), java.get(key)) else { continue };
        if ours.value == theirs.value || !(files.has_directory)(Path::new(&theirs.value)) {
            continue;
        }
        let place = Location::line(path, ours.line);
        let (utf8, latin1) = (&ours.value, &theirs.value);
        if (files.has_directory)(Path::new(utf8)) {
            let problem = format!(
                "{key} is {utf8} in UTF-8, but Apache's server reads it as {latin1}, and both directories exist. \
                 Write it as {} or as {}, which both servers read in the same way",
                escaped(utf8),
                escaped(latin1)
            );
            return Err(ConfigError::rule(place, problem));
        }
        let text = format!(
            "{key} is read as {latin1}, the way Apache's server reads it, because that directory exists and {utf8} does \
             not; write it as {}, which both servers read in the same way",
            escaped(latin1)
        );
        let raw = &mut loading.draft.raw;
        let slot = if key == "dataDir" { &mut raw.data_dir } else { &mut raw.data_log_dir };
        *slot = Some(latin1.clone());
        loading.warn(place, text);
    }
    Ok(())
}

/// A text in ASCII, as a properties file may hold it.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && c != '\\' {
            shown.push(c);
        } else {
            let units = &mut [0; 2];
            shown.extend(c.encode_utf16(units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    shown
}
