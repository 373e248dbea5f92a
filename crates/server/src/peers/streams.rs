//! What is sent to a learner in one long stream: the tree, and parts of the log.
//!
//! Both are read by the thread that writes to the learner, as fast as the learner takes them, while the tree and the
//! log go on changing. The core hears that the learner takes them, and when all was read.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Instant;

use herdsman_node::Input;
use herdsman_proto::{QuorumPacket, Zxid};
use herdsman_store::{Before, Dirs, Disk, LogPosition, LogRange, RangeError, WireSnapshot};
use herdsman_zab::{Input as PeerInput, LinkId};
use tracing::warn;

use super::HEARD_EVERY;
use crate::core::Core;
use crate::quorum::{StreamSource, StreamStep};

/// Znodes of a tree that are written down under one guard.
const NODES_PER_GUARD: usize = 128;
/// Bytes of the log that are read at a time.
const LOG_BYTES_PER_STEP: usize = 32 * 1024;
/// About what a znode takes in a snapshot besides its path and data.
const ZNODE_EXTRA_BYTES: u64 = 80;

/// Tells the core now and then that a learner takes what it is sent.
struct Report {
    core: Weak<Core>,
    link: LinkId,
    told: Instant,
}

impl Report {
    fn heard(&mut self, core: &Core) {
        if self.told.elapsed() >= HEARD_EVERY {
            self.told = Instant::now();
            core.step(Input::Peer(PeerInput::Heard { link: self.link }));
        }
    }
}

/// SNAP, and the tree behind it, a guard at a time.
pub(super) struct TreeWalk {
    report: Report,
    zxid: Zxid,
    walk: Option<(u64, WireSnapshot)>,
}

impl TreeWalk {
    pub(super) fn new(core: Weak<Core>, link: LinkId, zxid: Zxid) -> Self {
        let report = Report { core, link, told: Instant::now() };
        TreeWalk { report, zxid, walk: None }
    }
}

impl StreamSource for TreeWalk {
    fn fill(&mut self, out: &mut Vec<u8>) -> StreamStep {
        let Some(core) = self.report.core.upgrade() else { return StreamStep::Broken };
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
            // More is asked for only when the socket has taken what came before.
            self.report.heard(&core);
            return StreamStep::More;
        }
        // Before anything else is sent: what follows the tree waits for this.
        core.step(Input::Peer(PeerInput::SnapshotSent { link: self.report.link }));
        StreamStep::Done
    }
}

/// Where the log is, and when it is sent to a learner that is far behind.
#[derive(Clone)]
pub struct LogFiles {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The directories.
    pub dirs: Dirs,
    /// Nothing before this txn is sent: some of it may be missing.
    pub floor: Zxid,
    /// How much log is sent rather than a tree, as a part of the tree's size; `None` sends none.
    pub size_factor: Option<f64>,
}

/// A part of the log, each txn as PROPOSAL and COMMIT.
pub(super) struct LogWalk {
    report: Report,
    files: LogFiles,
    after: Zxid,
    to: Zxid,
    /// DIFF goes first, if the log is any good for this learner.
    diff: Option<Zxid>,
    /// Where to begin, if the part before this one was sent on the same link.
    position: Option<LogPosition>,
    range: Option<LogRange>,
}

impl LogWalk {
    pub(super) fn new(
        core: Weak<Core>,
        link: LinkId,
        files: LogFiles,
        (after, to): (Zxid, Zxid),
        diff: Option<Zxid>,
        position: Option<LogPosition>,
    ) -> Self {
        let report = Report { core, link, told: Instant::now() };
        LogWalk { report, files, after, to, diff, position, range: None }
    }

    /// Opens the log. `None`: it does not help this learner, which has been sent nothing.
    fn open(&mut self, core: &Core, out: &mut Vec<u8>) -> Result<Option<LogRange>, RangeError> {
        let Some(zxid) = self.diff else {
            return self.open_range(Before::Known).map(Some);
        };
        let wanted = self.files.size_factor.filter(|_| self.after >= self.files.floor);
        let Some(factor) = wanted else { return Ok(None) };
        let bytes_max = (tree_bytes(core) as f64 * factor) as u64;
        let range = self.open_range(Before::MustBeOurs)?;
        let report = &mut self.report;
        if !range.fits(bytes_max, &mut || is_wanted(report))? {
            return Ok(None);
        }
        let range = self.open_range(Before::MustBeOurs)?;
        core.stats.ensemble.diffs.add(1);
        QuorumPacket::Diff { zxid }.encode(out);
        Ok(Some(range))
    }

    fn open_range(&self, before: Before) -> Result<LogRange, RangeError> {
        let LogFiles { disk, dirs, .. } = &self.files;
        let (disk, after, to) = (Arc::clone(disk), self.after, self.to);
        match self.position {
            Some(position) => LogRange::resume(disk, dirs, position, (after, before), to),
            None => LogRange::open(disk, dirs, (after, before), to),
        }
    }

    fn end(&self, core: &Core) {
        let position = self.range.as_ref().and_then(LogRange::position);
        if let (Some(peers), Some(position)) = (core.peers(), position) {
            peers.note_log_position(self.report.link, position);
        }
        core.step(Input::Peer(PeerInput::LogSent { link: self.report.link, to: self.to }));
    }

    fn break_off(&self, error: &RangeError) -> StreamStep {
        warn!("a learner has to start again: {error}");
        StreamStep::Broken
    }
}

impl StreamSource for LogWalk {
    fn fill(&mut self, out: &mut Vec<u8>) -> StreamStep {
        let Some(core) = self.report.core.upgrade() else { return StreamStep::Broken };
        if self.range.is_none() {
            match self.open(&core, out) {
                Ok(Some(range)) => self.range = Some(range),
                Err(error) if self.diff.is_none() => return self.break_off(&error),
                Ok(None) | Err(_) => {
                    core.step(Input::Peer(PeerInput::LogMissed { link: self.report.link }));
                    return StreamStep::Done;
                }
            }
        }
        self.report.heard(&core);
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

/// Reading the log to see how much it is goes on only while this server runs.
fn is_wanted(report: &mut Report) -> ControlFlow<()> {
    match report.core.upgrade() {
        Some(core) => {
            report.heard(&core);
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    }
}

/// About what the tree takes in a snapshot.
fn tree_bytes(core: &Core) -> u64 {
    let tree = core.tree();
    tree.data_size() + tree.node_count() as u64 * ZNODE_EXTRA_BYTES
}
