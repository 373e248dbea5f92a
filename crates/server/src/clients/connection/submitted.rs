//! Requests of one connection in the core, in order: their durations, and their outcomes.
//!
//! In: each request when it is submitted to the core, and the replies, which are in the same order. Out:
//! durations, lines of the audit log and of the log of slow requests. All of it happens on the connection's
//! thread, outside every lock: replies are often taken while the tree is locked, so
//! log lines are written afterwards, before the replies are sent. With both logs disabled, a request
//! costs an entry in a queue and no copy; the queue is as long as the core's queue of this
//! connection's requests.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use herdsman_node::io::CloseReason;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{Id, JuteReader, OpCode, Xid};
use tokio::time::Instant;

use super::{Connection, EndReason, LINGER};
use crate::clients::outbox::{CloseCause, TakenOutput};
use crate::operators::audit::{self, Answer};
use crate::operators::slow_requests::SlowRequest;

/// An empty queue keeps capacity for this many.
const IDLE_MAX: usize = 64;
/// A request that is kept for the log of slow requests only is truncated to this: its path is at the beginning.
const HEAD_BYTES: usize = 1024;

/// A request in the core.
#[derive(Debug)]
struct Submitted {
    op: OpCode,
    xid: Xid,
    bytes: usize,
    /// Bytes kept until it is answered.
    held_bytes: u64,
    arrived_us: u64,
    prepared_us: u64,
    /// The payload, if there may be a log line about it.
    kept: Option<Bytes>,
    /// The requester, for the audit log.
    ids: Option<Arc<[Id]>>,
}

/// Requests in the core, oldest first.
#[derive(Debug, Default)]
pub(super) struct SubmittedQueue {
    requests: VecDeque<Submitted>,
    /// Bytes kept of all of them.
    bytes: u64,
    /// Replies taken from the outbox since the last call of `note_answers`.
    taken: Vec<TakenAnswers>,
}

/// Replies that were taken from the outbox.
#[derive(Debug)]
struct TakenAnswers {
    count: usize,
    /// Their range in the output, with events between them.
    frames: Range<usize>,
    /// All remaining requests are rejected without a reply: the session has moved to another connection.
    refused: bool,
}

impl SubmittedQueue {
    /// Bytes kept of the requests in the queue.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that the core has accepted the last requests, and has prepared them if it could.
    pub(super) fn note_prepared(&mut self, count: usize, now_us: u64) {
        for request in self.requests.iter_mut().rev().take(count) {
            request.prepared_us = now_us;
        }
    }

    /// Records that replies were moved from the outbox to the output.
    pub(super) fn answers_taken(&mut self, taken: &TakenOutput, frames: Range<usize>) {
        let refused = taken.closing == Some(CloseCause::Core(CloseReason::SessionMoved));
        if taken.answered > 0 || refused {
            self.taken.push(TakenAnswers { count: taken.answered, frames, refused });
        }
    }

    fn pop(&mut self) -> Option<Submitted> {
        let first = self.requests.pop_front();
        self.bytes -= first.as_ref().map_or(0, |request| request.held_bytes);
        if self.requests.is_empty() && self.requests.capacity() > IDLE_MAX {
            self.requests = VecDeque::new();
        }
        first
    }
}

impl Connection {
    /// Records a request that is about to be submitted to the core.
    pub(super) fn note_submitted(&mut self, op: OpCode, xid: Xid, payload: &[u8], now_us: u64) {
        let core = &self.shared.core;
        let (kept, ids) = if core.audit().is_some() {
            (Some(Bytes::copy_from_slice(payload)), Some(Arc::clone(&self.ids)))
        } else if core.slow_requests.is_on() {
            (Some(head(payload)), None)
        } else {
            (None, None)
        };
        let (bytes, arrived_us, prepared_us) = (payload.len(), now_us, now_us);
        let held_bytes = (bytes + self.forwarded_ids_bytes()) as u64;
        let request = Submitted { op, xid, bytes, held_bytes, arrived_us, prepared_us, kept, ids };
        self.submitted.bytes += held_bytes;
        self.submitted.requests.push_back(request);
    }

    /// Logs the replies that are in the output now.
    pub(super) fn note_answers(&mut self) {
        if self.submitted.taken.is_empty() {
            return;
        }
        let now_us = self.shared.core.clock.monotonic_us();
        let mut all = std::mem::take(&mut self.submitted.taken);
        for TakenAnswers { count, frames, refused } in all.drain(..) {
            self.note_taken(count, frames, now_us);
            while refused && let Some(request) = self.submitted.pop() {
                self.audit(&request, &Answer::Refused);
            }
        }
        self.submitted.taken = all;
        self.count_submitted_bytes();
    }

    fn note_taken(&mut self, count: usize, frames: Range<usize>, now_us: u64) {
        let is_audited = self.shared.core.audit().is_some();
        let mut read = 0;
        for _ in 0..count {
            let Some(request) = self.submitted.pop() else { return };
            self.note_answered(&request, now_us);
            if is_audited {
                let frames = self.output.get(frames.clone()).unwrap_or_default();
                let mut frames = Frames(frames.get(read..).unwrap_or_default());
                let before = frames.0.len();
                let answer = frames.answer_to(request.xid);
                read += before - frames.0.len();
                self.audit(&request, &answer);
            }
        }
    }

    fn note_answered(&self, request: &Submitted, now_us: u64) {
        let core = &self.shared.core;
        let took_us = now_us.saturating_sub(request.arrived_us);
        let durations = &core.stats.durations;
        let histogram = if request.op.is_write() { &durations.write } else { &durations.read };
        histogram.add_us(took_us, 1);
        self.tell_if_slow(request, now_us, "committed");
    }

    fn tell_if_slow(&self, request: &Submitted, now_us: u64, last_stage: &'static str) {
        let core = &self.shared.core;
        let Submitted { op, arrived_us, prepared_us, .. } = *request;
        let took_us = now_us.saturating_sub(arrived_us);
        if !core.slow_requests.is_slow(took_us) {
            return;
        }
        core.stats.slow_requests.add(1);
        let stages = [
            ("prepared", prepared_us.saturating_sub(arrived_us)),
            (last_stage, now_us.saturating_sub(prepared_us)),
        ];
        let body = request.kept.as_deref().and_then(|payload| payload.get(8..));
        let (body, bytes) = (body.unwrap_or_default(), request.bytes);
        let (session, peer) = (self.session, self.client.peer);
        core.slow_requests
            .log(now_us, &SlowRequest { op, body, bytes, session, peer, took_us, stages: &stages });
    }

    fn audit(&self, request: &Submitted, answer: &Answer<'_>) {
        let (Some(audit), Some(payload), Some(ids)) =
            (self.shared.core.audit(), &request.kept, &request.ids)
        else {
            return;
        };
        let settings = &self.shared.settings;
        let client = audit::Client {
            session: self.session,
            ids,
            address: self.client.peer.ip(),
            schemes: &settings.schemes,
        };
        let field_bytes_max = settings.sizes.record_bytes_max();
        audit.answered(
            &client,
            &audit::AuditedRequest { op: request.op, payload, field_bytes_max },
            answer,
        );
    }

    /// Waits for the answers to requests that a client has left behind, up to a limit: until then they count as its
    /// requests in flight, and its connection as one of its address. Otherwise clients that disconnect and connect
    /// again could send more than the log takes, and fill our memory or the link to the leader. Also, the outcome of
    /// changes belongs in the audit log.
    pub(super) async fn await_last_answers(&mut self, ended: &EndReason) {
        if self.shared.core.audit().is_none() && ended.ends_answers() {
            return;
        }
        let deadline = Instant::now() + LINGER;
        while !self.submitted.requests.is_empty() {
            self.output.clear();
            self.written = 0;
            self.take_outbox();
            self.note_answers();
            let is_stopping = self.shared.stopping.load(Ordering::Acquire);
            let is_over = self.ended.as_ref().is_some_and(EndReason::ends_answers);
            if is_stopping || is_over || self.submitted.requests.is_empty() {
                return;
            }
            tokio::select! {
                () = self.client.outbox.filled() => {}
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }

    /// The connection has ended: replies still in the core will not be delivered.
    pub(super) fn give_up_submitted(&mut self) {
        let now_us = self.shared.core.clock.monotonic_us();
        while let Some(request) = self.submitted.pop() {
            self.tell_if_slow(&request, now_us, "given up after");
            self.audit(&request, &Answer::Unknown);
        }
    }
}

/// The part of a request that the log of slow requests shows.
fn head(payload: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&payload[..payload.len().min(HEAD_BYTES)])
}

/// Encoded frames.
struct Frames<'a>(&'a [u8]);

impl<'a> Frames<'a> {
    /// The payload of the next frame.
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        let (payload, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(payload)
    }

    /// The reply to a request; skips events before it.
    fn answer_to(&mut self, xid: Xid) -> Answer<'a> {
        while let Some(payload) = self.next() {
            let mut reader = JuteReader::new(payload);
            match ReplyHeader::decode(&mut reader) {
                Ok((replied, _, 0)) if replied == xid => return Answer::Done(reader.rest()),
                Ok((replied, _, _)) if replied == xid => return Answer::Refused,
                Ok(_) | Err(_) => {}
            }
        }
        // Too much was queued for a client that did not read.
        Answer::Unknown
    }
}
