//! Servers start and stop.
//!
//! A stop is always a crash: of what the disk was asked to do, some may have been done and not been
//! reported, the rest is gone, and of what was not synced, a part.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use herdsman_node::{Node, Outputs, StorageState, membership_of};
use herdsman_proto::Zxid;
use herdsman_store::SyncMode;
use herdsman_tree::Tree;
use herdsman_zab::{Epochs, InitialFiles, InitialState, Voting};

use super::disks::Job;
use super::{Event, Mirror, Process, ServerIndex, World};
use crate::chronicle::fingerprint;
use crate::storage::{RecoveredState, Storage};

impl World {
    /// Starts a server that is down. It may refuse, if its disk is rotten.
    pub fn start(&mut self, place: ServerIndex) {
        if self.servers[place].refusal.is_some() || self.servers[place].repair.is_some() {
            return;
        }
        let process = self.servers[place].process.as_ref();
        match process.map(|process| process.node.storage()) {
            None => {}
            // Only a restart helps.
            Some(StorageState::Failed) => self.crash(place),
            Some(_) => return,
        }
        match self.servers[place].storage.open(&self.plan) {
            Ok(found) => {
                self.servers[place].set_aside = None;
                self.join(place, found);
            }
            Err(why) => {
                self.take_back(place);
                match self.servers[place].storage.damage(&self.plan) {
                    Some(damage) if !self.servers[place].full => self.begin_repair(place, damage),
                    _ => self.refuse(place, why),
                }
            }
        }
    }

    pub(super) fn refuse(&mut self, place: ServerIndex, why: String) {
        self.note(|| format!("{place} refuses to start: {why}"));
        let sync_failed = std::mem::take(&mut self.servers[place].sync_fails);
        if self.servers[place].full || sync_failed {
            // A start has to write, too; it will be tried again.
            self.servers[place].storage.crash(&mut self.random);
            return self.later(1000, Event::Start { place });
        }
        if self.servers[place].rotten == 0 {
            self.fail("recovery", format!("server {place} does not start after a crash: {why}"));
        }
        self.counts.refusals += 1;
        self.servers[place].refusal = Some(why);
    }

    pub(super) fn join(&mut self, place: ServerIndex, found: RecoveredState) {
        let RecoveredState { tree, epochs, base, tail, suspended, files, .. } = found;
        let server = &mut self.servers[place];
        server.lost |= suspended.is_some();
        server.life += 1;
        server.crash_after = None;
        let last = tree.last_zxid();
        // Damage in the last record looks like a torn write; damage in another one does not.
        let missing = server.mirror.between(last, server.flushed).len();
        let is_torn = server.mirror.base() <= last && missing <= server.rotten;
        if last < server.flushed && !is_torn && !server.lost {
            let why = format!("{place} starts with {last}, {} was durable", server.flushed);
            return self.fail("recovery", why);
        }
        if epochs.accepted < server.promised && !server.lost {
            let why =
                format!("{place} starts with {epochs:?}, and had promised {}", server.promised);
            return self.fail("recovery", why);
        }
        server.epochs_rot = false;
        (server.promised, server.followed) = (epochs.accepted, epochs.current);
        // Voting may have been allowed just before a crash.
        let is_in_doubt = suspended.is_some() || files != InitialFiles::Whole;
        server.needs_leader &= is_in_doubt;
        server.lost &= is_in_doubt;
        server.flushed = last;
        if server.mirror_installed.last() == last {
            server.mirror = std::mem::take(&mut server.mirror_installed);
        }
        server.mirror.cut_after(last);
        if let Some(why) = differs(&server.mirror, base, &tail) {
            return self.fail("recovery", format!("{place} starts with another history: {why}"));
        }
        let server = &mut self.servers[place];
        let (id, now) = (server.id, server.clock.now(self.now_ms));
        let epochs = Epochs { current: epochs.current, accepted: epochs.accepted };
        let initial = InitialState {
            membership: Arc::clone(&server.membership),
            in_tree: membership_of(&tree),
            voting: if suspended.is_some() { Voting::Suspended } else { Voting::Allowed },
            epochs,
            base,
            tail,
            files,
        };
        let mut out = Outputs::default();
        let node = Node::join(
            self.plan.node_settings(id),
            self.plan.zab_settings(id),
            initial,
            &tree,
            now,
            &mut out,
        );
        let process = Process {
            node,
            tree,
            writer: server.storage.writer(&self.plan, last),
            jobs: [VecDeque::new(), VecDeque::new()],
            busy: [0, 0],
            received: BTreeMap::new(),
            snapshot: None,
            txns_since_snapshot: 0,
            tick_at_ms: None,
            applies_later: false,
            connect_attempt: 0,
            delivered: server.mirror.base(),
            storage: StorageState::Writable,
            waits_for_room: [false, false],
        };
        self.note(|| format!("{place} starts with {last} and {epochs:?}"));
        self.carry_on(place, Box::new(process), out);
    }

    /// Stops a server, if it runs.
    pub fn crash(&mut self, place: ServerIndex) {
        if let Some(process) = self.servers[place].process.take() {
            self.crash_process(place, process);
        } else if self.servers[place].repair.take().is_some() {
            self.restart_unless_over(place);
        }
    }

    pub(super) fn crash_process(&mut self, place: ServerIndex, mut process: Box<Process>) {
        self.note(|| format!("{place} crashes"));
        self.counts.crashes += 1;
        if self.random.per_mille(500) && process.storage == StorageState::Writable {
            self.do_some_work(place, &mut process);
        }
        drop(process);
        let server = &mut self.servers[place];
        server.crash_after = None;
        server.stopped_until_ms = None;
        server.storage.crash(&mut self.random);
        self.lose_links_of(place);
        self.lose_conns_of(place);
        self.restart_unless_over(place);
    }

    /// The disk may have done some of its work before the power failed, and reported none.
    fn do_some_work(&mut self, place: ServerIndex, process: &mut Process) {
        let storage = self.servers[place].storage.clone();
        let changes = self.random.below(12);
        storage.disk.cut_power_after(changes);
        for lane in [1, 0] {
            while let Some(job) = process.jobs[lane].pop_front() {
                let done = match job {
                    Job::Append { zxid, payload } => {
                        let appended = process.writer.append(zxid, &payload).is_ok();
                        let more = matches!(process.jobs[lane].front(), Some(Job::Append { .. }));
                        appended && (more || process.writer.flush(SyncMode::Sync).is_ok())
                    }
                    Job::Epoch { kind, epoch } => storage.save_epoch(kind, epoch).is_ok(),
                    Job::AllowVoting => storage.allow_voting().is_ok(),
                    Job::Truncate { zxid, .. } => {
                        self.servers[place].flushed = Zxid::ZERO;
                        let tree = storage.truncate(&self.plan, zxid);
                        self.go_on_behind(process, &storage, tree.ok().flatten())
                    }
                    Job::Install { link, voting, .. } => {
                        self.servers[place].flushed = Zxid::ZERO;
                        let received = process.received.remove(&link);
                        let tree = received.and_then(|(tree, mirror)| {
                            self.servers[place].mirror_installed = mirror;
                            storage.install(tree, voting).ok()
                        });
                        self.go_on_behind(process, &storage, tree)
                    }
                };
                if !done {
                    break;
                }
            }
        }
    }

    /// The log goes on behind a tree that has taken the old one's place.
    fn go_on_behind(&self, process: &mut Process, storage: &Storage, tree: Option<Tree>) -> bool {
        let Some(tree) = tree else { return false };
        process.writer = storage.writer(&self.plan, tree.last_zxid());
        true
    }
}

/// How the end of a log differs from what was logged, if it does.
fn differs(mirror: &Mirror, base: Zxid, tail: &[(Zxid, Bytes)]) -> Option<String> {
    let logged = mirror.between(base, mirror.last());
    // A server in whose mirror the beginning of the tail is not known has been given a tree.
    let known = tail.iter().filter(|(zxid, _)| *zxid > mirror.base());
    let known: Vec<_> = known.map(|(zxid, payload)| (*zxid, fingerprint(payload))).collect();
    let logged: Vec<_> = logged.into_iter().map(|(_, zxid, hash, _)| (zxid, hash)).collect();
    let at = (0..known.len().max(logged.len())).find(|at| known.get(*at) != logged.get(*at))?;
    Some(format!("{:?} instead of {:?}", known.get(at), logged.get(at)))
}
