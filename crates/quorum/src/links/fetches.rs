//! Sends records of this server's log to a member that requests them.
//!
//! In: FETCH, on the thread that reads the link. Out: RECORD for each record, and FETCHED, written by the same thread:
//! nothing else is sent on such a link. Files are read no faster than the peer accepts the records, no longer than it
//! stays connected, and only a few members are served at a time.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::quorum::fetch::{Chain, FetchRequest, Fetched};
use herdsman_proto::{QuorumPacket, Zxid};
use parking_lot::Mutex;
use tracing::debug;

use super::link::{Link, Loss};
use super::writer::{STREAM_CHUNK_BYTES, limit_waits, write};
use crate::receiver::{MemberReport, Receiver};
use crate::threads::Threads;

/// Members that are served at the same time; others are answered with Busy.
pub(super) const FETCHES_MAX: usize = 2;

/// Counts the members that are being served.
#[derive(Debug, Default)]
pub(super) struct FetchSlots {
    taken: Mutex<usize>,
}

/// A slot that is in use until this is dropped.
struct FetchSlot(Arc<FetchSlots>);

impl FetchSlots {
    fn take(self: &Arc<Self>) -> Option<FetchSlot> {
        let mut taken = self.taken.lock();
        (*taken < FETCHES_MAX).then(|| {
            *taken += 1;
            FetchSlot(Arc::clone(self))
        })
    }
}

impl Drop for FetchSlot {
    fn drop(&mut self) {
        *self.0.taken.lock() -= 1;
    }
}

/// Answers one request.
pub(super) fn serve(
    link: &Link,
    threads: &Threads,
    slots: &Arc<FetchSlots>,
    receiver: &dyn Receiver,
    request: FetchRequest,
) -> Result<(), Loss> {
    limit_waits(link)?;
    let mut buffer = Vec::with_capacity(STREAM_CHUNK_BYTES);
    let mut records = 0_u64;
    let asks_for_records = request.after.next() < request.before;
    let chain = match asks_for_records.then(|| slots.take()) {
        // The state is known without a file and without a place.
        None => Chain::Broken,
        Some(None) => Chain::Busy,
        Some(Some(_slot)) => {
            let mut written = Ok(());
            let mut send = |zxid: Zxid, payload: Bytes| {
                QuorumPacket::Record { zxid, payload }.encode(&mut buffer);
                records += 1;
                if buffer.len() >= STREAM_CHUNK_BYTES {
                    written = write(link, threads, &buffer);
                    buffer.clear();
                }
                if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let is_wanted =
                || !threads.is_stopping() && !link.is_overdue() && !link.stream.is_hung_up();
            let range = (request.after, request.before);
            let chain = receiver.read_records(range, &is_wanted, &mut send);
            written?;
            chain
        }
    };
    let MemberReport { last_zxid, state, damaged } = receiver.report_member();
    debug!("sent {records} records to server {}, {chain:?}", request.from);
    QuorumPacket::Fetched(Fetched { last_zxid, chain, state, damaged }).encode(&mut buffer);
    write(link, threads, &buffer)
}
