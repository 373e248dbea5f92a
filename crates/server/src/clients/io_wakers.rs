//! Wakes connections whose outbox was filled: one waker for each I/O thread.
//!
//! Waking a task of another thread costs a system call, and a txn may have replies and events for a thousand
//! connections. So a thread that filled outboxes queues their owners and wakes each I/O thread once; a task of that
//! thread wakes the owners, which is cheap from there.
//!
//! One change may have an event for each of a hundred thousand connections, and sending these takes their thread a
//! second. So owners that get nothing but events are woken a few at a time: between two steps the thread serves
//! connections with requests and replies.
//!
//! In the other direction, requests of an I/O thread's ready connections to the log's thread and to other servers are
//! dispatched once for all of them: the waker's task runs after theirs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::clients::Client;

/// A set of I/O threads, of which it can hold the first 64.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadSet(u64);

impl ThreadSet {
    /// Whether it has no members.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The indexes of its members.
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

/// The minimum number of owners with nothing but events that are woken at a time. The runtime looks for other work
/// about as often.
const EVENTS_PER_TURN: usize = 64;
/// If very many wait, the fraction of them that is woken at a time.
const EVENTS_PER_TURN_DIVISOR: usize = 16;

/// Connections to wake.
#[derive(Debug, Default)]
pub(crate) struct ToWake {
    /// For replies and anything else that is not an event.
    pub soon: Vec<Arc<Client>>,
    /// For events.
    pub for_events: Vec<Arc<Client>>,
}

/// The wakers of all I/O threads.
#[derive(Debug)]
pub(crate) struct IoWakers(Box<[IoWaker]>);

#[derive(Debug, Default)]
struct IoWaker {
    pending: Mutex<Vec<Arc<Client>>>,
    /// Contains each client of the thread at most once.
    pending_for_events: Mutex<VecDeque<Arc<Client>>>,
    /// Whether the end of the turn has something to dispatch.
    end_of_turn_scheduled: AtomicBool,
    notify: Notify,
}

impl IoWakers {
    /// One for each thread.
    pub fn new(threads: usize) -> Self {
        IoWakers((0..threads.max(1)).map(|_| IoWaker::default()).collect())
    }

    /// Wakes these clients, and leaves the list empty.
    pub fn wake_clients(&self, clients: &mut Vec<Arc<Client>>) {
        for (thread, waker) in self.0.iter().enumerate() {
            let mut clients = clients.iter().filter(|client| client.thread == thread).peekable();
            if clients.peek().is_some() {
                waker.pending.lock().extend(clients.cloned());
                waker.notify.notify_one();
            }
        }
        clients.clear();
    }

    /// Wakes all clients in `to_wake`, and leaves it empty.
    pub fn wake(&self, to_wake: &mut ToWake) {
        self.wake_clients(&mut to_wake.soon);
        for (thread, waker) in self.0.iter().enumerate() {
            let mut clients =
                to_wake.for_events.iter().filter(|client| client.thread == thread).peekable();
            if clients.peek().is_some() {
                waker.pending_for_events.lock().extend(clients.cloned());
                waker.notify.notify_one();
            }
        }
        to_wake.for_events.clear();
    }

    /// Runs `end_turn` of the thread after its ready connections have been served.
    pub fn schedule_end_of_turn(&self, thread: usize) {
        let waker = &self.0[thread];
        if !waker.end_of_turn_scheduled.swap(true, Ordering::AcqRel) {
            waker.notify.notify_one();
        }
    }

    /// Wakes the queued clients of a thread, until cancelled.
    pub async fn run(&self, thread: usize, end_turn: impl Fn()) {
        let waker = &self.0[thread];
        let mut pending = Vec::new();
        loop {
            waker.notify.notified().await;
            if waker.end_of_turn_scheduled.swap(false, Ordering::AcqRel) {
                end_turn();
            }
            std::mem::swap(&mut pending, &mut waker.pending.lock());
            for client in pending.drain(..) {
                client.outbox.wake();
            }
            if waker.wake_for_events() {
                waker.notify.notify_one();
                yield_now().await;
            }
        }
    }
}

impl IoWaker {
    /// Wakes the next few clients that get events. Returns whether there are more.
    fn wake_for_events(&self) -> bool {
        let mut pending = self.pending_for_events.lock();
        let mut few = EVENTS_PER_TURN.max(pending.len() / EVENTS_PER_TURN_DIVISOR);
        while few > 0
            && let Some(client) = pending.pop_front()
        {
            // Many have emptied their outbox already, because they had requests.
            if client.outbox.leave_queue() {
                client.outbox.wake();
                few -= 1;
            }
        }
        !pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::clients::{Clients, ConnLimits};

    const WATCHERS: usize = 1000;

    async fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_reply_does_not_wait_for_the_events_of_others() {
        let limits = ConnLimits {
            outbox_bytes_max: 1024,
            unread_bytes_max: u64::MAX,
            ..ConnLimits::default()
        };
        let clients = Arc::new(Clients::new(limits, 1));
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let all: Vec<_> =
            (0..=WATCHERS).map(|_| clients.admit(peer, 0, 0).expect("no limit")).collect();
        let (waiting, woken) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Vec::new())));
        for client in &all {
            let (client, waiting, woken) = (client.clone(), waiting.clone(), woken.clone());
            tokio::spawn(async move {
                *waiting.lock() += 1;
                client.outbox.filled().await;
                woken.lock().push(client.id);
            });
        }
        until(|| *waiting.lock() == all.len()).await;
        let attended = clients.clone();
        tokio::spawn(async move { attended.io_wakers.run(0, || ()).await });
        let (asker, watchers) = all.split_last().expect("there are some");
        let mut to_wake = ToWake::default();
        for watcher in watchers {
            assert!(watcher.outbox.send_event(b"event", 0));
            to_wake.for_events.push(watcher.clone());
        }
        clients.io_wakers.wake(&mut to_wake);
        until(|| !woken.lock().is_empty()).await;
        let before = woken.lock().len();
        assert!(asker.outbox.send(b"reply", true));
        to_wake.soon.push(asker.clone());
        clients.io_wakers.wake(&mut to_wake);
        until(|| woken.lock().len() == all.len()).await;
        let turn = woken.lock().iter().position(|id| *id == asker.id).expect("it was woken");
        assert!(turn <= before + 2 * EVENTS_PER_TURN, "its turn came after {turn} events");
    }
}
