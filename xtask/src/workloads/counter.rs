//! A counter in two nodes that are changed only by multis: both always have the same value.
//!
//! A client counts by reading both and setting both on condition of the versions read. Any two replies with
//! the same version, of either node, have the same value and mzxid; the value is the version; and the final
//! value is the number of acknowledged multis, plus at most those of unknown outcome.

use std::collections::BTreeMap;

use super::Worker;
use super::check::Findings;
use super::client::Client;
use super::history::{self, Answer, Outcome, Record};
use crate::listing::Nodes;
use crate::wire::{Kind, Op, Stat};

const CLIENTS: usize = 3;

struct Counter {
    nodes: [String; 2],
}

pub fn prepare(root: &str) -> Vec<Op> {
    nodes(root).iter().map(|path| Op::create(path, Some(b"0 start"), 0)).collect()
}

pub fn workers(root: &str) -> Vec<Box<dyn Worker>> {
    let worker = |_| Box::new(Counter { nodes: nodes(root) }) as Box<dyn Worker>;
    (0..CLIENTS).map(worker).collect()
}

fn nodes(root: &str) -> [String; 2] {
    ["left", "right"].map(|side| format!("{root}/{side}"))
}

impl Worker for Counter {
    fn step(&mut self, client: &mut Client) {
        let [left, right] = &self.nodes;
        let read = client.calls(vec![Op::get_data(left), Op::get_data(right)]);
        let Some(Outcome::Done { answer: Answer::Data(data, stat), .. }) = read.first() else {
            return;
        };
        let Some(value) = value(data.as_deref()) else {
            return;
        };
        let data = format!("{} {}", value + 1, client.unique());
        let set = |path| Op::set_data(path, Some(data.as_bytes()), stat.version());
        // A condition on the other node, or on none: it has the same version anyway.
        let ops = match client.rng.below(3) {
            0 => vec![Op::check(right, stat.version()), set(left), set(right)],
            _ => vec![set(left), set(right)],
        };
        client.call(Op::Multi(ops));
    }
}

/// The number at the start of a node's data.
fn value(data: Option<&[u8]>) -> Option<i32> {
    let text = std::str::from_utf8(data?).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Both nodes are equal at each version, and every count happens exactly once.
pub fn check(records: &[Record], root: &str, end: &Nodes) -> Findings {
    let mut findings = Findings::default();
    let (mut acknowledged, mut unknown) = (0, 0);
    let mut seen: BTreeMap<i32, (i64, Vec<u8>)> = BTreeMap::new();
    let mut see = |stat: &Stat, data: &[u8], findings: &mut Findings| {
        // The two creates are not one multi.
        let mzxid = if stat.version() == 0 { 0 } else { stat.mzxid() };
        let fresh = (mzxid, data.to_vec());
        let known = seen.entry(stat.version()).or_insert_with(|| fresh.clone());
        if *known != fresh || value(Some(data)) != Some(stat.version()) {
            let [one, other] = [&*known, &fresh].map(|(zxid, data)| {
                format!("{:?} of mzxid {zxid:#x}", String::from_utf8_lossy(data))
            });
            let version = stat.version();
            findings.wrong.push(format!("version {version} is {one} and {other}"));
        }
    };
    for (_, call) in history::calls(records) {
        if call.op.kind() == Kind::Multi {
            acknowledged += i32::from(call.done().is_some());
            unknown += i32::from(matches!(call.outcome, Outcome::Unknown));
        }
        for (op, answer) in call.done().map(|(_, answers)| answers).unwrap_or_default() {
            match (op, answer) {
                (Op::SetData { data, .. }, Answer::Stat(stat)) => {
                    see(stat, data.as_deref().unwrap_or_default(), &mut findings);
                }
                (_, Answer::Data(data, stat)) => {
                    see(stat, data.as_deref().unwrap_or_default(), &mut findings);
                }
                _ => {}
            }
        }
    }
    for path in nodes(root) {
        let last = end.get(&path).and_then(|node| value(node.data.as_deref())).unwrap_or(-1);
        let text = format!("{path} ends at {last}: {acknowledged} counted, {unknown} unknown");
        if last < acknowledged {
            findings.lost.push(text);
        } else if last > acknowledged + unknown {
            findings.wrong.push(text);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::history::made::*;

    fn end(value: &str) -> Nodes {
        let node = |path| {
            let data = Some(value.as_bytes().to_vec());
            (path, crate::listing::Node { data, stat: stat(1, 1, 0, ""), acl: Vec::new() })
        };
        nodes("/counter").map(node).into_iter().collect()
    }

    fn count(zxid: i64, version: i32) -> (Op, Outcome) {
        let data = format!("{version} x");
        let set = |path: &String| Op::set_data(path, Some(data.as_bytes()), version - 1);
        let answer = || Answer::Stat(stat(1, zxid, version, &data));
        let ops = nodes("/counter").iter().map(set).collect();
        (Op::Multi(ops), done(zxid, Answer::Multi(vec![answer(), answer()])))
    }

    fn findings(calls: Vec<(Op, Outcome)>, last: &str) -> Findings {
        check(&history(calls), "/counter", &end(last))
    }

    #[test]
    fn the_final_value_is_the_count() {
        assert!(findings(vec![count(5, 1), count(6, 2)], "2 x").is_empty());
        assert_eq!(findings(vec![count(5, 1), count(6, 2)], "1 x").lost.len(), 2);
        assert_eq!(findings(vec![count(5, 1)], "2 x").wrong.len(), 2);
        let unknown = (count(6, 2).0, Outcome::Unknown);
        assert!(findings(vec![count(5, 1), unknown], "2 x").is_empty());
    }

    #[test]
    fn both_nodes_are_equal() {
        let other = |zxid, data: &str| read("/counter/right", data, 9, stat(1, zxid, 1, data));
        assert!(findings(vec![count(5, 1), other(5, "1 x")], "1 x").is_empty());
        assert_eq!(findings(vec![count(5, 1), other(5, "1 y")], "1 x").wrong.len(), 1);
        assert_eq!(findings(vec![count(5, 1), other(6, "1 x")], "1 x").wrong.len(), 1);
        let wrong = read("/counter/left", "3 x", 9, stat(1, 9, 2, "3 x"));
        assert_eq!(findings(vec![count(5, 1), wrong], "1 x").wrong.len(), 1);
    }
}
