//! What the test and the connections of a proxy share: what it was told, and what it has seen.
//!
//! One lock for all of it. A connection reads and writes its sockets under that lock, without
//! waiting, so that an order is in force when the method that gave it returns: behind
//! `partition()` not a byte passes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use herdsman_proto::EventType;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::Direction;
use super::frames::SeenRequest;
use super::rule::{Fault, Progress, Rule};
use super::traffic::{Log, Traffic};

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// In order, as far as the system can: what was not read makes it a reset.
    Close,
    /// With a reset on both sides.
    Reset,
}

/// What happens to a request, and whom to tell.
#[derive(Clone)]
pub(super) struct Verdict {
    pub fault: Fault,
    pub progress: Arc<Progress>,
}

/// What a proxy was told and has seen.
pub(super) struct State {
    pub upstream: SocketAddr,
    pub refuses: bool,
    pub blocks: [bool; 2],
    pub delays: [Duration; 2],
    /// Connections that began at a lower count are over.
    pub cuts: usize,
    pub last_cut: Ending,
    pub rules: Vec<(Rule, Arc<Progress>)>,
    pub traffic: Traffic,
    pub log: Log,
    /// Counts changes, so that a waiter sees whether it missed one.
    version: u64,
}

impl State {
    pub fn blocks(&self, direction: Direction) -> bool {
        self.blocks[direction as usize]
    }

    pub fn delay(&self, direction: Direction) -> Duration {
        self.delays[direction as usize]
    }
}

pub(super) struct Shared {
    /// There are no frames: what passes is not looked into.
    pub carries_bytes: bool,
    state: Mutex<State>,
    /// For tests that wait in a thread.
    changed: Condvar,
    /// For tests that wait in a task.
    noted: watch::Sender<()>,
    /// For connections: only orders concern them, and every frame wakes those who wait for more.
    told: watch::Sender<()>,
}

impl Shared {
    pub fn new(upstream: SocketAddr) -> Self {
        let state = State {
            upstream,
            refuses: false,
            blocks: [false; 2],
            delays: [Duration::ZERO; 2],
            cuts: 0,
            last_cut: Ending::Close,
            rules: Vec::new(),
            traffic: Traffic::default(),
            log: Log::default(),
            version: 0,
        };
        Shared {
            carries_bytes: false,
            state: Mutex::new(state),
            changed: Condvar::new(),
            noted: watch::Sender::new(()),
            told: watch::Sender::new(()),
        }
    }

    pub fn for_bytes(upstream: SocketAddr) -> Self {
        Shared { carries_bytes: true, ..Shared::new(upstream) }
    }

    /// Looks at the state.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock())
    }

    /// Takes an order of the test.
    pub fn tell<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = self.note(change);
        self.told.send_replace(());
        result
    }

    /// Notes something that has happened.
    pub fn note<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = {
            let mut state = self.state.lock();
            state.version += 1;
            change(&mut state)
        };
        self.changed.notify_all();
        self.noted.send_replace(());
        result
    }

    /// Blocks until `done` or the time is up; `done` is asked without the lock, so it may ask anything.
    pub fn wait_until(&self, timeout: Duration, done: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let version = self.look(|state| state.version);
            if done() {
                return true;
            }
            let mut state = self.state.lock();
            while state.version == version {
                if self.changed.wait_until(&mut state, deadline).timed_out() {
                    drop(state);
                    return done();
                }
            }
        }
    }

    /// Waits until what was noted is `done`, which is asked without the lock.
    pub async fn until_noted(&self, done: impl Fn() -> bool) {
        until(&self.noted, done).await;
    }

    /// Waits until orders are as wanted.
    pub async fn until_told(&self, wanted: impl Fn(&State) -> bool) {
        until(&self.told, || self.look(&wanted)).await;
    }

    /// Notes a request and finds what is to happen to it. Of several rules that mean it, the one
    /// that was added first has its way.
    pub fn judge(&self, connection: usize, request: &SeenRequest) -> Option<Verdict> {
        let op = request.op?;
        self.note(|state| {
            *state.traffic.requests.entry(op).or_default() += 1;
            state.log.request(connection, op, request);
            let verdict = state.rules.iter_mut().find_map(|(rule, progress)| {
                let fault = rule.judge(request)?;
                Some(Verdict { fault, progress: Arc::clone(progress) })
            });
            state.rules.retain(|(rule, _)| !rule.is_spent());
            verdict
        })
    }

    /// Notes an event.
    pub fn event(&self, connection: usize, event: Option<(EventType, String)>) {
        self.note(|state| {
            state.traffic.events += 1;
            if let Some((kind, path)) = event {
                state.log.event(connection, kind, path);
            }
        });
    }

    /// Says that what a rule wants has happened once more.
    pub fn fired(&self, progress: &Progress) {
        self.note(|_| progress.fired.fetch_add(1, Ordering::Release));
    }

    /// Takes a rule out of force and lets go of what it holds.
    pub fn end_rule(&self, ended: &Arc<Progress>) {
        self.tell(|state| {
            ended.is_released.store(true, Ordering::Release);
            state.rules.retain(|(_, progress)| !Arc::ptr_eq(progress, ended));
        });
    }
}

async fn until(changed: &watch::Sender<()>, done: impl Fn() -> bool) {
    let mut changes = changed.subscribe();
    // The sender is here, so the channel is never closed.
    while !done() && changes.changed().await.is_ok() {}
}
