//! Submits requests to the core.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use herdsman_node::{ClientRequest, Input};
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{JuteReader, OpCode, ReadRequest, Request};
use herdsman_tree::Tree;

use super::serve::{Route, header_of};
use super::{Connection, EndReason};
use crate::clients::intake::Intake;

/// Maximum number of requests that one connection submits under one lock.
const BATCH_MAX: usize = 64;
/// A read whose reply is longer does not go to the core: only here do replies wait for a slow client. The writes before
/// it may make the reply longer; for that the core has its own limit (`Outputs::is_large`).
const REPLY_BYTES_MAX: usize = 4096;

/// Requests to be submitted.
#[derive(Default)]
struct SubmitBatch<'a> {
    inputs: Vec<Input<'a>>,
    /// Their size in the intake.
    bytes: usize,
}

impl Connection {
    /// Submits the requests at the front of the intake to the core, which answers through the outbox.
    pub(super) fn submit_arrived(&mut self) -> Result<ControlFlow<()>, EndReason> {
        let now_us = self.shared.core.clock.monotonic_us();
        // Requests borrow from the intake while everything else here changes.
        let mut intake = std::mem::replace(&mut self.intake, self.shared.settings.intake());
        let mut batch = SubmitBatch::default();
        let collected = self.collect_batch(&intake, now_us, &mut batch);
        let SubmitBatch { inputs, bytes } = batch;
        let is_empty = inputs.is_empty();
        self.submit(now_us, inputs);
        intake.consume_bytes(bytes);
        self.intake = intake;
        collected?;
        Ok(if is_empty { self.hold() } else { ControlFlow::Continue(()) })
    }

    /// The front of the intake as inputs for the core. Empty if it begins with a read that must be answered
    /// here and not before its turn.
    fn collect_batch<'a>(
        &mut self,
        intake: &'a Intake,
        now_us: u64,
        batch: &mut SubmitBatch<'a>,
    ) -> Result<(), EndReason> {
        let core = Arc::clone(&self.shared.core);
        let mut tree = None;
        for payload in intake.frames() {
            let payload = payload?;
            let (header, route) = header_of(payload)?;
            let is_full = batch.inputs.len() == BATCH_MAX
                || (!batch.inputs.is_empty() && self.is_throttled());
            if is_full {
                break;
            }
            match route {
                Route::Core => self.check_large(payload.len())?,
                Route::Read => {
                    let tree = tree.get_or_insert_with(|| core.tree());
                    if !may_follow_writes(tree, header.op, &payload[8..]) {
                        break;
                    }
                }
                Route::Auth | Route::Unknown => break,
            }
            self.note_received();
            batch.inputs.push(self.take_input(header, route, payload, now_us)?);
            batch.bytes += Intake::frame_bytes(payload);
        }
        Ok(())
    }

    /// Converts a request into an input of the core.
    fn take_input<'a>(
        &mut self,
        header: RequestHeader,
        route: Route,
        payload: &'a [u8],
        now_us: u64,
    ) -> Result<Input<'a>, EndReason> {
        let op = OpCode::from_code(header.op).ok_or(EndReason::Undecodable("op"))?;
        let (conn, xid, body) = (self.client.id, header.xid, &payload[8..]);
        let request =
            if route == Route::Read { ClientRequest::Read(op) } else { self.decode(op, body) };
        self.in_flight += 1;
        self.shared.core.stats.outstanding.fetch_add(1, Ordering::Relaxed);
        self.note_submitted(op, xid, payload, now_us);
        Ok(Input::Request { conn, xid, request, body })
    }

    fn decode<'a>(&self, op: OpCode, body: &'a [u8]) -> ClientRequest<'a> {
        let mut reader =
            JuteReader::with_limit(body, self.shared.settings.sizes.record_bytes_max());
        match Request::decode(op, &mut reader) {
            Ok(Request::Write(write)) => ClientRequest::Write(write),
            Ok(Request::Sync { path }) => ClientRequest::Sync { path },
            Ok(Request::CloseSession) => ClientRequest::CloseSession,
            Ok(_) | Err(_) => {
                let (peer, session, op_name) = (self.client.peer, self.session, op.name());
                self.shared.limit_reports.malformed.info(format_args!(
                    "undecodable {op_name} request from {peer} in session {session}"
                ));
                ClientRequest::Malformed(op)
            }
        }
    }

    fn submit(&mut self, now_us: u64, inputs: Vec<Input<'_>>) {
        if inputs.is_empty() {
            return;
        }
        let count = inputs.len();
        self.count_submitted_bytes();
        self.touched_ms = now_us / 1000;
        let core = &self.shared.core;
        core.step_all_in_turn(self.client.thread, inputs.into_iter());
        self.submitted.note_prepared(count, core.clock.monotonic_us());
        self.take_outbox();
    }

    /// Enforces `largeRequestMaxBytes`: a request beyond the limit closes the connection.
    fn check_large(&mut self, bytes: usize) -> Result<(), EndReason> {
        let settings = &self.shared.settings;
        let bytes = bytes as u64;
        if settings.large_request_bytes_min.is_none_or(|min| bytes < min) {
            return Ok(());
        }
        let before = self.shared.large_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.large_bytes += bytes;
        if before + bytes > settings.large_requests_bytes_max {
            return Err(EndReason::TooManyLargeBytes);
        }
        Ok(())
    }
}

/// Whether a read may follow writes of its session through the core.
fn may_follow_writes(tree: &Tree, op: i32, body: &[u8]) -> bool {
    match OpCode::from_code(op).map(|op| Request::decode(op, &mut JuteReader::new(body))) {
        // A rejected watch is logged where reads are answered: see `reads`.
        Some(Ok(Request::Read(request))) if tree.limits_watches() && sets_watch(&request) => false,
        Some(Ok(Request::Read(request))) => tree.reply_fits(&request, REPLY_BYTES_MAX),
        // A ping, or a request that is answered with an error.
        _ => true,
    }
}

fn sets_watch(request: &ReadRequest<'_>) -> bool {
    match request {
        ReadRequest::Exists { watch, .. }
        | ReadRequest::GetData { watch, .. }
        | ReadRequest::GetChildren { watch, .. } => *watch,
        _ => false,
    }
}
