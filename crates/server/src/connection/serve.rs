//! Requests of an established session. One function keeps the branches; the pieces are straight.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use herdsman_node::{ClientRequest, Input, Turn};
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{
    ErrorCode, JuteWrite, OpCode, ReadRequest, Reader, Request, Xid, Zxid, reply,
};
use herdsman_tree::{Tree, read};
use tracing::{info, warn};

use super::{Connection, Ended, OUTPUT_BYTES_MAX};

/// Where a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// Answered here, from the tree.
    Read,
    /// Takes its turn in the core.
    Core,
    /// Answered at once, before anything that waits.
    Auth,
    /// Not ours: answered with an error, then the connection closes.
    Unknown,
}

fn door(op: Option<OpCode>) -> Door {
    match op {
        Some(OpCode::Auth | OpCode::Sasl) => Door::Auth,
        Some(
            OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::SetAcl
            | OpCode::Multi
            | OpCode::Reconfig
            | OpCode::Sync
            | OpCode::CloseSession,
        ) => Door::Core,
        // Inside a multi only, or only between servers.
        None
        | Some(OpCode::Check | OpCode::Error | OpCode::CreateSession | OpCode::DeleteContainer) => {
            Door::Unknown
        }
        Some(_) => Door::Read,
    }
}

fn header_of(payload: &[u8]) -> Result<(RequestHeader, Door), Ended> {
    let header = RequestHeader::decode(&mut Reader::new(payload))
        .map_err(|_| Ended::Undecodable("request header"))?;
    Ok((header, door(OpCode::from_code(header.op))))
}

/// A request that waits for its turn.
#[derive(Debug)]
pub(super) struct Parked {
    payload: Bytes,
    since_ms: u64,
}

fn waits_like_a_read(parked: &Parked) -> bool {
    header_of(&parked.payload).is_ok_and(|(_, door)| door != Door::Core)
}

impl Connection {
    /// Serves what was parked and what has arrived, as far as order and limits allow.
    pub(super) fn serve(&mut self) -> Result<(), Ended> {
        self.touch();
        while self.unsent() < OUTPUT_BYTES_MAX && self.stage == super::Stage::Serving {
            if let Some(parked) = self.lane.unpark(waits_like_a_read) {
                self.serve_parked(&parked)?;
                continue;
            }
            if self.is_throttled() || self.serve_arrived()?.is_break() {
                break;
            }
        }
        let queued = self.lane.outstanding();
        self.client.stats.lock().queued = queued;
        Ok(())
    }

    /// A sign of life, told to the core in steps so that reads need not take its lock.
    fn touch(&mut self) {
        let now_ms = self.shared.core.clock.monotonic_ms();
        if now_ms.saturating_sub(self.touched_ms) >= self.shared.settings.touch_step_ms {
            self.touched_ms = now_ms;
            self.shared.core.step(Input::Touch { conn: self.client.id });
        }
    }

    /// Serves or parks the next frame of the intake; a run of reads under one guard of the tree.
    fn serve_arrived(&mut self) -> Result<ControlFlow<()>, Ended> {
        let Some(payload) = self.intake.peek()? else { return Ok(ControlFlow::Break(())) };
        let bytes = payload.len();
        let (header, door) = header_of(payload)?;
        let turn = match door {
            Door::Read => match self.lane.read_turn() {
                Turn::Now => return self.serve_reads(),
                Turn::Later => Turn::Later,
            },
            Door::Core => self.lane.write_turn(),
            Door::Auth => Turn::Now,
            Door::Unknown => self.lane.read_turn(),
        };
        self.note_received();
        let payload = self.intake.take(bytes);
        match turn {
            Turn::Now => self.serve_as(header, door, &payload)?,
            Turn::Later => {
                let since_ms = self.shared.core.clock.monotonic_ms();
                self.lane.park(Parked { payload, since_ms });
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// `throttled_op_wait_time`: what waited too long is not served any more.
    fn serve_parked(&mut self, parked: &Parked) -> Result<(), Ended> {
        let (header, door) = header_of(&parked.payload)?;
        let core = &self.shared.core;
        let waited_ms = core.clock.monotonic_ms().saturating_sub(parked.since_ms);
        let exempt =
            matches!(OpCode::from_code(header.op), Some(OpCode::Ping | OpCode::CloseSession));
        if !exempt && self.shared.settings.op_wait_ms_max.is_some_and(|max| waited_ms > max) {
            core.stats.throttled_ops.add(1);
            core.stats.packets_sent.add(1);
            let zxid = core.tree().last_zxid();
            reply::header_only(&mut self.output, header.xid, zxid, Some(ErrorCode::ThrottledOp));
            return Ok(());
        }
        self.serve_as(header, door, &parked.payload)
    }

    fn serve_as(
        &mut self,
        header: RequestHeader,
        door: Door,
        payload: &Bytes,
    ) -> Result<(), Ended> {
        match door {
            Door::Core => self.submit(header, payload),
            Door::Auth => self.authenticate(header, payload),
            Door::Unknown => self.refuse_unknown(header),
            Door::Read => {
                let core = Arc::clone(&self.shared.core);
                let tree = core.tree();
                // Events first: see `outbox`.
                self.take_outbox();
                self.answer_read(&tree, header, payload);
                Ok(())
            }
        }
    }

    /// The run of reads at the front of the intake.
    fn serve_reads(&mut self) -> Result<ControlFlow<()>, Ended> {
        let core = Arc::clone(&self.shared.core);
        let received_ms = core.clock.monotonic_ms();
        let tree = core.tree();
        // Events first: see `outbox`.
        self.take_outbox();
        let mut answered = 0;
        let mut last = None;
        while self.unsent() < OUTPUT_BYTES_MAX {
            let Some(payload) = self.intake.peek()? else { break };
            let (header, door) = header_of(payload)?;
            if door != Door::Read {
                break;
            }
            let bytes = payload.len();
            let start = self.output.len();
            answer_read(&self.reader(), &tree, header, payload, &mut self.output);
            core.stats.responded((self.output.len() - start) as u64);
            self.intake.consume(bytes);
            answered += 1;
            last = Some(header);
        }
        let zxid = tree.last_zxid();
        drop(tree);
        if let Some(header) = last {
            self.note_reads(answered, header, zxid, received_ms);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn answer_read(&mut self, tree: &Tree, header: RequestHeader, payload: &[u8]) {
        let received_ms = self.shared.core.clock.monotonic_ms();
        let start = self.output.len();
        answer_read(&self.reader(), tree, header, payload, &mut self.output);
        self.shared.core.stats.responded((self.output.len() - start) as u64);
        self.note_answers(1, header, tree.last_zxid(), received_ms);
    }

    fn reader(&self) -> OwnedReader {
        OwnedReader {
            session: self.session,
            watcher: self.client.id.watcher(),
            ids: Arc::clone(&self.ids),
        }
    }

    fn note_reads(&self, count: u64, last: RequestHeader, zxid: Zxid, received_ms: u64) {
        self.shared.core.stats.packets_received.add(count);
        self.client.stats.lock().received += count;
        self.note_answers(count, last, zxid, received_ms);
    }

    fn note_answers(&self, count: u64, last: RequestHeader, zxid: Zxid, received_ms: u64) {
        let core = &self.shared.core;
        let now_ms = core.clock.monotonic_ms();
        let latency_ms = now_ms.saturating_sub(received_ms);
        core.stats.packets_sent.add(count);
        core.stats.latency.add_many(latency_ms, count);
        core.stats.read_latency.add_many(latency_ms, count);
        let mut stats = self.client.stats.lock();
        stats.sent += count;
        stats.latency.add_many(latency_ms, count - 1);
        if let Some(op) = OpCode::from_code(last.op) {
            stats.answered(op, last.xid, zxid, received_ms, now_ms);
        }
    }

    pub(super) fn note_received(&self) {
        self.shared.core.stats.packets_received.add(1);
        self.client.stats.lock().received += 1;
    }

    /// Hands a request to the core, which answers through the outbox.
    fn submit(&mut self, header: RequestHeader, payload: &[u8]) -> Result<(), Ended> {
        self.check_large(payload.len())?;
        let op = OpCode::from_code(header.op).ok_or(Ended::Undecodable("op"))?;
        let mut reader = Reader::with_limit(&payload[8..], self.shared.settings.field_bytes_max);
        let decoded = Request::decode(op, &mut reader);
        let request = match &decoded {
            Ok(Request::Write(write)) => ClientRequest::Write(write.clone()),
            Ok(Request::Sync { path }) => ClientRequest::Sync { path },
            Ok(Request::CloseSession) => ClientRequest::CloseSession,
            Ok(_) | Err(_) => {
                info!(peer = %self.client.peer, "undecodable {} request", op.name());
                ClientRequest::Malformed(op)
            }
        };
        self.lane.submitted();
        self.shared.core.stats.outstanding.fetch_add(1, Ordering::Relaxed);
        self.touched_ms = self.shared.core.clock.monotonic_ms();
        self.shared.core.step(Input::Request { conn: self.client.id, xid: header.xid, request });
        self.take_outbox();
        Ok(())
    }

    /// `largeRequestMaxBytes`: what does not fit costs the connection.
    fn check_large(&mut self, bytes: usize) -> Result<(), Ended> {
        let settings = &self.shared.settings;
        let bytes = bytes as u64;
        if settings.large_request_bytes_min.is_none_or(|min| bytes < min) {
            return Ok(());
        }
        let before = self.shared.large_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.large_bytes += bytes;
        if before + bytes > settings.large_requests_bytes_max {
            self.shared.core.stats.large_requests_rejected.add(1);
            return Err(Ended::Refused("large requests in flight exceed largeRequestMaxBytes"));
        }
        Ok(())
    }

    fn authenticate(&mut self, header: RequestHeader, payload: &[u8]) -> Result<(), Ended> {
        self.shared.core.stats.packets_sent.add(1);
        let op = OpCode::from_code(header.op).ok_or(Ended::Undecodable("op"))?;
        match Request::decode(op, &mut Reader::new(&payload[8..])) {
            Ok(Request::Auth { scheme, credentials }) => {
                let scheme = scheme.into_owned();
                self.present_credentials(header.xid, &scheme, credentials)
            }
            Ok(Request::Sasl { .. }) => {
                // No mechanism is configured: the exchange ends with an empty token, as in Apache.
                _ = reply::reply(&mut self.output, header.xid, Zxid::ZERO, |out| {
                    out.put_buffer(None);
                    Ok(())
                });
                Ok(())
            }
            _ => Err(Ended::Undecodable("auth packet")),
        }
    }

    fn present_credentials(
        &mut self,
        xid: Xid,
        scheme: &str,
        credentials: Option<&[u8]>,
    ) -> Result<(), Ended> {
        let peer = self.client.peer;
        match self.shared.settings.schemes.authenticate(scheme, credentials, peer.ip()) {
            Ok(proven) => {
                info!(%peer, session = %self.session, "authenticated by scheme {scheme}");
                let mut ids = self.ids.to_vec();
                ids.extend(proven.into_iter().filter(|id| !self.ids.contains(id)));
                self.ids = ids.into();
                let ids = Arc::clone(&self.ids);
                self.shared.core.step(Input::Identified { conn: self.client.id, ids });
                reply::header_only(&mut self.output, xid, Zxid::ZERO, None);
                Ok(())
            }
            Err(code) => {
                warn!(%peer, session = %self.session, "authentication by scheme {scheme:?} failed");
                self.shared.core.stats.auth_failed.add(1);
                reply::header_only(&mut self.output, xid, Zxid::ZERO, Some(code));
                Err(Ended::Refused("authentication failed"))
            }
        }
    }

    fn refuse_unknown(&mut self, header: RequestHeader) -> Result<(), Ended> {
        warn!(peer = %self.client.peer, "request of unknown type {}", header.op);
        reply::header_only(&mut self.output, header.xid, Zxid(-1), Some(ErrorCode::Unimplemented));
        self.shared.core.stats.packets_sent.add(1);
        Err(Ended::Refused("request of unknown type"))
    }
}

/// Who reads, detached from the connection so that its output can be written meanwhile.
struct OwnedReader {
    session: herdsman_proto::SessionId,
    watcher: herdsman_tree::Watcher,
    ids: Arc<[herdsman_proto::Id]>,
}

/// Appends the answer to a read. Events that `setWatches` finds precede its reply.
fn answer_read(
    reader: &OwnedReader,
    tree: &Tree,
    header: RequestHeader,
    payload: &[u8],
    output: &mut Vec<u8>,
) {
    let OwnedReader { session, watcher, ids } = reader;
    let reader = read::Reader { session: *session, watcher: *watcher, ids };
    let zxid = tree.last_zxid();
    let op = OpCode::from_code(header.op).expect("only known ops come to this door");
    match Request::decode(op, &mut Reader::new(&payload[8..])) {
        Ok(Request::Ping) => reply::header_only(output, Xid::PING, zxid, None),
        Ok(Request::Read(ReadRequest::SetWatches(watches))) => {
            tree.set_watches(reader, &watches, output);
            reply::header_only(output, header.xid, zxid, None);
        }
        Ok(Request::Read(request)) => {
            _ = reply::reply(output, header.xid, zxid, |out| tree.read(reader, &request, out));
        }
        Ok(_) | Err(_) => {
            reply::header_only(output, header.xid, zxid, Some(ErrorCode::MarshallingError));
        }
    }
}
