//! Everything that clients sent and received, so that every check is a function of it.
//!
//! A [`Record`] belongs to one session of one client; records of one client are in the order in
//! which it sent and received. Nothing is checked here.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::wire::{Decoder, Event, Kind, Op, Stat};

/// In a multi's reply for an operation that failed, or was not executed because another failed.
const ERROR_RESULT: i32 = -1;

/// An observation of a client.
#[derive(Clone, Debug)]
pub struct Record {
    /// The session.
    pub session: i64,
    /// The observation.
    pub note: Note,
}

/// What a client can observe.
#[derive(Clone, Debug)]
pub enum Note {
    /// It has a new connection, on which it presented this session; 0 for a new one.
    Connected(i64),
    /// A request and its outcome.
    Call(Box<Call>),
    /// A watch fired.
    Event(Event),
    /// The servers report that the session has ended.
    Expired,
}

/// A request and its outcome.
#[derive(Clone, Debug)]
pub struct Call {
    /// The request.
    pub op: Op,
    /// When it was sent, since the start of the run.
    pub start: Duration,
    /// When the reply arrived, or the connection was lost.
    pub end: Duration,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was executed.
    Done {
        /// The zxid in the reply's header.
        zxid: i64,
        /// The rest of the reply.
        answer: Answer,
    },
    /// It was rejected and changed nothing.
    Refused {
        /// The zxid in the reply's header.
        zxid: i64,
        /// The error code; in a multi, that of the operation that failed.
        err: i32,
        /// The operation of a multi that failed; otherwise 0.
        at: usize,
    },
    /// The connection was lost before the reply.
    Unknown,
}

/// The record of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An empty one.
    Nothing,
    /// Of getData and reconfig.
    Data(Option<Vec<u8>>, Stat),
    /// Of setData and exists.
    Stat(Stat),
    /// Of create2.
    Created(String, Stat),
    /// Of getChildren2: names in alphabetical order.
    Children(Vec<String>, Stat),
    /// Of multi: one answer for each operation.
    Multi(Vec<Answer>),
    /// Bytes that are not a reply to this request, and why.
    Unreadable(String),
}

impl Outcome {
    /// Decodes a reply.
    pub fn of(op: &Op, zxid: i64, err: i32, body: &[u8]) -> Outcome {
        if err != 0 {
            return Outcome::Refused { zxid, err, at: 0 };
        }
        let mut from = Decoder::new(body);
        let read = match op {
            Op::Multi(ops) => decode_multi(ops, &mut from),
            op => decode(op, &mut from).map(Ok),
        };
        match read {
            Ok(_) if !from.rest().is_empty() => {
                let answer = Answer::Unreadable(format!("{} bytes too many", from.rest().len()));
                Outcome::Done { zxid, answer }
            }
            Ok(Ok(answer)) => Outcome::Done { zxid, answer },
            Ok(Err((at, err))) => Outcome::Refused { zxid, err, at },
            Err(error) => Outcome::Done { zxid, answer: Answer::Unreadable(format!("{error:#}")) },
        }
    }
}

fn decode(op: &Op, from: &mut Decoder) -> Result<Answer> {
    Ok(match op.kind() {
        Kind::GetData | Kind::Reconfig => Answer::Data(from.buffer()?, Stat::decode(from)?),
        Kind::SetData | Kind::Exists => Answer::Stat(Stat::decode(from)?),
        Kind::Create2 => Answer::Created(from.string()?, Stat::decode(from)?),
        Kind::GetChildren2 => {
            let count = from.int()?;
            let names = (0..count).map(|_| from.string()).collect::<Result<Vec<_>>>();
            let mut names = names?;
            names.sort();
            Answer::Children(names, Stat::decode(from)?)
        }
        Kind::AddWatch => {
            ensure!(from.int()? == 0, "addWatch reports a failure");
            Answer::Nothing
        }
        Kind::Sync => {
            from.string()?;
            Answer::Nothing
        }
        Kind::Delete | Kind::Check | Kind::SetWatches2 | Kind::CloseSession => Answer::Nothing,
        kind => bail!("no workload sends {kind:?}"),
    })
}

/// The answers, or the operation that failed and its error.
fn decode_multi(ops: &[Op], from: &mut Decoder) -> Result<Result<Answer, (usize, i32)>> {
    let (mut answers, mut errors) = (Vec::new(), Vec::new());
    for op in ops {
        let kind = from.int()?;
        ensure!(from.take(1)?[0] == 0, "a multi ends early");
        from.int()?;
        if kind == ERROR_RESULT {
            errors.push(from.int()?);
        } else {
            ensure!(kind == op.kind() as i32, "a result of kind {kind} for {:?}", op.kind());
            answers.push(decode(op, from)?);
        }
    }
    ensure!(from.int()? == ERROR_RESULT && from.take(1)?[0] == 1, "a multi without an end");
    from.int()?;
    if errors.is_empty() {
        return Ok(Ok(Answer::Multi(answers)));
    }
    ensure!(answers.is_empty(), "a multi was partially executed");
    let failed = errors.iter().position(|err| *err != 0);
    let failed = failed.map(|at| (at, errors[at]));
    failed.map(Err).ok_or_else(|| anyhow::anyhow!("a multi failed without an error"))
}

impl Call {
    /// The operations of a multi, or the operation itself.
    pub fn ops(&self) -> &[Op] {
        match &self.op {
            Op::Multi(ops) => ops,
            op => std::slice::from_ref(op),
        }
    }

    /// What was executed: the zxid, and each operation with its answer.
    pub fn done(&self) -> Option<(i64, Vec<(&Op, &Answer)>)> {
        match &self.outcome {
            Outcome::Done { zxid, answer: Answer::Multi(answers) } => {
                Some((*zxid, self.ops().iter().zip(answers).collect()))
            }
            Outcome::Done { zxid, answer } => Some((*zxid, vec![(&self.op, answer)])),
            _ => None,
        }
    }

    /// The zxid in the reply's header, if it describes the server's state.
    pub fn zxid(&self) -> Option<i64> {
        match &self.outcome {
            Outcome::Done { zxid, .. } => Some(*zxid),
            Outcome::Refused { zxid, err, .. } if !is_over(*err) => Some(*zxid),
            _ => None,
        }
    }

    /// Whether it could change something.
    pub fn is_write(&self) -> bool {
        use Kind::{CloseSession, Create2, Delete, Multi, Reconfig, SetData};
        matches!(self.op.kind(), Create2 | Delete | SetData | Multi | Reconfig | CloseSession)
    }
}

/// Whether an error is about the session, not about the request.
pub fn is_over(err: i32) -> bool {
    err == crate::wire::SESSION_EXPIRED || err == crate::wire::SESSION_MOVED
}

/// All calls with their sessions, in the order of the records.
pub fn calls(records: &[Record]) -> impl Iterator<Item = (i64, &Call)> {
    records.iter().filter_map(|record| match &record.note {
        Note::Call(call) => Some((record.session, &**call)),
        _ => None,
    })
}

/// Hand-made histories for the tests of checkers.
#[cfg(test)]
pub mod made {
    use super::*;

    /// A Stat of a node created at `czxid` and last set at `mzxid`.
    pub fn stat(czxid: i64, mzxid: i64, version: i32, data: &str) -> Stat {
        Stat {
            head: [czxid, mzxid, 0, 0],
            versions: [version, 0, 0],
            owner: 0,
            sizes: [i32::try_from(data.len()).unwrap(), 0],
            pzxid: czxid,
        }
    }

    /// A call of session 1 that took from `start` to `end`, in milliseconds.
    pub fn call(start: u64, end: u64, op: Op, outcome: Outcome) -> Record {
        let (start, end) = (Duration::from_millis(start), Duration::from_millis(end));
        Record { session: 1, note: Note::Call(Box::new(Call { op, start, end, outcome })) }
    }

    /// A call whose time does not matter: each starts when the previous one has ended.
    pub fn next(records: &mut Vec<Record>, session: i64, op: Op, outcome: Outcome) {
        let start = records.len() as u64 * 10;
        let record = call(start, start + 5, op, outcome);
        records.push(Record { session, ..record });
    }

    /// Executed.
    pub fn done(zxid: i64, answer: Answer) -> Outcome {
        Outcome::Done { zxid, answer }
    }

    /// Rejected.
    pub fn refused(zxid: i64, err: i32) -> Outcome {
        Outcome::Refused { zxid, err, at: 0 }
    }

    /// A create that was executed at this zxid.
    pub fn created(path: &str, data: &str, zxid: i64) -> (Op, Outcome) {
        let answer = Answer::Created(path.into(), stat(zxid, zxid, 0, data));
        (Op::create(path, Some(data.as_bytes()), 0), done(zxid, answer))
    }

    /// A read of this node.
    pub fn read(path: &str, data: &str, zxid: i64, stat: Stat) -> (Op, Outcome) {
        (Op::get_data(path), done(zxid, Answer::Data(Some(data.into()), stat)))
    }

    /// A history of one session.
    pub fn history(calls: impl IntoIterator<Item = (Op, Outcome)>) -> Vec<Record> {
        let mut records = Vec::new();
        for (op, outcome) in calls {
            next(&mut records, 1, op, outcome);
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Encoder;

    #[test]
    fn a_failed_multi_is_rejected_with_its_own_error() {
        let ops = vec![Op::check("/a", 1), Op::set_data("/b", None, 2), Op::check("/c", 3)];
        let mut body = Encoder::default();
        for err in [0, -103, -2] {
            body.int(-1).boolean(false).int(err).int(err);
        }
        body.int(-1).boolean(true).int(-1);
        let outcome = Outcome::of(&Op::Multi(ops), 5, 0, body.bytes());
        assert!(matches!(outcome, Outcome::Refused { zxid: 5, err: -103, at: 1 }), "{outcome:?}");
    }

    #[test]
    fn trailing_bytes_are_detected() {
        let outcome = Outcome::of(&Op::delete("/a", -1), 5, 0, &[0]);
        assert!(matches!(outcome, Outcome::Done { answer: Answer::Unreadable(_), .. }));
    }
}
