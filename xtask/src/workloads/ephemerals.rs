//! Ephemeral nodes of sessions that move between servers on purpose.
//!
//! That a node has the right owner, exists while its session is open and is deleted with it is checked for
//! all histories: no reply may show it missing while the session still wrote, and none may show it after
//! the session's acknowledged end. Here sessions are moved often and sometimes closed, and all of them
//! compete for the same lock: only one session may hold it at a time.

use std::collections::BTreeMap;

use super::Worker;
use super::check::Findings;
use super::client::Client;
use super::history::{self, Answer, Note, Outcome, Record};
use crate::wire::{EPHEMERAL, Kind, Op};

const CLIENTS: usize = 3;
const OWN_MAX: usize = 5;
const OLD_MAX: usize = 5;

struct Holder {
    root: String,
    lock: String,
    /// The session that owns these nodes.
    session: i64,
    own: Vec<String>,
    /// Nodes of earlier sessions, which are or soon will be deleted.
    old: Vec<String>,
}

pub fn workers(root: &str) -> Vec<Box<dyn Worker>> {
    let worker = |_| {
        let holder = Holder {
            root: root.into(),
            lock: lock(root),
            session: 0,
            own: Vec::new(),
            old: Vec::new(),
        };
        Box::new(holder) as Box<dyn Worker>
    };
    (0..CLIENTS).map(worker).collect()
}

fn lock(root: &str) -> String {
    format!("{root}/lock")
}

impl Worker for Holder {
    fn step(&mut self, client: &mut Client) {
        if client.session_id() != self.session {
            self.session = client.session_id();
            self.old.append(&mut self.own);
            self.old.drain(..self.old.len().saturating_sub(OLD_MAX));
        }
        let value = client.unique();
        match client.rng.below(20) {
            0..5 if self.own.len() < OWN_MAX => self.make(client, &value),
            5 => self.drop_one(client),
            6..8 => {
                client.call(Op::list(&self.root));
            }
            8..11 => {
                client.call(Op::create(&self.lock, Some(value.as_bytes()), EPHEMERAL));
            }
            11..13 => {
                client.call(Op::get_data(&self.lock));
            }
            13 => self.unlock(client),
            14..16 => self.look(client),
            16..19 => {
                client.disconnect();
                self.look(client);
            }
            _ => drop(client.close()),
        }
    }
}

impl Holder {
    fn make(&mut self, client: &mut Client, value: &str) {
        let path = format!("{}/{value}", self.root);
        let made = client.call(Op::create(&path, Some(value.as_bytes()), EPHEMERAL));
        // It may have opened the session.
        if matches!(made, Some(Outcome::Done { .. })) && client.session_id() == self.session {
            self.own.push(path);
        }
    }

    fn drop_one(&mut self, client: &mut Client) {
        if let Some(path) = self.own.pop() {
            client.call(Op::delete(&path, -1));
        }
    }

    fn unlock(&self, client: &mut Client) {
        let held = client.call(Op::exists(&self.lock));
        if let Some(Outcome::Done { answer: Answer::Stat(stat), .. }) = held
            && stat.owner == client.session_id()
        {
            client.call(Op::delete(&self.lock, 0));
        }
    }

    /// Reads all nodes of this session and of the earlier ones.
    fn look(&self, client: &mut Client) {
        let paths = self.own.iter().chain(&self.old);
        client.calls(paths.map(|path| Op::get_data(path)).collect());
    }
}

/// No client gets the lock while another holds it: between two acknowledged creates, the first holder has
/// deleted it, or its session may have ended.
pub fn check(records: &[Record], root: &str) -> Findings {
    let mut findings = Findings::default();
    let lock = lock(root);
    let mut taken: BTreeMap<i64, i64> = BTreeMap::new();
    let mut released: Vec<i64> = Vec::new();
    let mut ended: BTreeMap<i64, i64> = BTreeMap::new();
    for record in records {
        match &record.note {
            Note::Expired => drop(ended.insert(record.session, 0)),
            Note::Call(call) => match (&call.op, &call.outcome) {
                (Op::Create { path, .. }, Outcome::Done { zxid, .. }) if *path == lock => {
                    taken.insert(*zxid, record.session);
                }
                (Op::Versioned { path, .. }, Outcome::Done { zxid, .. }) if *path == lock => {
                    released.push(*zxid);
                }
                (Op::Versioned { path, .. }, Outcome::Unknown) if *path == lock => {
                    ended.insert(record.session, 0);
                }
                (Op::CloseSession, Outcome::Done { zxid, .. }) => {
                    ended.entry(record.session).or_insert(*zxid);
                }
                (Op::CloseSession, _) => drop(ended.insert(record.session, 0)),
                _ => {}
            },
            _ => {}
        }
    }
    for ((from, holder), (to, next)) in taken.iter().zip(taken.iter().skip(1)) {
        let was_released = released.iter().any(|zxid| from < zxid && zxid < to);
        let is_ended = ended.get(holder).is_some_and(|zxid| zxid < to);
        if !was_released && !is_ended {
            findings.wrong.push(format!(
                "session {next:#x} got {lock} at {to:#x}, though {holder:#x} has held it since {from:#x}"
            ));
        }
    }
    findings.extend(closed_twice(records));
    findings
}

/// A session whose end was acknowledged has no later acknowledged request.
fn closed_twice(records: &[Record]) -> Findings {
    let mut findings = Findings::default();
    let mut closed: BTreeMap<i64, i64> = BTreeMap::new();
    for (session, call) in history::calls(records) {
        let Outcome::Done { zxid, .. } = call.outcome else { continue };
        if let Some(end) = closed.get(&session) {
            findings.wrong.push(format!(
                "session {session:#x}, closed at {end:#x}, was served at {zxid:#x}: {:?}",
                call.op
            ));
        }
        if call.op.kind() == Kind::CloseSession {
            closed.insert(session, zxid);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::history::made::*;

    fn acquire(session: i64, zxid: i64) -> (i64, Op, Outcome) {
        let answer = Answer::Created("/e/lock".into(), stat(zxid, zxid, 0, ""));
        (session, Op::create("/e/lock", None, EPHEMERAL), done(zxid, answer))
    }

    fn findings(calls: Vec<(i64, Op, Outcome)>) -> Findings {
        let mut records = Vec::new();
        for (session, op, outcome) in calls {
            next(&mut records, session, op, outcome);
        }
        check(&records, "/e")
    }

    #[test]
    fn one_session_at_a_time_holds_the_lock() {
        assert_eq!(findings(vec![acquire(1, 5), acquire(2, 9)]).wrong.len(), 1);
        let delete = (1, Op::delete("/e/lock", 0), done(7, Answer::Nothing));
        assert!(findings(vec![acquire(1, 5), delete, acquire(2, 9)]).is_empty());
        let close = |zxid| (1, Op::CloseSession, done(zxid, Answer::Nothing));
        assert!(findings(vec![acquire(1, 5), close(7), acquire(2, 9)]).is_empty());
        assert_eq!(findings(vec![acquire(1, 5), close(10), acquire(2, 9)]).wrong.len(), 1);
        let maybe = (1, Op::CloseSession, Outcome::Unknown);
        assert!(findings(vec![acquire(1, 5), maybe, acquire(2, 9)]).is_empty());
    }

    #[test]
    fn a_closed_session_is_not_served() {
        let close = (1, Op::CloseSession, done(7, Answer::Nothing));
        let (op, outcome) = created("/e/a", "", 8);
        assert_eq!(findings(vec![close, (1, op, outcome)]).wrong.len(), 1);
    }
}
