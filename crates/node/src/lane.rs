//! The order of one connection's requests. Apache: `CommitProcessor`, per session.
//!
//! Writes are handed on at once, as many as come. A read has to see the session's own earlier
//! writes, so it waits until they are answered; whatever comes behind a waiting request waits too.
//! Invariant: answers leave in the order of the requests.

use std::collections::VecDeque;

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is its turn.
    Now,
    /// Something is ahead of it: park it.
    Later,
}

/// One connection's requests on their way.
#[derive(Debug)]
pub struct Lane<T> {
    in_flight: usize,
    parked: VecDeque<T>,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Lane { in_flight: 0, parked: VecDeque::new() }
    }
}

impl<T> Lane<T> {
    /// Writes that are not answered yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Requests that wait.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Requests that came in and are not answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.in_flight + self.parked.len()
    }

    /// May a read that just came in run?
    #[must_use]
    pub fn read_turn(&self) -> Turn {
        if self.outstanding() == 0 { Turn::Now } else { Turn::Later }
    }

    /// May a write that just came in be handed on?
    #[must_use]
    pub fn write_turn(&self) -> Turn {
        if self.parked.is_empty() { Turn::Now } else { Turn::Later }
    }

    /// A write was handed on.
    pub fn submitted(&mut self) {
        self.in_flight += 1;
    }

    /// Writes were answered.
    pub fn answered(&mut self, count: usize) {
        assert!(count <= self.in_flight, "{count} answers for {} writes", self.in_flight);
        self.in_flight -= count;
    }

    /// Keeps a request until its turn comes.
    pub fn park(&mut self, request: T) {
        self.parked.push_back(request);
    }

    /// The next parked request, if the writes ahead of it are answered. A write may follow other
    /// writes directly, so the caller says which kind the front one is.
    pub fn unpark(&mut self, is_read: impl FnOnce(&T) -> bool) -> Option<T> {
        if self.is_ready(is_read) { self.parked.pop_front() } else { None }
    }

    /// [`Lane::unpark`] would give something.
    pub fn is_ready(&self, is_read: impl FnOnce(&T) -> bool) -> bool {
        self.parked.front().is_some_and(|front| self.in_flight == 0 || !is_read(front))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_read(request: &&str) -> bool {
        request.starts_with('r')
    }

    #[test]
    fn reads_wait_for_earlier_writes_and_hold_back_what_follows() {
        let mut lane = Lane::default();
        assert_eq!(lane.read_turn(), Turn::Now);
        assert_eq!(lane.write_turn(), Turn::Now);
        lane.submitted();
        assert_eq!(lane.read_turn(), Turn::Later);
        assert_eq!(lane.write_turn(), Turn::Now);
        lane.park("r1");
        assert_eq!(lane.write_turn(), Turn::Later);
        lane.park("w2");
        lane.park("r3");
        assert_eq!(lane.unpark(is_read), None);
        lane.answered(1);
        assert_eq!(lane.unpark(is_read), Some("r1"));
        assert_eq!(lane.unpark(is_read), Some("w2"));
        lane.submitted();
        assert_eq!(lane.unpark(is_read), None);
        lane.answered(1);
        assert_eq!(lane.unpark(is_read), Some("r3"));
        assert_eq!(lane.outstanding(), 0);
    }
}
