//! Export files: a header, a line for each znode, and a last line that says that it is whole.
//!
//! ```text
//! {"format":"herdsman-subtree","version":1,"root":"/app","zxid":"0x2a","time":"2026-01-01T00:00:00Z"}
//! {"path":".","data":"",…}
//! {"path":"config","data":"host=a",…}
//! {"end":true,"znodes":2,"zxid":"0x29"}
//! ```
//! The header's zxid is the newest change of the root znode when the export began, that of the last
//! line the newest of all changes in the file. Parents come before their children.
//!
//! In: a file or a stream, of which no line is trusted. Out: its records with their line numbers, or
//! the first fault with its line number. Blank lines are skipped. A stream is copied to a temporary
//! file first, so that all of it can be checked before any of it is used. To check a file takes memory
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

/// What the first line says of itself.
pub const FORMAT: &str = "herdsman-subtree";

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Longest line that is read: data of the largest reply that the client takes would fit in base64.
const LINE_BYTES_MAX: u64 = 96 << 20;

/// Lines between two breaths of the connection, which must not starve while a file is checked.
const LINES_AT_ONCE: u64 = 1000;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Where the subtree was.
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
    /// Lines between the first and the last.
    pub znodes: u64,
    /// The newest change in the file.
    pub zxid: String,
}

/// Whether a file without its last line will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completeness {
    /// It must be as the export left it.
    #[default]
    Required,
    /// It may be cut short, or have lines more or less.
    Partial,
}

/// An export file, to be read as often as needed.
#[derive(Debug)]
pub struct ExportFile {
    name: String,
    file: File,
}

/// What a file holds, if all of it is in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Its first line.
    pub header: Header,
    /// Number of its records.
    pub znodes: u64,
    /// The first line with an ACL of which a digest was hidden from whoever made the export.
    pub first_hidden_acl: Option<u64>,
}

impl ExportFile {
    /// A file on disk. It is only read.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| SubtreeError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        Ok(ExportFile { name: path.display().to_string(), file })
    }

    /// What comes from a stream, until it ends. Blocks.
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

    /// As [`ExportFile::records`], for those who need nothing else of it.
    pub fn into_records(self) -> Result<Records<'static>> {
        let failed = |source| SubtreeError::File { path: self.name.as_str().into(), source };
        (&self.file).seek(SeekFrom::Start(0)).map_err(failed)?;
        Records::begin(&self.name, BufReader::with_capacity(1 << 16, self.file))
    }

    /// Reads all of it, and fails at the first line that could not be imported.
    pub async fn check(&self, completeness: Completeness) -> Result<Outline> {
        let mut records = self.records()?;
        let mut family = Family::default();
        let mut first_hidden_acl = None;
        while let Some((line, record)) = records.next_record()? {
            family.admit(line, &record).map_err(|fault| records.fault(line, fault))?;
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

/// The paths of a file so far.
#[derive(Default)]
struct Family {
    lines: HashMap<String, u64>,
    ephemerals: HashSet<String>,
}

impl Family {
    fn admit(&mut self, line: u64, record: &Record) -> Result<(), String> {
        let own = record.path.as_str();
        if let Some(parent) = path::relative_parent(own) {
            if self.ephemerals.contains(parent) {
                return Err(format!("{own} is below {parent}, which is ephemeral"));
            }
            if parent != path::SELF && !self.lines.contains_key(parent) {
                return Err(format!("{own} comes before its parent, or without it"));
            }
        }
        if let Some(earlier) = self.lines.insert(own.to_owned(), line) {
            return Err(format!("{own} is in line {earlier} already"));
        }
        if record.node_type() == NodeType::Ephemeral {
            self.ephemerals.insert(own.to_owned());
        }
        Ok(())
    }
}

/// The records of a file, one after the other.
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
            return Err(self.fault(self.line, "something follows the last line".to_owned()));
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

    /// After the last record: whether the file is whole.
    pub fn check_end(&self) -> Result<()> {
        let fault = match &self.end {
            Some(end) if end.znodes == self.read => return Ok(()),
            Some(end) => {
                format!("{} znodes are announced here and {} are there", end.znodes, self.read)
            }
            None => "the file ends without its last line, so it was cut short".to_owned(),
        };
        Err(self.fault(self.line, format!("{fault}; --partial takes what there is")))
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
        return Err(format!("version {version} of the format; this program reads {VERSION}"));
    }
    if herdsman_client::check_path(&header.root).is_err() {
        return Err(format!("the root {:?} is not a path of a znode", header.root));
    }
    Ok(header)
}

#[cfg(test)]
mod tests;
