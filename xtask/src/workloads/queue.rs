//! An unordered queue: everything that was added is taken once.
//!
//! A client takes an item by listing, reading any item and deleting it; the client whose delete is
//! acknowledged has taken it. Items that were not taken must still exist at the end.

use std::collections::{BTreeMap, BTreeSet};

use super::Worker;
use super::check::Findings;
use super::client::Client;
use super::history::{self, Answer, Outcome, Record};
use super::ids;
use crate::listing::Nodes;
use crate::wire::{Kind, Op, SEQUENTIAL};

const CLIENTS: usize = 3;
/// From this many items on, all clients take.
const ITEMS_MAX: usize = 30;

/// Which item of a queue to take.
#[derive(Clone, Copy)]
pub enum Take {
    /// Any.
    Any,
    /// The one with the lowest number.
    Lowest,
}

struct Member {
    root: String,
    take: Take,
    full: bool,
}

pub fn workers(root: &str, take: Take) -> Vec<Box<dyn Worker>> {
    let worker = |_| Box::new(Member { root: root.into(), take, full: false }) as Box<dyn Worker>;
    (0..CLIENTS).map(worker).collect()
}

impl Worker for Member {
    fn step(&mut self, client: &mut Client) {
        if !self.full && client.rng.below(2) == 0 {
            let path = format!("{}/item-", self.root);
            let item = Op::create(&path, Some(client.unique().as_bytes()), SEQUENTIAL);
            client.call(item);
            return;
        }
        let listed = client.call(Op::list(&self.root));
        let Some(Outcome::Done { answer: Answer::Children(names, _), .. }) = listed else {
            return;
        };
        self.full = names.len() >= ITEMS_MAX;
        let name = match self.take {
            _ if names.is_empty() => return,
            Take::Any => client.rng.pick(&names),
            Take::Lowest => &names[0],
        };
        let path = format!("{}/{name}", self.root);
        client.calls(vec![Op::get_data(&path), Op::delete(&path, 0)]);
    }
}

/// Acknowledged deletes with their zxids.
pub fn taken(records: &[Record]) -> impl Iterator<Item = (i64, &str)> {
    history::calls(records).filter_map(|(_, call)| match (&call.op, &call.outcome) {
        (Op::Versioned { kind: Kind::Delete, path, .. }, Outcome::Done { zxid, .. }) => {
            Some((*zxid, path.as_str()))
        }
        _ => None,
    })
}

/// Each item is taken once, or exists at the end.
pub fn check(records: &[Record], end: &Nodes) -> Findings {
    let mut findings = Findings::default();
    let mut by_path: BTreeMap<&str, i64> = BTreeMap::new();
    for (zxid, path) in taken(records) {
        if let Some(first) = by_path.insert(path, zxid) {
            findings.wrong.push(format!("{path} was taken at {first:#x} and at {zxid:#x}"));
        }
    }
    let maybe: BTreeSet<&str> = history::calls(records)
        .filter_map(|(_, call)| match (&call.op, &call.outcome) {
            (Op::Versioned { path, .. }, Outcome::Unknown) => Some(path.as_str()),
            _ => None,
        })
        .collect();
    for (zxid, path) in ids::created(records) {
        match (by_path.contains_key(path), end.contains_key(path)) {
            (true, true) => findings.wrong.push(format!("{path} was taken but still exists")),
            (false, false) if !maybe.contains(path) => {
                findings.lost.push(format!("{path}, added at {zxid:#x}, was never taken"));
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::history::made::*;

    const ITEM: &str = "/q/item-0000000001";

    fn put() -> (Op, Outcome) {
        let answer = Answer::Created(ITEM.into(), stat(1, 1, 0, ""));
        (Op::create("/q/item-", None, SEQUENTIAL), done(1, answer))
    }

    fn take(zxid: i64) -> (Op, Outcome) {
        (Op::delete(ITEM, 0), done(zxid, Answer::Nothing))
    }

    fn findings(calls: Vec<(Op, Outcome)>, left: bool) -> Findings {
        let node = crate::listing::Node { data: None, stat: stat(1, 1, 0, ""), acl: Vec::new() };
        let end = left.then(|| (ITEM.to_string(), node)).into_iter().collect();
        check(&history(calls), &end)
    }

    #[test]
    fn everything_is_taken_once_or_left() {
        assert!(findings(vec![put(), take(2)], false).is_empty());
        assert!(findings(vec![put()], true).is_empty());
        assert_eq!(findings(vec![put()], false).lost.len(), 1);
        assert_eq!(findings(vec![put(), take(2)], true).wrong.len(), 1);
        assert_eq!(findings(vec![put(), take(2), take(3)], false).wrong.len(), 1);
        let unknown = (Op::delete(ITEM, 0), Outcome::Unknown);
        assert!(findings(vec![put(), unknown], false).is_empty());
    }
}
