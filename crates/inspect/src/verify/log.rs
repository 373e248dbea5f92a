//! Verifies txn logs: checksums, readable txns, rising zxids without gaps, names.

use std::path::{Path, PathBuf};

use anyhow::Result;
use herdsman_proto::Zxid;

use super::Verdict;
use crate::console::Console;
use crate::log_file::{DamagedRange, LogItem, LogTotals, log_name, read_log_after, short_name};
use crate::progress::Meter;
use crate::show::counted;

/// What zxids do not prove.
const NEW_EPOCHS: &str =
    "zxids do not show whether txns are missing right before a new epoch; only digests do";

/// The result of reading one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogCheck {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Its totals.
    pub(crate) totals: LogTotals,
    /// Its damaged ranges.
    pub(crate) damages: Vec<DamagedRange>,
    /// Offset and length of a write that was never completed.
    pub(crate) torn: Option<(u64, u64)>,
    /// Gaps and steps back, each as the txn before and the txn after it.
    pub(crate) breaks: Vec<(Zxid, Zxid)>,
    /// The zxid that names it, if its first txn is another one: a server may then start reading in the
    /// wrong file.
    pub(crate) misnamed: Option<Zxid>,
    /// Offset and zxid of the first record that repeats a zxid.
    pub(crate) first_repeat: Option<(u64, Zxid)>,
    /// Records whose txn cannot be decoded.
    pub(crate) unknown: Vec<(u64, Zxid, String)>,
}

/// Verifies logs that belong together, oldest first, without a snapshot.
pub(crate) fn verify_logs(
    paths: &[PathBuf],
    verdict: &mut Verdict,
    console: &Console<'_>,
) -> Result<()> {
    let mut checks = Vec::new();
    for path in paths {
        let before = checks.iter().rev().find_map(|check: &LogCheck| check.totals.last);
        checks.push(check_log(path, before, console)?);
    }
    for (index, check) in checks.iter().enumerate() {
        check.report(checks.get(index + 1), Zxid::ZERO, verdict);
    }
    for pair in checks.windows(2) {
        if let (Some(last), Some(first)) = (pair[0].totals.last, pair[1].totals.first)
            && !last.is_continued_by(first)
        {
            let text = format!("starts with txn {first}, but the file before it ends with {last}");
            verdict.problem(&pair[1].name, text);
        }
    }
    let mut ends =
        checks.iter().flat_map(|check| [check.totals.first, check.totals.last]).flatten();
    let first_epoch = ends.next().map(Zxid::epoch);
    if ends.any(|zxid| Some(zxid.epoch()) != first_epoch) {
        verdict.note("epochs", NEW_EPOCHS);
    }
    verdict.note(
        "digests",
        "not compared: this needs a snapshot too, as in herdsman inspect data-dir DIR --verify",
    );
    Ok(())
}

/// Reads a whole log, which follows a txn, and collects its problems.
pub(crate) fn check_log(
    path: &Path,
    before: Option<Zxid>,
    console: &Console<'_>,
) -> Result<LogCheck> {
    let name = short_name(path);
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut meter = Meter::of_bytes(console, &name, bytes);
    let mut check = LogCheck { name, ..LogCheck::default() };
    let mut last = None;
    check.totals = read_log_after(before, path, &mut |piece| {
        match piece {
            LogItem::Repeat { offset, zxid } => {
                check.first_repeat.get_or_insert((*offset, *zxid));
            }
            LogItem::Txn { offset, entry } => {
                check.breaks.extend(break_before(&mut last, entry.header.zxid));
                meter.set(*offset);
            }
            LogItem::Unknown { offset, zxid, error } => {
                check.breaks.extend(break_before(&mut last, *zxid));
                check.unknown.push((*offset, *zxid, error.to_string()));
            }
            LogItem::Damage(damage) => check.damages.push(damage.clone()),
            LogItem::Torn { offset, bytes } => check.torn = Some((*offset, *bytes)),
        }
        Ok(())
    })?;
    let named = log_name(path).map(|name| name.zxid);
    // If the beginning is damaged, the first readable txn says nothing about the name.
    check.misnamed = named.filter(|named| {
        let is_named_by_repeat = check.first_repeat.is_some_and(|(_, zxid)| zxid == *named);
        check.damages.is_empty()
            && !is_named_by_repeat
            && check.totals.first.is_some_and(|first| first != *named)
    });
    Ok(check)
}

/// The gap before this txn, if there is one.
fn break_before(last: &mut Option<Zxid>, zxid: Zxid) -> Option<(Zxid, Zxid)> {
    let before = last.replace(zxid)?;
    (!before.is_continued_by(zxid)).then_some((before, zxid))
}

impl LogCheck {
    /// Whether an earlier restart dropped what is wrong here: the next file begins with exactly the txn
    /// that is missing.
    fn is_continued_by(&self, next: Option<&LogCheck>, last_good: Option<Zxid>) -> bool {
        let first = next.and_then(|next| next.totals.first);
        matches!((last_good, first), (Some(last), Some(first)) if first == last.next())
    }

    /// Adds the findings. `next` is the file that follows; a snapshot covers everything up to `covered`.
    pub(crate) fn report(&self, next: Option<&LogCheck>, covered: Zxid, verdict: &mut Verdict) {
        let name = &self.name;
        if self.is_sound() {
            verdict.ok(name, self.range_text());
        } else {
            verdict.note(name, self.range_text());
        }
        for damage in &self.damages {
            let text = format!("damaged at offset {}: {}", damage.offset, damage.text());
            if self.is_continued_by(next, damage.last_good) {
                verdict.note(
                    name,
                    format!("{text}. Harmless: the next file continues after the last good txn"),
                );
            } else if damage.next_valid.is_some_and(|(_, zxid)| zxid <= covered.next()) {
                verdict.note(name, format!("{text}. Harmless: a later snapshot covers it"));
            } else {
                verdict.problem(name, text);
            }
        }
        for (offset, zxid, error) in &self.unknown {
            verdict.problem(name, format!("txn {zxid} at offset {offset} cannot be read: {error}"));
        }
        if let (Some(named), Some(first)) = (self.misnamed, self.totals.first) {
            verdict.problem(name, format!("is named by {named}, but its first txn is {first}"));
        }
        if let Some((offset, zxid)) = self.first_repeat {
            let records = counted(self.totals.repeats, "record");
            let text = format!(
                "{records} with the zxid of the txn before, the first one at offset {offset} with {zxid}. Harmless: Apache's leader logs requests that it cannot decode like this"
            );
            verdict.note(name, text);
        }
        self.report_breaks(covered, verdict);
        self.report_torn(next, verdict);
    }

    fn report_breaks(&self, covered: Zxid, verdict: &mut Verdict) {
        for (before, after) in &self.breaks {
            let text = format!("txns are missing between {before} and {after}");
            if after <= before {
                verdict.problem(&self.name, format!("txn {after} comes after txn {before}"));
            } else if *after <= covered {
                verdict.note(&self.name, format!("{text}; a later snapshot covers them"));
            } else {
                verdict.problem(&self.name, text);
            }
        }
    }

    fn report_torn(&self, next: Option<&LogCheck>, verdict: &mut Verdict) {
        let Some((offset, bytes)) = self.torn else {
            return;
        };
        let text =
            format!("torn at offset {offset}: {bytes} bytes of a write that was never completed");
        let is_end = next.is_none_or(|next| next.totals.records == 0);
        if is_end {
            verdict.note(
                &self.name,
                format!("{text}. A crash leaves this (or a server is writing now), and the next start cuts it off"),
            );
        } else if self.is_continued_by(next, self.totals.last) {
            verdict.note(&self.name, format!("{text}. Harmless: the next file continues there"));
        } else {
            verdict.problem(&self.name, text);
        }
    }

    /// Whether the log has no problems.
    fn is_sound(&self) -> bool {
        self.damages.is_empty()
            && self.unknown.is_empty()
            && self.breaks.is_empty()
            && self.misnamed.is_none()
            && self.torn.is_none()
    }

    fn range_text(&self) -> String {
        match (self.totals.first, self.totals.last) {
            (Some(first), Some(last)) => {
                let txns = counted(self.totals.records, "txn");
                format!("{txns}, {first} to {last}; all checksums match")
            }
            _ => "no txns".to_owned(),
        }
    }
}
