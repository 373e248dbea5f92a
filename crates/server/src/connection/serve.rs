//! Requests of an established session. One function keeps the branches; the pieces are straight.

use std::ops::ControlFlow;

use bytes::Bytes;
use herdsman_node::{Input, Turn};
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ErrorCode, OpCode, Reader, Zxid, reply};
use tracing::warn;

use super::{Connection, Ended, OUTPUT_BYTES_MAX};

/// Where a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
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

pub(super) fn header_of(payload: &[u8]) -> Result<(RequestHeader, Door), Ended> {
    let header = RequestHeader::decode(&mut Reader::new(payload))
        .map_err(|_| Ended::Undecodable("request header"))?;
    Ok((header, door(OpCode::from_code(header.op))))
}

/// A request that waits for its turn.
#[derive(Debug)]
pub(super) struct Parked {
    payload: Bytes,
    since_us: u64,
}

pub(super) fn waits_like_a_read(parked: &Parked) -> bool {
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
        let now_us = self.shared.core.clock.monotonic_us();
        match turn {
            Turn::Now => self.serve_as(header, door, &payload, now_us)?,
            Turn::Later => self.lane.park(Parked { payload, since_us: now_us }),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// `throttled_op_wait_time`: what waited too long is not served any more.
    fn serve_parked(&mut self, parked: &Parked) -> Result<(), Ended> {
        let (header, door) = header_of(&parked.payload)?;
        let core = &self.shared.core;
        let waited_ms = core.clock.monotonic_us().saturating_sub(parked.since_us) / 1000;
        let exempt =
            matches!(OpCode::from_code(header.op), Some(OpCode::Ping | OpCode::CloseSession));
        // Not while earlier writes are unanswered: this answer would overtake theirs.
        let may_refuse = !exempt && self.lane.in_flight() == 0;
        if may_refuse && self.shared.settings.op_wait_ms_max.is_some_and(|max| waited_ms > max) {
            core.stats.throttled_ops.add(1);
            core.stats.packets_sent.add(1);
            let zxid = core.tree().last_zxid();
            reply::header_only(&mut self.output, header.xid, zxid, Some(ErrorCode::ThrottledOp));
            return Ok(());
        }
        self.serve_as(header, door, &parked.payload, parked.since_us)
    }

    fn serve_as(
        &mut self,
        header: RequestHeader,
        door: Door,
        payload: &Bytes,
        arrived_us: u64,
    ) -> Result<(), Ended> {
        match door {
            Door::Core => self.submit(header, payload, arrived_us),
            Door::Auth => self.authenticate(header, payload),
            Door::Unknown => self.refuse_unknown(header),
            Door::Read => {
                self.serve_one_read(header, payload, arrived_us);
                Ok(())
            }
        }
    }

    pub(super) fn note_received(&self) {
        self.shared.core.stats.packets_received.add(1);
        self.client.stats.lock().received += 1;
    }

    fn refuse_unknown(&mut self, header: RequestHeader) -> Result<(), Ended> {
        warn!(peer = %self.client.peer, "request of unknown type {}", header.op);
        reply::header_only(&mut self.output, header.xid, Zxid(-1), Some(ErrorCode::Unimplemented));
        self.shared.core.stats.packets_sent.add(1);
        Err(Ended::Refused("request of unknown type"))
    }
}
