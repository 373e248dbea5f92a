//! Compares the events of each session with the known changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::wire::{CHILDREN_CHANGED, CREATED, DATA_CHANGED, DELETED, Event, Kind, NO_NODE, Op};
use crate::workloads::check::Findings;
use crate::workloads::history::{self, Call, Note, Outcome, Record};

/// Reports missing, late, duplicate and unfounded events.
pub fn check(records: &[Record]) -> Findings {
    let changes = Changes::of(records);
    let mut findings = Findings::default();
    let mut sessions: BTreeMap<i64, Session> = BTreeMap::new();
    for record in records {
        let session = sessions.entry(record.session).or_default();
        let mut found = Findings::default();
        match &record.note {
            Note::Connected(_) => session.reconnect(),
            Note::Event(event) => session.fire(event, &changes, &mut found),
            Note::Call(call) => session.reply(call, &changes, &mut found),
            Note::Expired => *session = Session::default(),
        }
        let named = |texts: Vec<String>| {
            let name = |text| format!("session {:#x}: {text}", record.session);
            texts.into_iter().map(name).collect()
        };
        findings.extend(Findings {
            wrong: named(found.wrong),
            lost: named(found.lost),
            stale: named(found.stale),
        });
    }
    findings
}

/// The known changes, by acknowledged writes, and the possible ones.
#[derive(Default)]
struct Changes {
    by_zxid: BTreeMap<i64, (String, i32)>,
    by_path: BTreeMap<String, BTreeMap<i64, i32>>,
    unknown: BTreeSet<(String, i32)>,
}

impl Changes {
    fn of(records: &[Record]) -> Changes {
        let mut changes = Changes::default();
        for (_, call) in history::calls(records) {
            let Some((path, kind)) = change(&call.op) else { continue };
            let touched = |kind| {
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                let of_parent = (kind != DATA_CHANGED).then(|| (parent.into(), CHILDREN_CHANGED));
                [Some((path.to_string(), kind)), of_parent].into_iter().flatten()
            };
            match call.outcome {
                Outcome::Done { zxid, .. } => {
                    changes.by_zxid.insert(zxid, (path.into(), kind));
                    for (path, kind) in touched(kind) {
                        changes.by_path.entry(path).or_default().insert(zxid, kind);
                    }
                }
                Outcome::Unknown => changes.unknown.extend(touched(kind)),
                Outcome::Refused { .. } => {}
            }
        }
        changes
    }

    /// The changes of a node, or of its children, after `from` and up to `to`.
    fn between(&self, path: &str, table: Table, from: i64, to: i64) -> Vec<(i64, i32)> {
        let all = self.by_path.get(path).into_iter();
        let all = all.flat_map(|all| all.range(from + 1..=to.max(from + 1)));
        let is_of_table = |kind: i32| match table {
            Table::Data => kind != CHILDREN_CHANGED,
            Table::Child => kind == CHILDREN_CHANGED || kind == DELETED,
        };
        let found = all.map(|(zxid, kind)| (*zxid, *kind));
        found.filter(|(zxid, kind)| *zxid <= to && is_of_table(*kind)).collect()
    }

    /// Whether there was such a change after `from`, or may have been.
    fn allow(&self, event: &Event, from: i64) -> bool {
        if self.unknown.contains(&(event.path.clone(), event.kind)) {
            return true;
        }
        let Some(own) = self.by_path.get(&event.path) else {
            return false;
        };
        if event.zxid > 0 {
            return event.zxid > from && own.get(&event.zxid) == Some(&event.kind);
        }
        // setWatches compares states: deleting and recreating a node is a change of its data.
        own.range(from + 1..).any(|(_, kind)| {
            *kind == event.kind || (event.kind == DATA_CHANGED && *kind == CREATED)
        }) || (event.kind == DATA_CHANGED && self.unknown.contains(&(event.path.clone(), CREATED)))
    }
}

/// Returns what a write changes, and how.
fn change(op: &Op) -> Option<(&str, i32)> {
    match op {
        Op::Create { path, .. } => Some((path, CREATED)),
        Op::SetData { path, .. } => Some((path, DATA_CHANGED)),
        Op::Versioned { kind: Kind::Delete, path, .. } => Some((path, DELETED)),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    /// Watches of getData and exists.
    Data,
    /// Watches of getChildren.
    Child,
}

/// The watches of one session.
#[derive(Default)]
struct Session {
    armed: BTreeMap<(Table, String), ArmedWatch>,
    /// Roots of persistent recursive watches, and the zxid from which on they report everything.
    recursive: BTreeMap<String, i64>,
    /// What those reported on this connection.
    reported: BTreeSet<(i64, String, i32)>,
    /// Whether the watches are not set on a new connection yet.
    restoring: bool,
}

#[derive(Clone, Copy)]
struct ArmedWatch {
    /// The zxid of the state that the client has seen.
    at: i64,
    /// Whether the node existed.
    was_there: bool,
}

impl Session {
    fn reconnect(&mut self) {
        self.restoring = !self.armed.is_empty() || !self.recursive.is_empty();
        self.reported.clear();
    }

    fn fire(&mut self, event: &Event, changes: &Changes, findings: &mut Findings) {
        let tables: &[Table] = match event.kind {
            CHILDREN_CHANGED => &[Table::Child],
            DELETED => &[Table::Data, Table::Child],
            _ => &[Table::Data],
        };
        let key = |table: &Table| (*table, event.path.clone());
        let fired: Vec<ArmedWatch> =
            tables.iter().filter_map(|table| self.armed.remove(&key(table))).collect();
        let covers = |root: &&String| {
            event.path.strip_prefix(root.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let recursive =
            self.recursive.keys().find(covers).filter(|_| event.kind != CHILDREN_CHANGED);
        if fired.is_empty() && recursive.is_none() {
            findings.wrong.push(format!("{event:?} without a watch"));
            return;
        }
        if event.zxid <= 0 && !self.restoring {
            findings.wrong.push(format!("{event:?} without a zxid"));
        }
        let from = fired.iter().map(|armed| armed.at).min();
        if !changes.allow(event, from.unwrap_or_default()) {
            findings.wrong.push(format!("{event:?} without a change since {from:x?}"));
        }
        if recursive.is_some() {
            self.reported_once(event, findings);
        }
    }

    fn reported_once(&mut self, event: &Event, findings: &mut Findings) {
        let last = self.reported.last().map_or(0, |(zxid, ..)| *zxid);
        let is_new = self.reported.insert((event.zxid, event.path.clone(), event.kind));
        if !is_new {
            findings.wrong.push(format!("{event:?} arrived twice"));
        } else if event.zxid < last {
            findings.wrong.push(format!("{event:?} arrived after one of {last:#x}"));
        }
    }

    fn reply(&mut self, call: &Call, changes: &Changes, findings: &mut Findings) {
        let Some(zxid) = call.zxid() else { return };
        match &call.op {
            Op::SetWatches { since, .. } => self.restored(*since, zxid, changes, findings),
            Op::CloseSession => {
                *self = Session::default();
                return;
            }
            _ if self.restoring => {}
            _ => self.overdue(zxid, changes, findings),
        }
        self.arm(call, zxid);
    }

    /// Every change up to this zxid has been reported.
    fn overdue(&mut self, zxid: i64, changes: &Changes, findings: &mut Findings) {
        self.armed.retain(|(table, path), armed| {
            let missed = changes.between(path, *table, armed.at, zxid);
            if let Some((change, kind)) = missed.first() {
                findings.lost.push(format!(
                    "no event of kind {kind} for {path}, changed at {change:#x}, before a reply of {zxid:#x}"
                ));
            }
            missed.is_empty()
        });
        for (root, from) in &mut self.recursive {
            let below = format!("{root}/");
            for (change, (path, kind)) in changes.by_zxid.range(*from + 1..=zxid.max(*from + 1)) {
                let reported = self.reported.contains(&(*change, path.clone(), *kind));
                if *change <= zxid && path.starts_with(&below) && !reported {
                    findings.lost.push(format!(
                        "no recursive event of kind {kind} for {path} at {change:#x} before a reply of {zxid:#x}"
                    ));
                }
            }
            *from = zxid.max(*from);
        }
    }

    /// setWatches has reported every difference from the state that the client knows.
    fn restored(&mut self, since: i64, zxid: i64, changes: &Changes, findings: &mut Findings) {
        self.restoring = false;
        self.armed.retain(|(table, path), armed| {
            let missed = changes.between(path, *table, since, zxid);
            let last = missed.last().map(|(_, kind)| *kind);
            // A node that was missing and is missing has not changed.
            let differs = last.is_some() && (armed.was_there || last != Some(DELETED));
            if differs {
                findings.lost.push(format!(
                    "setWatches of {zxid:#x} did not report that {path} has changed since {since:#x}: {missed:x?}"
                ));
            }
            armed.at = zxid;
            !differs
        });
        self.recursive.values_mut().for_each(|from| *from = zxid);
    }

    fn arm(&mut self, call: &Call, zxid: i64) {
        let done = matches!(call.outcome, Outcome::Done { .. });
        match &call.op {
            Op::AddWatch { path } if done => drop(self.recursive.insert(path.clone(), zxid)),
            Op::Read { kind, path, watch: true } => {
                let table = if *kind == Kind::GetChildren2 { Table::Child } else { Table::Data };
                let absent = matches!(call.outcome, Outcome::Refused { err: NO_NODE, .. });
                if done || (absent && *kind == Kind::Exists) {
                    let armed = ArmedWatch { at: zxid, was_there: done };
                    self.armed.insert((table, path.clone()), armed);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
