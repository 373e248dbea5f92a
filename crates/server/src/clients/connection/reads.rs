//! Reads: answered immediately from the shared tree.

use std::ops::ControlFlow;
use std::sync::Arc;

use herdsman_node::reads;
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ErrorCode, JuteReader, OpCode, ReadRequest, Request, Zxid};
use herdsman_runtime::LimitedLog;
use herdsman_tree::{Tree, read};

use super::serve::{Route, header_of};
use super::{Connection, EndReason, OUTPUT_BYTES_MAX, Stage};
use crate::clients::intake::Intake;
use crate::core::Core;
use crate::operators::slow_requests::{self, SlowRequest};
use crate::operators::stats::{LENGTH_BYTES, Series};
use crate::start::settings;

/// A larger reply may have taken long.
const LARGE_REPLY_BYTES: u64 = 64 * 1024;
/// Bytes of a slow read that are kept, to show its path.
const SHOWN_BYTES_MAX: usize = 1024;

/// Reads that are answered under one guard.
struct ReadBatch<'a> {
    core: &'a Core,
    /// Limits the lines about replies that are too large.
    large_replies: &'a LimitedLog,
    /// When the first of them arrived.
    arrived_us: u64,
    /// When the tree could be read.
    guarded_us: u64,
    /// Reply sizes without the length fields.
    reply_bytes: Series,
    last: Option<(RequestHeader, u64)>,
    /// Watches that were rejected.
    watches: RefusedWatches,
    /// Replies that were too large: their number, and what the first of them answers, which is logged when the tree is
    /// unlocked.
    too_large: (u64, Option<LargeReply>),
    /// The first slow read, which is logged when the tree is unlocked.
    slow: Option<SlowRead>,
}

/// Requests rejected because they would set too many watches (`herdsman.watchesPerSessionMax`).
#[derive(Default)]
struct RefusedWatches {
    count: u64,
    /// One of them registers watches again after a reconnect. Clients ignore the answer to that, so the
    /// connection ends: a client must not rely on watches that it does not have.
    again: bool,
}

/// A reply that is not sent.
struct LargeReply {
    op: OpCode,
    path: String,
    /// Its size, if that is known without building it. Children are visited for it, so only if it is logged.
    bytes: Option<usize>,
}

/// A read that took long.
struct SlowRead {
    op: OpCode,
    body: Box<[u8]>,
    bytes: usize,
    took_us: u64,
    stages: [(&'static str, u64); 2],
}

impl Connection {
    /// Serves the reads at the front of the intake.
    pub(super) fn serve_reads(&mut self) -> Result<ControlFlow<()>, EndReason> {
        let shared = Arc::clone(&self.shared);
        let core = &*shared.core;
        let arrived_us = core.clock.monotonic_us();
        let tree = core.tree();
        // Events first: see `outbox`. A server that has closed its clients' connections may have another tree.
        self.take_outbox();
        if self.stage != Stage::Serving {
            return Ok(ControlFlow::Break(()));
        }
        let large_replies = &shared.limit_reports.large_replies;
        let mut batch = ReadBatch::begin(core, large_replies, arrived_us);
        let Connection { intake, output, written, session, client, ids, .. } = self;
        let reader = read::ReadCaller { session: *session, watcher: client.id.watcher(), ids };
        batch.note_if_waited(intake)?;
        let mut next = ControlFlow::Continue(());
        while next.is_continue() && output.len() - *written < OUTPUT_BYTES_MAX {
            let Some(payload) = intake.peek()? else { break };
            let (header, route) = header_of(payload)?;
            if route != Route::Read {
                break;
            }
            if batch.answer(reader, &tree, header, payload, output) == Effort::Large {
                batch.note_if_slow(header, payload);
                // Writes, and the other connections of this thread, are served before the next batch.
                next = ControlFlow::Break(());
            }
            let bytes = payload.len();
            intake.consume(bytes);
        }
        let zxid = tree.last_zxid();
        drop(tree);
        core.stats.packets_received.add(batch.reply_bytes.count);
        self.client.stats.lock().received += batch.reply_bytes.count;
        self.note_batch(&batch, zxid);
        self.note_too_large(&batch.too_large);
        self.note_refused(&batch.watches)?;
        Ok(next)
    }

    fn note_refused(&self, watches: &RefusedWatches) -> Result<(), EndReason> {
        if watches.count == 0 {
            return Ok(());
        }
        self.shared.core.stats.watches_refused.add(watches.count);
        let (peer, session) = (self.client.peer, self.session);
        self.shared.limit_reports.watches.warn(format_args!(
            "watch of {peer} in session {session} rejected: limit of herdsman.watchesPerSessionMax reached"
        ));
        if watches.again { Err(EndReason::TooManyWatches) } else { Ok(()) }
    }

    fn note_too_large(&self, (count, first): &(u64, Option<LargeReply>)) {
        let Some(LargeReply { op, path, bytes }) = first else { return };
        self.shared.core.stats.replies_refused.add(*count);
        let (peer, session, op) = (self.client.peer, self.session, op.name());
        let size = bytes.map_or_else(|| "more bytes".to_owned(), |bytes| format!("{bytes} bytes"));
        let limit = settings::reply_bytes_max(&self.shared.config);
        self.shared.limit_reports.large_replies.warn(format_args!(
            "reply to {op} {path:?} of {peer} in session {session} rejected: {size}, limit is {limit} bytes (herdsman.replyBytesMax)"
        ));
    }

    fn note_batch(&self, batch: &ReadBatch<'_>, zxid: Zxid) {
        let Some((last, last_bytes)) = batch.last else { return };
        let core = &self.shared.core;
        let now_us = core.clock.monotonic_us();
        if let Some(SlowRead { op, body, bytes, took_us, stages }) = &batch.slow {
            let (op, bytes, took_us) = (*op, *bytes, *took_us);
            let (session, peer) = (self.session, self.client.peer);
            let slow = SlowRequest { op, body, bytes, session, peer, took_us, stages };
            core.slow_requests.log(now_us, &slow);
        }
        let (received_ms, now_ms) = (batch.arrived_us / 1000, now_us / 1000);
        let latency_ms = now_ms.saturating_sub(received_ms);
        let count = batch.reply_bytes.count;
        core.stats.durations.read.add_us(now_us.saturating_sub(batch.arrived_us), count);
        core.stats.packets_sent.add(count);
        core.stats.responded_many(&batch.reply_bytes, last_bytes);
        core.stats.latency.add_many(latency_ms, count);
        core.stats.read_latency.add_many(latency_ms, count);
        let mut stats = self.client.stats.lock();
        stats.sent += count;
        stats.latency.add_many(latency_ms, count - 1);
        if let Some(op) = OpCode::from_code(last.op) {
            stats.answered(op, last.xid, zxid, received_ms, now_ms);
        }
    }
}

impl<'a> ReadBatch<'a> {
    /// Starts a batch when the tree can be read.
    fn begin(core: &'a Core, large_replies: &'a LimitedLog, arrived_us: u64) -> Self {
        let guarded_us = if core.slow_requests.is_on() {
            core.clock.monotonic_us().max(arrived_us)
        } else {
            arrived_us
        };
        let (reply_bytes, watches) = (Series::default(), RefusedWatches::default());
        ReadBatch {
            core,
            large_replies,
            arrived_us,
            guarded_us,
            reply_bytes,
            last: None,
            watches,
            too_large: (0, None),
            slow: None,
        }
    }

    fn answer(
        &mut self,
        reader: read::ReadCaller<'_>,
        tree: &Tree,
        header: RequestHeader,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) -> Effort {
        let start = output.len();
        let op = OpCode::from_code(header.op).expect("only known ops come to this route");
        let answered = reads::answer(tree, reader, op, header.xid, &payload[8..], output);
        // No other limit rejects a read in this way.
        if answered == Err(ErrorCode::QuotaExceeded) {
            self.watches.note(op);
        }
        if answered == Err(read::REPLY_TOO_LARGE) {
            self.note_if_too_large(tree, op, &payload[8..]);
        }
        let bytes = (output.len() - start) as u64 - LENGTH_BYTES;
        self.reply_bytes.add(bytes);
        self.last = Some((header, bytes));
        Effort::of(op, answered, bytes)
    }
}

impl RefusedWatches {
    #[cold]
    fn note(&mut self, op: OpCode) {
        self.count += 1;
        self.again |= matches!(op, OpCode::SetWatches | OpCode::SetWatches2);
    }
}

impl ReadBatch<'_> {
    /// Counts the wait for the tree, before the first read of a batch.
    fn note_if_waited(&mut self, intake: &Intake) -> Result<(), EndReason> {
        if self.core.slow_requests.is_slow(self.guarded_us - self.arrived_us)
            && let Some(payload) = intake.peek()?
        {
            self.note_if_slow(header_of(payload)?.0, payload);
        }
        Ok(())
    }

    /// Logs a read whose reply was too large; a read that cannot be decoded has the same error.
    #[cold]
    fn note_if_too_large(&mut self, tree: &Tree, op: OpCode, body: &[u8]) {
        let Some(request) = decode_read(op, body) else { return };
        let (count, first) = &mut self.too_large;
        *count += 1;
        let bytes = || size_if_logged(tree, &request, self.large_replies);
        first.get_or_insert_with(|| LargeReply {
            op,
            path: slow_requests::shown_path(op, body),
            bytes: bytes(),
        });
    }

    #[cold]
    fn note_if_slow(&mut self, header: RequestHeader, payload: &[u8]) {
        let ReadBatch { core, arrived_us, guarded_us, .. } = *self;
        let now_us = core.clock.monotonic_us();
        let took_us = now_us.saturating_sub(arrived_us);
        let Some(op) = OpCode::from_code(header.op) else { return };
        if !core.slow_requests.is_slow(took_us) {
            return;
        }
        core.stats.slow_requests.add(1);
        self.slow.get_or_insert_with(|| SlowRead {
            op,
            body: payload[8..payload.len().min(SHOWN_BYTES_MAX)].into(),
            bytes: payload.len(),
            took_us,
            stages: [
                ("waited", guarded_us - arrived_us),
                ("answered", now_us.saturating_sub(guarded_us)),
            ],
        });
    }
}

fn decode_read(op: OpCode, body: &[u8]) -> Option<ReadRequest<'_>> {
    match Request::decode(op, &mut JuteReader::new(body)) {
        Ok(Request::Read(request)) => Some(request),
        _ => None,
    }
}

/// The size of a refused reply, if it is known without building it and will be in the log.
fn size_if_logged(tree: &Tree, request: &ReadRequest<'_>, log: &LimitedLog) -> Option<usize> {
    if log.has_room() { tree.children_bytes(request) } else { None }
}

/// How expensive a read may have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Too little to look at the clock.
    Small,
    Large,
}

impl Effort {
    /// A read is expensive if its reply is large or would have been, or if its op may look at many znodes; these ops
    /// have higher numbers than the plain reads. Called for every read.
    fn of(op: OpCode, answered: Result<(), ErrorCode>, reply_bytes: u64) -> Self {
        let is_large = reply_bytes >= LARGE_REPLY_BYTES
            || op as i32 >= OpCode::MultiRead as i32
            || answered == Err(read::REPLY_TOO_LARGE);
        if is_large { Effort::Large } else { Effort::Small }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes get their turn after each of these.
    #[test]
    fn a_refused_reply_is_as_much_work_as_a_large_one() {
        let check = |op, answered, bytes, expected| {
            assert_eq!(Effort::of(op, answered, bytes), expected, "{op:?} {answered:?} {bytes}");
        };
        check(OpCode::GetChildren, Ok(()), 100, Effort::Small);
        check(OpCode::GetChildren, Err(ErrorCode::NoNode), 16, Effort::Small);
        check(OpCode::GetChildren, Ok(()), LARGE_REPLY_BYTES, Effort::Large);
        check(OpCode::GetChildren, Err(read::REPLY_TOO_LARGE), 16, Effort::Large);
        check(OpCode::GetEphemerals, Ok(()), 100, Effort::Large);
    }

    /// All children used to be visited for each refused reply, for lines of which ten are logged in a minute.
    #[test]
    fn a_size_that_is_not_logged_is_not_counted() {
        let tree = Tree::new(herdsman_tree::TreeOptions::default());
        let log = LimitedLog::once_a_minute();
        let request = decode_read(OpCode::GetChildren, &[0, 0, 0, 1, b'/', 0]).unwrap();
        let size = Some(4 + 4 + "zookeeper".len());
        assert_eq!(size_if_logged(&tree, &request, &log), size);
        log.warn(format_args!("a reply was refused"));
        assert_eq!(size_if_logged(&tree, &request, &log), None);
    }
}
