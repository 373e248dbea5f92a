//! The election state of one other server: the pending message and the connection.
//!
//! Three kinds of threads use this: the one that connects, and the two of a connection. A connection has
//! a serial number, so that late calls about an old connection do not affect the new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use herdsman_proto::ServerId;
use herdsman_proto::membership::Endpoint;
use parking_lot::{Condvar, Mutex};

use crate::stream::PeerStream;
use crate::threads::{Threads, cut};
use herdsman_runtime::LimitedLog;

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
/// Minimum delay between connection attempts; doubles up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(3200);
/// How long to wait for a peer to connect back. Asking again would break the connection that
/// it may be about to make.
const CALL_BACK_WAIT: Duration = Duration::from_secs(1);
/// An older vote waits until the peer connects. While votes matter, there are newer ones.
const PENDING_VOTE_MAX_AGE: Duration = Duration::from_secs(60);

/// Minimum interval between checks whether a connection is really from the member that it claims to be.
const DOUBT_EVERY: Duration = Duration::from_secs(60);
/// How long a connection that was found to work is not checked again.
const PROVEN_FOR: Duration = Duration::from_secs(1);

pub(super) struct Peer {
    pub id: ServerId,
    /// Log lines about failed attempts.
    pub warnings: LimitedLog,
    state: Mutex<State>,
    changed: Condvar,
    /// A check of the connection is in progress.
    is_checked: AtomicBool,
    /// A lookup of the peer's addresses is in progress.
    is_looked_for: AtomicBool,
}

#[derive(Clone)]
struct Message {
    frame: Bytes,
    since: Instant,
}

struct State {
    /// The addresses in the membership; empty if the peer is not listed.
    addresses: Vec<Endpoint>,
    /// The addresses in the peer's request to connect to it; may be empty.
    call_back: Option<Vec<Endpoint>>,
    /// The newest message, if it is not sent yet.
    waiting: Option<Message>,
    /// The last message sent; it may not have arrived.
    last: Option<Message>,
    connection: Option<(u64, Arc<PeerStream>)>,
    serial: u64,
    /// The number of reads from the connections of this peer that returned data.
    heard: u64,
    /// The connection comes from an unlisted address, so the peer is asked at its own address to connect.
    is_doubtful: bool,
    /// When it was last asked.
    doubted_at: Option<Instant>,
    /// The connection counts as working until this time, without another check.
    proven_until: Option<Instant>,
    next_call: Instant,
    pause: Duration,
    retired: bool,
}

impl State {
    /// The time until the next attempt to connect; `None` if there is no reason to.
    fn until_call(&self, now: Instant) -> Option<Duration> {
        let worth = |message: &Message| now.duration_since(message.since) < PENDING_VOTE_MAX_AGE;
        let is_told = !self.addresses.is_empty() && self.waiting.as_ref().is_some_and(worth);
        let is_due = self.connection.is_none() && (is_told || self.call_back.is_some());
        (is_due || self.is_doubtful).then(|| self.next_call.saturating_duration_since(now))
    }

    fn is_current(&self, serial: u64) -> bool {
        self.connection.as_ref().is_some_and(|(current, _)| *current == serial)
    }

    fn hang_up(&mut self) {
        self.proven_until = None;
        if let Some((_, stream)) = self.connection.take() {
            cut(stream.socket());
        }
    }

    fn postpone(&mut self, now: Instant, pause: Duration) {
        self.next_call = now + pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.call_back = None;
    }
}

impl Peer {
    pub fn new(id: ServerId) -> Self {
        let state = State {
            addresses: Vec::new(),
            call_back: None,
            waiting: None,
            last: None,
            connection: None,
            serial: 0,
            heard: 0,
            proven_until: None,
            is_doubtful: false,
            doubted_at: None,
            next_call: Instant::now(),
            pause: PAUSE_MIN,
            retired: false,
        };
        Peer {
            id,
            warnings: LimitedLog::once_a_minute(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_checked: AtomicBool::new(false),
            is_looked_for: AtomicBool::new(false),
        }
    }

    pub fn set_addresses(&self, addresses: Vec<Endpoint>) {
        let mut state = self.state.lock();
        if state.addresses != addresses {
            state.addresses = addresses;
            state.next_call = Instant::now();
            self.changed.notify_all();
        }
    }

    /// Whether the peer is not in the membership.
    pub fn is_unlisted(&self) -> bool {
        self.state.lock().addresses.is_empty()
    }

    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Retires the peer if it is unlisted and idle.
    pub fn retire_if_idle(&self) -> bool {
        let mut state = self.state.lock();
        let is_idle = state.connection.is_none() && state.call_back.is_none();
        if state.addresses.is_empty() && is_idle {
            state.retired = true;
            self.changed.notify_all();
        }
        state.retired
    }

    /// Queues a message, replacing a pending one.
    pub fn put(&self, frame: Bytes, now: Instant) {
        self.state.lock().waiting = Some(Message { frame, since: now });
        self.changed.notify_all();
    }

    /// Handles the peer's request to connect to it: the current connection is not used any more.
    pub fn call_back(&self, at: Vec<Endpoint>, now: Instant) {
        let mut state = self.state.lock();
        state.hang_up();
        state.call_back = Some(at);
        state.next_call = now;
        state.pause = PAUSE_MIN;
        self.changed.notify_all();
    }

    /// Waits until a connection should be attempted, and returns the addresses. Those of the membership come first,
    /// because any host can claim that a member has moved.
    pub fn next_call(&self, threads: &Threads) -> Option<Vec<Endpoint>> {
        let mut state = self.state.lock();
        loop {
            if state.retired || threads.is_stopping() {
                return None;
            }
            match state.until_call(Instant::now()) {
                Some(Duration::ZERO) => {
                    let mut endpoints = state.addresses.clone();
                    for endpoint in state.call_back.iter().flatten() {
                        if !endpoints.contains(endpoint) {
                            endpoints.push(endpoint.clone());
                        }
                    }
                    return Some(endpoints);
                }
                Some(rest) => _ = self.changed.wait_for(&mut state, rest),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Marks a connection from an unlisted address as doubtful: the peer may be behind NAT, or
    /// another host. So it is asked at its own address to connect; but not always, because there are servers that drop
    /// their connection whenever they are asked.
    pub fn doubt(&self, now: Instant) {
        let mut state = self.state.lock();
        if state.doubted_at.is_none_or(|at| now.duration_since(at) >= DOUBT_EVERY) {
            state.doubted_at = Some(now);
            state.is_doubtful = true;
            self.changed.notify_all();
        }
    }

    /// Whether there is a connection that is not doubtful.
    pub fn is_connected(&self) -> bool {
        let state = self.state.lock();
        state.connection.is_some() && !state.is_doubtful
    }

    /// Records a failed attempt to connect.
    pub fn call_failed(&self, now: Instant) {
        let mut state = self.state.lock();
        state.is_doubtful = false;
        let pause = state.pause;
        state.postpone(now, pause);
    }

    /// Records that the peer was asked to connect.
    pub fn asked_to_call(&self, now: Instant) {
        let mut state = self.state.lock();
        state.is_doubtful = false;
        let pause = state.pause.max(CALL_BACK_WAIT);
        state.postpone(now, pause);
    }

    /// Makes this the current connection, replacing the previous one. `None` if the peer
    /// was retired meanwhile.
    pub fn connected(&self, stream: Arc<PeerStream>, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        if state.retired {
            return None;
        }
        state.hang_up();
        state.serial += 1;
        let serial = state.serial;
        state.connection = Some((serial, stream));
        // Avoids an immediate reconnect if it breaks at once.
        let pause = state.pause;
        state.postpone(now, pause);
        self.changed.notify_all();
        Some(serial)
    }

    /// Records that data was received on this connection. Returns false if there is a newer connection.
    pub fn heard(&self, serial: u64) -> bool {
        let mut state = self.state.lock();
        if state.is_current(serial) {
            state.pause = PAUSE_MIN;
            state.heard += 1;
            self.changed.notify_all();
            return true;
        }
        false
    }

    /// Returns whether the caller may check that the connection works; one caller at a time may.
    pub fn begin_check(&self) -> bool {
        !self.is_checked.swap(true, Ordering::AcqRel)
    }

    /// Ends the check.
    pub fn end_check(&self) {
        self.is_checked.store(false, Ordering::Release);
    }

    /// Returns whether the caller may look up the peer's addresses; one caller at a time may.
    pub fn begin_look(&self) -> bool {
        !self.is_looked_for.swap(true, Ordering::AcqRel)
    }

    /// Ends the lookup.
    pub fn end_look(&self) {
        self.is_looked_for.store(false, Ordering::Release);
    }

    /// The current connection, if it can be checked, which requires an earlier message.
    pub fn connection(&self) -> Option<(u64, Arc<PeerStream>)> {
        let state = self.state.lock();
        state.last.as_ref().and(state.connection.clone())
    }

    /// Checks a connection by sending the last vote again, which is harmless, and waiting for `wait`. A host that
    /// that no longer knows the connection resets it, and an unreachable one lets it time out.
    pub fn is_alive(&self, serial: u64, wait: Duration, threads: &Threads) -> bool {
        let until = Instant::now() + wait;
        let mut state = self.state.lock();
        if state.proven_until.is_some_and(|until| Instant::now() < until) {
            return state.is_current(serial);
        }
        let heard = state.heard;
        if state.waiting.is_none() {
            state.waiting = state.last.clone();
            self.changed.notify_all();
        }
        while state.is_current(serial) && state.heard == heard && !threads.is_stopping() {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        let is_alive = state.is_current(serial);
        if is_alive {
            state.proven_until = Some(Instant::now() + PROVEN_FOR);
        }
        is_alive
    }

    /// Records the end of a connection.
    pub fn disconnected(&self, serial: u64, delivery: Delivery) {
        let mut state = self.state.lock();
        if !state.is_current(serial) {
            return;
        }
        state.hang_up();
        if delivery == Delivery::Doubtful && state.waiting.is_none() {
            state.waiting = state.last.clone();
        }
        self.changed.notify_all();
    }

    /// The first message for a new connection: the pending one, or else the last one again, because
    /// it may have been lost with the previous connection.
    pub fn first_frame(&self, serial: u64) -> Option<Bytes> {
        let mut state = self.state.lock();
        if !state.is_current(serial) {
            return None;
        }
        if let Some(message) = state.waiting.take() {
            state.last = Some(message);
        }
        state.last.as_ref().map(|message| message.frame.clone())
    }

    /// Waits for the next message; `None` if the connection is no longer the current one.
    pub fn next_frame(&self, serial: u64, threads: &Threads) -> Option<Bytes> {
        let mut state = self.state.lock();
        loop {
            if threads.is_stopping() || !state.is_current(serial) {
                return None;
            }
            if let Some(message) = state.waiting.take() {
                let frame = message.frame.clone();
                state.last = Some(message);
                return Some(frame);
            }
            self.changed.wait(&mut state);
        }
    }
}

/// Whether the last message over an ended connection has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The peer closed the connection properly.
    Likely,
    /// The connection broke: the message is pending again.
    Doubtful,
}
