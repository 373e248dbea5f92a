//! Watches: an event tells of a change after the watch was set, comes once for each change, in order, and before any
//! answer that shows the change. A watch of a read is spent by its first event; one of addWatch stays. Watches
//! that are set again on a new connection tell at once of what happened in between. Nobody hears of a znode that
//! he may not read. Servers without a leader are left out: they show what they have. Source: "what ZooKeeper
//! guarantees about watches" and "persistent, recursive watches" (Apache's programmer's guide),
//! `DataTree.setWatches`.

use std::collections::BTreeMap;

use herdsman_proto::{ErrorCode, EventType, Id, Zxid};

use super::{Checker, Fact, Reply};
use crate::chronicle::{Chronicle, WatchedChange};
use crate::client::{Op, WatchKind};

/// A change that a watch tells of.
type ExpectedEvent = (Zxid, EventType, String);

/// A watch that is set.
#[derive(Debug, Default)]
struct Watch {
    /// Everything up to here has been told, or need not be.
    since: Zxid,
    /// What has been told after that, and how often.
    told: BTreeMap<ExpectedEvent, usize>,
}

/// The watches of all clients, and what they have heard of.
#[derive(Default)]
pub struct Watches {
    set: BTreeMap<(usize, WatchKind, String), Watch>,
    /// The last event of each client.
    last: BTreeMap<usize, Zxid>,
    /// Events of each client that were found when watches were set again.
    late: BTreeMap<usize, Vec<(EventType, String)>>,
}

impl Checker for Watches {
    fn name(&self) -> &'static str {
        "watches"
    }

    fn observe(&mut self, fact: &Fact<'_>, chronicle: &Chronicle) -> Result<(), String> {
        match fact {
            Fact::Replied(reply) if reply.read_only || matches!(reply.op, Op::Auth { .. }) => {
                Ok(())
            }
            Fact::Replied(reply) => {
                if let Op::SetWatches { seen, watches } = reply.op {
                    self.set_again(reply, *seen, watches, chronicle)?;
                } else if let Some(late) = self.late.get(&reply.client) {
                    return Err(format!("client {} heard {late:?} too late", reply.client));
                }
                let must_succeed = matches!(reply.op, Op::AddWatch { .. } | Op::SetWatches { .. });
                if must_succeed && reply.code != 0 {
                    return Err(format!("{:?} was answered with {}", reply.op, reply.code));
                }
                self.check_none_missing(reply, chronicle)?;
                self.note(reply);
                Ok(())
            }
            Fact::Notified { read_only: true, .. } => Ok(()),
            Fact::Notified { client, kind, path, zxid, .. } if zxid.0 < 0 => {
                let late = self.late.entry(*client).or_default();
                late.push((*kind, (*path).to_owned()));
                Ok(())
            }
            Fact::Notified { client, kind, path, zxid, ids, .. } => {
                let event = (*zxid, *kind, (*path).to_owned());
                self.take(*client, &event, ids, chronicle)
            }
            Fact::Disconnected { client } => {
                self.set.retain(|(owner, ..), _| owner != client);
                self.last.remove(client);
                self.late.remove(client);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Watches {
    /// Every change that a reply shows must have been reported before it. A change that the client may not read
    /// removes a one-shot watch without an event.
    fn check_none_missing(
        &mut self,
        reply: &Reply<'_>,
        chronicle: &Chronicle,
    ) -> Result<(), String> {
        let of_client = (reply.client, WatchKind::Data, String::new())
            ..(reply.client + 1, WatchKind::Data, String::new());
        let mut spent = Vec::new();
        for (key, watch) in self.set.range_mut(of_client) {
            let (_, kind, path) = key;
            let mut due = due(*kind, path, watch.since, reply.zxid, chronicle);
            if is_spent(*kind) {
                due.truncate(1);
            }
            let silent = due.iter().any(|(_, change)| !change.is_told_to(reply.ids));
            if silent && is_spent(*kind) {
                spent.push(key.clone());
                continue;
            }
            let mut wanted = BTreeMap::new();
            for (told, _) in due.iter().filter(|(_, change)| change.is_told_to(reply.ids)) {
                *wanted.entry(told.clone()).or_insert(0) += 1;
            }
            if wanted != watch.told {
                return Err(format!(
                    "client {} got an answer as of {}; its {kind:?} watch of {path} since {} told {:?}, not {wanted:?}",
                    reply.client, reply.zxid, watch.since, watch.told
                ));
            }
            *watch = Watch { since: reply.zxid, told: BTreeMap::new() };
        }
        for key in spent {
            self.set.remove(&key);
        }
        Ok(())
    }

    fn note(&mut self, reply: &Reply<'_>) {
        let missing = reply.code == ErrorCode::NoNode.code();
        let (kind, path) = match reply.op {
            Op::GetData { path, watch: true } if reply.code == 0 => (WatchKind::Data, path),
            Op::Exists { path, watch: true } if reply.code == 0 || missing => {
                (WatchKind::Data, path)
            }
            Op::GetChildren { path, watch: true } if reply.code == 0 => (WatchKind::Child, path),
            Op::AddWatch { path, recursive: false } if reply.code == 0 => {
                (WatchKind::Persistent, path)
            }
            Op::AddWatch { path, recursive: true } if reply.code == 0 => {
                (WatchKind::Recursive, path)
            }
            Op::RemoveWatches { path } if reply.code == 0 => {
                return self
                    .set
                    .retain(|(client, _, watched), _| *client != reply.client || watched != path);
            }
            _ => return,
        };
        // A second watch of the same kind is the same watch.
        let key = (reply.client, kind, path.clone());
        self.set.entry(key).or_insert(Watch { since: reply.zxid, told: BTreeMap::new() });
    }

    fn take(
        &mut self,
        client: usize,
        event: &ExpectedEvent,
        ids: &[Id],
        chronicle: &Chronicle,
    ) -> Result<(), String> {
        let (zxid, kind, path) = event;
        let last = self.last.entry(client).or_insert(*zxid);
        if *last > *zxid {
            return Err(format!("client {client} heard of {zxid} after {last}"));
        }
        *last = *zxid;
        let of_client =
            (client, WatchKind::Data, String::new())..(client + 1, WatchKind::Data, String::new());
        let mut expected = false;
        let mut spent = Vec::new();
        for (key, watch) in self.set.range_mut(of_client) {
            let (_, watched, top) = key;
            let mut due = due(*watched, top, watch.since, *zxid, chronicle);
            if is_spent(*watched) {
                due.truncate(1);
            }
            let due = due.iter().filter(|(told, change)| told == event && change.is_told_to(ids));
            let told = watch.told.entry(event.clone()).or_insert(0);
            if *told < due.count() {
                *told += 1;
                expected = true;
                if is_spent(*watched) {
                    spent.push(key.clone());
                }
            } else if *told == 0 {
                watch.told.remove(event);
            }
        }
        for key in spent {
            self.set.remove(&key);
        }
        if expected {
            return Ok(());
        }
        Err(format!("client {client} got {kind:?} of {path} at {zxid} without a watch"))
    }

    /// Checks setWatches: changed paths give an event at once, and the other watches are registered.
    fn set_again(
        &mut self,
        reply: &Reply<'_>,
        seen: Zxid,
        watches: &[(WatchKind, String)],
        chronicle: &Chronicle,
    ) -> Result<(), String> {
        let mut found = self.late.remove(&reply.client).unwrap_or_default();
        let mut wanted = Vec::new();
        for (kind, path) in watches {
            let view = chronicle.past(path).view_at(reply.zxid);
            let stat = view.map(crate::chronicle::ZnodeView::decoded);
            let event = match (kind, stat) {
                (WatchKind::Data | WatchKind::Child, None) => Some(EventType::NodeDeleted),
                (WatchKind::Data, Some(stat)) if stat.mzxid > seen => {
                    Some(EventType::NodeDataChanged)
                }
                (WatchKind::Child, Some(stat)) if stat.pzxid > seen => {
                    Some(EventType::NodeChildrenChanged)
                }
                (WatchKind::Exist, Some(_)) => Some(EventType::NodeCreated),
                _ => None,
            };
            let may_hear =
                view.is_none_or(|view| view.permits(herdsman_proto::Perms::READ, reply.ids));
            match event {
                Some(event) if may_hear => wanted.push((event, path.clone())),
                Some(_) => {}
                None => {
                    // To the server a watch of exists is one of getData.
                    let kind = if *kind == WatchKind::Exist { WatchKind::Data } else { *kind };
                    let watch = Watch { since: reply.zxid, told: BTreeMap::new() };
                    self.set.insert((reply.client, kind, path.clone()), watch);
                }
            }
        }
        found.sort_unstable();
        wanted.sort_unstable();
        if found == wanted {
            return Ok(());
        }
        Err(format!(
            "client {} set its watches since {seen} again as of {} and heard {found:?}, not {wanted:?}",
            reply.client, reply.zxid
        ))
    }
}

/// Whether such a watch is gone after its first event.
fn is_spent(kind: WatchKind) -> bool {
    matches!(kind, WatchKind::Data | WatchKind::Exist | WatchKind::Child)
}

/// What a watch tells of between two txns, in order of the txns.
fn due<'a>(
    kind: WatchKind,
    path: &'a str,
    after: Zxid,
    until: Zxid,
    chronicle: &'a Chronicle,
) -> Vec<(ExpectedEvent, &'a WatchedChange)> {
    let past = chronicle.past(path);
    let mut due = Vec::new();
    let mut add = |path: &str, changes: &'a [WatchedChange]| {
        let first = changes.partition_point(|change| change.zxid <= after);
        for change in changes[first..].iter().take_while(|change| change.zxid <= until) {
            due.push(((change.zxid, change.kind, path.to_owned()), change));
        }
    };
    match kind {
        WatchKind::Data | WatchKind::Exist => add(path, &past.data_changes),
        WatchKind::Child => add(path, &past.child_changes),
        WatchKind::Persistent => {
            add(path, &past.data_changes);
            add(path, &past.child_changes);
            // A deletion is in both lists, but gives one event.
            let mut ends: Vec<ExpectedEvent> = Vec::new();
            due.retain(|(told, _)| {
                let is_again = told.1 == EventType::NodeDeleted && ends.contains(told);
                ends.push(told.clone());
                !is_again
            });
        }
        WatchKind::Recursive => {
            for (path, past) in chronicle.pasts_below(path) {
                add(path, &past.data_changes);
            }
        }
    }
    due.sort_by_key(|(told, _)| told.0);
    due
}
