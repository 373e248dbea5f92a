//! Membership: one client repeatedly removes a server from the ensemble or makes it an observer, and
//! restores it, while all other workloads continue.
//!
//! At most one server is changed at a time, so that old and new majorities overlap whatever the outcome of
//! a request. A reply shows the requested membership, with the request's own zxid as its version, and a
//! read shows no older membership than its zxid allows. The effect on other workloads is covered by their
//! own checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Worker;
use super::check::Findings;
use super::client::Client;
use super::history::{self, Answer, Outcome, Record};
use crate::verdict::CONFIG_NODE;
use crate::wire::Op;

const RESTORE_MAX: Duration = Duration::from_secs(60);
/// How many steps a membership lasts, on average.
const STEPS: usize = 30;
const PARTICIPANT: &str = ":participant";

/// The id of a server that may be out of the ensemble; 0 if all are members.
#[derive(Clone, Default)]
pub struct Absent(Arc<AtomicUsize>);

impl Absent {
    /// Whether this server may be out.
    pub fn is(&self, id: usize) -> bool {
        self.0.load(Ordering::SeqCst) == id
    }
}

struct Changer {
    /// Each server's line in the membership, as `server.1=…:participant;…`.
    servers: Vec<String>,
    absent: Absent,
    /// The change that is requested until it is done.
    pending: Option<Change>,
    /// The change that must follow.
    then: Option<Change>,
}

#[derive(Clone)]
struct Change {
    id: usize,
    op: Op,
    /// Whether the server is a member afterwards.
    is_in: bool,
}

pub fn workers(servers: &[String], absent: &Absent) -> Vec<Box<dyn Worker>> {
    let (servers, absent) = (servers.to_vec(), absent.clone());
    vec![Box::new(Changer { servers, absent, pending: None, then: None })]
}

impl Worker for Changer {
    fn step(&mut self, client: &mut Client) {
        client.super_user = true;
        match self.pending.take() {
            Some(change) => self.try_once(client, change),
            // A membership lasts for a while, so that faults happen during it.
            None if client.rng.below(STEPS) > 0 => drop(client.call(Op::get_data(CONFIG_NODE))),
            None if self.then.is_some() => self.pending = self.then.take(),
            None => self.plan(client),
        }
    }

    fn finish(&mut self, client: &mut Client) {
        let deadline = Instant::now() + RESTORE_MAX;
        while (self.pending.is_some() || self.then.is_some()) && Instant::now() < deadline {
            self.pending = self.pending.take().or_else(|| self.then.take());
            self.step(client);
            client.rest(50);
        }
    }
}

impl Changer {
    fn plan(&mut self, client: &mut Client) {
        let id = 1 + client.rng.below(self.servers.len());
        let line = &self.servers[id - 1];
        let join = |line: String| Op::Reconfig { joining: line, leaving: String::new() };
        let is_in = client.rng.below(2) == 0;
        let out = if is_in {
            join(line.replace(PARTICIPANT, ":observer"))
        } else {
            Op::Reconfig { joining: String::new(), leaving: id.to_string() }
        };
        self.pending = Some(Change { id, op: out, is_in });
        self.then = Some(Change { id, op: join(line.clone()), is_in: true });
    }

    fn try_once(&mut self, client: &mut Client, change: Change) {
        if !change.is_in {
            self.absent.0.store(change.id, Ordering::SeqCst);
        }
        let outcome = client.call(change.op.clone());
        let is_done = matches!(outcome, Some(Outcome::Done { .. }));
        if is_done && change.is_in {
            self.absent.0.store(0, Ordering::SeqCst);
        }
        if !is_done {
            // It may have to wait until enough servers are running; requesting it twice changes nothing.
            client.rest(200);
            self.pending = Some(change);
        }
    }
}

/// Replies show the requested membership, and reads show none that is too old.
pub fn check(records: &[Record]) -> Findings {
    let mut findings = Findings::default();
    let mut changes: BTreeMap<i64, &Op> = BTreeMap::new();
    for (_, call) in history::calls(records) {
        if let (Op::Reconfig { .. }, Outcome::Done { zxid, answer }) = (&call.op, &call.outcome) {
            changes.insert(*zxid, &call.op);
            if let Err(why) = check_reply(&call.op, *zxid, answer) {
                findings.wrong.push(format!("{:?}: {why}: {answer:?}", call.op));
            }
        }
    }
    for (session, call) in history::calls(records) {
        if let (Op::Read { .. }, Outcome::Done { zxid, answer: Answer::Data(data, _) }) =
            (&call.op, &call.outcome)
        {
            let shown = version(&text(data.as_deref()));
            let newest = changes.range(..=zxid).next_back().map(|(zxid, _)| *zxid);
            if shown < newest {
                findings.stale.push(format!(
                    "session {session:#x}: the membership of {shown:x?} at {zxid:#x}, though {newest:x?} was done"
                ));
            }
        }
    }
    findings
}

fn check_reply(op: &Op, zxid: i64, answer: &Answer) -> Result<(), String> {
    let (Op::Reconfig { joining, leaving }, Answer::Data(data, _)) = (op, answer) else {
        return Err("not a reply to this request".into());
    };
    let text = text(data.as_deref());
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    if !joining.is_empty() && !has(joining) {
        return Err("the joining server is missing".into());
    }
    if !leaving.is_empty() && has(&format!("server.{leaving}=")) {
        return Err("the leaving server is still a member".into());
    }
    match version(&text) {
        Some(version) if version == zxid => Ok(()),
        version => Err(format!("version {version:x?} is not the zxid {zxid:#x}")),
    }
}

fn text(data: Option<&[u8]>) -> String {
    String::from_utf8_lossy(data.unwrap_or_default()).into_owned()
}

/// The version in the text of a membership.
fn version(text: &str) -> Option<i64> {
    let version = text.lines().find_map(|line| line.strip_prefix("version="))?;
    i64::from_str_radix(version, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::history::made::*;

    const ONE: &str = "server.1=h:1:2:participant;h:3";
    const TWO: &str = "server.2=h:1:2:participant;h:3";

    fn reply(op: Op, zxid: i64, text: &str) -> (Op, Outcome) {
        (op, done(zxid, Answer::Data(Some(text.into()), stat(0, zxid, -1, text))))
    }

    fn leave() -> Op {
        Op::Reconfig { joining: String::new(), leaving: "2".into() }
    }

    fn join() -> Op {
        Op::Reconfig { joining: TWO.into(), leaving: String::new() }
    }

    #[test]
    fn a_reply_shows_the_requested_membership() {
        let findings = |op, text: &str| check(&history([reply(op, 0x1a, text)]));
        assert!(findings(leave(), &format!("{ONE}\nversion=1a")).is_empty());
        assert_eq!(findings(leave(), &format!("{ONE}\n{TWO}\nversion=1a")).wrong.len(), 1);
        assert_eq!(findings(leave(), &format!("{ONE}\nversion=19")).wrong.len(), 1);
        assert!(findings(join(), &format!("{ONE}\n{TWO}\nversion=1a")).is_empty());
        assert_eq!(findings(join(), &format!("{ONE}\nversion=1a")).wrong.len(), 1);
    }

    #[test]
    fn a_read_shows_the_newest_membership_of_its_zxid() {
        let read = |zxid, text: &str| reply(Op::get_data(CONFIG_NODE), zxid, text);
        let change = || reply(join(), 0x1a, &format!("{TWO}\nversion=1a"));
        let findings = |zxid| check(&history([change(), read(zxid, "version=10")]));
        assert!(findings(0x19).is_empty());
        assert_eq!(findings(0x1a).stale.len(), 1);
    }
}
