//! Converts a znode's data to a file for an editor, and back.
//!
//! In: data and the format in which to edit it. Out: text, and data again when the editor is closed. The
//! file is readable only by its owner. It stays when the [`Draft`] is dropped, whatever ended the command,
//! and is removed only by [`Draft::discard`]: when its text was written, or when nothing was typed and the
//! editor is closed. Not here: reading and writing the znode, showing the difference, asking the user.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::error::{Result, SubtreeError};
use super::record::as_text;

mod json;

/// The format in which data is edited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditFormat {
    /// Unchanged.
    #[default]
    Text,
    /// Indented, and validated when the editor is closed.
    Json,
    /// Two hex digits for each byte; text after a `#` is a comment.
    Hex,
}

impl EditFormat {
    fn extension(self) -> &'static str {
        match self {
            EditFormat::Text => ".txt",
            EditFormat::Json => ".json",
            EditFormat::Hex => ".hex",
        }
    }
}

/// The data as text to edit.
pub fn to_editable(data: &[u8], format: EditFormat) -> Result<String> {
    match format {
        EditFormat::Hex => Ok(hex_lines(data)),
        EditFormat::Text => text_of(data).map(str::to_owned),
        EditFormat::Json => {
            let text = text_of(data)?;
            if text.trim().is_empty() {
                return Ok(String::new());
            }
            check_json(text).map_err(|error| {
                SubtreeError::Refused(format!("the data is not JSON ({error}); edit it as text"))
            })?;
            Ok(json::indented(text))
        }
    }
}

fn text_of(data: &[u8]) -> Result<&str> {
    as_text(data).ok_or_else(|| {
        SubtreeError::refused(
            "the data is not text: use `edit --hex`, or `get -b` and `set -b` with base64",
        )
    })
}

/// The edited text as data. `before` is the data that the text was made from: a line end that only the
/// editor added is removed again, and JSON that was on one line is put on one line again.
pub fn from_editable(text: &str, before: &[u8], format: EditFormat) -> Result<Bytes> {
    if format != EditFormat::Hex && as_text(text.as_bytes()).is_none() {
        let why = "the edited text has control characters: use `edit --hex`";
        return Err(SubtreeError::refused(why));
    }
    match format {
        EditFormat::Hex => parse_hex(text),
        EditFormat::Text => Ok(without_added_line_end(text, before)),
        EditFormat::Json => {
            check_json(text).map_err(|error| {
                SubtreeError::Refused(format!("the edited text is not JSON: {error}"))
            })?;
            let was_compact = !before.is_empty() && !before.trim_ascii_end().contains(&b'\n');
            match was_compact {
                true => Ok(Bytes::from(json::compact(text))),
                false => Ok(without_added_line_end(text, before)),
            }
        }
    }
}

/// Whether the data is equal in this format, so that there is nothing to write.
#[must_use]
pub fn is_unchanged(before: &[u8], after: &[u8], format: EditFormat) -> bool {
    let compact = |data: &[u8]| json::compact(&String::from_utf8_lossy(data));
    before == after || (format == EditFormat::Json && compact(before) == compact(after))
}

fn without_added_line_end(text: &str, before: &[u8]) -> Bytes {
    let kept = match text.strip_suffix('\n') {
        Some(stripped) if !before.ends_with(b"\n") => {
            stripped.strip_suffix('\r').unwrap_or(stripped)
        }
        _ => text,
    };
    Bytes::copy_from_slice(kept.as_bytes())
}

fn check_json(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<IgnoredAny>(text).map(drop)
}

fn hex_lines(data: &[u8]) -> String {
    let mut lines = String::new();
    for chunk in data.chunks(16) {
        let digits: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
        let text: String = chunk.iter().map(shown).collect();
        // Writing to a String does not fail.
        let _ = writeln!(lines, "{:<47}  # {text}", digits.join(" "));
    }
    lines
}

fn parse_hex(text: &str) -> Result<Bytes> {
    let mut data = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let digits = line.split_once('#').map_or(line, |(digits, _)| digits);
        let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let fault = || {
            let number = index + 1;
            SubtreeError::Refused(format!(
                "line {number} of the edited text is not pairs of hex digits"
            ))
        };
        for pair in digits.chunks(2) {
            let pair = std::str::from_utf8(pair).map_err(|_| fault())?;
            let is_pair = pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
            let byte = is_pair.then(|| u8::from_str_radix(pair, 16).ok()).flatten();
            data.push(byte.ok_or_else(fault)?);
        }
    }
    Ok(Bytes::from(data))
}

/// The first candidate that names a command, or `vi`.
#[must_use]
pub fn choose_editor(candidates: impl IntoIterator<Item = Option<String>>) -> String {
    let mut named = candidates.into_iter().flatten();
    named.find(|command| !command.trim().is_empty()).unwrap_or_else(|| "vi".to_owned())
}

/// The file that is being edited.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    shown: String,
    is_open: AtomicBool,
}

impl Draft {
    /// Writes the text to a new file that only its owner can read.
    pub fn new(text: &str, format: EditFormat) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix("herdsman-edit-").suffix(format.extension()).tempfile();
        let failed = |source| SubtreeError::File { path: std::env::temp_dir(), source };
        let mut file = made.map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(failed)?;
        let path = file.into_temp_path().keep().map_err(|error| failed(error.error))?;
        Ok(Draft { path, shown: text.to_owned(), is_open: AtomicBool::new(false) })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the editor on it and waits until it is closed. Blocks. The command may have arguments,
    /// as in `code --wait`.
    pub fn edit(&self, editor: &str) -> Result<()> {
        self.is_open.store(true, Ordering::SeqCst);
        let shell = Command::new("/bin/sh")
            .arg("-c")
            .arg(format!("{editor} \"$@\""))
            .arg(editor)
            .arg(self.path())
            .status();
        self.is_open.store(false, Ordering::SeqCst);
        match shell {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let text = format!("the editor {editor:?} failed ({status}); nothing was written");
                Err(SubtreeError::Refused(text))
            }
            Err(source) => Err(SubtreeError::File { path: editor.into(), source }),
        }
    }

    /// Whether an editor has it open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::SeqCst)
    }

    /// Reads the edited text. Opens the file again, because editors may replace it.
    pub fn read(&self) -> Result<String> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::InvalidData => SubtreeError::refused("the edited text is not UTF-8"),
            _ => SubtreeError::File { path: self.path().to_owned(), source },
        };
        fs::read_to_string(self.path()).map_err(failed)
    }

    /// Whether the user has changed the file, as far as that can be determined.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        match fs::read(&self.path) {
            Ok(text) => text != self.shown.as_bytes(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Removes the file: its text was written to the znode, or nothing was typed. If it is left behind, only
    /// its owner can read it.
    pub fn discard(&self) {
        _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
