//! A client that keeps one session over many connections and records everything.
//!
//! It decides where to connect and when to give up a connection; the workload decides what to send.
//! Watches are set again on every new connection before any other request, as ordinary clients do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::history::{Call, Note, Outcome, Record, is_over};
use crate::rng::Rng;
use crate::server::SUPER_AUTH;
use crate::wire::{CHILDREN_CHANGED, DELETED, Event, Kind, NO_NODE, Op, Session, Ticket, Watches};

const RETRY: Duration = Duration::from_millis(10);
const CLOSE_MAX: Duration = Duration::from_secs(30);
/// The session timeout that clients request.
pub const TIMEOUT_MS: i32 = 6_000;
/// As ordinary clients, which leave a silent server before their session expires.
const REPLY_MAX: Duration = Duration::from_millis(TIMEOUT_MS as u64 / 3);

/// State shared by all clients of one run.
pub struct Shared {
    /// The client addresses of all servers.
    pub addresses: Vec<String>,
    /// When the run started.
    pub began: Instant,
    /// Set to stop the clients.
    pub stop: AtomicBool,
}

/// A client.
pub struct Client {
    number: usize,
    shared: Arc<Shared>,
    /// Counts acknowledged requests, over all clients of the workload.
    acknowledged: Arc<AtomicU64>,
    /// The source of its choices.
    pub rng: Rng,
    session: Option<Session>,
    ticket: Ticket,
    /// Whether it sends the super user's credentials on each connection.
    pub super_user: bool,
    watches: Watches,
    records: Vec<Record>,
    count: u64,
}

impl Client {
    /// Creates client `number` of a workload; it connects with the first request.
    pub fn new(
        number: usize,
        seed: u64,
        shared: Arc<Shared>,
        acknowledged: Arc<AtomicU64>,
    ) -> Client {
        Client {
            number,
            shared,
            acknowledged,
            rng: Rng::new(seed.wrapping_mul(1000).wrapping_add(number as u64)),
            session: None,
            ticket: Ticket::new(TIMEOUT_MS),
            super_user: false,
            watches: Watches::default(),
            records: Vec::new(),
            count: 0,
        }
    }

    /// The session's id; 0 while there is none.
    pub fn session_id(&self) -> i64 {
        self.ticket.id
    }

    /// The watches of this session.
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Returns data that no other request has.
    pub fn unique(&mut self) -> String {
        self.count += 1;
        format!("c{}-{}", self.number, self.count)
    }

    /// Whether the client should stop.
    pub fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Sleeps for up to this long.
    pub fn rest(&mut self, max_ms: u64) {
        std::thread::sleep(self.rng.between(0, max_ms));
    }

    /// Sends one request; `None` if there is no connection.
    pub fn call(&mut self, op: Op) -> Option<Outcome> {
        self.calls(vec![op]).pop()
    }

    /// Sends all requests, then reads all replies. Empty if there is no connection.
    pub fn calls(&mut self, ops: Vec<Op>) -> Vec<Outcome> {
        let Some(mut session) = self.connection() else {
            std::thread::sleep(RETRY);
            return Vec::new();
        };
        let (outcomes, alive) = self.converse(&mut session, ops);
        self.ticket = session.ticket().clone();
        if alive {
            self.session = Some(session);
        }
        outcomes
    }

    fn converse(&mut self, session: &mut Session, ops: Vec<Op>) -> (Vec<Outcome>, bool) {
        let mut sent = Vec::new();
        for op in ops {
            let start = self.shared.began.elapsed();
            let result = session.send(&op);
            sent.push((op, start));
            if result.is_err() {
                break;
            }
        }
        let mut alive = true;
        let mut outcomes = Vec::new();
        for (op, start) in sent {
            let reply = if alive { session.receive().ok() } else { None };
            self.note_events(session.take_events());
            let outcome = match reply {
                Some(reply) => Outcome::of(&op, reply.zxid, reply.err, &reply.body),
                None => Outcome::Unknown,
            };
            alive = match &outcome {
                Outcome::Done { .. } => {
                    self.acknowledged.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Outcome::Refused { err, .. } => !is_over(*err),
                Outcome::Unknown => false,
            };
            keep(&mut self.watches, &op, &outcome);
            let end = self.shared.began.elapsed();
            outcomes.push(outcome.clone());
            self.note(Note::Call(Box::new(Call { op, start, end, outcome })));
        }
        (outcomes, alive)
    }

    fn note(&mut self, note: Note) {
        self.records.push(Record { session: self.ticket.id, note });
    }

    fn note_events(&mut self, events: Vec<Event>) {
        for event in events {
            fire(&mut self.watches, &event);
            self.note(Note::Event(event));
        }
    }

    /// Returns the connection, or makes one attempt to connect.
    fn connection(&mut self) -> Option<Session> {
        if let Some(session) = self.session.take() {
            return Some(session);
        }
        let address = self.rng.pick(&self.shared.addresses).clone();
        match Session::open(&address, &self.ticket, REPLY_MAX) {
            Ok(Some(session)) => self.begin(session),
            Ok(None) => {
                self.note(Note::Expired);
                self.forget_session();
                None
            }
            Err(_) => None,
        }
    }

    /// Sends credentials and watches, which belong to a connection and not to the session.
    fn begin(&mut self, mut session: Session) -> Option<Session> {
        let asked = self.ticket.id;
        self.ticket = session.ticket().clone();
        self.note(Note::Connected(asked));
        if self.super_user && session.add_auth("digest", SUPER_AUTH).is_err() {
            return None;
        }
        if !self.watches.is_empty() {
            let op = Op::SetWatches { since: self.ticket.last_zxid, watches: self.watches.clone() };
            let (_, alive) = self.converse(&mut session, vec![op]);
            self.ticket = session.ticket().clone();
            return alive.then_some(session);
        }
        Some(session)
    }

    fn forget_session(&mut self) {
        self.ticket = Ticket::new(TIMEOUT_MS);
        self.watches = Watches::default();
    }

    /// Closes the connection; the session continues with the next request, at any server.
    pub fn disconnect(&mut self) {
        self.session = None;
    }

    /// Makes one attempt to end the session; true if it has certainly ended.
    pub fn close(&mut self) -> bool {
        let closed = matches!(self.call(Op::CloseSession), Some(Outcome::Done { .. }));
        if closed {
            self.session = None;
            self.forget_session();
        }
        closed
    }

    /// Ends the session and returns the records.
    pub fn finish(mut self) -> Vec<Record> {
        let deadline = Instant::now() + CLOSE_MAX;
        while self.ticket.id != 0 && Instant::now() < deadline {
            self.close();
        }
        if self.ticket.id != 0 {
            // It expires; the final check waits for that.
            self.note(Note::Expired);
        }
        self.records
    }
}

/// Records the watch that a request has set.
fn keep(watches: &mut Watches, op: &Op, outcome: &Outcome) {
    let done = matches!(outcome, Outcome::Done { .. });
    let absent = matches!(outcome, Outcome::Refused { err: NO_NODE, .. });
    let (paths, path) = match op {
        Op::AddWatch { path } if done => (&mut watches.recursive, path),
        Op::Read { kind: Kind::GetChildren2, path, watch: true } if done => {
            (&mut watches.child, path)
        }
        Op::Read { path, watch: true, .. } if done => (&mut watches.data, path),
        Op::Read { kind: Kind::Exists, path, watch: true } if absent => (&mut watches.exist, path),
        _ => return,
    };
    paths.insert(path.clone());
}

/// Removes the watches that an event has used up.
fn fire(watches: &mut Watches, event: &Event) {
    let Event { kind, path, .. } = event;
    if *kind != CHILDREN_CHANGED {
        watches.data.remove(path);
        watches.exist.remove(path);
    }
    if *kind == CHILDREN_CHANGED || *kind == DELETED {
        watches.child.remove(path);
    }
}
