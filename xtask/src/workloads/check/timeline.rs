//! One history for each node: at every zxid it has one state, caused by a request.
//!
//! Each reply shows the state of one node, or of a parent's list of children, at the zxid in its header.
//! Together, these facts must fit on one timeline. The checks are: two replies never show different states
//! for the same zxid, so no read is older than its zxid and no two writes got the same version; every
//! version, value and node has a request that may have caused it, and no two have the same one; a node
//! exists until a request, or the end of its session, may have deleted it; a rejection (BadVersion,
//! NodeExists, NoNode) has its reason at that very zxid.

mod life;
mod node;

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::shape::DIGITS;
use crate::listing::Nodes;
use crate::verdict::CONFIG_NODE;
use crate::wire::{BAD_VERSION, Kind, NO_NODE, NODE_EXISTS, Op, SEQUENTIAL, Stat};
use crate::workloads::history::{Answer, Call, Note, Outcome, Record, is_over};
use node::Node;

/// The zxid of the final state.
const END: i64 = i64::MAX - 1;

/// All nodes of a history.
#[derive(Default)]
struct Timeline {
    nodes: BTreeMap<String, Node>,
    /// Sequential nodes that may have been created, with an unknown number: the path without it, and the
    /// data.
    numbered: BTreeMap<String, Vec<Vec<u8>>>,
    /// For each parent the names that it had at a zxid.
    listings: BTreeMap<String, Vec<(i64, BTreeSet<String>)>>,
    sessions: BTreeMap<i64, Session>,
}

/// What is known about a session.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// The zxid of its last acknowledged write: it had not ended before.
    alive_at: i64,
    /// The zxid of its acknowledged end.
    closed_at: Option<i64>,
    /// Whether it may have ended at an unknown zxid.
    may_be_over: bool,
}

/// Reports facts that contradict each other.
pub fn check(records: &[Record], root: &str, end: &Nodes) -> Findings {
    let mut timeline = Timeline::default();
    records.iter().for_each(|record| timeline.add(record));
    timeline.add_end(root, end);
    timeline.spread_listings();
    timeline.evaluate()
}

impl Timeline {
    fn node(&mut self, path: &str) -> &mut Node {
        if !self.nodes.contains_key(path) {
            self.nodes.insert(path.into(), Node::default());
        }
        self.nodes.get_mut(path).expect("it was just added")
    }

    fn add(&mut self, record: &Record) {
        match &record.note {
            Note::Call(call) => self.add_call(record.session, call),
            Note::Expired => self.session(record.session).may_be_over = true,
            Note::Connected(_) | Note::Event(_) => {}
        }
    }

    fn session(&mut self, id: i64) -> &mut Session {
        self.sessions.entry(id).or_default()
    }

    fn add_call(&mut self, session: i64, call: &Call) {
        if let Some((zxid, answers)) = call.done() {
            for (op, answer) in answers {
                self.add_answer(session, zxid, op, answer);
            }
            if call.is_write() && call.op.kind() != Kind::CloseSession {
                let own = self.session(session);
                own.alive_at = own.alive_at.max(zxid);
            }
        }
        match &call.outcome {
            Outcome::Refused { zxid, err, at } if !is_over(*err) => {
                if let Some(op) = call.ops().get(*at) {
                    self.add_refusal(*zxid, *err, op);
                }
            }
            Outcome::Refused { .. } => self.session(session).may_be_over = true,
            Outcome::Unknown => call.ops().iter().for_each(|op| self.add_unknown(session, op)),
            Outcome::Done { .. } => {}
        }
    }

    fn add_answer(&mut self, session: i64, zxid: i64, op: &Op, answer: &Answer) {
        match (op, answer) {
            // Servers write it themselves, too.
            (Op::Read { path, .. }, _) if path == CONFIG_NODE => {}
            (Op::Create { data, .. }, Answer::Created(path, stat)) => {
                let data = data.clone().unwrap_or_default();
                self.node(path).wrote(zxid, stat, data);
            }
            (Op::SetData { path, data, .. }, Answer::Stat(stat)) => {
                let data = data.clone().unwrap_or_default();
                self.node(path).wrote(zxid, stat, data);
            }
            (Op::Versioned { kind: Kind::Delete, path, .. }, _) => self.node(path).deleted(zxid),
            (Op::Read { path, .. }, Answer::Data(data, stat)) => {
                self.node(path).saw(zxid, stat, Some(data.clone().unwrap_or_default()));
            }
            (Op::Read { path, .. }, Answer::Stat(stat)) => self.node(path).saw(zxid, stat, None),
            (Op::Read { path, .. }, Answer::Children(names, stat)) => {
                self.node(path).saw(zxid, stat, None);
                let names = names.iter().map(|name| format!("{path}/{name}")).collect();
                self.listings.entry(path.clone()).or_default().push((zxid, names));
            }
            (Op::CloseSession, _) => self.session(session).closed_at = Some(zxid),
            _ => {}
        }
    }

    fn add_refusal(&mut self, zxid: i64, err: i32, op: &Op) {
        match (err, op) {
            (BAD_VERSION, Op::Versioned { path, version, .. })
            | (BAD_VERSION, Op::SetData { path, version, .. }) => {
                self.node(path).bad_versions.push((zxid, *version));
            }
            (NODE_EXISTS, Op::Create { path, .. }) => drop(self.node(path).present.insert(zxid)),
            (NO_NODE, Op::Versioned { path, .. })
            | (NO_NODE, Op::SetData { path, .. })
            | (NO_NODE, Op::Read { path, .. }) => drop(self.node(path).absent.insert(zxid)),
            _ => {}
        }
    }

    fn add_unknown(&mut self, session: i64, op: &Op) {
        match op {
            Op::Create { path, data, flags, .. } => {
                let data = data.clone().unwrap_or_default();
                if flags & SEQUENTIAL == 0 {
                    self.node(path).maybe_made.push(data);
                } else {
                    self.numbered.entry(path.clone()).or_default().push(data);
                }
            }
            Op::SetData { path, data, .. } => {
                self.node(path).maybe_set.push(data.clone().unwrap_or_default());
            }
            Op::Versioned { kind: Kind::Delete, path, .. } => self.node(path).maybe_deleted = true,
            Op::CloseSession => self.session(session).may_be_over = true,
            _ => {}
        }
    }

    /// Adds the nodes that exist at the end, and those that do not.
    fn add_end(&mut self, root: &str, end: &Nodes) {
        let known: Vec<String> = self.nodes.keys().cloned().collect();
        for path in known.iter().filter(|path| !end.contains_key(*path)) {
            self.node(path).absent.insert(END);
        }
        let below = format!("{root}/");
        let is_ours = |path: &str| path == root || path.starts_with(&below);
        for (path, node) in end.iter().filter(|(path, _)| is_ours(path)) {
            let data = node.data.clone().unwrap_or_default();
            self.node(path).saw(END, &node.stat, Some(data));
        }
    }

    /// A list of children shows for each child whether it exists.
    fn spread_listings(&mut self) {
        for (parent, mut listings) in std::mem::take(&mut self.listings) {
            listings.sort_by_key(|(zxid, _)| *zxid);
            for (zxid, names) in &listings {
                for path in names {
                    self.node(path).present.insert(*zxid);
                }
            }
            self.add_unlisted(&parent, &listings);
        }
    }

    /// In the order of zxids, so that nodes that certainly do not exist are not checked repeatedly.
    fn add_unlisted(&mut self, parent: &str, listings: &[(i64, BTreeSet<String>)]) {
        let below = format!("{parent}/");
        let children = self.nodes.range(below.clone()..).take_while(|(p, _)| p.starts_with(&below));
        let children = children.filter(|(path, _)| !path[below.len()..].contains('/'));
        let mut waiting: Vec<(i64, i64, String)> =
            children.map(|(path, node)| (node.made_at(), node.gone_at(), path.clone())).collect();
        waiting.sort_by(|one, other| other.cmp(one));
        let mut there: Vec<(i64, String)> = Vec::new();
        for (zxid, names) in listings {
            while let Some((_, deleted_at, path)) = waiting.pop_if(|(made, ..)| *made <= *zxid) {
                there.push((deleted_at, path));
            }
            there.retain(|(deleted_at, _)| deleted_at > zxid);
            for (_, path) in there.iter().filter(|(_, path)| !names.contains(path)) {
                self.nodes.get_mut(path).expect("it is one of ours").absent.insert(*zxid);
            }
        }
    }

    fn evaluate(mut self) -> Findings {
        let mut findings = Findings::default();
        for (path, node) in &mut self.nodes {
            let unnumbered = path.len().checked_sub(DIGITS).and_then(|at| path.get(..at));
            let mut none = Vec::new();
            let numbered = unnumbered.and_then(|prefix| self.numbered.get_mut(prefix));
            node.evaluate(path, numbered.unwrap_or(&mut none), &self.sessions, &mut findings);
        }
        findings
    }
}

/// The part of a Stat that only setData changes.
fn without_children(stat: &Stat) -> Stat {
    let mut stat = stat.clone();
    stat.versions[1] = 0;
    stat.sizes[1] = 0;
    stat.pzxid = 0;
    stat
}

#[cfg(test)]
mod tests;
