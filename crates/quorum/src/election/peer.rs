//! One other server, as far as votes are concerned: what waits for it, and whether it is connected.
//!
//! Three kinds of threads meet here: the one that dials, and the two of a connection. A connection has
//! a serial number, so that what an old one still does is not taken for the new one's.

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
/// Between two calls that failed; doubles up to the second.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(3200);
/// After it was asked to call, a peer gets this long to do so. To ask again breaks the connection that
/// it may just be making.
const CALL_BACK_WAIT: Duration = Duration::from_secs(1);
/// A vote that is older waits until the peer calls. While votes matter, there are newer ones.
const WORTH_A_CALL: Duration = Duration::from_secs(60);

/// A peer is asked again only after so long whether it is really the one that is connected.
const DOUBT_EVERY: Duration = Duration::from_secs(60);
/// So long after a connection was found to work, it is not looked at again.
const PROVEN_FOR: Duration = Duration::from_secs(1);

pub(super) struct Peer {
    pub id: ServerId,
    /// About calls that fail.
    pub warnings: LimitedLog,
    state: Mutex<State>,
    changed: Condvar,
    /// Somebody finds out whether the connection works.
    is_checked: AtomicBool,
    /// Somebody finds out where the peer is.
    is_looked_for: AtomicBool,
}

#[derive(Clone)]
struct Message {
    frame: Bytes,
    since: Instant,
}

struct State {
    /// Where the membership says that it is; empty for a stranger.
    addresses: Vec<Endpoint>,
    /// It has asked to be called, there if it said where.
    call_back: Option<Vec<Endpoint>>,
    /// The newest message, if it is not sent.
    waiting: Option<Message>,
    /// The last one that was sent, maybe in vain.
    last: Option<Message>,
    connection: Option<(u64, Arc<PeerStream>)>,
    serial: u64,
    /// How often something came over a connection.
    heard: u64,
    /// The connection comes from where the peer is not: it is asked to call where it is.
    is_doubtful: bool,
    /// When it was last asked so.
    doubted_at: Option<Instant>,
    /// Until then the connection counts as one that works, without another look.
    proven_until: Option<Instant>,
    next_call: Instant,
    pause: Duration,
    retired: bool,
}

impl State {
    /// How long until it should be called; `None` if there is no reason to.
    fn until_call(&self, now: Instant) -> Option<Duration> {
        let worth = |message: &Message| now.duration_since(message.since) < WORTH_A_CALL;
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

    /// The membership does not name it.
    pub fn is_stranger(&self) -> bool {
        self.state.lock().addresses.is_empty()
    }

    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Ends the peer if it is a stranger that has nothing to do here any more.
    pub fn retire_if_idle(&self) -> bool {
        let mut state = self.state.lock();
        let is_idle = state.connection.is_none() && state.call_back.is_none();
        if state.addresses.is_empty() && is_idle {
            state.retired = true;
            self.changed.notify_all();
        }
        state.retired
    }

    /// Has a message sent, in place of one that waits.
    pub fn put(&self, frame: Bytes, now: Instant) {
        self.state.lock().waiting = Some(Message { frame, since: now });
        self.changed.notify_all();
    }

    /// It has asked to be called: what connection there was is not one to it any more.
    pub fn call_back(&self, at: Vec<Endpoint>, now: Instant) {
        let mut state = self.state.lock();
        state.hang_up();
        state.call_back = Some(at);
        state.next_call = now;
        state.pause = PAUSE_MIN;
        self.changed.notify_all();
    }

    /// Waits until it should be called, and says where. What the membership says comes first: anybody can say
    /// that a member has moved.
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

    /// Somebody connects as this peer from an address that is not its own: it may be behind another one, or
    /// somebody else. So it is asked to call, at its own address; but not always, because there are servers that drop
    /// what they had whenever they are asked.
    pub fn doubt(&self, now: Instant) {
        let mut state = self.state.lock();
        if state.doubted_at.is_none_or(|at| now.duration_since(at) >= DOUBT_EVERY) {
            state.doubted_at = Some(now);
            state.is_doubtful = true;
            self.changed.notify_all();
        }
    }

    /// Whether it is connected, and nothing is wrong with that.
    pub fn is_connected(&self) -> bool {
        let state = self.state.lock();
        state.connection.is_some() && !state.is_doubtful
    }

    /// A call has failed.
    pub fn call_failed(&self, now: Instant) {
        let mut state = self.state.lock();
        state.is_doubtful = false;
        let pause = state.pause;
        state.postpone(now, pause);
    }

    /// It was asked to call.
    pub fn asked_to_call(&self, now: Instant) {
        let mut state = self.state.lock();
        state.is_doubtful = false;
        let pause = state.pause.max(CALL_BACK_WAIT);
        state.postpone(now, pause);
    }

    /// Talks over this connection from now on, and no longer over the one before. `None` if the peer
    /// was ended meanwhile.
    pub fn connected(&self, stream: Arc<PeerStream>, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        if state.retired {
            return None;
        }
        state.hang_up();
        state.serial += 1;
        let serial = state.serial;
        state.connection = Some((serial, stream));
        // Should it break at once, then not to be made again at once.
        let pause = state.pause;
        state.postpone(now, pause);
        self.changed.notify_all();
        Some(serial)
    }

    /// Something came over this connection, so it is a good one. False if there is a newer one.
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

    /// It has.
    pub fn end_check(&self) {
        self.is_checked.store(false, Ordering::Release);
    }

    /// Returns whether the caller may look up the peer's addresses; one caller at a time may.
    pub fn begin_look(&self) -> bool {
        !self.is_looked_for.swap(true, Ordering::AcqRel)
    }

    /// It has.
    pub fn end_look(&self) {
        self.is_looked_for.store(false, Ordering::Release);
    }

    /// The connection in use, if it can be found out whether it works: something was said over it before.
    pub fn connection(&self) -> Option<(u64, Arc<PeerStream>)> {
        let state = self.state.lock();
        state.last.as_ref().and(state.connection.clone())
    }

    /// Whether a connection works: says the last vote again, which does no harm, and waits that long. A host that
    /// knows nothing of the connection any more refuses it, and one that is away lets it time out.
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

    /// A connection has ended.
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

    /// The first message for a new connection: the one that waits, or else the last one again, because
    /// it may have been lost with the connection before.
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

    /// Waits for the next message; `None` if the connection is no longer the one to use.
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

/// Whether the last message over a connection that ended has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The other side ended it in good order.
    Likely,
    /// It broke: the message waits again.
    Doubtful,
}
