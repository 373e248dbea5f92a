//! One direction of a connection: what goes in comes out in order, later.

use std::collections::VecDeque;

/// Messages on their way.
#[derive(Debug)]
pub struct Pipe<T> {
    queue: VecDeque<(u64, T)>,
    last_ms: u64,
}

impl<T> Default for Pipe<T> {
    fn default() -> Self {
        Pipe { queue: VecDeque::new(), last_ms: 0 }
    }
}

impl<T> Pipe<T> {
    /// Puts a message in. It arrives not before `at_ms` and not before those in front of it. Gives when.
    pub fn push(&mut self, at_ms: u64, message: T) -> u64 {
        self.last_ms = self.last_ms.max(at_ms);
        self.queue.push_back((self.last_ms, message));
        self.last_ms
    }

    /// The next message, if it has arrived by now.
    pub fn pop(&mut self, now_ms: u64) -> Option<T> {
        self.queue.front().filter(|(at_ms, _)| *at_ms <= now_ms)?;
        self.queue.pop_front().map(|(_, message)| message)
    }

    /// Loses all but the first `kept`.
    pub fn lose_after(&mut self, kept: usize) {
        self.queue.truncate(kept);
    }

    /// How many are on their way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Nothing is on its way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
