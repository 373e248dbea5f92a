//! Long transmissions to a learner: the tree, and parts of the log.
//!
//! Both are read by the thread that writes to the learner, as fast as the learner reads, while the tree and the
//! log keep changing. The core is notified while the learner keeps reading, and when everything was sent.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use herdsman_node::Input;
use herdsman_proto::{QuorumPacket, Zxid};
use herdsman_store::{Dirs, Disk, LogPosition, LogRange, PrecedingTxn, RangeError, WireSnapshot};
use herdsman_zab::{Input as PeerInput, LinkId};
use tracing::warn;

use super::HEARTBEAT_EVERY;
use crate::core::Core;
use herdsman_quorum::{StreamSource, StreamStep};

/// Znodes of a tree that are encoded under one guard.
const NODES_PER_GUARD: usize = 128;
/// Bytes of the log that are read at a time.
const LOG_BYTES_PER_STEP: usize = 32 * 1024;
/// The approximate size of a znode in a snapshot besides its path and data.
const ZNODE_EXTRA_BYTES: u64 = 80;

/// Notifies the core from time to time that a learner is still reading.
struct Heartbeat {
    core: Weak<Core>,
    link: LinkId,
    notified_at: Instant,
}

impl Heartbeat {
    fn heard(&mut self, core: &Core) {
        if self.notified_at.elapsed() >= HEARTBEAT_EVERY {
            self.notified_at = Instant::now();
            core.step(Input::Peer(PeerInput::Heard { link: self.link }));
        }
    }
}

/// Sends SNAP and the tree after it, some znodes per guard.
pub(super) struct TreeStream {
    heartbeat: Heartbeat,
    zxid: Zxid,
    walk: Option<(u64, WireSnapshot)>,
}

impl TreeStream {
    pub(super) fn new(core: Weak<Core>, link: LinkId, zxid: Zxid) -> Self {
        let heartbeat = Heartbeat { core, link, notified_at: Instant::now() };
        TreeStream { heartbeat, zxid, walk: None }
    }
}

impl StreamSource for TreeStream {
    fn fill(&mut self, out: &mut Vec<u8>, _: &dyn Fn() -> bool) -> StreamStep {
        let Some(core) = self.heartbeat.core.upgrade() else { return StreamStep::Broken };
        if self.walk.is_none() {
            QuorumPacket::Snap { zxid: self.zxid }.encode(out);
        }
        let more = {
            let tree = core.tree();
            let generation = core.tree_generation();
            let (started, walk) =
                self.walk.get_or_insert_with(|| (generation, WireSnapshot::start(&tree)));
            if *started != generation {
                return StreamStep::Broken;
            }
            walk.step(&tree, NODES_PER_GUARD, out)
        };
        if more {
            // More is encoded only when the socket has accepted what came before.
            self.heartbeat.heard(&core);
            return StreamStep::More;
        }
        // Before anything else is sent: the packets after the tree wait for this.
        core.step(Input::Peer(PeerInput::SnapshotSent { link: self.heartbeat.link }));
        StreamStep::Done
    }
}

/// The log files, and when they are sent instead of the tree.
#[derive(Clone)]
pub struct LogFiles {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The directories.
    pub dirs: Dirs,
    /// Nothing before this txn is sent, because the log before it may be incomplete.
    pub floor: Zxid,
    /// The most log that is sent instead of a tree, as a fraction of the tree's size; `None` never sends log files.
    pub size_factor: Option<f64>,
    /// How long measuring the log may take; the learner gets no packets meanwhile.
    pub measuring_max: Duration,
}

/// Sends a part of the log, each txn as PROPOSAL and COMMIT.
pub(super) struct LogStream {
    heartbeat: Heartbeat,
    files: LogFiles,
    after: Zxid,
    to: Zxid,
    /// DIFF is sent first, if the log can be used for this learner.
    diff: Option<Zxid>,
    /// Where to begin, if the previous part was sent on the same link.
    position: Option<LogPosition>,
    range: Option<LogRange>,
}

impl LogStream {
    pub(super) fn new(
        core: Weak<Core>,
        link: LinkId,
        files: LogFiles,
        (after, to): (Zxid, Zxid),
        diff: Option<Zxid>,
        position: Option<LogPosition>,
    ) -> Self {
        let heartbeat = Heartbeat { core, link, notified_at: Instant::now() };
        LogStream { heartbeat, files, after, to, diff, position, range: None }
    }

    /// Opens the log. `None` if it cannot be used for this learner; then nothing has been sent.
    fn open(
        &self,
        core: &Core,
        out: &mut Vec<u8>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Option<LogRange>, RangeError> {
        let LogFiles { disk, dirs, floor, size_factor, measuring_max } = &self.files;
        let (after, to) = (self.after, self.to);
        let Some(zxid) = self.diff else {
            let disk = Arc::clone(disk);
            return LogRange::resume(disk, dirs, self.position, after, to).map(Some);
        };
        let Some(factor) = size_factor.filter(|_| after >= *floor) else { return Ok(None) };
        let bytes_max = (tree_bytes(core) as f64 * factor) as u64;
        let by = Instant::now() + *measuring_max;
        let mut step = || match is_wanted() && Instant::now() < by {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let range = LogRange::open(Arc::clone(disk), dirs, (after, PrecedingTxn::MustBeOurs), to)?;
        let Some(position) = range.fits(bytes_max, &mut step)? else { return Ok(None) };
        let range = LogRange::resume(Arc::clone(disk), dirs, Some(position), after, to)?;
        core.stats.ensemble.diffs.add(1);
        QuorumPacket::Diff { zxid }.encode(out);
        Ok(Some(range))
    }

    fn end(&self, core: &Core) {
        let position = self.range.as_ref().and_then(LogRange::position);
        if let (Some(peers), Some(position)) = (core.peers(), position) {
            peers.note_log_position(self.heartbeat.link, position);
        }
        core.step(Input::Peer(PeerInput::LogSent { link: self.heartbeat.link, to: self.to }));
    }

    fn break_off(&self, error: &RangeError) -> StreamStep {
        let link = self.heartbeat.link.0;
        warn!(
            "stopped sending log files to the learner on link {link}: {error}; it will reconnect and start over"
        );
        StreamStep::Broken
    }
}

impl StreamSource for LogStream {
    fn fill(&mut self, out: &mut Vec<u8>, is_wanted: &dyn Fn() -> bool) -> StreamStep {
        let Some(core) = self.heartbeat.core.upgrade() else { return StreamStep::Broken };
        if self.range.is_none() {
            match self.open(&core, out, is_wanted) {
                Ok(Some(range)) => self.range = Some(range),
                Err(error) if self.diff.is_none() => return self.break_off(&error),
                Ok(None) | Err(_) => {
                    core.step(Input::Peer(PeerInput::LogMissed { link: self.heartbeat.link }));
                    return StreamStep::Done;
                }
            }
        }
        self.heartbeat.heard(&core);
        let Some(range) = &mut self.range else { return StreamStep::Broken };
        let end = out.len() + LOG_BYTES_PER_STEP;
        while out.len() < end {
            match range.next_txn() {
                Ok(Some((zxid, payload))) => {
                    QuorumPacket::Proposal { zxid, payload }.encode(out);
                    QuorumPacket::Commit { zxid }.encode(out);
                }
                Ok(None) => {
                    self.end(&core);
                    return StreamStep::Done;
                }
                Err(error) => return self.break_off(&error),
            }
        }
        StreamStep::More
    }
}

/// The approximate size of the tree in a snapshot.
fn tree_bytes(core: &Core) -> u64 {
    let tree = core.tree();
    tree.data_size() + tree.node_count() as u64 * ZNODE_EXTRA_BYTES
}
