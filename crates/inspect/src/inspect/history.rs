//! `herdsman inspect history`: lists the changes of a znode with their sessions and times, as far back as the logs go.
//!
//! In: the logs, and the oldest snapshot for the state before them. Out: each txn that created,
//! changed or deleted the znode, also inside a multi, and also when its owner's session ended. Logs of
//! servers before 3.6 do not list what the end of a session deletes, so owners are followed from their
//! creates. A multi that failed changed nothing and is left out.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use herdsman_proto::txn::{CreateKind, Entry};
use herdsman_proto::{Acl, SessionId, StatPersisted, Txn, path};
use herdsman_store::RealDisk;
use herdsman_store::names::{list_logs, list_snapshots};
use herdsman_store::snapshot::reader::SnapshotVisitor;
use herdsman_tree::LoadError;
use herdsman_tree::owner::Owner;
use serde_json::{Value, json};

use crate::console::{Console, Outcome};
use crate::counts::shown_path;
use crate::location::{Location, LocationArguments};
use crate::log_file::{LogItem, read_log, short_name};
use crate::show::{DataJson, DataShown, OWNER_RULES, acl_texts, clean, data_text, time_text};
use crate::snapshot_file::read_parts;

/// List the txns that changed a znode, with their sessions and times.
#[derive(Args, Debug)]
pub(super) struct HistoryArguments {
    /// The znode.
    #[arg(value_name = "PATH")]
    path: String,
    /// The server's dataDir, or the version-2 directory in it.
    #[arg(long, value_name = "DIR", required_unless_present = "config", conflicts_with = "config")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    place: LocationArguments,
    /// Include its descendants.
    #[arg(long, short)]
    recursive: bool,
    /// Show the complete data instead of only its beginning.
    #[arg(long)]
    data: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn execute(arguments: &HistoryArguments, console: &mut Console<'_>) -> Result<Outcome> {
    if !path::is_valid(&arguments.path) {
        bail!(
            "{} is not a path: it must start with / and not end with one",
            clean(&arguments.path)
        );
    }
    let location = arguments.place.locate(arguments.data_dir.as_deref())?;
    console.note_missing_log(&location)?;
    let logs = list_logs(&RealDisk, &location.dirs.log)
        .with_context(|| format!("cannot list {}", location.dirs.log.display()))?;
    let mut history =
        History { arguments, console, owners: HashMap::new(), found: 0, is_damaged: false };
    history.before_the_logs(&location)?;
    for log in logs {
        let path = log.path(&location.dirs.log);
        let name = short_name(&path);
        read_log(&path, &mut |piece| history.piece(&name, piece))?;
    }
    if history.found == 0 && !arguments.json {
        let path = clean(&arguments.path);
        history.console.print(format_args!("no txn or snapshot in these files contains {path}"))?;
    }
    Ok(if history.is_damaged { Outcome::Problems } else { Outcome::Sound })
}

struct History<'a, 'c> {
    arguments: &'a HistoryArguments,
    console: &'a mut Console<'c>,
    /// The ephemerals that were created so far, by session.
    owners: HashMap<SessionId, Vec<String>>,
    found: u64,
    is_damaged: bool,
}

/// A change of a znode.
struct Change<'t> {
    path: &'t str,
    what: &'static str,
    details: String,
    values: Value,
}

impl History<'_, '_> {
    fn is_wanted(&self, path: &str) -> bool {
        path == self.arguments.path
            || (self.arguments.recursive && path::is_prefix(&self.arguments.path, path))
    }

    /// Prints what the oldest snapshot has. It does not name the session that created a znode.
    fn before_the_logs(&mut self, location: &Location) -> Result<()> {
        let data = &location.dirs.data;
        let snapshots = list_snapshots(&RealDisk, data)
            .with_context(|| format!("cannot list {}", data.display()))?;
        // Skip a damaged one: its znodes cannot be trusted.
        for name in snapshots {
            let mut finder = Finder { arguments: self.arguments, found: Vec::new() };
            if read_parts(&name.path(data), &mut finder, &mut |_| {}).is_ok() {
                for (path, stat) in finder.found {
                    self.in_snapshot(&name.file_name(), &path, &stat)?;
                }
                break;
            }
        }
        Ok(())
    }

    fn in_snapshot(&mut self, file: &str, path: &str, stat: &StatPersisted) -> Result<()> {
        self.found += 1;
        if let Owner::Session(session) = OWNER_RULES.owner(stat.ephemeral_owner) {
            self.owners.entry(session).or_default().push(path.to_owned());
        }
        if self.arguments.json {
            return self.console.print_json(&json!({
                "file": file, "what": "exists", "path": path,
                "czxid": stat.czxid.to_string(), "mzxid": stat.mzxid.to_string(),
                "version": stat.version, "mtime": time_text(stat.mtime),
            }));
        }
        self.console.print(format_args!(
            "{}  exists in {file}: created by txn {}, last set by {} at {}, version {}",
            clean(path),
            stat.czxid,
            stat.mzxid,
            time_text(stat.mtime),
            stat.version
        ))
    }

    fn piece(&mut self, file: &str, piece: &LogItem<'_>) -> Result<()> {
        match piece {
            LogItem::Txn { entry, .. } => {
                let lines: Vec<Line> = self
                    .changes(entry)
                    .iter()
                    .map(|change| self.line(file, entry, change))
                    .collect();
                for line in lines {
                    self.print(&line)?;
                }
                self.follow_owners(entry.header.session, &entry.txn);
                Ok(())
            }
            LogItem::Repeat { .. } | LogItem::Torn { .. } => Ok(()),
            LogItem::Damage(_) | LogItem::Unknown { .. } => {
                self.is_damaged = true;
                self.console.note(format_args!("{file} is damaged: txns may be missing here"));
                Ok(())
            }
        }
    }

    /// The changes of a txn to the requested znodes.
    fn changes<'t>(&'t self, entry: &'t Entry) -> Vec<Change<'t>> {
        let mut changes = Vec::new();
        match &entry.txn {
            Txn::Multi(parts) if parts.iter().any(|part| matches!(part, Txn::Error(_))) => {}
            Txn::Multi(parts) => {
                changes.extend(parts.iter().filter_map(|part| self.change(part)));
            }
            Txn::CloseSession { ephemerals: Some(paths) } => {
                changes.extend(paths.iter().filter(|path| self.is_wanted(path)).map(|p| closed(p)));
            }
            // Servers before 3.6 do not list them.
            Txn::CloseSession { ephemerals: None } => {
                let owned = self.owners.get(&entry.header.session);
                changes.extend(owned.into_iter().flatten().map(|path| closed(path)));
            }
            txn => changes.extend(self.change(txn)),
        }
        changes
    }

    fn change<'t>(&self, txn: &'t Txn) -> Option<Change<'t>> {
        let shown = DataShown::from_flag(self.arguments.data);
        let change = match txn {
            Txn::Create(create) => Change {
                path: &create.path,
                what: txn.op().name(),
                details: data_text(create.data.as_deref(), shown),
                values: json!({
                    "data": DataJson::of(create.data.as_deref(), shown),
                    "acl": acl_texts(&create.acl),
                    "ephemeral": matches!(create.kind, CreateKind::Plain { ephemeral: true, .. }),
                }),
            },
            Txn::SetData { path, data, version, .. } => Change {
                path,
                what: txn.op().name(),
                details: format!("{} version={version}", data_text(data.as_deref(), shown)),
                values: json!({
                    "data": DataJson::of(data.as_deref(), shown), "version": version,
                }),
            },
            Txn::SetAcl { path, acl, version } => Change {
                path,
                what: txn.op().name(),
                details: format!("{} version={version}", acl_texts(acl).join(",")),
                values: json!({ "acl": acl_texts(acl), "version": version }),
            },
            Txn::Delete { path, container } => Change {
                path,
                what: txn.op().name(),
                details: if *container {
                    "by the server (container or TTL)".to_owned()
                } else {
                    String::new()
                },
                values: json!({}),
            },
            Txn::Check { .. }
            | Txn::Multi(_)
            | Txn::CreateSession { .. }
            | Txn::CloseSession { .. }
            | Txn::Error(_) => return None,
        };
        self.is_wanted(change.path).then_some(change)
    }

    /// Tracks the owners of ephemerals, to know what the end of a session deletes when its txn has no list.
    fn follow_owners(&mut self, session: SessionId, txn: &Txn) {
        match txn {
            Txn::Create(create) => {
                let is_ephemeral = matches!(create.kind, CreateKind::Plain { ephemeral: true, .. });
                if is_ephemeral && self.is_wanted(&create.path) {
                    self.owners.entry(session).or_default().push(create.path.to_string());
                }
            }
            Txn::Delete { path, .. } => {
                for paths in self.owners.values_mut() {
                    paths.retain(|owned| **owned != **path);
                }
            }
            Txn::Multi(parts) if !parts.iter().any(|part| matches!(part, Txn::Error(_))) => {
                parts.iter().for_each(|part| self.follow_owners(session, part));
            }
            Txn::CloseSession { .. } => _ = self.owners.remove(&session),
            _ => {}
        }
    }

    fn line(&self, file: &str, entry: &Entry, change: &Change<'_>) -> Line {
        let header = &entry.header;
        let in_multi = matches!(entry.txn, Txn::Multi(_));
        if !self.arguments.json {
            return Line::Text(format!(
                "{:<12} {}  session {}  {}{} {} {}",
                header.zxid.to_string(),
                time_text(header.time_ms),
                header.session,
                change.what,
                if in_multi { " in multi" } else { "" },
                clean(change.path),
                change.details
            ));
        }
        let mut value = json!({
            "file": file, "zxid": header.zxid.to_string(), "time": time_text(header.time_ms),
            "session": header.session.to_string(), "cxid": header.cxid,
            "what": change.what, "path": change.path, "in_multi": in_multi,
        });
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), &change.values) {
            value.extend(more.clone());
        }
        Line::Json(value)
    }

    fn print(&mut self, line: &Line) -> Result<()> {
        self.found += 1;
        match line {
            Line::Text(text) => self.console.print(text.trim_end()),
            Line::Json(value) => self.console.print_json(value),
        }
    }
}

/// A printed change.
enum Line {
    Text(String),
    Json(Value),
}

fn closed(path: &str) -> Change<'_> {
    Change {
        path,
        what: "closeSession",
        details: "deleted it: its owner's session ended".to_owned(),
        values: json!({}),
    }
}

/// Finds the requested znodes in a snapshot.
struct Finder<'a> {
    arguments: &'a HistoryArguments,
    found: Vec<(String, StatPersisted)>,
}

impl SnapshotVisitor for Finder<'_> {
    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn node(
        &mut self,
        path: &str,
        _: Option<&[u8]>,
        _: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        let path = shown_path(path);
        let HistoryArguments { path: wanted, recursive, .. } = self.arguments;
        if path == *wanted || (*recursive && path::is_prefix(wanted, &path)) {
            self.found.push((path, stat));
        }
        Ok(())
    }
}
