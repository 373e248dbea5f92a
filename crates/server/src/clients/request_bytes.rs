//! Bytes of requests that all connections together hold in memory.
//!
//! Two kinds count. Requests that are with the core count from the moment when they are handed on until they
//! are answered, in an ensemble with the ids of their connection, which a learner sends along with each. They cannot
//! be refused, but while there are too many bytes, connections with requests of their own in flight are not read.
//! The log answers them, so that passes by itself.
//!
//! A frame that is longer than what a connection reads at a time counts before the rest of it is read: its
//! connection asks for room with [`RequestBytes::try_reserve`], and waits with [`RequestBytes::freed`] if there
//! is none. So a crowd that announces long frames and never finishes them holds no more than the limit. Who
//! holds room and stalls loses it with its session: only whole requests are signs of life.
//!
//! Shorter frames are free: what they take is bounded by the number of connections. But whoever has long ids waits
//! for room like one with a long frame.
//!
//! Apache counts large requests only (`largeRequestMaxBytes`), and closes the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// The count, and those who wait for it to shrink.
#[derive(Debug)]
pub(crate) struct RequestBytes {
    held: AtomicU64,
    max: u64,
    /// Wakes one waiter at a time: each either takes room and wakes the next, or waits again.
    freed: Arc<Notify>,
}

impl RequestBytes {
    /// Nothing is held; the limit is about `max`.
    pub fn new(max: u64) -> Self {
        RequestBytes { held: AtomicU64::new(0), max, freed: Arc::default() }
    }

    /// How many there are.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// There are as many as there may be.
    pub fn is_full(&self) -> bool {
        self.held() >= self.max
    }

    /// The core has got so many more.
    pub fn add(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many are gone.
    pub fn release(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        // Who waits has found it full, so the next release finds it full as well.
        if before >= self.max {
            self.freed.notify_one();
        }
    }

    /// Takes room for a frame, unless all of it is taken. The last frame may reach beyond the limit:
    /// otherwise one that is longer than what small ones leave would wait for ever.
    pub fn try_reserve(&self, bytes: u64) -> bool {
        let take = |held| (held < self.max).then_some(held + bytes);
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok_and(|before| before + bytes < self.max) {
            self.freed.notify_one();
        }
        taken.is_ok()
    }

    /// Ends when there may be room. Somebody else may have taken it by then. Who has been told and drops this
    /// without a look leaves the word to the next one.
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
