//! How a connection learns that its outbox was filled: one bell for each I/O thread.
//!
//! Waking a task of another thread costs a system call, and a txn may have something to say to a thousand
//! connections. So whoever filled outboxes names their owners and rings once for each thread; a task of that
//! thread wakes the owners, which is cheap from there.
//!
//! The other way round, what the ready connections of an I/O thread ask of the log's thread and of other servers is
//! handed on once for all of them: the bell's task gets its turn behind theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clients::Client;

/// Some of the first 64 I/O threads; others cannot be in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadSet(u64);

impl ThreadSet {
    /// Nobody is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in it.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |thread| self.0 >> thread & 1 == 1)
    }
}

impl Extend<usize> for ThreadSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, threads: I) {
        for thread in threads.into_iter().filter(|&thread| thread < 64) {
            self.0 |= 1 << thread;
        }
    }
}

/// The bells of all I/O threads.
#[derive(Debug)]
pub(crate) struct Bells(Box<[Bell]>);

#[derive(Debug, Default)]
struct Bell {
    rung_for: Mutex<Vec<Arc<Client>>>,
    /// Something is to be handed on at the end of the turn.
    rung_for_turn: AtomicBool,
    notify: Notify,
}

impl Bells {
    /// One for each thread.
    pub fn new(threads: usize) -> Self {
        Bells((0..threads.max(1)).map(|_| Bell::default()).collect())
    }

    /// Rings for each of them, and leaves the list empty.
    pub fn ring_for(&self, clients: &mut Vec<Arc<Client>>) {
        for (thread, bell) in self.0.iter().enumerate() {
            let mut theirs = clients.iter().filter(|client| client.thread == thread).peekable();
            if theirs.peek().is_some() {
                bell.rung_for.lock().extend(theirs.cloned());
                bell.notify.notify_one();
            }
        }
        clients.clear();
    }

    /// The thread itself has something to hand on, and may get more in this turn.
    pub fn ring_for_turn(&self, thread: usize) {
        let bell = &self.0[thread];
        if !bell.rung_for_turn.swap(true, Ordering::AcqRel) {
            bell.notify.notify_one();
        }
    }

    /// Waits for a thread's bell, and wakes those for whom it rang; over and over.
    pub async fn attend(&self, thread: usize, hand_on: impl Fn()) {
        let bell = &self.0[thread];
        let mut rung_for = Vec::new();
        loop {
            bell.notify.notified().await;
            if bell.rung_for_turn.swap(false, Ordering::AcqRel) {
                hand_on();
            }
            std::mem::swap(&mut rung_for, &mut bell.rung_for.lock());
            for client in rung_for.drain(..) {
                client.outbox.wake();
            }
        }
    }
}
