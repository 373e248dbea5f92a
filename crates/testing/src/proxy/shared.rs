//! State shared by the test and the connections of a proxy: settings, counters and log.
//!
//! One lock for all of it. A connection reads and writes its sockets under that lock, without blocking, so
//! that a setting is in force when the method that made it returns: after `partition()` not a byte passes.

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
    /// Cleanly, as far as the system can: unread data turns it into a reset.
    Close,
    /// With a reset on both sides.
    Reset,
}

/// The fault of a request, and the progress to update.
#[derive(Clone)]
pub(super) struct Verdict {
    pub fault: Fault,
    pub progress: Arc<Progress>,
}

/// The settings and counters of a proxy.
pub(super) struct State {
    pub upstream: SocketAddr,
    pub refuses: bool,
    pub blocks: [bool; 2],
    pub delays: [Duration; 2],
    /// Connections that started at a lower count have ended.
    pub cuts: usize,
    pub last_cut: Ending,
    pub rules: Vec<(Rule, Arc<Progress>)>,
    pub traffic: Traffic,
    pub log: Log,
    /// Counts changes, so that a waiter notices a missed one.
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

pub(super) struct ProxyState {
    /// The protocol has no frames: data is not parsed.
    pub carries_bytes: bool,
    state: Mutex<State>,
    /// For tests that wait in a thread.
    changed: Condvar,
    /// For tests that wait in a task.
    recorded: watch::Sender<()>,
    /// For connections: they need only settings, and waking them on every frame would be costly.
    configured: watch::Sender<()>,
}

impl ProxyState {
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
        ProxyState {
            carries_bytes: false,
            state: Mutex::new(state),
            changed: Condvar::new(),
            recorded: watch::Sender::new(()),
            configured: watch::Sender::new(()),
        }
    }

    pub fn for_bytes(upstream: SocketAddr) -> Self {
        ProxyState { carries_bytes: true, ..ProxyState::new(upstream) }
    }

    /// Reads the state.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock())
    }

    /// Changes a setting.
    pub fn configure<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = self.record(change);
        self.configured.send_replace(());
        result
    }

    /// Records an event.
    pub fn record<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = {
            let mut state = self.state.lock();
            state.version += 1;
            change(&mut state)
        };
        self.changed.notify_all();
        self.recorded.send_replace(());
        result
    }

    /// Blocks until `done` or the timeout. `done` runs without the lock, so it may call any method.
    pub fn wait_until(&self, timeout: Duration, done: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let version = self.read(|state| state.version);
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

    /// Waits until the recorded state is `done`, which runs without the lock.
    pub async fn until_recorded(&self, done: impl Fn() -> bool) {
        until(&self.recorded, done).await;
    }

    /// Waits until the settings are as wanted.
    pub async fn until_configured(&self, wanted: impl Fn(&State) -> bool) {
        until(&self.configured, || self.read(&wanted)).await;
    }

    /// Records a request and determines its fault. If several rules match, the one that was added first
    /// applies.
    pub fn judge(&self, connection: usize, request: &SeenRequest) -> Option<Verdict> {
        let op = request.op?;
        self.record(|state| {
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

    /// Records an event.
    pub fn event(&self, connection: usize, event: Option<(EventType, String)>) {
        self.record(|state| {
            state.traffic.events += 1;
            if let Some((kind, path)) = event {
                state.log.event(connection, kind, path);
            }
        });
    }

    /// Counts one more occurrence of a rule's fault.
    pub fn fired(&self, progress: &Progress) {
        self.record(|_| progress.fired.fetch_add(1, Ordering::Release));
    }

    /// Removes a rule and releases what it holds.
    pub fn end_rule(&self, ended: &Arc<Progress>) {
        self.configure(|state| {
            ended.is_released.store(true, Ordering::Release);
            state.rules.retain(|(_, progress)| !Arc::ptr_eq(progress, ended));
        });
    }
}

async fn until(changed: &watch::Sender<()>, done: impl Fn() -> bool) {
    let mut changes = changed.subscribe();
    // `self` owns the sender, so the channel is not closed.
    while !done() && changes.changed().await.is_ok() {}
}
