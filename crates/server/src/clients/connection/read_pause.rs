//! Limits that make a connection wait instead of closing it: too much is in flight, so nothing more is read
//! from it, and its client cannot send more when the socket buffers are full. Apache:
//! `ZooKeeperServer.shouldThrottle`.
//!
//! Reading resumes when requests in flight have been answered. The rest of a long frame waits
//! for space instead, see [`crate::clients::request_bytes`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use herdsman_proto::limits::ids_len;
use tokio::sync::futures::OwnedNotified;

use super::Connection;
use crate::operators::stats::Counter;

/// Ids above this size are treated like a long frame: space is reserved before a request is read.
const IDS_BYTES_FREE: usize = 4096;

/// The limit that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadPause {
    OwnRequests,
    OwnBytes,
    AllRequests,
    AllBytes,
    Unread,
}

impl fmt::Display for ReadPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadPause::OwnRequests => {
                "too many requests in flight on this connection (herdsman.requestsPerConnectionMax)"
            }
            ReadPause::OwnBytes => {
                "too many bytes of requests in flight on this connection (herdsman.requestBytesPerConnectionMax)"
            }
            ReadPause::AllRequests => "too many requests in flight on all connections (globalOutstandingLimit)",
            ReadPause::AllBytes => "too many bytes of requests in flight on all connections (herdsman.requestBytesMax)",
            ReadPause::Unread => "the client does not read its replies",
        })
    }
}

/// A connection's share of the bytes that all connections hold.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Bytes of its requests in the core.
    submitted: u64,
    /// Bytes of the long frame that is being received.
    reserved: u64,
    /// Woken when there may be space for that frame.
    freed: Option<Pin<Box<OwnedNotified>>>,
}

impl Connection {
    /// Whether too much is in flight, and some of it is this connection's.
    pub(super) fn is_throttled(&self) -> bool {
        self.read_pause_reason().is_some()
    }

    fn read_pause_reason(&self) -> Option<ReadPause> {
        // Otherwise it would never be woken.
        if self.in_flight == 0 {
            return None;
        }
        let (shared, settings) = (&self.shared, &self.shared.settings);
        if self.in_flight >= settings.in_flight_max {
            return Some(ReadPause::OwnRequests);
        }
        if self.submitted.bytes() >= settings.request_bytes_max {
            return Some(ReadPause::OwnBytes);
        }
        if shared.core.stats.outstanding.load(Ordering::Relaxed) > settings.outstanding_max {
            return Some(ReadPause::AllRequests);
        }
        shared.request_bytes.is_full().then_some(ReadPause::AllBytes)
    }

    /// Counts and logs a pause of reading, once when it begins.
    pub(super) fn note_read_pause(&mut self) {
        let is_unread = self.is_output_full().then_some(ReadPause::Unread);
        let now = is_unread.or_else(|| self.read_pause_reason());
        if let (None, Some(by)) = (self.read_pause, now) {
            self.log_read_pause(by);
        }
        self.read_pause = now;
    }

    #[cold]
    fn log_read_pause(&self, by: ReadPause) {
        self.counter_of(by).add(1);
        let (peer, session) = (self.client.peer, self.session);
        self.shared
            .limit_reports
            .read_pauses
            .info(format_args!("paused reading from {peer} in session {session}: {by}"));
    }

    fn counter_of(&self, by: ReadPause) -> &Counter {
        let read_pauses = &self.shared.core.stats.read_pauses;
        match by {
            ReadPause::OwnRequests => &read_pauses.own_requests,
            ReadPause::OwnBytes => &read_pauses.own_bytes,
            ReadPause::AllRequests => &read_pauses.all_requests,
            ReadPause::AllBytes => &read_pauses.all_bytes,
            ReadPause::Unread => &read_pauses.unread,
        }
    }

    /// Updates the global count with the requests in the core.
    pub(super) fn count_submitted_bytes(&mut self) {
        let (before, now) = (self.share.submitted, self.submitted.bytes());
        if now > before {
            self.shared.request_bytes.add(now - before);
        } else if now < before {
            self.shared.request_bytes.release(before - now);
        }
        self.share.submitted = now;
    }

    /// Waits for space for the rest of the first frame, if it needs some.
    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.intake.long_frame_bytes() {
            Some(bytes) if self.share.reserved == 0 => self.poll_reserve(bytes as u64, context),
            // Their bytes are counted with the request.
            None if self.in_flight == 0 && self.forwarded_ids_bytes() > IDS_BYTES_FREE => {
                self.poll_reserve(0, context)
            }
            _ => Poll::Ready(()),
        }
    }

    /// Bytes that a learner sends to the leader with each write request: all ids that its client has proven.
    pub(super) fn forwarded_ids_bytes(&self) -> usize {
        if self.shared.core.peers().is_some() { ids_len(&self.ids) } else { 0 }
    }

    #[cold]
    fn poll_reserve(&mut self, bytes: u64, context: &mut Context<'_>) -> Poll<()> {
        while !self.shared.request_bytes.try_reserve(bytes) {
            if self.share.freed.is_none() {
                self.log_read_pause(ReadPause::AllBytes);
            }
            let freed =
                self.share.freed.get_or_insert_with(|| Box::pin(self.shared.request_bytes.freed()));
            std::task::ready!(freed.as_mut().poll(context));
            freed.set(self.shared.request_bytes.freed());
        }
        self.share.reserved = bytes;
        self.share.freed = None;
        Poll::Ready(())
    }

    /// A paused connection passes a pending wake-up for space on to the next one.
    pub(super) fn leave_queue_for_room(&mut self) {
        self.share.freed = None;
    }

    /// Releases the reservation when its frame is no longer first.
    pub(super) fn release_room(&mut self) {
        if self.share.reserved > 0
            && self.intake.long_frame_bytes() != Some(self.share.reserved as usize)
        {
            self.release_all_room();
        }
    }

    /// Releases the reservation, because the connection or its frame has ended.
    pub(super) fn release_all_room(&mut self) {
        let reserved = std::mem::take(&mut self.share.reserved);
        if reserved > 0 {
            self.shared.request_bytes.release(reserved);
        }
    }
}
