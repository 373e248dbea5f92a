//! Pending output of one connection: frames to send and changes of its state.
//!
//! Filled by whichever thread applies a txn, emptied by the I/O thread that owns the connection.
//! Watch ordering depends on this rule: an event is queued while the tree's write lock is held,
//! and a reader takes the outbox before it appends its own reply. So a client receives the event before
//! any reply that shows the change. (`a_watch_event_precedes_the_read_that_shows_it` tests it.)
//!
//! Limit: `bytes_max`. A client that does not read its events and replies is disconnected when more
//! is queued; it can reconnect and register its watches again. While the owner's
//! output is full it does not take from the outbox, and waits for [`Outbox::poll_close`] only.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use herdsman_node::io::CloseReason;
use herdsman_proto::SessionId;
use parking_lot::Mutex;

use crate::clients::unread_bytes::{STEP_BYTES, UnreadBytes};

/// Why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseCause {
    /// Requested by the core.
    #[error("{0:?}")]
    Core(CloseReason),
    /// Too much is queued for a client that does not read.
    #[error(
        "the client does not read its replies and events (herdsman.unreadBytesPerConnectionMax)"
    )]
    SlowReader,
    /// Too much is queued for clients that do not read, and most of it for this one.
    #[error(
        "unread replies of all clients exceed herdsman.unreadBytesMax, and this client has the most"
    )]
    MostUnread,
    /// The server stops.
    #[error("the server is stopping")]
    Shutdown,
    /// An operator has restored a snapshot.
    #[error("a snapshot was restored")]
    Restored,
}

/// An empty buffer keeps at most this much memory: most connections are idle.
const IDLE_BYTES_MAX: usize = 4096;

/// Empties a buffer, and frees its memory if it is large.
fn clear_or_free(buffer: &mut Vec<u8>) {
    if buffer.capacity() > IDLE_BYTES_MAX {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}

/// The pending output.
#[derive(Debug, Default)]
pub struct TakenOutput {
    /// Requests that were answered.
    pub answered: usize,
    /// Encoded frames, for statistics.
    pub frames: u64,
    /// The session is established, with this timeout.
    pub attached: Option<(SessionId, i32)>,
    /// Close once everything is sent.
    pub closing: Option<CloseCause>,
    /// Watch events among the frames.
    pub events: u64,
    /// When the oldest of them was queued, by the core's clock.
    pub events_since_us: u64,
}

#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    taken: TakenOutput,
    /// The part of `bytes` that is counted in [`UnreadBytes`].
    counted: usize,
    /// A wake-up is scheduled for a reply.
    is_awaited: bool,
}

impl Pending {
    /// Appends a frame, unless the connection is closing.
    fn add(&mut self, frame: &[u8], bytes_max: usize) {
        if self.bytes.len() + frame.len() > bytes_max && !self.bytes.is_empty() {
            self.taken.closing.get_or_insert(CloseCause::SlowReader);
        }
        if self.taken.closing.is_none() {
            self.bytes.extend_from_slice(frame);
            self.taken.frames += 1;
        }
    }
}

/// How urgently the owner must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// As soon as it can.
    Soon,
    /// After connections with requests and replies were served: see [`crate::clients::io_wakers`].
    Event,
}

/// The outbox of one connection.
#[derive(Debug)]
pub struct Outbox {
    waiting: Mutex<Pending>,
    /// Whether anything is queued; readable without the lock.
    filled: AtomicBool,
    /// Whether the owner is in the event wake-up queue.
    queued: AtomicBool,
    /// A close is queued: the owner must handle it even while its output is full.
    closing: AtomicBool,
    /// The task that owns the connection, while it waits.
    owner: AtomicWaker,
    bytes_max: usize,
    unread: Arc<UnreadBytes>,
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.count(&mut self.waiting.lock(), 0);
    }
}

impl Outbox {
    /// Creates an empty outbox; queued bytes count as unread.
    #[must_use]
    pub fn new(bytes_max: usize, unread: Arc<UnreadBytes>) -> Self {
        Outbox {
            unread,
            waiting: Mutex::default(),
            filled: AtomicBool::new(false),
            queued: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            owner: AtomicWaker::new(),
            bytes_max,
        }
    }

    /// Adds a frame; `answers` says whether it completes a request. Returns true if the owner must be woken, even if it
    /// is about to be woken for events.
    pub fn send(&self, frame: &[u8], answers: bool) -> bool {
        self.fill(Urgency::Soon, |waiting| {
            waiting.add(frame, self.bytes_max);
            // Requests count as answered even when their replies are dropped.
            waiting.taken.answered += usize::from(answers);
        })
    }

    /// Adds the frame of a watch event that happens now. Returns true if the owner must be woken after other
    /// connections have been served.
    pub fn send_event(&self, frame: &[u8], now_us: u64) -> bool {
        self.fill(Urgency::Event, |waiting| {
            waiting.add(frame, self.bytes_max);
            if waiting.taken.events == 0 {
                waiting.taken.events_since_us = now_us;
            }
            waiting.taken.events += 1;
        })
    }

    /// Records that the session is established. Returns true if the owner must be woken.
    pub fn attach(&self, session: SessionId, timeout_ms: i32) -> bool {
        self.fill(Urgency::Soon, |waiting| waiting.taken.attached = Some((session, timeout_ms)))
    }

    /// Closes the connection once all earlier frames are sent. Returns true if the owner must be woken.
    pub fn close(&self, why: CloseCause) -> bool {
        self.fill(Urgency::Soon, |waiting| _ = waiting.taken.closing.get_or_insert(why))
    }

    fn fill(&self, urgency: Urgency, fill: impl FnOnce(&mut Pending)) -> bool {
        let mut waiting = self.waiting.lock();
        fill(&mut waiting);
        if waiting.bytes.len() >= waiting.counted + STEP_BYTES {
            let bytes = waiting.bytes.len();
            self.count(&mut waiting, bytes);
        }
        // Before the check whether the owner is queued: see `leave_queue`.
        let was_filled = self.filled.swap(true, Ordering::SeqCst);
        let is_first = match urgency {
            Urgency::Event => !was_filled && !self.queued.swap(true, Ordering::SeqCst),
            Urgency::Soon => !std::mem::replace(&mut waiting.is_awaited, true),
        };
        let closes = waiting.taken.closing.is_some();
        is_first | (closes && !self.closing.swap(true, Ordering::AcqRel))
    }

    fn count(&self, waiting: &mut Pending, bytes: usize) {
        self.unread.change(waiting.counted as u64, bytes as u64);
        waiting.counted = bytes;
    }

    /// The queued bytes that are counted as unread.
    pub fn unread_bytes(&self) -> u64 {
        self.waiting.lock().counted as u64
    }

    /// Removes the owner from the event wake-up queue. Returns whether there is still something to take.
    pub fn leave_queue(&self) -> bool {
        self.queued.store(false, Ordering::SeqCst);
        self.filled.load(Ordering::SeqCst)
    }

    /// Wakes the owner. From another thread than its own that costs a system call: see [`crate::clients::io_wakers`].
    pub fn wake(&self) {
        self.owner.wake();
    }

    /// Waits until something is queued.
    pub async fn filled(&self) {
        poll_fn(|context| self.poll_filled(context)).await;
    }

    /// Whether something is queued; if not, the owner is woken when it is.
    pub fn poll_filled(&self, context: &Context<'_>) -> Poll<()> {
        self.owner.register(context.waker());
        if self.filled.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether a close is queued.
    pub fn has_close(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Polls for a close; spurious wake-ups are possible.
    pub fn poll_close(&self, context: &Context<'_>) -> Poll<()> {
        self.owner.register(context.waker());
        if self.has_close() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Appends all pending output to `out`.
    pub fn take(&self, out: &mut Vec<u8>) -> Option<TakenOutput> {
        if !self.filled.load(Ordering::Acquire) {
            return None;
        }
        let mut waiting = self.waiting.lock();
        self.filled.store(false, Ordering::Release);
        self.closing.store(false, Ordering::Release);
        waiting.is_awaited = false;
        out.append(&mut waiting.bytes);
        clear_or_free(&mut waiting.bytes);
        if waiting.counted > 0 {
            self.count(&mut waiting, 0);
        }
        Some(std::mem::take(&mut waiting.taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(bytes_max: usize) -> Outbox {
        Outbox::new(bytes_max, Arc::new(UnreadBytes::new(u64::MAX)))
    }

    #[test]
    fn much_that_waits_counts_as_unread() {
        let unread = Arc::new(UnreadBytes::new(STEP_BYTES as u64));
        let outbox = Outbox::new(usize::MAX, Arc::clone(&unread));
        outbox.send(&[0; STEP_BYTES - 1], false);
        assert_eq!((unread.get(), outbox.unread_bytes()), (0, 0));
        outbox.send(&[0; 2], false);
        assert_eq!((unread.get(), unread.excess()), (STEP_BYTES as u64 + 1, 1));
        outbox.take(&mut Vec::new()).unwrap();
        assert_eq!(unread.get(), 0);
        outbox.send(&[0; 2 * STEP_BYTES], false);
        assert_eq!(outbox.unread_bytes(), 2 * STEP_BYTES as u64);
        drop(outbox);
        assert_eq!(unread.get(), 0);
    }

    #[test]
    fn frames_leave_in_order_and_only_the_first_one_wakes() {
        let outbox = outbox(100);
        assert!(outbox.send(b"event ", false));
        assert!(!outbox.send(b"reply", true));
        let mut out = b"> ".to_vec();
        let taken = outbox.take(&mut out).unwrap();
        assert_eq!((&out[..], taken.answered, taken.frames), (&b"> event reply"[..], 1, 2));
        assert!(outbox.take(&mut out).is_none());
    }

    #[test]
    fn a_reply_wakes_though_an_event_did() {
        let outbox = outbox(100);
        assert!(outbox.send_event(b"event", 7));
        assert!(!outbox.send_event(b"event", 8));
        assert!(outbox.send(b"reply", true), "the owner's turn for events may be far away");
        assert!(!outbox.send(b"reply", true) && !outbox.send_event(b"event", 9));
        outbox.take(&mut Vec::new()).unwrap();
        assert!(outbox.send(b"reply", true));
        assert!(!outbox.send_event(b"event", 9), "it is woken for the reply");
    }

    #[test]
    fn events_are_as_old_as_the_oldest_of_them() {
        let outbox = outbox(100);
        outbox.send(b"reply", true);
        outbox.send_event(b"one", 7);
        outbox.send_event(b"two", 9);
        let taken = outbox.take(&mut Vec::new()).unwrap();
        assert_eq!((taken.events, taken.events_since_us, taken.answered), (2, 7, 1));
        outbox.send_event(b"three", 11);
        let taken = outbox.take(&mut Vec::new()).unwrap();
        assert_eq!((taken.events, taken.events_since_us), (1, 11));
    }

    #[test]
    fn a_client_that_does_not_read_is_closed_not_collected_for() {
        let outbox = outbox(10);
        assert!(outbox.send(b"123456", false) && !outbox.has_close());
        assert!(outbox.send(b"123456", true), "the owner must look, though there was something");
        assert!(!outbox.send(b"x", false) && outbox.has_close());
        let mut out = Vec::new();
        let taken = outbox.take(&mut out).unwrap();
        assert_eq!(
            (out.len(), taken.closing, taken.answered),
            (6, Some(CloseCause::SlowReader), 1)
        );
    }
}
