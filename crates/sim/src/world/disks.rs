//! Disk work: one job after the other, each taking its time, done in one piece at the end of it.
//!
//! Appends that have gathered while the disk was at work are one batch: one write, one sync. Nothing is
//! reported before it is done. Epochs have a queue of their own only for the mistake that needs it
//! ([`herdsman_zab::Mistake::EpochBeforeHistory`]): `zab` asks for everything in order.

use bytes::Bytes;
use herdsman_node::{Input, StorageState, membership_of};
use herdsman_proto::Zxid;
use herdsman_store::{AppendError, InstallError, SnapshotWriter, SyncMode, Trailer, purge};
use herdsman_tree::Dump;
use herdsman_zab::{EpochKind, Input as PeerInput, LinkId, TreeAfterCut, Voting};

use super::repairs::NEVER;
use super::{Event, Process, Server, ServerIndex, World};
use crate::storage::Storage;

/// How often a full disk is tried again.
const FULL_RETRY_MS: u64 = 500;
/// A snapshot is taken in about so many steps.
const SNAPSHOT_STEPS: usize = 10;
/// Snapshots that stay.
const SNAPSHOTS_KEPT: usize = 3;

/// Something for the disk to do.
#[derive(Clone, Debug)]
pub enum Job {
    /// Append a txn.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its bytes.
        payload: Bytes,
    },
    /// Save an epoch.
    Epoch {
        /// Which.
        kind: EpochKind,
        /// Its number.
        epoch: u32,
    },
    /// Cut the log.
    Truncate {
        /// The last txn to keep.
        zxid: Zxid,
        /// Whether the tree has to be loaded again.
        tree: TreeAfterCut,
    },
    /// Forget that the server must not vote.
    AllowVoting,
    /// Put a tree in the place of everything.
    Install {
        /// The link on which it came.
        link: LinkId,
        /// The zxid of its SNAP.
        zxid: Zxid,
        /// Whether the server has lost what it had.
        voting: Voting,
    },
}

/// A snapshot being taken.
pub struct SnapshotTask {
    dump: Dump,
    writer: SnapshotWriter,
}

/// What came of a job.
enum JobResult {
    /// Tell agreement.
    Yes(PeerInput),
    /// No room: try again.
    Full,
    /// Never again.
    Failed(String),
    /// The process ends itself: it cannot go on from here.
    Exit(String),
}

impl World {
    /// Lets an idle disk begin.
    pub(super) fn start_disk(&mut self, place: ServerIndex) {
        if self.servers[place].frozen {
            return;
        }
        for lane in 0..2 {
            let Some(process) = &mut self.servers[place].process else { return };
            if process.busy[lane] > 0 || process.jobs[lane].is_empty() {
                continue;
            }
            if process.storage == StorageState::Failed {
                continue;
            }
            let is_append = |job: &&Job| matches!(job, Job::Append { .. });
            let batch = process.jobs[lane].iter().take_while(is_append).count();
            process.busy[lane] = batch.max(1);
            let delay_ms = self.disk_ms(place);
            let life = self.servers[place].life;
            self.later(delay_ms, Event::DiskDone { place, life, lane });
        }
    }

    fn disk_ms(&mut self, place: ServerIndex) -> u64 {
        let (low, high) = self.plan.disk_ms;
        let took_ms = self.random.between(low, high.max(low));
        if self.servers[place].slow { took_ms * 10 + self.plan.tick_ms / 4 } else { took_ms }
    }

    pub(super) fn disk_done(&mut self, place: ServerIndex, life: u64, lane: usize) {
        if !self.alive(place, life) {
            return;
        }
        let Some(mut process) = self.servers[place].process.take() else { return };
        if self.servers[place].frozen {
            process.busy[lane] = 0;
            self.servers[place].process = Some(process);
            return;
        }
        let done = self.do_job(place, &mut process, lane);
        match done {
            JobResult::Yes(input) => {
                process.busy[lane] = 0;
                process.waits_for_room[lane] = false;
                let has_room = process.storage == StorageState::Full
                    && !process.waits_for_room.contains(&true);
                if has_room {
                    process.storage = StorageState::Writable;
                }
                self.servers[place].process = Some(process);
                // A tree or a log that was replaced is reported before anything else is asked of the node.
                let is_flush = matches!(input, PeerInput::Flushed { .. });
                if has_room && is_flush {
                    self.step(place, Input::Storage(StorageState::Writable));
                }
                self.step_peer(place, input);
                if has_room && !is_flush {
                    self.step(place, Input::Storage(StorageState::Writable));
                }
            }
            JobResult::Full => {
                let told = process.storage == StorageState::Full;
                process.storage = StorageState::Full;
                process.waits_for_room[lane] = true;
                self.servers[place].process = Some(process);
                self.later(FULL_RETRY_MS, Event::DiskDone { place, life, lane });
                if !told {
                    self.note(|| format!("{place} has no room"));
                    self.step(place, Input::Storage(StorageState::Full));
                }
            }
            JobResult::Failed(why) => {
                self.note(|| format!("{place} cannot write: {why}"));
                process.busy[lane] = 0;
                process.storage = StorageState::Failed;
                self.servers[place].process = Some(process);
                self.step(place, Input::Storage(StorageState::Failed));
            }
            JobResult::Exit(why) => {
                self.note(|| format!("{place} ends itself: {why}"));
                self.crash_process(place, process);
                let delay_ms = self.plan.tick_ms;
                self.later(delay_ms, Event::Start { place });
            }
        }
    }

    fn do_job(&mut self, place: ServerIndex, process: &mut Process, lane: usize) -> JobResult {
        let storage = self.servers[place].storage.clone();
        let Some(job) = process.jobs[lane].front().cloned() else {
            return JobResult::Failed("there was nothing to do".to_owned());
        };
        let done = match job {
            Job::Append { .. } => return self.flush(place, process),
            Job::Epoch { kind, epoch } => match storage.save_epoch(kind, epoch) {
                Ok(()) => {
                    self.note_epoch(place, kind, epoch);
                    JobResult::Yes(PeerInput::EpochSaved { kind, epoch })
                }
                Err(_) if self.servers[place].full => JobResult::Full,
                Err(why) => JobResult::Failed(why),
            },
            Job::Truncate { zxid, tree } => self.truncate(place, process, &storage, (zxid, tree)),
            Job::AllowVoting => match storage.allow_voting() {
                Ok(()) => {
                    self.servers[place].lost = false;
                    self.servers[place].needs_leader = false;
                    JobResult::Yes(PeerInput::VotingAllowed)
                }
                Err(why) => JobResult::Failed(why),
            },
            Job::Install { link, voting, .. } => {
                self.install(place, process, &storage, (link, voting))
            }
        };
        if !matches!(done, JobResult::Full) {
            process.jobs[lane].pop_front();
        }
        done
    }

    /// A promise must be kept from now on; who has followed a leader has its history.
    fn note_epoch(&mut self, place: ServerIndex, kind: EpochKind, epoch: u32) {
        let server = &mut self.servers[place];
        match kind {
            EpochKind::Accepted => server.promised = server.promised.max(epoch),
            EpochKind::Current => {
                server.followed = epoch;
                server.needs_leader &= server.lost;
            }
        }
    }

    /// The batch that was there when the disk began.
    fn flush(&mut self, place: ServerIndex, process: &mut Process) -> JobResult {
        let batch = process.busy[0];
        // A batch that found no room is in the writer still.
        if !process.waits_for_room[0] {
            for job in process.jobs[0].iter().take(batch) {
                let Job::Append { zxid, payload } = job else { unreachable!("counted before") };
                if let Err(error) = process.writer.append(*zxid, payload) {
                    return JobResult::Failed(error.to_string());
                }
            }
        }
        match process.writer.flush(SyncMode::Sync) {
            Ok(flushed) => {
                process.jobs[0].drain(..batch);
                self.servers[place].flushed = flushed.last_zxid;
                self.count_txns(place, process, batch as u64);
                JobResult::Yes(PeerInput::Flushed { zxid: flushed.last_zxid })
            }
            Err(AppendError::Full { .. }) => JobResult::Full,
            Err(error) => JobResult::Failed(error.to_string()),
        }
    }

    fn truncate(
        &mut self,
        place: ServerIndex,
        process: &mut Process,
        storage: &Storage,
        (zxid, after): (Zxid, TreeAfterCut),
    ) -> JobResult {
        // From here on what is cut off may be gone, also if the cut fails and is never reported.
        let flushed = &mut self.servers[place].flushed;
        *flushed = (*flushed).min(zxid);
        // The start of an epoch is no txn: where the log ends then is found by loading it.
        if after == TreeAfterCut::Kept && zxid.counter() != 0 {
            match storage.truncate_log(zxid) {
                Ok(true) => {
                    process.writer = storage.writer(&self.plan, zxid);
                    self.servers[place].mirror.cut_after(zxid);
                    self.servers[place].flushed = zxid;
                    return JobResult::Yes(PeerInput::Truncated { zxid, tree: after });
                }
                Ok(false) => {}
                Err(_) if self.servers[place].full => return JobResult::Full,
                Err(why) => return JobResult::Failed(why),
            }
        }
        process.snapshot = None;
        match storage.truncate(&self.plan, zxid) {
            Ok(Some(tree)) => {
                let zxid = tree.last_zxid();
                process.writer = storage.writer(&self.plan, zxid);
                process.tree = tree;
                self.servers[place].mirror.cut_after(zxid);
                self.servers[place].flushed = zxid;
                process.delivered = process.delivered.min(zxid);
                JobResult::Yes(PeerInput::Truncated { zxid, tree: TreeAfterCut::Reloaded })
            }
            Ok(None) => JobResult::Yes(PeerInput::TruncateMissed),
            Err(_) if self.servers[place].full => JobResult::Full,
            Err(why) => JobResult::Failed(why),
        }
    }

    fn install(
        &mut self,
        place: ServerIndex,
        process: &mut Process,
        storage: &Storage,
        (link, voting): (LinkId, Voting),
    ) -> JobResult {
        process.snapshot = None;
        if self.servers[place].full {
            return JobResult::Full;
        }
        let Some((tree, mirror)) = process.received.remove(&link) else {
            return JobResult::Failed("the tree is gone".to_owned());
        };
        let cut = self.servers[place].power_fails_in_repair.take();
        storage.disk.cut_power_after(cut.unwrap_or(NEVER));
        let installed = storage.install(tree, voting);
        storage.disk.cut_power_after(NEVER);
        match installed {
            Ok(tree) => {
                let zxid = tree.last_zxid();
                self.check_uncommitted(place, process, zxid);
                let in_tree = membership_of(&tree);
                process.writer = storage.writer(&self.plan, zxid);
                process.tree = tree;
                process.delivered = Zxid::ZERO;
                let server = &mut self.servers[place];
                server.mirror = mirror;
                server.flushed = zxid;
                server.set_aside = None;
                // A server that started empty finds that out only now.
                server.lost |= voting == Voting::Suspended;
                JobResult::Yes(PeerInput::SnapshotInstalled { zxid, in_tree })
            }
            Err(error @ InstallError::Fuzzy { .. }) => {
                self.counts.fuzzy_installs += 1;
                JobResult::Exit(error.to_string())
            }
            Err(error) if cut.is_some() => {
                self.counts.interrupted_repairs += 1;
                self.servers[place].mirror_installed = mirror;
                self.servers[place].flushed = Zxid::ZERO;
                JobResult::Exit(error.to_string())
            }
            Err(error) => JobResult::Failed(error.to_string()),
        }
    }

    fn count_txns(&mut self, place: ServerIndex, process: &mut Process, txns: u64) {
        process.txns_since_snapshot += txns;
        if process.txns_since_snapshot < self.plan.snapshot_txns || process.snapshot.is_some() {
            return;
        }
        process.txns_since_snapshot = 0;
        process.writer.roll();
        let dump = Dump::start(&process.tree);
        if let Ok(writer) = self.servers[place].storage.begin_snapshot(&dump) {
            process.snapshot = Some(SnapshotTask { dump, writer });
            let life = self.servers[place].life;
            self.later(1, Event::SnapshotStep { place, life });
        }
    }

    /// Goes on with a snapshot; the tree changes between two steps.
    pub(super) fn snapshot_step(&mut self, place: ServerIndex, life: u64) {
        if !self.alive(place, life) {
            return;
        }
        let Server { process, storage, clock, .. } = &mut self.servers[place];
        let now_ms = clock.monotonic_ms(self.now_ms);
        let Some(process) = process else { return };
        let Some(SnapshotTask { dump, writer }) = &mut process.snapshot else { return };
        let nodes = process.tree.node_count() / SNAPSHOT_STEPS + 2;
        let more = dump.step(&process.tree, nodes, &mut |path, data, acl, stat| {
            writer.encode_node(path, data, acl, stat);
        });
        if more {
            let delay_ms = self.random.between(1, 5);
            return self.later(delay_ms, Event::SnapshotStep { place, life });
        }
        let trailer = Trailer::of(&process.tree, herdsman_store::LastZxid::Write);
        if let Some(SnapshotTask { writer, .. }) = process.snapshot.take()
            && writer.finish(&trailer, &mut |_| {}).is_ok()
        {
            let needed = process.node.zab().and_then(|zab| zab.log_needed_after(now_ms));
            let purged = purge(&storage.disk, &storage.dirs, SNAPSHOTS_KEPT, needed);
            self.note(|| format!("{place} has taken a snapshot, purge: {purged:?}"));
        }
    }
}
