//! Requests that take their turn in the core.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use herdsman_node::{ClientRequest, Input};
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{OpCode, Reader, Request};
use tracing::info;

use super::{Connection, Ended};

impl Connection {
    /// Hands a request to the core, which answers through the outbox.
    pub(super) fn submit(
        &mut self,
        header: RequestHeader,
        payload: &Bytes,
        arrived_us: u64,
    ) -> Result<(), Ended> {
        self.check_large(payload.len())?;
        let op = OpCode::from_code(header.op).ok_or(Ended::Undecodable("op"))?;
        let mut reader = Reader::with_limit(&payload[8..], self.shared.settings.field_bytes_max);
        let request = match Request::decode(op, &mut reader) {
            Ok(Request::Write(write)) => ClientRequest::Write(write),
            Ok(Request::Sync { path }) => ClientRequest::Sync { path },
            Ok(Request::CloseSession) => ClientRequest::CloseSession,
            Ok(_) | Err(_) => {
                info!(peer = %self.client.peer, "undecodable {} request", op.name());
                ClientRequest::Malformed(op)
            }
        };
        self.lane.submitted();
        self.shared.core.stats.outstanding.fetch_add(1, Ordering::Relaxed);
        let begun_us = self.shared.core.clock.monotonic_us();
        self.touched_ms = begun_us / 1000;
        let (conn, xid, body) = (self.client.id, header.xid, &payload[8..]);
        self.note_submitted(op, xid, payload, [arrived_us, begun_us]);
        self.shared
            .core
            .step_in_turn(self.client.thread, Input::Request { conn, xid, request, body });
        self.submitted.handed_on(self.shared.core.clock.monotonic_us());
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
}
