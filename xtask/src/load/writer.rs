//! One client of a load: its next request, and the evaluation of the replies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::history::{Record, WriteResult};
use super::{Options, ROOT, Shared, numbered, register};
use crate::rng::Rng;
use crate::wire::{
    self, Decoder, EPHEMERAL, Op, Reply, SEQUENTIAL, SESSION_EXPIRED, SESSION_MOVED, Session,
    Ticket,
};

/// In a multi's reply in place of an operation that failed.
const FAILED_IN_MULTI: i32 = -1;
const BATCH_MAX: usize = 6;
/// How many of its own nodes a client keeps before it mostly deletes.
const NODES_KEPT: usize = 40;
const CLOSE_MAX: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(10);

/// A client.
pub(super) struct Writer {
    name: String,
    /// The registers of the other clients.
    others: Vec<String>,
    addresses: Vec<String>,
    options: Options,
    shared: Arc<Shared>,
    rng: Rng,
    session: Option<Session>,
    ticket: Ticket,
    /// The newest zxid in any reply of this session.
    newest_zxid: i64,
    /// The values that this session last read in the others' registers.
    seen: BTreeMap<String, u64>,
    /// Its own nodes that certainly exist.
    kept: Vec<String>,
    count: u64,
    record: Record,
}

/// One request.
#[derive(Clone, Debug)]
enum Step {
    Create { path: String, value: String },
    Pair { one: String, other: String, value: String },
    Numbered { value: String },
    Ephemeral { path: String },
    Set { value: String },
    Delete { path: String },
    ReadOwn,
    ReadOther { path: String },
}

impl Writer {
    /// Creates client `number` of the named ones.
    pub fn new(
        number: usize,
        names: &[String],
        addresses: &[String],
        options: Options,
        shared: Arc<Shared>,
    ) -> Writer {
        let name = names[number].clone();
        let others = names.iter().filter(|other| **other != name);
        let mut record = Record::default();
        record.note(&register(&name), Some("0".into()), WriteResult::Acknowledged);
        Writer {
            others: others.map(|other| register(other)).collect(),
            addresses: addresses.to_vec(),
            options,
            shared,
            rng: Rng::new(options.seed.wrapping_mul(1000).wrapping_add(number as u64)),
            session: None,
            ticket: Ticket::new(options.timeout_ms),
            newest_zxid: 0,
            seen: BTreeMap::new(),
            kept: Vec::new(),
            count: 0,
            record,
            name,
        }
    }

    /// Works until it is stopped, then closes the session.
    pub fn run(mut self) -> Result<Record> {
        let done = self.work();
        done.with_context(|| format!("client {} found a violation", self.name))?;
        self.close_session();
        Ok(self.record)
    }

    fn work(&mut self) -> Result<()> {
        while !self.shared.is_stopped() {
            let Some(mut session) = self.connection() else {
                std::thread::sleep(RETRY);
                continue;
            };
            let batch = self.plan();
            if self.execute(&mut session, batch)? {
                self.session = Some(session);
                self.sometimes_leave();
            } else {
                self.ticket = session.ticket().clone();
            }
            std::thread::sleep(self.rng.between(0, self.options.rest_max_ms));
        }
        Ok(())
    }

    /// Returns the connection, or makes one attempt to connect.
    fn connection(&mut self) -> Option<Session> {
        if let Some(session) = self.session.take() {
            return Some(session);
        }
        let address = self.rng.pick(&self.addresses);
        // As ordinary clients, which leave a silent server before their session expires.
        let patience = Duration::from_millis(self.options.timeout_ms.unsigned_abs().into()) / 3;
        match Session::open(address, &self.ticket, patience) {
            Ok(Some(session)) => {
                self.record.counts.connections += 1;
                self.record.counts.sessions += u64::from(self.ticket.id == 0);
                Some(session)
            }
            Ok(None) => {
                self.record.counts.expired += 1;
                self.forget_session();
                None
            }
            Err(_) => None,
        }
    }

    fn forget_session(&mut self) {
        self.ticket = Ticket::new(self.options.timeout_ms);
        self.newest_zxid = 0;
        self.seen.clear();
    }

    /// Sometimes moves to another server, or ends the session and starts another one.
    fn sometimes_leave(&mut self) {
        let dice = self.rng.below(100);
        if dice < 2 {
            self.ticket = self.session.take().map_or(self.ticket.clone(), |s| s.ticket().clone());
        } else if dice == 2 {
            self.close();
        }
    }

    /// Makes one attempt to close the session; the ticket shows afterwards whether it has ended.
    fn close(&mut self) {
        if let Some(session) = self.session.take() {
            self.ticket = session.ticket().clone();
            if session.close().is_ok() {
                self.forget_session();
            }
        }
    }

    fn close_session(&mut self) {
        let deadline = Instant::now() + CLOSE_MAX;
        if let Some(session) = &self.session {
            self.ticket = session.ticket().clone();
        }
        // A session that cannot be closed in time expires; the check waits for that.
        while self.ticket.id != 0 && Instant::now() < deadline {
            self.session = self.connection();
            self.close();
        }
    }

    fn plan(&mut self) -> Vec<Step> {
        let size = 1 + self.rng.below(BATCH_MAX);
        (0..size).map(|_| self.plan_one()).collect()
    }

    fn plan_one(&mut self) -> Step {
        self.count += 1;
        // Decimal only, so that registers can be compared as numbers.
        let value = self.count.to_string();
        let own = |kind: &str| format!("{ROOT}/{}/{kind}{value}", self.name);
        let dice = self.rng.below(100);
        match dice {
            0..5 => Step::Pair { one: own("a"), other: own("b"), value },
            5..10 => Step::Ephemeral { path: own("e") },
            10..15 => Step::Numbered { value: format!("{}-{value}", self.name) },
            15..40 => Step::Set { value },
            40..70 if self.kept.len() < NODES_KEPT => Step::Create { path: own("n"), value },
            40..85 if !self.kept.is_empty() => {
                let index = self.rng.below(self.kept.len());
                Step::Delete { path: self.kept.swap_remove(index) }
            }
            40..92 => Step::ReadOwn,
            _ if self.others.is_empty() => Step::ReadOwn,
            _ => Step::ReadOther { path: self.rng.pick(&self.others).clone() },
        }
    }

    /// Sends all requests, then reads all replies. False if the connection cannot be used any more.
    fn execute(&mut self, session: &mut Session, batch: Vec<Step>) -> Result<bool> {
        let mut sent = Vec::new();
        for step in batch {
            let op = self.op(&step);
            sent.push(step);
            if session.send(&op).is_err() {
                break;
            }
        }
        let mut connected = true;
        for step in sent {
            let reply = if connected { session.receive().ok() } else { None };
            connected = match reply {
                Some(reply) => self.settle(&step, &reply).with_context(|| format!("{step:?}"))?,
                None => {
                    self.note(&step, WriteResult::Unknown, None);
                    false
                }
            };
        }
        Ok(connected)
    }

    fn op(&self, step: &Step) -> Op {
        match step {
            Step::Create { path, value } => Op::create(path, Some(value.as_bytes()), 0),
            Step::Pair { one, other, value } => Op::Multi(vec![
                Op::create(one, Some(value.as_bytes()), 0),
                Op::create(other, Some(value.as_bytes()), 0),
            ]),
            Step::Numbered { value } => {
                Op::create(&format!("{}/n-", numbered()), Some(value.as_bytes()), SEQUENTIAL)
            }
            Step::Ephemeral { path } => Op::create(path, None, EPHEMERAL),
            Step::Set { value } => Op::set_data(&register(&self.name), Some(value.as_bytes()), -1),
            Step::Delete { path } => Op::delete(path, -1),
            Step::ReadOwn => Op::get_data(&register(&self.name)),
            Step::ReadOther { path } => Op::get_data(path),
        }
    }

    /// Evaluates a reply. Returns false if the client must reconnect.
    fn settle(&mut self, step: &Step, reply: &Reply) -> Result<bool> {
        match reply.err {
            0 => {}
            SESSION_EXPIRED | SESSION_MOVED => {
                self.record.counts.refused += 1;
                return Ok(false);
            }
            err => bail!("error code {err}"),
        }
        ensure!(
            reply.zxid >= self.newest_zxid,
            "time went back: zxid {:#x} after {:#x}",
            reply.zxid,
            self.newest_zxid
        );
        self.newest_zxid = reply.zxid;
        match step {
            Step::Pair { .. } if Decoder::new(&reply.body).int()? == FAILED_IN_MULTI => {
                bail!("rejected, although its paths are new");
            }
            Step::ReadOwn => {
                let value = read_value(reply)?;
                self.record.note_read(&register(&self.name), &Some(value))?;
            }
            Step::ReadOther { path } => self.compare(path, &read_value(reply)?)?,
            _ => self.note(step, WriteResult::Acknowledged, Some(reply)),
        }
        Ok(true)
    }

    /// A register only grows, so a session that sees it shrink has seen an older state.
    fn compare(&mut self, path: &str, value: &str) -> Result<()> {
        let value = value.parse().with_context(|| format!("{path} holds {value:?}"))?;
        let before = self.seen.insert(path.into(), value).unwrap_or_default();
        ensure!(value >= before, "time went back: {path} was {before} and is {value}");
        Ok(())
    }

    fn note(&mut self, step: &Step, result: WriteResult, reply: Option<&Reply>) {
        match step {
            Step::Create { path, value } => {
                self.record.note(path, Some(value.clone()), result);
                if result == WriteResult::Acknowledged {
                    self.kept.push(path.clone());
                }
            }
            Step::Pair { one, other, value } => self.record.note_pair(one, other, value, result),
            Step::Numbered { value } => {
                let path = reply.and_then(|reply| Decoder::new(&reply.body).string().ok());
                self.record.note_numbered(path, value);
            }
            Step::Ephemeral { path } => self.record.note_ephemeral(path),
            Step::Set { value } => self.record.note_set(&register(&self.name), value, result),
            Step::Delete { path } => self.record.note(path, None, result),
            Step::ReadOwn | Step::ReadOther { .. } => return,
        }
        match result {
            WriteResult::Acknowledged => {
                self.record.counts.acknowledged += 1;
                self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            WriteResult::Unknown => self.record.counts.unknown += 1,
        }
    }
}

fn read_value(reply: &Reply) -> Result<String> {
    let (data, _) = wire::decode_data(reply)?;
    Ok(String::from_utf8(data.unwrap_or_default())?)
}
