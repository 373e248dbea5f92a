//! Reads: answered here and now, from the shared tree.

use std::ops::ControlFlow;
use std::sync::Arc;

use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ErrorCode, OpCode, ReadRequest, Reader, Request, Xid, Zxid, reply};
use herdsman_tree::{Tree, read};

use super::serve::{Door, header_of};
use super::{Connection, Ended, OUTPUT_BYTES_MAX, Stage};
use crate::stats::{LENGTH_BYTES, Series};

/// Reads that were answered under one guard.
#[derive(Default)]
struct Run {
    /// Without the frames' lengths.
    reply_bytes: Series,
    last: Option<(RequestHeader, u64)>,
}

impl Connection {
    /// The run of reads at the front of the intake.
    pub(super) fn serve_reads(&mut self) -> Result<ControlFlow<()>, Ended> {
        let core = Arc::clone(&self.shared.core);
        let received_ms = core.clock.monotonic_ms();
        let tree = core.tree();
        // Events first: see `outbox`. A server that has sent its clients away may have another tree.
        self.take_outbox();
        if self.stage != Stage::Serving {
            return Ok(ControlFlow::Break(()));
        }
        let mut run = Run::default();
        let Connection { intake, output, written, session, client, ids, .. } = self;
        let reader = read::Reader { session: *session, watcher: client.id.watcher(), ids };
        while output.len() - *written < OUTPUT_BYTES_MAX {
            let Some(payload) = intake.peek()? else { break };
            let (header, door) = header_of(payload)?;
            if door != Door::Read {
                break;
            }
            run.answer(reader, &tree, header, payload, output);
            let bytes = payload.len();
            intake.consume(bytes);
        }
        let zxid = tree.last_zxid();
        drop(tree);
        core.stats.packets_received.add(run.reply_bytes.count);
        self.client.stats.lock().received += run.reply_bytes.count;
        self.note_run(&run, zxid, received_ms);
        Ok(ControlFlow::Continue(()))
    }

    /// A read that waited for its turn.
    pub(super) fn serve_one_read(&mut self, header: RequestHeader, payload: &[u8]) {
        let core = Arc::clone(&self.shared.core);
        let received_ms = core.clock.monotonic_ms();
        let tree = core.tree();
        // As above.
        self.take_outbox();
        if self.stage != Stage::Serving {
            return;
        }
        let mut run = Run::default();
        let watcher = self.client.id.watcher();
        let reader = read::Reader { session: self.session, watcher, ids: &self.ids };
        run.answer(reader, &tree, header, payload, &mut self.output);
        let zxid = tree.last_zxid();
        drop(tree);
        self.note_run(&run, zxid, received_ms);
    }

    fn note_run(&self, run: &Run, zxid: Zxid, received_ms: u64) {
        let Some((last, last_bytes)) = run.last else { return };
        let core = &self.shared.core;
        let now_ms = core.clock.monotonic_ms();
        let latency_ms = now_ms.saturating_sub(received_ms);
        let count = run.reply_bytes.count;
        core.stats.packets_sent.add(count);
        core.stats.responded_many(&run.reply_bytes, last_bytes);
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

impl Run {
    fn answer(
        &mut self,
        reader: read::Reader<'_>,
        tree: &Tree,
        header: RequestHeader,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) {
        let start = output.len();
        answer(reader, tree, header, payload, output);
        let bytes = (output.len() - start) as u64 - LENGTH_BYTES;
        self.reply_bytes.add(bytes);
        self.last = Some((header, bytes));
    }
}

/// Appends the answer to a read. Events that `setWatches` finds precede its reply.
fn answer(
    reader: read::Reader<'_>,
    tree: &Tree,
    header: RequestHeader,
    payload: &[u8],
    output: &mut Vec<u8>,
) {
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
