//! `herdsman inspect log`: prints the txns of log files, or verifies the files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use herdsman_proto::Zxid;
use serde_json::json;

use super::filter::TxnFilter;
use super::txn_view::{COLUMNS, TxnJson, txn_lines};
use crate::console::{Console, Outcome};
use crate::log_file::{LogItem, log_paths, read_log_after, short_name};
use crate::progress::Meter;
use crate::show::{DataShown, json_line};
use crate::verify::Verdict;
use crate::verify::log::verify_logs;

/// Print the txns of log files, or verify the files.
#[derive(Args, Debug)]
pub(super) struct LogArguments {
    /// Log files, or directories that contain them.
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// Only the last N txns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tail: Option<u32>,
    /// Show the complete data instead of only its beginning.
    #[arg(long)]
    data: bool,
    /// Only verify the files: checksums, order, names.
    #[arg(long, conflicts_with_all = ["from", "to", "since", "until", "path", "session", "types", "tail", "data"])]
    verify: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    // The last one, because its heading would apply to every argument after it.
    #[command(flatten)]
    filter: TxnFilter,
}

pub(super) fn execute(arguments: &LogArguments, console: &mut Console<'_>) -> Result<Outcome> {
    let paths = log_paths(&arguments.files)?;
    if arguments.verify {
        let mut verdict = Verdict::default();
        verify_logs(&paths, &mut verdict, console)?;
        return verdict.print(arguments.json, console);
    }
    let mut printer =
        Printer { arguments, console, held: VecDeque::new(), is_damaged: false, last: None };
    if !arguments.json {
        printer.console.print(COLUMNS)?;
    }
    for path in &paths {
        printer.print_file(path)?;
    }
    printer.finish()
}

struct Printer<'a, 'c> {
    arguments: &'a LogArguments,
    console: &'a mut Console<'c>,
    /// The last txns, with `--tail`.
    held: VecDeque<Vec<String>>,
    is_damaged: bool,
    /// The last txn, also of the file before.
    last: Option<Zxid>,
}

impl Printer<'_, '_> {
    fn print_file(&mut self, path: &Path) -> Result<()> {
        let name = short_name(path);
        let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        // Draw the bar only where few txns are printed.
        let mut meter =
            (self.arguments.tail.is_some()).then(|| Meter::of_bytes(self.console, &name, bytes));
        read_log_after(self.last, path, &mut |piece| {
            if let (Some(meter), LogItem::Txn { offset, .. }) = (&mut meter, piece) {
                meter.set(*offset);
            }
            self.print_piece(&name, piece)
        })?;
        Ok(())
    }

    fn print_piece(&mut self, name: &str, piece: &LogItem<'_>) -> Result<()> {
        match piece {
            LogItem::Txn { offset, entry } => self.gap_before(name, *offset, entry.header.zxid)?,
            LogItem::Unknown { offset, zxid, .. } => self.gap_before(name, *offset, *zxid)?,
            LogItem::Repeat { .. } | LogItem::Damage(_) | LogItem::Torn { .. } => {}
        }
        match piece {
            LogItem::Txn { offset, entry } if self.arguments.filter.wants(entry) => {
                let shown = DataShown::from_flag(self.arguments.data);
                let lines = if self.arguments.json {
                    vec![json_line(&TxnJson::of(Some(name), *offset, entry, shown))?]
                } else {
                    txn_lines(entry, shown)
                };
                self.put(lines)
            }
            LogItem::Txn { .. } => Ok(()),
            LogItem::Unknown { offset, zxid, error } => {
                let text = format!("txn {zxid} cannot be read: {error}");
                self.problem(name, *offset, "unknown", &text)
            }
            LogItem::Repeat { offset, zxid } => {
                let text =
                    format!("a request that could not be decoded, with the zxid of txn {zxid}");
                self.print_problem(name, *offset, "repeat", &text)
            }
            LogItem::Damage(damage) => self.problem(name, damage.offset, "damage", &damage.text()),
            LogItem::Torn { offset, bytes } => {
                let text = format!("{bytes} bytes of a write that was never completed");
                self.print_problem(name, *offset, "torn", &text)
            }
        }
    }

    /// Reports txns that are missing before this one. Apache reads on after them without a message.
    fn gap_before(&mut self, name: &str, offset: u64, zxid: Zxid) -> Result<()> {
        match self.last.replace(zxid) {
            Some(last) if !last.is_continued_by(zxid) && zxid > last => {
                let text = format!("txns are missing between {last} and {zxid}");
                self.problem(name, offset, "gap", &text)
            }
            Some(last) if zxid <= last => {
                let text = format!("txn {zxid} comes after txn {last}");
                self.problem(name, offset, "backwards", &text)
            }
            _ => Ok(()),
        }
    }

    fn problem(&mut self, name: &str, offset: u64, kind: &str, text: &str) -> Result<()> {
        self.is_damaged = true;
        self.print_problem(name, offset, kind, text)
    }

    fn print_problem(&mut self, name: &str, offset: u64, kind: &str, text: &str) -> Result<()> {
        let line = if self.arguments.json {
            json_line(&json!({ "file": name, "offset": offset, kind: text }))?
        } else {
            format!("!! {name} at offset {offset}: {text}")
        };
        self.put(vec![line])
    }

    fn put(&mut self, lines: Vec<String>) -> Result<()> {
        let Some(tail) = self.arguments.tail else {
            return lines.iter().try_for_each(|line| self.console.print(line));
        };
        if self.held.len() == tail as usize {
            self.held.pop_front();
        }
        self.held.push_back(lines);
        Ok(())
    }

    fn finish(self) -> Result<Outcome> {
        for line in self.held.iter().flatten() {
            self.console.print(line)?;
        }
        Ok(if self.is_damaged { Outcome::Problems } else { Outcome::Sound })
    }
}
