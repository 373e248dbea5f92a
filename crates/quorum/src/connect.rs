//! Connects to the leader's quorum port, or to an observer master: all its addresses, several attempts, one
//! target at a time. Apache: `Learner.connectToLeader`, which gives up after 5 attempts, half a second apart. A
//! leader that decided later may open its port later than that.
//!
//! Each attempt has a thread of its own, which becomes the link's reader. So a name server that does
//! not answer for the old leader does not delay the connection to the new one.

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_proto::ServerId;
use herdsman_zab::{LearnerPort, LinkId};
use parking_lot::{Condvar, Mutex};
use tracing::{debug, warn};

use super::address::{dial_any, observer_master_endpoints, quorum_endpoints};
use super::context::Context;
use super::incoming::Incoming;
use super::links::{Links, ROOM_BYTES};
use super::receiver::{ConnectResult, Receiver};

/// Cancelled attempts end when their socket or the resolver times out. If this many are
/// left, the next one waits.
const ATTEMPTS_MAX: usize = 8;
/// A limit, because another observer master may be available.
const OBSERVER_MASTER_TRIES_MAX: NonZeroU32 = NonZeroU32::new(3).expect("is not 0");

pub(crate) struct Connector {
    context: Arc<Context>,
    links: Arc<Links>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The server and port to connect to.
#[derive(Clone, Copy)]
struct Target {
    link: LinkId,
    to: ServerId,
    port: LearnerPort,
}

#[derive(Default)]
struct State {
    /// Not started yet; a newer target replaces it.
    wanted: Option<Target>,
    /// The attempt whose result counts, started or not.
    current: Option<LinkId>,
    attempts: usize,
}

impl Connector {
    pub fn new(context: Arc<Context>, links: Arc<Links>) -> Self {
        Connector { context, links, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Starts the thread that starts the attempts, so that callers neither wait for a thread to be
    /// created nor fail if that is impossible.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        let connector = Arc::clone(self);
        self.context.threads.spawn("connect".to_owned(), move || {
            while let Some(target) = connector.next_target() {
                connector.begin(target);
            }
        })
    }

    pub fn connect(&self, to: ServerId, port: LearnerPort) -> LinkId {
        let link = self.links.next_id();
        let mut state = self.state.lock();
        state.wanted = Some(Target { link, to, port });
        state.current = Some(link);
        self.changed.notify_all();
        link
    }

    pub fn cancel(&self) {
        let mut state = self.state.lock();
        state.wanted = None;
        state.current = None;
        self.changed.notify_all();
    }

    /// Cancels the attempt that would become this link.
    pub fn forget(&self, link: LinkId) {
        if self.state.lock().current == Some(link) {
            self.cancel();
        }
    }

    pub fn wake(&self) {
        self.changed.notify_all();
    }

    fn next_target(&self) -> Option<Target> {
        let mut state = self.state.lock();
        loop {
            if self.context.threads.is_stopping() {
                return None;
            }
            if state.attempts < ATTEMPTS_MAX
                && let Some(target) = state.wanted.take()
            {
                state.attempts += 1;
                return Some(target);
            }
            self.changed.wait(&mut state);
        }
    }

    fn begin(self: &Arc<Self>, target: Target) {
        let Target { link, to, .. } = target;
        let Some(receiver) = self.context.receiver() else { return };
        let (connector, reporting) = (Arc::clone(self), Arc::clone(&receiver));
        let attempt = move || connector.attempt(target, &receiver);
        if let Err(error) = self.context.threads.spawn(format!("link-{}", link.0), attempt) {
            warn!("cannot start a thread to connect to server {to}: {error}");
            if self.finish(link) {
                reporting.handle_connect(link, ConnectResult::Failed);
            }
        }
    }

    fn attempt(&self, target: Target, receiver: &Arc<dyn Receiver>) {
        let Target { link, to, .. } = target;
        let incoming = self.dial_until(target);
        if !self.finish(link) || self.context.threads.is_stopping() {
            debug!("the connection to server {to} is no longer wanted");
            return;
        }
        match incoming {
            Some(incoming) => self.links.run_connected(link, incoming, receiver),
            None => receiver.handle_connect(link, ConnectResult::Failed),
        }
    }

    /// Ends an attempt; returns whether its result counts.
    fn finish(&self, link: LinkId) -> bool {
        let mut state = self.state.lock();
        state.attempts -= 1;
        let counts = state.current == Some(link);
        if counts {
            state.current = None;
        }
        self.changed.notify_all();
        counts
    }

    /// Dials until a server answers; `None` on a timeout or when the attempt was cancelled.
    fn dial_until(&self, target: Target) -> Option<Incoming> {
        let Target { link, to, port } = target;
        let settings = &self.context.settings;
        let deadline = Instant::now() + settings.connect_limit;
        let tries_max = match port {
            LearnerPort::Quorum => settings.connect_tries_max,
            LearnerPort::ObserverMaster => Some(OBSERVER_MASTER_TRIES_MAX),
        };
        let mut tries = 0;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let failure = match self.dial_once(target, rest) {
                Ok(incoming) => return Some(incoming),
                Err(failure) => failure,
            };
            tries += 1;
            let rest = deadline.saturating_duration_since(Instant::now());
            let is_last = tries_max.is_some_and(|max| tries >= max.get());
            if is_last || rest <= settings.connect_retry {
                warn!("gave up connecting to server {to} after {tries} tries: {failure}");
                return None;
            }
            debug!("cannot connect to server {to} yet: {failure}");
            if !self.pause(link, settings.connect_retry) {
                return None;
            }
        }
    }

    fn dial_once(&self, target: Target, limit: Duration) -> io::Result<Incoming> {
        self.dial(target.to, target.port, limit)
    }

    /// Connects once, on the caller's thread.
    pub fn dial(&self, to: ServerId, port: LearnerPort, limit: Duration) -> io::Result<Incoming> {
        let by = Instant::now() + limit;
        let (membership, settings) = (self.context.membership(), &self.context.settings);
        let member = membership.members.get(&to);
        let endpoints = match (port, settings.observer_master_port) {
            (LearnerPort::Quorum, _) => member.map(quorum_endpoints),
            (LearnerPort::ObserverMaster, port) => {
                port.and_then(|port| member.map(|at| observer_master_endpoints(at, port)))
            }
        };
        let endpoints = endpoints.unwrap_or_default();
        let dialled = dial_any(&self.context.threads, settings, &endpoints, limit)?;
        let host = dialled.host.clone();
        let stream = settings.protection.dialled(dialled, by)?;
        let mut incoming = Incoming::new(Arc::new(stream), ROOM_BYTES);
        settings.protection.log_in(&mut incoming, &host, by)?;
        Ok(incoming)
    }

    /// Pauses before the next attempt; returns false if there is none.
    fn pause(&self, link: LinkId, duration: Duration) -> bool {
        let until = Instant::now() + duration;
        let mut state = self.state.lock();
        loop {
            if state.current != Some(link) || self.context.threads.is_stopping() {
                return false;
            }
            if self.changed.wait_until(&mut state, until).timed_out() {
                return true;
            }
        }
    }
}
