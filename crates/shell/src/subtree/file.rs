//! Export files: a header, a line for each znode, and a last line that marks the file as complete.
//!
//! ```text
//! {"format":"herdsman-subtree","version":1,"root":"/app","zxid":"0x2a","time":"2026-01-01T00:00:00Z"}
//! {"path":".","data":"",…}
//! {"path":"config","data":"host=a",…}
//! {"end":true,"znodes":2,"zxid":"0x29"}
//! ```
//! The header's zxid is the newest change of the root znode when the export began; that of the last
//! line is the newest of all changes in the file. Parents come before their children.
//!
//! In: a file or a stream, of which no line is trusted. Out: its records with their line numbers, or
//! the first fault with its line number. Blank lines are skipped. A stream is copied to a temporary
//! file first, so that all of it can be checked before any of it is used. Checking a file takes memory
//! for its paths, not for its data.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{Result, SubtreeError};
use super::lifetime::NodeType;
use super::path;
use super::record::{Record, json_fault};

/// The name of the format, in the header.
pub const FORMAT: &str = "herdsman-subtree";

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Longest line that is read: the data of the largest reply that the client accepts fits in base64.
const LINE_BYTES_MAX: u64 = 96 << 20;

/// Lines that are checked before the task yields, so that the connection is served meanwhile.
const LINES_AT_ONCE: u64 = 1000;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The path of the subtree.
    pub root: String,
    /// The newest change of the root znode when the export began.
    pub zxid: String,
    /// When the export began.
    pub time: String,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Always true.
    pub end: bool,
    /// The number of lines between the first and the last.
    pub znodes: u64,
    /// The newest change in the file.
    pub zxid: String,
}

/// Whether a file must be complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completeness {
    /// It must be complete.
    #[default]
    Required,
    /// It may be truncated, or have added or missing lines.
    Partial,
}

/// An export file, which can be read repeatedly.
#[derive(Debug)]
pub struct ExportFile {
    name: String,
    file: File,
}

/// A summary of a valid file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Its first line.
    pub header: Header,
    /// Number of its records.
    pub znodes: u64,
    /// The first line with an ACL that has a digest hidden by the server.
    pub first_hidden_acl: Option<u64>,
}

impl ExportFile {
    /// Opens a file for reading.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| SubtreeError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        Ok(ExportFile { name: path.display().to_string(), file })
    }

    /// Copies a stream to a temporary file, until it ends. Blocks.
    pub fn spool(name: &str, mut stream: impl Read) -> Result<Self> {
        let copied = tempfile::tempfile().and_then(|mut file| {
            io::copy(&mut stream, &mut file)?;
            Ok(file)
        });
        let file = copied.map_err(|source| SubtreeError::File { path: name.into(), source })?;
        Ok(ExportFile { name: name.to_owned(), file })
    }

    /// Reads it from the beginning.
    pub fn records(&self) -> Result<Records<'_>> {
        let failed = |source| SubtreeError::File { path: self.name.as_str().into(), source };
        (&self.file).seek(SeekFrom::Start(0)).map_err(failed)?;
        Records::begin(&self.name, BufReader::with_capacity(1 << 16, &self.file))
    }

    /// As [`ExportFile::records`], but consumes the file.
    pub fn into_records(self) -> Result<Records<'static>> {
        let failed = |source| SubtreeError::File { path: self.name.as_str().into(), source };
        (&self.file).seek(SeekFrom::Start(0)).map_err(failed)?;
        Records::begin(&self.name, BufReader::with_capacity(1 << 16, self.file))
    }

    /// Reads the whole file, and fails at the first line that cannot be imported.
    pub async fn check(&self, completeness: Completeness) -> Result<Outline> {
        let mut records = self.records()?;
        let mut paths = PathCheck::default();
        let mut first_hidden_acl = None;
        while let Some((line, record)) = records.next_record()? {
            paths.add(line, &record).map_err(|fault| records.fault(line, fault))?;
            if record.has_hidden_acl() {
                first_hidden_acl.get_or_insert(line);
            }
            if line % LINES_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        if completeness == Completeness::Required {
            records.check_end()?;
        }
        Ok(Outline { header: records.header, znodes: records.read, first_hidden_acl })
    }
}

/// Checks the paths of a file: each once, and after its parent.
#[derive(Default)]
struct PathCheck {
    lines: HashMap<String, u64>,
    ephemerals: HashSet<String>,
}

impl PathCheck {
    fn add(&mut self, line: u64, record: &Record) -> Result<(), String> {
        let own = record.path.as_str();
        if let Some(parent) = path::relative_parent(own) {
            if self.ephemerals.contains(parent) {
                return Err(format!("{own} is below {parent}, which is ephemeral"));
            }
            if parent != path::SELF && !self.lines.contains_key(parent) {
                return Err(format!("{own} comes before its parent, or its parent is missing"));
            }
        }
        if let Some(earlier) = self.lines.insert(own.to_owned(), line) {
            return Err(format!("{own} is already in line {earlier}"));
        }
        if record.node_type() == NodeType::Ephemeral {
            self.ephemerals.insert(own.to_owned());
        }
        Ok(())
    }
}

/// The records of a file, in order.
pub struct Records<'f> {
    name: String,
    input: Box<dyn BufRead + Send + 'f>,
    header: Header,
    line: u64,
    read: u64,
    end: Option<End>,
}

impl<'f> Records<'f> {
    /// Reads the header.
    pub fn begin(name: &str, input: impl BufRead + Send + 'f) -> Result<Self> {
        let (format, root, zxid, time) = Default::default();
        let header = Header { format, version: 0, root, zxid, time };
        let input = Box::new(input);
        let mut records =
            Records { name: name.to_owned(), input, header, line: 0, read: 0, end: None };
        let first = records.next_line()?.unwrap_or_default();
        records.header = read_header(&first).map_err(|fault| records.fault(1, fault))?;
        Ok(records)
    }

    /// The first line.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next record and its line number; `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<(u64, Record)>> {
        let Some(text) = self.next_line()? else {
            return Ok(None);
        };
        if self.end.is_some() {
            return Err(self.fault(self.line, "there is more after the last line".to_owned()));
        }
        if text.starts_with(r#"{"end""#) {
            let end = serde_json::from_str(&text);
            self.end = Some(end.map_err(|error| self.fault(self.line, json_fault(&error)))?);
            return self.next_record();
        }
        let record = Record::from_line(&text).map_err(|fault| self.fault(self.line, fault))?;
        self.read += 1;
        Ok(Some((self.line, record)))
    }

    /// Checks after the last record that the file is complete.
    pub fn check_end(&self) -> Result<()> {
        let fault = match &self.end {
            Some(end) if end.znodes == self.read => return Ok(()),
            Some(end) => {
                format!("the last line counts {} znodes, but there are {}", end.znodes, self.read)
            }
            None => "the file is truncated: its last line is missing".to_owned(),
        };
        Err(self.fault(self.line, format!("{fault}; --partial accepts it")))
    }

    /// An error at a line of this file.
    #[must_use]
    pub fn fault(&self, line: u64, fault: String) -> SubtreeError {
        SubtreeError::BadLine { file: self.name.clone(), line, fault }
    }

    fn next_line(&mut self) -> Result<Option<String>> {
        loop {
            let mut text = String::new();
            let read = (&mut self.input).take(LINE_BYTES_MAX).read_line(&mut text);
            let failed = |source: io::Error| match source.kind() {
                io::ErrorKind::InvalidData => self.fault(self.line + 1, "not UTF-8".to_owned()),
                _ => SubtreeError::File { path: self.name.as_str().into(), source },
            };
            let bytes = read.map_err(failed)? as u64;
            if bytes == 0 {
                return Ok(None);
            }
            self.line += 1;
            if bytes == LINE_BYTES_MAX {
                let fault = format!("longer than {LINE_BYTES_MAX} bytes");
                return Err(self.fault(self.line, fault));
            }
            if !text.trim().is_empty() {
                return Ok(Some(text));
            }
        }
    }
}

fn read_header(line: &str) -> Result<Header, String> {
    let expected = "not an export file: the header is missing";
    let header: Header = serde_json::from_str(line).map_err(|_| expected.to_owned())?;
    if header.format != FORMAT {
        return Err(expected.to_owned());
    }
    if header.version != VERSION {
        let Header { version, .. } = header;
        return Err(format!(
            "version {version} of the format is not supported; this program reads version {VERSION}"
        ));
    }
    if herdsman_client::check_path(&header.root).is_err() {
        return Err(format!("the root {:?} is not a valid path", header.root));
    }
    Ok(header)
}

#[cfg(test)]
mod tests;
