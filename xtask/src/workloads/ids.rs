//! Unique ids: the numbers of sequential nodes.
//!
//! No name is used twice, by any server or in any epoch, and the numbers that all clients get increase with
//! the zxids. Old nodes are deleted again, as by clients that only need the number.

use std::collections::{BTreeMap, VecDeque};

use super::Worker;
use super::check::{DIGITS, Findings};
use super::client::Client;
use super::history::{self, Answer, Outcome, Record};
use crate::wire::{Op, SEQUENTIAL};

const CLIENTS: usize = 2;
const KEPT: usize = 8;

struct Taker {
    root: String,
    kept: VecDeque<String>,
}

pub fn workers(root: &str) -> Vec<Box<dyn Worker>> {
    let worker =
        |_| Box::new(Taker { root: root.into(), kept: VecDeque::new() }) as Box<dyn Worker>;
    (0..CLIENTS).map(worker).collect()
}

impl Worker for Taker {
    fn step(&mut self, client: &mut Client) {
        if self.kept.len() > KEPT
            && let Some(path) = self.kept.pop_front()
        {
            client.call(Op::delete(&path, 0));
            return;
        }
        let id = |client: &mut Client| {
            Op::create(&format!("{}/id-", self.root), Some(client.unique().as_bytes()), SEQUENTIAL)
        };
        let ops = (0..1 + client.rng.below(3)).map(|_| id(client)).collect();
        for outcome in client.calls(ops) {
            if let Outcome::Done { answer: Answer::Created(path, _), .. } = outcome {
                self.kept.push_back(path);
            }
        }
        if let Some(path) = self.kept.back() {
            client.call(Op::get_data(path));
        }
    }
}

/// Each name is assigned once; numbers increase with zxids, over all clients.
pub fn check(records: &[Record]) -> Findings {
    let mut findings = Findings::default();
    let mut taken: BTreeMap<&str, i64> = BTreeMap::new();
    for (zxid, path) in created(records) {
        if let Some(first) = taken.insert(path, zxid) {
            findings.wrong.push(format!("{path} was assigned at {first:#x} and at {zxid:#x}"));
        }
    }
    let mut by_zxid: Vec<(i64, &str)> =
        taken.into_iter().map(|(path, zxid)| (zxid, path)).collect();
    by_zxid.sort_unstable();
    for pair in by_zxid.windows(2) {
        if number(pair[0].1) >= number(pair[1].1) {
            findings.wrong.push(format!("{} was assigned before {}", pair[0].1, pair[1].1));
        }
    }
    findings
}

/// Acknowledged sequential nodes with their zxids.
pub fn created(records: &[Record]) -> impl Iterator<Item = (i64, &str)> {
    history::calls(records).filter_map(|(_, call)| match (&call.op, &call.outcome) {
        (Op::Create { flags, .. }, Outcome::Done { zxid, answer: Answer::Created(path, _) })
            if flags & SEQUENTIAL != 0 =>
        {
            Some((*zxid, path.as_str()))
        }
        _ => None,
    })
}

/// The number in a sequential node's name.
pub fn number(path: &str) -> Option<u64> {
    path.get(path.len().checked_sub(DIGITS)?..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::history::made::*;

    fn findings(ids: &[(i64, u64)]) -> Findings {
        let call = |&(zxid, id): &(i64, u64)| {
            let answer = Answer::Created(format!("/ids/id-{id:010}"), stat(zxid, zxid, 0, ""));
            (Op::create("/ids/id-", None, SEQUENTIAL), done(zxid, answer))
        };
        check(&history(ids.iter().map(call)))
    }

    #[test]
    fn ids_are_unique_and_rise() {
        assert!(findings(&[(3, 1), (5, 2), (9, 7)]).is_empty());
        assert_eq!(findings(&[(3, 1), (5, 1)]).wrong.len(), 1);
        assert_eq!(findings(&[(3, 2), (5, 1)]).wrong.len(), 1);
    }
}
