//! The node, its tree and the destinations of its outputs, behind locks that any thread may take.
//!
//! The thread that has an input steps the node itself: passing it to another thread would cost more
//! than the step. Outputs are carried out before the node's lock is released, so appends reach the
//! log in zxid order and replies reach a connection in the order of its requests.
//!
//! Order of locks: node, then tree, then an outbox. A thread that holds the tree never locks the
//! node.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use herdsman_node::io::Answered;
use herdsman_node::{ConnId, Input, Node, Now, Output, Outputs, ServesAs};
use herdsman_proto::{OpCode, Zxid};
use herdsman_tree::Tree;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use tokio::sync::watch;

use crate::clients::io_wakers::{ThreadSet, ToWake};
use crate::clients::outbox::CloseCause;
use crate::clients::{Client, Clients};
use crate::clock::Clock;
use crate::ensemble::peers::Peers;
use crate::error::ServerFailure;
use crate::log::commit::CommitQueue;
use crate::log::disk_keeper::DiskChange;
use crate::operators::audit::{self, Audit};
use crate::operators::log_level::LogLevel;
use crate::operators::slow_requests::SlowRequests;
use crate::operators::stats::{self, ServerStats};
use crate::ticker::STANDSTILL_MS;
use herdsman_runtime::spawn;

use tracing::{error, info};

/// Txns applied per write guard of the tree; readers get the lock in between.
const TXNS_PER_GUARD: usize = 256;
/// Number of write guards after which other threads that wait for the node get it: a server that has caught up
/// may have millions of txns to apply.
const ROUNDS_PER_TURN: u32 = 8;

/// The thread that gives the node an input.
#[derive(Clone, Copy)]
enum Driver {
    /// An I/O thread, for one of its connections.
    IoThread(usize),
    /// The log's thread: txns that connections of these I/O threads requested are durable.
    Log { requesters: ThreadSet },
    /// The ticker.
    Ticker,
    /// Any other thread.
    Other,
}

impl Driver {
    /// The I/O thread whose connections wait for the result.
    fn requester(self) -> Option<usize> {
        match self {
            Driver::IoThread(thread) => Some(thread),
            Driver::Log { .. } | Driver::Ticker | Driver::Other => None,
        }
    }

    /// The threads that apply what is committed, if it is not this one.
    fn appliers(self) -> Option<ThreadSet> {
        match self {
            Driver::Log { requesters } if !requesters.is_empty() => Some(requesters),
            Driver::Log { .. } | Driver::IoThread(_) | Driver::Ticker | Driver::Other => None,
        }
    }

    /// Whether it applies everything that is committed, however much there is. The ticker must not, because pings and
    /// time limits depend on it.
    fn applies_all(self) -> bool {
        !matches!(self, Driver::Ticker)
    }
}

struct State {
    node: Node,
    out: Outputs,
    to_wake: ToWake,
}

/// The state that all threads of a server share: node, tree, connections, log queue and peers.
pub struct Core {
    state: Mutex<State>,
    tree: RwLock<Tree>,
    /// The connections.
    pub clients: Clients,
    /// Counters.
    pub stats: ServerStats,
    /// Clocks.
    pub clock: Clock,
    commit_queue: Arc<CommitQueue>,
    /// Something is committed, and an I/O thread is to apply it to the tree.
    to_apply: AtomicBool,
    /// How often the tree was replaced.
    tree_generation: AtomicU64,
    /// The other servers; a standalone server has none.
    peers: Option<Peers>,
    /// Since when this server has had no role (leading, following or read-only); `None` while it has one. Changes
    /// under the node's lock.
    without_role_since_ms: watch::Sender<Option<u64>>,
    /// The fatal error, if any.
    fatal: watch::Sender<Option<ServerFailure>>,
    /// The audit log, if it is enabled.
    audit: Option<Arc<Audit>>,
    /// The log of slow requests.
    pub(crate) slow_requests: SlowRequests,
    /// The log level of the process, if it can be changed.
    pub(crate) log_level: OnceLock<LogLevel>,
}

impl Core {
    /// Combines a node, its tree and the queue to the log.
    #[must_use]
    pub fn new(
        node: Node,
        tree: Tree,
        clients: Clients,
        stats: ServerStats,
        clock: Clock,
        commit_queue: Arc<CommitQueue>,
        peers: Option<Peers>,
    ) -> Self {
        let without_role_since_ms = node.serves_as().is_none().then(|| clock.monotonic_ms());
        let state = State { node, out: Outputs::default(), to_wake: ToWake::default() };
        Core {
            state: Mutex::new(state),
            tree: RwLock::new(tree),
            clients,
            stats,
            clock,
            commit_queue,
            to_apply: AtomicBool::new(false),
            tree_generation: AtomicU64::new(0),
            peers,
            without_role_since_ms: watch::Sender::new(without_role_since_ms),
            fatal: watch::Sender::new(None),
            audit: None,
            slow_requests: SlowRequests::default(),
            log_level: OnceLock::new(),
        }
    }

    /// Adds the audit log and the log of slow requests.
    pub(crate) fn with_logs(
        mut self,
        audit: Option<Arc<Audit>>,
        slow_requests: SlowRequests,
    ) -> Self {
        self.audit = audit;
        self.slow_requests = slow_requests;
        self
    }

    /// The audit log; `None` if it is disabled.
    pub fn audit(&self) -> Option<&Audit> {
        self.audit.as_deref()
    }

    /// The other servers; `None` on a standalone server.
    pub fn peers(&self) -> Option<&Peers> {
        self.peers.as_ref()
    }

    /// A number that changes when the tree is replaced. Read it while holding the tree.
    pub fn tree_generation(&self) -> u64 {
        self.tree_generation.load(Ordering::Acquire)
    }

    /// Replaces the tree and gives the node the input that says so, in one step: no other thread may apply to the new
    /// tree what is in flight for the old one.
    pub(crate) fn replace_tree(&self, tree: Tree, input: Input<'_>) {
        let state = self.state.lock();
        let old = {
            let mut current = self.tree.write();
            self.tree_generation.fetch_add(1, Ordering::Release);
            std::mem::replace(&mut *current, tree)
        };
        let step = |node: &mut Node, now, tree: &Tree, out: &mut Outputs| {
            node.step(now, input, tree, out);
        };
        if self.drive_locked(state, Driver::Other, step) {
            self.dispatch();
        }
        drop_on_thread(old);
    }

    /// Requests a change of the data directory from the thread that owns the log.
    pub(crate) fn change_disk(&self, change: DiskChange) {
        self.commit_queue.push_change(change);
        self.commit_queue.wake();
    }

    /// Continues with a tree that has just replaced a standalone server's. Drops the txns that are queued for the log,
    /// because they belong to the old tree, closes all connections and returns their number.
    pub(crate) fn restart_with(&self, tree: Tree) -> usize {
        let now = self.clock.now();
        let mut state = self.state.lock();
        self.commit_queue.forget_txns();
        let mut clients = self.clients.all();
        let old = {
            let mut current = self.tree.write();
            let old = std::mem::replace(&mut *current, tree);
            self.tree_generation.fetch_add(1, Ordering::Release);
            state.node.start_over(&current, now);
            state.out.clear();
            // Before the tree is unlocked: no reader may see the new tree with an old session.
            for client in &clients {
                client.outbox.close(CloseCause::Restored);
            }
            old
        };
        drop(state);
        drop_on_thread(old);
        let count = clients.len();
        self.clients.io_wakers.wake_clients(&mut clients);
        self.close_orphans();
        count
    }

    /// Reports that the server cannot continue.
    pub fn report_fatal(&self, what: ServerFailure) {
        self.fatal.send_replace(Some(what));
    }

    /// Waits for a fatal error, and returns it.
    pub async fn fatal(&self) -> ServerFailure {
        let mut fatal = self.fatal.subscribe();
        let what = fatal.wait_for(Option::is_some).await.ok().and_then(|what| what.clone());
        match what {
            Some(what) => what,
            None => std::future::pending().await,
        }
    }

    /// Locks the tree for reading. Hold it briefly, and never while calling [`Core::step`].
    pub fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read()
    }

    /// Calls `look` with the node locked.
    pub fn with_node<T>(&self, look: impl FnOnce(&Node) -> T) -> T {
        look(&self.state.lock().node)
    }

    /// Like [`Core::with_node`], but gives up if the node stays locked for `patience`.
    pub fn try_with_node<T>(&self, patience: Duration, look: impl FnOnce(&Node) -> T) -> Option<T> {
        self.state.try_lock_for(patience).map(|state| look(&state.node))
    }

    /// Whether the thread that makes txns durable is running.
    pub fn is_committer_running(&self) -> bool {
        self.commit_queue.is_committer_running()
    }

    /// Gives the node an input and carries out its outputs.
    pub fn step(&self, input: Input<'_>) {
        self.drive(|node, now, tree, out| node.step(now, input, tree, out));
    }

    /// Like [`Core::step_all`], for an I/O thread that may have more inputs: its outputs for the log and for other
    /// servers are dispatched in one batch when all ready connections of the thread have been served.
    pub(crate) fn step_all_in_turn<'a>(
        &self,
        thread: usize,
        inputs: impl Iterator<Item = Input<'a>>,
    ) {
        let step = |node: &mut Node, now, tree: &Tree, out: &mut Outputs| {
            inputs.for_each(|input| node.step(now, input, tree, out));
        };
        if self.drive_without_dispatch(Driver::IoThread(thread), step) {
            self.clients.io_wakers.schedule_end_of_turn(thread);
        }
    }

    /// Gives the node a connect request, unless the server has just lost its leader: then does nothing and returns how
    /// long the request may wait for the server to get a role, which takes a few milliseconds in most cases. No request
    /// waits on a server that has been without a role for longer than `wait_ms_max`.
    pub(crate) fn connect_in_turn(
        &self,
        thread: usize,
        connect: Input<'_>,
        wait_ms_max: u64,
    ) -> Option<Duration> {
        let mut wait = None;
        let step = |node: &mut Node, now: Now, tree: &Tree, out: &mut Outputs| {
            wait = self.may_wait_for_role(now, wait_ms_max);
            if wait.is_none() {
                node.step(now, connect, tree, out);
            }
        };
        if self.drive_without_dispatch(Driver::IoThread(thread), step) {
            self.clients.io_wakers.schedule_end_of_turn(thread);
        }
        wait
    }

    /// Returns how long a connect request may wait for this server to get a role; `None` if it has one, or has been
    /// without one for too long.
    pub(crate) fn may_wait_for_role(&self, now: Now, wait_ms_max: u64) -> Option<Duration> {
        let since_ms = (*self.without_role_since_ms.borrow())?;
        let left_ms = (since_ms + wait_ms_max).saturating_sub(now.monotonic_ms);
        (left_ms > 0).then(|| Duration::from_millis(left_ms))
    }

    /// Returns a receiver that is notified when this server gets or loses a role.
    pub(crate) fn role_changes(&self) -> watch::Receiver<Option<u64>> {
        self.without_role_since_ms.subscribe()
    }

    /// Called before the outputs of a change are delivered: a connection that is closed because the role is lost
    /// reads this.
    fn note_role(&self, now: Now, node: &Node) {
        let has_role = node.serves_as().is_some();
        if has_role == self.without_role_since_ms.borrow().is_some() {
            self.without_role_since_ms.send_replace((!has_role).then_some(now.monotonic_ms));
        }
    }

    /// Wakes the connections of an I/O thread and dispatches their outputs, until cancelled.
    pub(crate) async fn run_io_waker(&self, thread: usize) {
        let end_turn = || {
            if self.to_apply.swap(false, Ordering::AcqRel) {
                self.drive_without_dispatch(Driver::Other, |_, _, _, _| {});
            }
            self.dispatch();
        };
        self.clients.io_wakers.run(thread, end_turn).await;
    }

    /// Everything up to `zxid` is durable. Called by the log's thread. The txns that this commits are applied to the
    /// tree by one of the I/O threads that wait for them, while the log's thread continues with the next batch.
    pub(crate) fn flushed(&self, zxid: Zxid, requesters: ThreadSet) {
        let step = |node: &mut Node, now, tree: &Tree, out: &mut Outputs| {
            node.step(now, Input::Flushed { zxid }, tree, out);
        };
        if self.drive_without_dispatch(Driver::Log { requesters }, step) {
            self.dispatch();
        }
    }

    /// Gives the node an input if `wanted` returns true once the node is locked. Returns whether it did.
    pub fn step_if(&self, wanted: impl FnOnce() -> bool, input: Input<'_>) -> bool {
        let mut was_wanted = false;
        self.drive(|node, now, tree, out| {
            was_wanted = wanted();
            if was_wanted {
                node.step(now, input, tree, out);
            }
        });
        was_wanted
    }

    /// Gives the node several inputs, in order.
    pub fn step_all<'a>(&self, inputs: impl Iterator<Item = Input<'a>>) {
        self.drive(|node, now, tree, out| {
            inputs.for_each(|input| node.step(now, input, tree, out));
        });
    }

    /// Carries out the outputs of the node's construction.
    pub fn carry_out(&self, outputs: Outputs) {
        self.drive(|_, _, _, out| *out = outputs);
    }

    /// Notifies the node that time has passed. `awake_ms` is a time shortly before: if it is long ago, the process was
    /// paused in between, and no session may expire for that.
    pub fn tick(&self, awake_ms: u64) {
        let step = |node: &mut Node, now: Now, tree: &Tree, out: &mut Outputs| {
            if now.monotonic_ms.saturating_sub(awake_ms) > STANDSTILL_MS {
                node.step(now, Input::ProcessPaused, tree, out);
            }
            let (before, expired) = (node.serves_as(), node.sessions().expired());
            node.step(now, Input::Tick, tree, out);
            self.stats.sessions_expired.add(node.sessions().expired() - expired);
            if before.is_none() && node.serves_as() == Some(ServesAs::ReadOnly) {
                info!("no leader: serving reads to clients that accept a read-only server");
            }
        };
        if self.drive_without_dispatch(Driver::Ticker, step) {
            self.dispatch();
        }
    }

    /// Closes sessions whose close request was lost in a restart.
    pub fn close_orphans(&self) {
        self.drive(|node, now, tree, out| node.close_orphans(now, tree, out));
    }

    fn drive(&self, step: impl FnOnce(&mut Node, Now, &Tree, &mut Outputs)) {
        if self.drive_without_dispatch(Driver::Other, step) {
            self.dispatch();
        }
    }

    /// Wakes the log's thread and sends the queued packets to other servers.
    fn dispatch(&self) {
        self.commit_queue.wake();
        if let Some(peers) = &self.peers {
            peers.network.flush();
        }
    }

    /// Returns whether [`Core::dispatch`] must be called.
    fn drive_without_dispatch(
        &self,
        driver: Driver,
        step: impl FnOnce(&mut Node, Now, &Tree, &mut Outputs),
    ) -> bool {
        self.drive_locked(self.state.lock(), driver, step)
    }

    fn drive_locked(
        &self,
        mut state: MutexGuard<'_, State>,
        driver: Driver,
        step: impl FnOnce(&mut Node, Now, &Tree, &mut Outputs),
    ) -> bool {
        let now = self.clock.now();
        let State { node, out, to_wake } = &mut *state;
        let requester = driver.requester();
        let zxid = {
            let tree = self.tree.read();
            step(node, now, &tree, out);
            tree.last_zxid()
        };
        let mut needs_dispatch = self.deliver(now, zxid, node, out, requester, to_wake);
        let appliers = driver.appliers().filter(|_| node.wants_tree());
        let mut ended = Vec::new();
        let mut rounds = 0;
        while appliers.is_none() && state.node.wants_tree() {
            let State { node, out, to_wake } = &mut *state;
            let mut tree = self.tree.write();
            let now = self.clock.now();
            match self.audit {
                None => node.apply(now, &mut tree, TXNS_PER_GUARD, out),
                Some(_) => apply_audited(now, node, &mut tree, out, &mut ended),
            }
            rounds += 1;
            let turn_is_over = out.is_large() || rounds % ROUNDS_PER_TURN == 0;
            // Before the tree is unlocked: see `outbox`.
            needs_dispatch |= self.deliver(now, tree.last_zxid(), node, out, requester, to_wake);
            drop(tree);
            if turn_is_over && state.node.wants_tree() {
                if !driver.applies_all() {
                    break;
                }
                // There may be many more: packets do not wait for them, and other threads may take the node first.
                let mut to_wake = std::mem::take(&mut state.to_wake);
                MutexGuard::unlocked_fair(&mut state, || {
                    self.clients.io_wakers.wake(&mut to_wake);
                    if std::mem::take(&mut needs_dispatch) {
                        self.dispatch();
                    }
                });
            }
        }
        let mut to_wake = std::mem::take(&mut state.to_wake);
        drop(state);
        self.clients.io_wakers.wake(&mut to_wake);
        if let Some(appliers) = appliers {
            self.to_apply.store(true, Ordering::Release);
            appliers.iter().for_each(|thread| self.clients.io_wakers.schedule_end_of_turn(thread));
        }
        for end in ended {
            self.audit.iter().for_each(|audit| audit.session_ended(&end));
        }
        needs_dispatch
    }

    /// Carries out the node's outputs. Returns whether [`Core::dispatch`] must be called.
    fn deliver(
        &self,
        now: Now,
        zxid: Zxid,
        node: &Node,
        out: &mut Outputs,
        requester: Option<usize>,
        to_wake: &mut ToWake,
    ) -> bool {
        let ToWake { soon, for_events } = to_wake;
        let mut needs_dispatch = false;
        let mut sent_events = false;
        self.note_role(now, node);
        stats::count_events(&self.stats, out);
        let now_us = self.clock.monotonic_us();
        if let Some(peers) = &self.peers {
            peers.note(now, node, &out.list, &self.stats.ensemble);
        }
        for output in &out.list {
            match output {
                Output::Append { zxid, payload } => {
                    self.commit_queue.push(*zxid, &out.bytes[payload.clone()], requester);
                    needs_dispatch = true;
                }
                Output::Send { conn, frames, answers: Some(answered) } => {
                    self.send_answer(now, *conn, &out.bytes[frames.clone()], *answered, soon);
                }
                Output::Send { conn, frames, answers: None } => {
                    let frame = &out.bytes[frames.clone()];
                    self.with_client(*conn, soon, |client| client.outbox.send(frame, false));
                }
                Output::Event { frame, watchers, .. } => {
                    let frame = &out.bytes[frame.clone()];
                    for conn in &out.watchers[watchers.clone()] {
                        self.with_client(*conn, for_events, |client| {
                            client.outbox.send_event(frame, now_us)
                        });
                    }
                    sent_events = true;
                }
                Output::Attached { conn, session, timeout_ms } => {
                    self.with_client(*conn, soon, |client| {
                        self.note_session(now, zxid, client);
                        client.outbox.attach(*session, *timeout_ms)
                    });
                }
                Output::Close { conn, reason } => {
                    self.with_client(*conn, soon, |client| {
                        client.outbox.close(CloseCause::Core(*reason))
                    });
                }
                Output::Peer(output) => {
                    if let Some(peers) = &self.peers {
                        peers.carry_out(output, requester);
                        needs_dispatch = true;
                    }
                }
                Output::DigestMismatch { zxid } => self.note_digest_mismatch(*zxid),
            }
        }
        out.clear();
        if sent_events {
            self.clients.note_more_unread();
        }
        needs_dispatch
    }

    fn send_answer(
        &self,
        now: Now,
        conn: ConnId,
        frame: &[u8],
        answered: Answered,
        to_wake: &mut Vec<Arc<Client>>,
    ) {
        self.note_answer(now, answered, frame.len());
        self.with_client(conn, to_wake, |client| {
            let Answered { xid, op, since_ms, zxid, failed } = answered;
            // Apache's `cons` has no name for a write that failed.
            let op = if failed { OpCode::Error } else { op };
            client.stats.lock().answered(op, xid, zxid, since_ms, now.monotonic_ms);
            client.outbox.send(frame, true)
        });
    }

    fn note_digest_mismatch(&self, zxid: Zxid) {
        self.stats.digest_mismatches.add(1);
        error!(
            "after txn {zxid} this server's tree differs from the leader's: stop this server, \
             move its version-2 directories away and start it again, so that it takes everything from \
             the leader"
        );
    }

    fn note_session(&self, now: Now, zxid: Zxid, client: &Client) {
        if let Some(latency_ms) = client.stats.lock().opened(zxid, now.monotonic_ms) {
            self.stats.latency.add(latency_ms);
            self.stats.update_latency.add(latency_ms);
        }
    }

    fn note_answer(&self, now: Now, answered: Answered, bytes: usize) {
        let latency_ms = now.monotonic_ms.saturating_sub(answered.since_ms);
        self.stats.latency.add(latency_ms);
        if answered.op.is_write() {
            self.stats.update_latency.add(latency_ms);
        } else {
            self.stats.read_latency.add(latency_ms);
        }
        self.stats.responded(bytes as u64);
    }

    fn with_client(
        &self,
        conn: ConnId,
        to_wake: &mut Vec<Arc<Client>>,
        change: impl FnOnce(&Client) -> bool,
    ) {
        if let Some(client) = self.clients.get(conn)
            && change(&client)
        {
            to_wake.push(client);
        }
    }
}

/// Applies as many txns as without an audit log, but one at a time: what the end of a session deletes
/// is known only just before it is applied.
fn apply_audited(
    now: Now,
    node: &mut Node,
    tree: &mut Tree,
    out: &mut Outputs,
    ended: &mut Vec<audit::SessionEnd>,
) {
    for _ in 0..TXNS_PER_GUARD {
        let end = node.next_txn().and_then(|entry| audit::session_end(entry, tree));
        let before = tree.last_zxid();
        node.apply(now, tree, 1, out);
        // The txn is not applied yet if reads come first.
        if tree.last_zxid() > before {
            ended.extend(end);
        }
        if out.is_large() || !node.wants_tree() {
            break;
        }
    }
}

/// Frees a tree on its own thread: with tens of millions of znodes it takes seconds, and neither readers
/// nor the log must wait for that. If no thread can be started, it is freed here.
pub(crate) fn drop_on_thread(tree: Tree) {
    _ = spawn("old-tree", move || drop(tree));
}

#[cfg(test)]
mod tests {
    use herdsman_config::{Config, SystemProperties};
    use herdsman_node::{ConnId, SessionPasswords};
    use herdsman_proto::{ConnectRequest, SessionId};

    use super::*;
    use crate::start::repair::FilesState;
    use crate::start::settings;

    fn core() -> Core {
        let config = Config::standalone_default(&SystemProperties::new()).expect("defaults").config;
        let (tree, clock) = (Tree::new(settings::tree_options(&config, 0)), Clock::start());
        let (whole, apache) = (FilesState::Whole, SessionPasswords::Apache);
        let node = settings::node_settings(&config, whole, apache, 0);
        let node = Node::new(node, &tree, clock.now());
        let clients = Clients::new(settings::conn_limits(&config), 1);
        Core::new(node, tree, clients, ServerStats::default(), clock, Arc::default(), None)
    }

    fn open_session(core: &Core, conn: u64) {
        let request = ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 4000,
            session: SessionId::NONE,
            password: &[0; 16],
            read_only: None,
        };
        core.step(Input::Connect { conn: ConnId(conn), request, ids: Arc::default() });
    }

    /// Otherwise a leader would send no pings, and notice no lost follower, until everything is applied.
    #[test]
    fn the_ticker_applies_one_turn_at_a_time() {
        let core = core();
        let last = 5000;
        (1..=last).for_each(|conn| open_session(&core, conn));
        let mut requesters = ThreadSet::default();
        requesters.extend([0]);
        core.flushed(Zxid(last as i64), requesters);
        let turn = TXNS_PER_GUARD as i64 * i64::from(ROUNDS_PER_TURN);
        for applied in [turn, 2 * turn, last as i64] {
            core.tick(core.clock.monotonic_ms());
            assert_eq!(core.tree().last_zxid(), Zxid(applied));
        }
    }

    /// The process may be paused after the ticker has looked at the clock.
    #[test]
    fn a_pause_just_before_a_tick_ends_no_session() {
        let mut core = core();
        open_session(&core, 1);
        core.flushed(Zxid(1), ThreadSet::default());
        let awake_ms = core.clock.monotonic_ms();
        core.clock = Clock::started_at(Duration::from_secs(60));
        core.tick(awake_ms);
        assert_eq!(core.with_node(|node| node.sessions().expired()), 0);
        core.clock = Clock::started_at(Duration::from_secs(120));
        core.tick(core.clock.monotonic_ms());
        assert_eq!(core.with_node(|node| node.sessions().expired()), 1);
    }
}
