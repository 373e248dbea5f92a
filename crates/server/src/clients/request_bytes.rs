//! Bytes of requests that all connections together hold in memory.
//!
//! Two kinds count. Requests in the core count from their submission until they
//! are answered, in an ensemble with the ids of their connection, which a learner sends along with each. They cannot
//! be rejected, but while there are too many bytes, connections that have requests in flight are not read.
//! That resolves itself when the log has written the requests.
//!
//! A frame that is longer than one read counts before the rest of it is read: its
//! connection reserves space with [`RequestBytes::try_reserve`], and waits with [`RequestBytes::freed`] if there
//! is none. So clients that announce long frames and never finish them hold no more than the limit. A client that
//! holds space and stalls loses it with its session: only complete requests keep a session alive.
//!
//! Shorter frames do not count: their size is bounded by the number of connections. But a connection with long ids
//! waits for space like one with a long frame.
//!
//! Apache counts large requests only (`largeRequestMaxBytes`), and closes the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// The count, and the connections that wait for space.
#[derive(Debug)]
pub(crate) struct RequestBytes {
    held: AtomicU64,
    max: u64,
    /// Wakes one waiter at a time: each either takes space and wakes the next, or waits again.
    freed: Arc<Notify>,
}

impl RequestBytes {
    /// No bytes are held; the limit is about `max`.
    pub fn new(max: u64) -> Self {
        RequestBytes { held: AtomicU64::new(0), max, freed: Arc::default() }
    }

    /// Returns the number of bytes held.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether the limit is reached.
    pub fn is_full(&self) -> bool {
        self.held() >= self.max
    }

    /// Counts bytes that were submitted to the core.
    pub fn add(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases bytes, and wakes a waiting connection if the limit was reached.
    pub fn release(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        // A connection waits only after it found the limit reached, so the next release finds it reached as well.
        if before >= self.max {
            self.freed.notify_one();
        }
    }

    /// Reserves space for a frame, unless the limit is reached. The last frame may exceed the limit:
    /// otherwise a frame that is longer than the space that small ones leave would wait forever.
    pub fn try_reserve(&self, bytes: u64) -> bool {
        let take = |held| (held < self.max).then_some(held + bytes);
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok_and(|before| before + bytes < self.max) {
            self.freed.notify_one();
        }
        taken.is_ok()
    }

    /// Resolves when there may be space. Another connection may have taken it by then. Dropping the future after it was
    /// notified passes the notification to the next waiter.
    pub fn freed(&self) -> OwnedNotified {
        Arc::clone(&self.freed).notified_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_ready(waiter: std::pin::Pin<&mut OwnedNotified>) -> bool {
        waiter.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn room_is_taken_up_to_the_limit_and_one_frame_beyond() {
        let bytes = RequestBytes::new(10);
        assert!(bytes.try_reserve(9));
        assert!(bytes.try_reserve(9));
        assert!(!bytes.try_reserve(1));
        assert_eq!((bytes.held(), bytes.is_full()), (18, true));
        bytes.release(9);
        assert!(!bytes.is_full());
        bytes.add(100);
        assert_eq!((bytes.held(), bytes.is_full()), (109, true));
    }

    #[test]
    fn who_waits_is_woken_and_wakes_the_next() {
        let bytes = RequestBytes::new(10);
        bytes.add(30);
        let (mut one, mut two) = (pin!(bytes.freed()), pin!(bytes.freed()));
        // What was said before they came is theirs as well, once.
        _ = is_ready(one.as_mut());
        assert!(!is_ready(two.as_mut()));
        bytes.release(25);
        assert!(is_ready(one.as_mut()));
        assert!(!is_ready(two.as_mut()));
        assert!(bytes.try_reserve(1));
        assert!(is_ready(two.as_mut()), "there is room for the next one");
    }
    #[test]
    fn who_leaves_the_queue_hands_the_word_on() {
        let bytes = RequestBytes::new(10);
        bytes.add(10);
        let (mut one, mut two) = (Box::pin(bytes.freed()), pin!(bytes.freed()));
        assert!(!is_ready(one.as_mut()) && !is_ready(two.as_mut()));
        bytes.release(10);
        drop(one);
        assert!(is_ready(two.as_mut()));
    }
}
