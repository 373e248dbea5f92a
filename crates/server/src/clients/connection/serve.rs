//! Dispatches the requests of an established session.

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
    /// Ordered by the core.
    Core,
    /// Answered immediately, ahead of waiting requests.
    Auth,
    /// Not a client request: answered with an error, then the connection is closed.
    Unknown,
}

fn route(op: Option<OpCode>) -> Route {
    match op {
        Some(OpCode::Auth | OpCode::Sasl) => Route::Auth,
        Some(op) if op.is_write() || op == OpCode::Sync => Route::Core,
        // Valid inside a multi only, or only between servers.
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
    /// Serves the received requests, as far as order and limits allow.
    pub(super) fn serve(&mut self) -> Result<(), EndReason> {
        self.held = false;
        // Nothing more is read while throttled, so activity is reported here.
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

    /// Reports activity to the core at intervals, so that reads need not lock it. Only complete requests
    /// count: a client that sends one byte per second loses its session, as in Apache.
    fn touch(&mut self) {
        let now_ms = self.shared.core.clock.monotonic_ms();
        if now_ms.saturating_sub(self.touched_ms) >= self.shared.settings.touch_step_ms {
            self.touched_ms = now_ms;
            self.shared.core.step(Input::Touch { conn: self.client.id });
        }
    }

    /// Serves the next requests of the intake, if they may be served: consecutive reads under one guard of the tree,
    /// consecutive writes and the reads that follow them in one batch of the core.
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

    /// Makes the next frame of the intake wait for the replies to earlier requests; all later frames wait too.
    pub(super) fn hold(&mut self) -> ControlFlow<()> {
        self.held = true;
        ControlFlow::Break(())
    }

    /// Records when the intake began to wait: nothing is read meanwhile, so all received requests have waited as long.
    fn note_waiting(&mut self) {
        let is_wanted = self.shared.settings.op_wait_ms_max.is_some();
        if is_wanted && self.waiting_since_us.is_none() && (self.held || self.is_throttled()) {
            self.waiting_since_us = Some(self.shared.core.clock.monotonic_us());
        }
    }

    /// `throttled_op_wait_time`: whether the request has waited too long to be served. Not checked while requests are
    /// in the core, because this reply would overtake theirs.
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
