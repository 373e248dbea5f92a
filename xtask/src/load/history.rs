//! The replies that clients got, and whether a server's nodes agree with them.
//!
//! The states of a path are kept as a list: first the newest state that is certain (acknowledged, or read
//! back), then the results of later writes with unknown outcome. That is enough because every path has one
//! writer, and a session's writes are executed in order or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, ensure};

use super::ROOT;
use crate::listing::Nodes;

/// The data of a node, or `None` if there is no node.
pub type State = Option<String>;

/// The records of one client.
#[derive(Debug, Default)]
pub struct Record {
    /// Paths and the states that they may have.
    states: BTreeMap<String, Vec<State>>,
    /// Acknowledged sequential nodes: path to data.
    numbered: BTreeMap<String, String>,
    /// Data of sequential nodes that may exist, under a name that the client never learned.
    numbered_unknown: BTreeSet<String>,
    /// Nodes created together, so that either both exist or none.
    pairs: Vec<(String, String)>,
    /// For each register, how often it was set: certainly, and possibly.
    sets: BTreeMap<String, (i32, i32)>,
    /// The counts.
    pub counts: Counts,
}

/// How many requests and sessions ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Writes that were rejected because the session had ended or moved.
    pub refused: u64,
    /// Writes whose connection was lost before the reply.
    pub unknown: u64,
    /// Sessions opened.
    pub sessions: u64,
    /// Sessions ended by the servers.
    pub expired: u64,
    /// Connections, including reconnects.
    pub connections: u64,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It was executed.
    Acknowledged,
    /// It may have been executed.
    Unknown,
}

impl Record {
    /// Records the effect of a write on a path.
    pub fn note(&mut self, path: &str, state: State, result: WriteResult) {
        let states = self.states.entry(path.into()).or_insert_with(|| vec![None]);
        if result == WriteResult::Acknowledged {
            states.clear();
        }
        states.push(state);
    }

    /// Records a setData of a register.
    pub fn note_set(&mut self, path: &str, value: &str, result: WriteResult) {
        self.note(path, Some(value.into()), result);
        let (certain, perhaps) = self.sets.entry(path.into()).or_default();
        match result {
            WriteResult::Acknowledged => *certain += 1,
            WriteResult::Unknown => *perhaps += 1,
        }
    }

    /// Records two nodes created in one multi.
    pub fn note_pair(&mut self, one: &str, other: &str, value: &str, result: WriteResult) {
        self.note(one, Some(value.into()), result);
        self.note(other, Some(value.into()), result);
        self.pairs.push((one.into(), other.into()));
    }

    /// Records a sequential node; its path is known only if it was acknowledged.
    pub fn note_numbered(&mut self, path: Option<String>, value: &str) {
        match path {
            Some(path) => drop(self.numbered.insert(path, value.into())),
            None => drop(self.numbered_unknown.insert(value.into())),
        }
    }

    /// Records a node that must not exist after its session, and so not at the end.
    pub fn note_ephemeral(&mut self, path: &str) {
        self.note(path, None, WriteResult::Acknowledged);
    }

    /// Records what its own writer read: it must be a possible state, and excludes all earlier ones.
    pub fn note_read(&mut self, path: &str, state: &State) -> Result<()> {
        let Some(states) = self.states.get_mut(path) else {
            return Ok(());
        };
        let position = states.iter().position(|possible| possible == state);
        ensure!(position.is_some(), "{path} reads {state:?}, possible are {states:?}");
        states.drain(..position.unwrap_or_default());
        Ok(())
    }

    fn check(&self, nodes: &Nodes) -> Result<()> {
        for (path, states) in &self.states {
            let state = state(nodes, path);
            ensure!(states.contains(&state), "{path} is {state:?}, possible are {states:?}");
        }
        for (one, other) in &self.pairs {
            // The nodes of a pair are never deleted.
            let both = (nodes.contains_key(one), nodes.contains_key(other));
            ensure!(both.0 == both.1, "only one of {one} and {other}, created together, exists");
        }
        for (path, (certain, perhaps)) in &self.sets {
            let version = nodes.get(path).map_or(0, |node| node.stat.versions[0]);
            ensure!(
                (*certain..=certain + perhaps).contains(&version),
                "{path} was set {certain} times and possibly {perhaps} times more, but its version is {version}"
            );
        }
        Ok(())
    }
}

fn state(nodes: &Nodes, path: &str) -> State {
    let data = nodes.get(path)?.data.as_deref().unwrap_or_default();
    Some(String::from_utf8_lossy(data).into_owned())
}

/// The records of all clients.
#[derive(Debug, Default)]
pub struct History {
    records: Vec<Record>,
}

impl History {
    /// Adds the record of one client.
    pub(super) fn add(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Compares a server's nodes with the records: everything that was acknowledged exists, and nothing
    /// exists that no client wrote.
    pub fn check(&self, nodes: &Nodes) -> Result<()> {
        for record in &self.records {
            record.check(nodes)?;
        }
        self.check_numbered(nodes)?;
        self.check_unexpected(nodes)
    }

    fn check_numbered(&self, nodes: &Nodes) -> Result<()> {
        let mut by_path = BTreeMap::new();
        let mut perhaps = BTreeSet::new();
        for record in &self.records {
            by_path.extend(&record.numbered);
            perhaps.extend(&record.numbered_unknown);
        }
        for (path, value) in &by_path {
            let state = state(nodes, path);
            ensure!(state.as_ref() == Some(*value), "{path} is {state:?}, acknowledged {value}");
        }
        let parent = super::numbered() + "/";
        for path in nodes.keys().filter(|path| path.starts_with(&parent)) {
            let value = state(nodes, path).unwrap_or_default();
            // Removed, so that a write that was executed twice is detected.
            let known = by_path.contains_key(path) || perhaps.remove(&value);
            ensure!(known, "{path} with {value:?} was never written, or twice");
        }
        Ok(())
    }

    fn check_unexpected(&self, nodes: &Nodes) -> Result<()> {
        let below = format!("{ROOT}/");
        // Deeper than the nodes that clients create.
        let written = |path: &&String| {
            path.strip_prefix(&below).is_some_and(|rest| rest.contains('/'))
                && !path.starts_with(&super::numbered())
        };
        for path in nodes.keys().filter(written) {
            let known = self.records.iter().any(|record| record.states.contains_key(path));
            ensure!(known, "{path} exists, but no client wrote it");
        }
        Ok(())
    }

    /// The totals over all clients.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for Record { counts, .. } in &self.records {
            sum.acknowledged += counts.acknowledged;
            sum.refused += counts.refused;
            sum.unknown += counts.unknown;
            sum.sessions += counts.sessions;
            sum.expired += counts.expired;
            sum.connections += counts.connections;
        }
        sum
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Counts { acknowledged, refused, unknown, sessions, expired, connections } = self;
        write!(
            f,
            "{acknowledged} writes acknowledged, {refused} rejected, {unknown} of unknown outcome; \
             {sessions} sessions ({expired} expired) on {connections} connections"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Node;
    use crate::wire::Stat;

    fn nodes(nodes: &[(&str, &str, i32)]) -> Nodes {
        let node = |&(path, data, version): &(&str, &str, i32)| {
            let stat =
                Stat { head: [0; 4], versions: [version, 0, 0], owner: 0, sizes: [0; 2], pzxid: 0 };
            let node = Node { data: Some(data.as_bytes().to_vec()), stat, acl: Vec::new() };
            (path.to_string(), node)
        };
        nodes.iter().map(node).collect()
    }

    fn agrees(record: impl Fn(&mut Record), found: &[(&str, &str, i32)]) -> bool {
        let mut own = Record::default();
        record(&mut own);
        History { records: vec![own] }.check(&nodes(found)).is_ok()
    }

    #[test]
    fn acknowledged_writes_must_exist() {
        let record =
            |r: &mut Record| r.note("/load/c/a", Some("1".into()), WriteResult::Acknowledged);
        assert!(agrees(record, &[("/load/c/a", "1", 0)]));
        assert!(!agrees(record, &[("/load/c/a", "2", 0)]));
        assert!(!agrees(record, &[]));
    }

    #[test]
    fn unknown_writes_may_exist_or_not() {
        let record = |r: &mut Record| r.note("/load/c/a", Some("1".into()), WriteResult::Unknown);
        assert!(agrees(record, &[("/load/c/a", "1", 0)]));
        assert!(agrees(record, &[]));
        assert!(!agrees(record, &[("/load/c/a", "2", 0)]));
    }

    #[test]
    fn an_acknowledged_write_resolves_earlier_unknown_ones() {
        let record = |r: &mut Record| {
            r.note_set("/load/c/a", "1", WriteResult::Unknown);
            r.note_set("/load/c/a", "2", WriteResult::Acknowledged);
            r.note_set("/load/c/a", "3", WriteResult::Unknown);
        };
        assert!(agrees(record, &[("/load/c/a", "2", 1)]));
        assert!(agrees(record, &[("/load/c/a", "2", 2)]));
        assert!(agrees(record, &[("/load/c/a", "3", 2)]));
        assert!(!agrees(record, &[("/load/c/a", "1", 1)]));
        assert!(!agrees(record, &[("/load/c/a", "3", 4)]));
    }

    #[test]
    fn a_state_that_was_read_is_certain() {
        let mut record = Record::default();
        record.note("/a", Some("1".into()), WriteResult::Acknowledged);
        record.note("/a", Some("2".into()), WriteResult::Unknown);
        record.note("/a", Some("3".into()), WriteResult::Unknown);
        record.note_read("/a", &Some("2".into())).unwrap();
        assert!(record.note_read("/a", &Some("1".into())).is_err());
        record.note_read("/a", &Some("3".into())).unwrap();
        assert!(record.note_read("/a", &None).is_err());
    }

    #[test]
    fn pairs_are_all_or_nothing() {
        let record =
            |r: &mut Record| r.note_pair("/load/c/a", "/load/c/b", "1", WriteResult::Unknown);
        assert!(agrees(record, &[]));
        assert!(agrees(record, &[("/load/c/a", "1", 0), ("/load/c/b", "1", 0)]));
        assert!(!agrees(record, &[("/load/c/a", "1", 0)]));
    }

    #[test]
    fn sequential_nodes_exist_once() {
        let record = |r: &mut Record| {
            r.note_numbered(Some("/load/numbered/n-1".into()), "1");
            r.note_numbered(None, "2");
        };
        assert!(agrees(record, &[("/load/numbered/n-1", "1", 0)]));
        let both = [("/load/numbered/n-1", "1", 0), ("/load/numbered/n-2", "2", 0)];
        assert!(agrees(record, &both));
        assert!(!agrees(record, &both[1..]));
        let twice = [both[0], both[1], ("/load/numbered/n-3", "2", 0)];
        assert!(!agrees(record, &twice));
    }

    #[test]
    fn unexpected_and_leftover_nodes_are_found() {
        assert!(agrees(|_| (), &[("/load/c", "", 0)]));
        assert!(!agrees(|_| (), &[("/load/c/x", "", 0)]));
        let record = |r: &mut Record| r.note_ephemeral("/load/c/e");
        assert!(agrees(record, &[]));
        assert!(!agrees(record, &[("/load/c/e", "", 0)]));
    }
}
