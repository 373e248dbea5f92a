//! Registers: reads, writes, and writes on condition of a version, by several clients at once.
//!
//! Each write's Stat has its version, so no search for an order is needed: versions are the order. That
//! they form one sequence, that each has one value, and that a rejection is justified, is checked for all
//! histories; this check is that the order of versions is the real-time order of the writes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Worker;
use super::check::Findings;
use super::client::Client;
use super::history::{self, Answer, Outcome, Record};
use crate::wire::Op;

const REGISTERS: usize = 2;
const CLIENTS: usize = 3;

struct Reader {
    registers: Vec<String>,
    /// The version that this client saw last, for each register. Other clients may have changed it.
    versions: Vec<i32>,
}

pub fn prepare(root: &str) -> Vec<Op> {
    paths(root).iter().map(|path| Op::create(path, Some(b"0"), 0)).collect()
}

pub fn workers(root: &str) -> Vec<Box<dyn Worker>> {
    let worker = |_| {
        let reader = Reader { registers: paths(root), versions: vec![0; REGISTERS] };
        Box::new(reader) as Box<dyn Worker>
    };
    (0..CLIENTS).map(worker).collect()
}

fn paths(root: &str) -> Vec<String> {
    (0..REGISTERS).map(|number| format!("{root}/r{number}")).collect()
}

impl Worker for Reader {
    fn step(&mut self, client: &mut Client) {
        let index = client.rng.below(REGISTERS);
        let path = self.registers[index].clone();
        let version = self.versions[index];
        let dice = client.rng.below(10);
        let set = |client: &mut Client, version| {
            Op::set_data(&path, Some(client.unique().as_bytes()), version)
        };
        let get = || Op::get_data(&path);
        // Several at once, so that their order in the session is checked too.
        let ops = match dice {
            0..3 => vec![get()],
            3 => vec![Op::exists(&path)],
            4..7 => vec![set(client, version)],
            7 => vec![set(client, -1)],
            8 => vec![get(), set(client, version), get()],
            _ => vec![set(client, version), set(client, version + 1), get()],
        };
        for outcome in client.calls(ops) {
            if let Outcome::Done { answer: Answer::Data(_, stat) | Answer::Stat(stat), .. } =
                outcome
            {
                self.versions[index] = stat.version();
            }
        }
    }
}

/// A write that started after the reply to another one has the higher version.
pub fn check(records: &[Record]) -> Findings {
    let mut findings = Findings::default();
    let mut writes: BTreeMap<&str, Vec<(Duration, Duration, i32)>> = BTreeMap::new();
    for (_, call) in history::calls(records) {
        if let Op::SetData { path, .. } = &call.op
            && let Outcome::Done { answer: Answer::Stat(stat), .. } = &call.outcome
        {
            writes.entry(path).or_default().push((call.start, call.end, stat.version()));
        }
    }
    for (path, mut writes) in writes {
        writes.sort_by_key(|(_, _, version)| *version);
        let mut latest_start = Duration::ZERO;
        for (start, end, version) in writes {
            if end < latest_start {
                findings.wrong.push(format!(
                    "{path}: version {version} was acknowledged before a lower one was requested"
                ));
            }
            latest_start = latest_start.max(start);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::history::made::*;

    #[test]
    fn versions_follow_real_time() {
        let write = |start, end, version: i32| {
            let answer = Answer::Stat(stat(1, i64::from(version), version, "x"));
            let set = Op::set_data("/r", Some(b"x"), -1);
            call(start, end, set, done(i64::from(version), answer))
        };
        assert!(check(&[write(0, 10, 2), write(5, 15, 1)]).is_empty());
        assert!(check(&[write(0, 10, 1), write(11, 15, 2)]).is_empty());
        assert_eq!(check(&[write(0, 10, 2), write(11, 15, 1)]).wrong.len(), 1);
    }
}
