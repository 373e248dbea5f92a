//! Sets: clients add unique children and list them; nothing is ever removed.
//!
//! When a set has many children, the next one is used, so that lists stay short. Every child whose create
//! was acknowledged exists at the end, none that was only rejected does, and each list that a session gets
//! contains everything in earlier lists of the same session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Worker;
use super::check::Findings;
use super::client::Client;
use super::history::{self, Answer, Outcome, Record};
use crate::listing::Nodes;
use crate::wire::{NO_NODE, Op};

const CLIENTS: usize = 2;
const CHILDREN_MAX: usize = 60;

struct Adder {
    root: String,
    /// How many children were added by all clients; this selects the current set.
    added: Arc<AtomicUsize>,
    /// A child whose create has an unknown outcome, to be retried.
    again: Option<Op>,
}

pub fn workers(root: &str) -> Vec<Box<dyn Worker>> {
    let added = Arc::new(AtomicUsize::new(0));
    let worker = |_| {
        let adder = Adder { root: root.into(), added: Arc::clone(&added), again: None };
        Box::new(adder) as Box<dyn Worker>
    };
    (0..CLIENTS).map(worker).collect()
}

impl Worker for Adder {
    fn step(&mut self, client: &mut Client) {
        let number = self.added.load(Ordering::Relaxed) / CHILDREN_MAX;
        let set = format!("{}/s{number}", self.root);
        if client.rng.below(3) == 0 {
            client.call(Op::list(&set));
            return;
        }
        let value = client.unique();
        let new = Op::create(&format!("{set}/{value}"), Some(value.as_bytes()), 0);
        let op = self.again.take().unwrap_or(new);
        let outcomes = client.calls(vec![op.clone(), Op::list(&set)]);
        match outcomes.first() {
            Some(Outcome::Done { .. }) => drop(self.added.fetch_add(1, Ordering::Relaxed)),
            Some(Outcome::Unknown) => self.again = Some(op),
            Some(Outcome::Refused { err: NO_NODE, .. }) => {
                client.call(Op::create(&set, None, 0));
            }
            _ => {}
        }
    }
}

/// Nothing is lost, no rejected child exists, and lists of a session only grow.
pub fn check(records: &[Record], end: &Nodes) -> Findings {
    let mut findings = Findings::default();
    let mut may_be = BTreeSet::new();
    let mut refused = BTreeSet::new();
    let mut listed: BTreeMap<(i64, &str), &[String]> = BTreeMap::new();
    for (session, call) in history::calls(records) {
        match (&call.op, &call.outcome) {
            (Op::Create { path, .. }, Outcome::Done { .. }) => {
                may_be.insert(path);
                if !end.contains_key(path) {
                    findings.lost.push(format!("{path} was acknowledged but is missing"));
                }
            }
            (Op::Create { path, .. }, Outcome::Unknown) => drop(may_be.insert(path)),
            (Op::Create { path, .. }, Outcome::Refused { .. }) => drop(refused.insert(path)),
            (Op::Read { path, .. }, Outcome::Done { answer: Answer::Children(names, _), .. }) => {
                let before = listed.insert((session, path), names).unwrap_or_default();
                if let Some(missing) = before.iter().find(|name| names.binary_search(name).is_err())
                {
                    findings.stale.push(format!(
                        "session {session:#x}: {path}/{missing} was in the list before and is not"
                    ));
                }
            }
            _ => {}
        }
    }
    for path in refused.difference(&may_be).filter(|path| end.contains_key(**path)) {
        findings.wrong.push(format!("{path} was rejected but exists"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::history::made::*;

    fn end(paths: &[&str]) -> Nodes {
        let node = |path: &&str| {
            let stat = stat(1, 1, 0, "");
            (path.to_string(), crate::listing::Node { data: None, stat, acl: Vec::new() })
        };
        paths.iter().map(node).collect()
    }

    #[test]
    fn acknowledged_children_exist() {
        let records = history([created("/s/a", "", 1)]);
        assert!(check(&records, &end(&["/s/a"])).is_empty());
        assert_eq!(check(&records, &end(&[])).lost.len(), 1);
    }

    #[test]
    fn rejected_children_do_not_exist_and_unknown_ones_may() {
        let create = || Op::create("/s/a", None, 0);
        let records = history([(create(), refused(1, NO_NODE))]);
        assert!(check(&records, &end(&[])).is_empty());
        assert_eq!(check(&records, &end(&["/s/a"])).wrong.len(), 1);
        let records = history([(create(), Outcome::Unknown), (create(), refused(1, -110))]);
        assert!(check(&records, &end(&["/s/a"])).is_empty());
    }

    #[test]
    fn a_list_that_shrinks_is_stale() {
        let list = |names: &[&str]| {
            let names = names.iter().map(ToString::to_string).collect();
            (Op::list("/s"), done(5, Answer::Children(names, stat(1, 1, 0, ""))))
        };
        let grows = history([list(&["a"]), list(&["a", "b"])]);
        assert!(check(&grows, &end(&[])).is_empty());
        let shrinks = history([list(&["a", "b"]), list(&["b"])]);
        assert_eq!(check(&shrinks, &end(&[])).stale.len(), 1);
    }
}
