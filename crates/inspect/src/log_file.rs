//! Reads a txn log to its end, also after damage.
//!
//! In: a file. Out: its [`LogItem`]s in order: txns, and what is between or after them that is not a
//! txn. A server stops at damage; an operator who inspects a file needs to see what follows, so reading continues
//! at the next record with a valid checksum.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use herdsman_proto::txn::Entry;
use herdsman_proto::{DecodeError, Zxid};
use herdsman_store::log::ending::{RecordsEnd, classify};
use herdsman_store::log::record::RecordReader;
use herdsman_store::names::{LogName, list_logs};
use herdsman_store::{Disk, RealDisk};

/// An item of a log file.
pub(crate) enum LogItem<'a> {
    /// A txn with a valid checksum.
    Txn {
        /// Where its record starts.
        offset: u64,
        /// The txn.
        entry: &'a Entry,
    },
    /// A record with a valid checksum and a txn that cannot be decoded.
    Unknown {
        /// Where it starts.
        offset: u64,
        /// Its zxid.
        zxid: Zxid,
        /// What is wrong.
        error: DecodeError,
    },
    /// A record that repeats the zxid of the txn before it: Apache's, for a request that it could not decode.
    Repeat {
        /// Where it starts.
        offset: u64,
        /// The zxid.
        zxid: Zxid,
    },
    /// Bytes that are neither a record nor a torn write.
    Damage(DamagedRange),
    /// The beginning of a record that was never completed.
    Torn {
        /// Where it starts.
        offset: u64,
        /// Its length so far.
        bytes: u64,
    },
}

/// Bytes in a log that are neither a record nor a torn write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DamagedRange {
    /// Where it starts.
    pub(crate) offset: u64,
    /// What is wrong.
    pub(crate) why: &'static str,
    /// The last txn before it in this file.
    pub(crate) last_good: Option<Zxid>,
    /// Offset and zxid of the next valid record.
    pub(crate) next_valid: Option<(u64, Zxid)>,
}

impl DamagedRange {
    /// Describes the damage and what follows.
    pub(crate) fn text(&self) -> String {
        let next = match self.next_valid {
            Some((offset, zxid)) => {
                format!("the next valid record is txn {zxid} at offset {offset}")
            }
            None => "no valid record follows".to_owned(),
        };
        format!("{}; {next}", self.why)
    }
}

/// Called for each item of a log.
pub(crate) type VisitLogItem<'a> = dyn FnMut(&LogItem<'_>) -> Result<()> + 'a;

/// Totals of a log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogTotals {
    /// Records of txns with a valid checksum.
    pub(crate) records: u64,
    /// Records that repeat a zxid.
    pub(crate) repeats: u64,
    /// The first one's zxid.
    pub(crate) first: Option<Zxid>,
    /// The last one's zxid.
    pub(crate) last: Option<Zxid>,
    /// The end of the last record.
    pub(crate) used_bytes: u64,
    /// The file's length, preallocated space included.
    pub(crate) file_bytes: u64,
}

/// Reads a whole log. Fails if it cannot be read or is something else.
pub(crate) fn read_log(path: &Path, visit: &mut VisitLogItem<'_>) -> Result<LogTotals> {
    read_log_after(None, path, visit)
}

/// The same for a file that follows this txn: its first record may repeat the txn's zxid.
pub(crate) fn read_log_after(
    before: Option<Zxid>,
    path: &Path,
    visit: &mut VisitLogItem<'_>,
) -> Result<LogTotals> {
    let unreadable = || format!("cannot read {}", path.display());
    let mut reader = RecordReader::open(&RealDisk, path).with_context(unreadable)?;
    let before = before.or_else(|| log_name(path).map(|name| Zxid(name.zxid.0.saturating_sub(1))));
    before.into_iter().for_each(|before| reader.starts_after(before));
    let mut totals = LogTotals { file_bytes: reader.file_bytes(), ..LogTotals::default() };
    loop {
        read_records(&mut reader, &mut totals, visit)
            .with_context(unreadable)?
            .into_iter()
            .try_for_each(Err)?;
        let offset = reader.offset();
        match classify(&reader).with_context(unreadable)? {
            RecordsEnd::Clean => break,
            RecordsEnd::Torn { bytes } => {
                visit(&LogItem::Torn { offset, bytes })?;
                break;
            }
            RecordsEnd::Damaged(damage) => {
                if !reader.header_valid() && damage.next_valid.is_none() && !has_magic(path)? {
                    bail!("{} is not a txn log: {}", path.display(), damage.why);
                }
                let (why, next_valid) = (damage.why, damage.next_valid);
                visit(&LogItem::Damage(DamagedRange {
                    offset,
                    why,
                    last_good: totals.last,
                    next_valid,
                }))?;
                match next_valid {
                    Some((offset, _)) => reader.resume_at(offset),
                    None => break,
                }
            }
        }
    }
    Ok(totals)
}

/// Passes on records up to the next place where there is none. A failure of the visitor is returned
/// apart from the disk's.
fn read_records(
    reader: &mut RecordReader,
    totals: &mut LogTotals,
    visit: &mut VisitLogItem<'_>,
) -> std::io::Result<Option<anyhow::Error>> {
    while let Some(record) = reader.next_stored()? {
        let (offset, zxid, is_repeat) = (record.offset, record.zxid, record.is_repeat);
        let visited = match Entry::decode(record.payload) {
            Ok(_) if is_repeat => visit(&LogItem::Repeat { offset, zxid }),
            Ok(entry) => visit(&LogItem::Txn { offset, entry: &entry }),
            Err(error) => visit(&LogItem::Unknown { offset, zxid, error }),
        };
        if let Err(error) = visited {
            return Ok(Some(error));
        }
        if is_repeat {
            totals.repeats += 1;
            totals.used_bytes = reader.offset();
            continue;
        }
        totals.records += 1;
        totals.first.get_or_insert(zxid);
        totals.last = Some(zxid);
        totals.used_bytes = reader.offset();
    }
    Ok(None)
}

/// Whether the file begins with the magic number of a log.
fn has_magic(path: &Path) -> Result<bool> {
    let mut magic = [0; 4];
    let read = RealDisk.open_read(path)?.read_at(0, &mut magic)?;
    Ok(read == 4 && magic == herdsman_store::log::HEADER[..4])
}

/// The log files that the arguments name: files as given, and the logs in directories or in their
/// `version-2`.
pub(crate) fn log_paths(given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for path in given {
        if !path.is_dir() {
            paths.push(path.clone());
            continue;
        }
        let below = path.join("version-2");
        let dir = if below.is_dir() { &below } else { path };
        let names =
            list_logs(&RealDisk, dir).with_context(|| format!("cannot list {}", dir.display()))?;
        if names.is_empty() {
            bail!("{} has no txn logs (files named log.<zxid>)", dir.display());
        }
        paths.extend(names.iter().map(|name| name.path(dir)));
    }
    Ok(paths)
}

/// The log name of a file, if a server would read it as a log.
pub(crate) fn log_name(path: &Path) -> Option<LogName> {
    path.file_name()?.to_str().and_then(LogName::parse)
}

/// A file's name without its directory, for messages.
pub(crate) fn short_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    crate::show::clean(&name.to_string_lossy())
}
