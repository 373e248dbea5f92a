//! Requests of an established session. One function keeps the branches; the pieces are straight.

use std::ops::ControlFlow;

use herdsman_node::Input;
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ErrorCode, JuteReader, OpCode, Zxid, reply};

use super::{Connection, EndReason};

/// Where a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Answered here, from the tree.
    Read,
    /// Takes its turn in the core.
    Core,
    /// Answered at once, before anything that waits.
    Auth,
    /// Not ours: answered with an error, then the connection closes.
    Unknown,
}

fn route(op: Option<OpCode>) -> Route {
    match op {
        Some(OpCode::Auth | OpCode::Sasl) => Route::Auth,
        Some(op) if op.is_write() || op == OpCode::Sync => Route::Core,
        // Inside a multi only, or only between servers.
        None
        | Some(OpCode::Check | OpCode::Error | OpCode::CreateSession | OpCode::DeleteContainer) => {
            Route::Unknown
        }
        Some(_) => Route::Read,
    }
}

pub(super) fn header_of(payload: &[u8]) -> Result<(RequestHeader, Route), EndReason> {
    let header = RequestHeader::decode(&mut JuteReader::new(payload))
        .map_err(|_| EndReason::Undecodable("request header"))?;
    Ok((header, route(OpCode::from_code(header.op))))
}

impl Connection {
    /// Serves what has arrived, as far as order and limits allow.
    pub(super) fn serve(&mut self) -> Result<(), EndReason> {
        self.held = false;
        // Its next signs of life wait for us. What brings us here is that it reads, or that it is answered.
        if self.is_output_full() || self.is_throttled() {
            self.touch();
        }
        while !self.is_output_full() && self.stage == super::Stage::Serving {
            if self.is_throttled() || self.serve_arrived()?.is_break() {
                break;
            }
        }
        self.release_room();
        self.note_waiting();
        let queued = self.in_flight;
        self.client.stats.lock().queued = queued;
        Ok(())
    }

    /// A sign of life, told to the core in steps so that reads need not take its lock. Only whole requests
    /// are such: who sends one byte a second loses its session, and its connection with it, as in Apache.
    fn touch(&mut self) {
        let now_ms = self.shared.core.clock.monotonic_ms();
        if now_ms.saturating_sub(self.touched_ms) >= self.shared.settings.touch_step_ms {
            self.touched_ms = now_ms;
            self.shared.core.step(Input::Touch { conn: self.client.id });
        }
    }

    /// Serves the next frame of the intake, if its turn has come; a run of reads under one guard of the tree,
    /// a run of writes and of reads that follow them in one turn of the core.
    fn serve_arrived(&mut self) -> Result<ControlFlow<()>, EndReason> {
        let Some(payload) = self.intake.peek()? else { return Ok(ControlFlow::Break(())) };
        let bytes = payload.len();
        let (header, route) = header_of(payload)?;
        self.touch();
        if self.in_flight == 0 && self.has_waited_too_long(header) {
            self.refuse_throttled(header, bytes);
            return Ok(ControlFlow::Continue(()));
        }
        if self.must_log_in && route != Route::Auth {
            return Err(self.refuse_unauthenticated(header));
        }
        match (route, self.in_flight) {
            (Route::Read, 0) => self.serve_reads(),
            (Route::Read | Route::Core, _) => self.submit_arrived(),
            (Route::Unknown, 0) => self.refuse_unknown(header),
            (Route::Unknown, _) => Ok(self.hold()),
            (Route::Auth, _) => {
                self.note_received();
                let payload = self.intake.take(bytes);
                self.authenticate(header, &payload)?;
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    /// The next frame of the intake waits for the answers to those before it, and so does all behind it.
    pub(super) fn hold(&mut self) -> ControlFlow<()> {
        self.held = true;
        ControlFlow::Break(())
    }

    /// Nothing is read while something waits, so all that is here has waited as long.
    fn note_waiting(&mut self) {
        let is_wanted = self.shared.settings.op_wait_ms_max.is_some();
        if is_wanted && self.waiting_since_us.is_none() && (self.held || self.is_throttled()) {
            self.waiting_since_us = Some(self.shared.core.clock.monotonic_us());
        }
    }

    /// `throttled_op_wait_time`: what waited too long is not served any more. Not asked while others are with
    /// the core: this answer would overtake theirs.
    fn has_waited_too_long(&self, header: RequestHeader) -> bool {
        let (Some(max), Some(since_us)) =
            (self.shared.settings.op_wait_ms_max, self.waiting_since_us)
        else {
            return false;
        };
        let waited_us = self.shared.core.clock.monotonic_us().saturating_sub(since_us);
        let exempt =
            matches!(OpCode::from_code(header.op), Some(OpCode::Ping | OpCode::CloseSession));
        waited_us / 1000 > max && !exempt
    }

    fn refuse_throttled(&mut self, header: RequestHeader, payload_bytes: usize) {
        self.note_received();
        self.intake.consume(payload_bytes);
        let core = &self.shared.core;
        core.stats.throttled_ops.add(1);
        let (peer, session) = (self.client.peer, self.session);
        self.shared.limit_reports.throttled.warn(format_args!(
            "request from {peer} in session {session} refused: it waited too long (throttled_op_wait_time)"
        ));
        core.stats.packets_sent.add(1);
        let zxid = core.tree().last_zxid();
        reply::header_only(&mut self.output, header.xid, zxid, Some(ErrorCode::ThrottledOp));
    }

    pub(super) fn note_received(&self) {
        self.shared.core.stats.packets_received.add(1);
        self.client.stats.lock().received += 1;
    }

    fn refuse_unknown(&mut self, header: RequestHeader) -> Result<ControlFlow<()>, EndReason> {
        self.note_received();
        let (peer, session, op) = (self.client.peer, self.session, header.op);
        self.shared.limit_reports.malformed.warn(format_args!(
            "connection from {peer} in session {session} closed: request of unknown type {op}"
        ));
        reply::header_only(&mut self.output, header.xid, Zxid(-1), Some(ErrorCode::Unimplemented));
        self.shared.core.stats.packets_sent.add(1);
        Err(EndReason::Refused("request of unknown type"))
    }
}
