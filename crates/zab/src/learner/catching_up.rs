//! Catching up: DIFF, TRUNC or SNAP, the txns behind it, and NEWLEADER.

use bytes::Bytes;
use herdsman_proto::{QuorumPacket, Zxid};

use super::{Learner, Stage};
use crate::common::{Common, Fall};
use crate::history::continues;
use crate::io::{Output, SnapshotBase};
use crate::settings::Mistake;

/// Txns that come behind a whole tree, until NEWLEADER makes one snapshot of it all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Collected {
    base: SnapshotBase,
    zxid: Zxid,
    entries: Vec<(Zxid, Bytes)>,
}

impl Collected {
    fn last(&self) -> Zxid {
        self.entries.last().map_or(self.zxid, |(zxid, _)| *zxid)
    }

    /// What the tree contains for sure is skipped.
    fn push(&mut self, zxid: Zxid, payload: Bytes) -> Result<(), Fall> {
        if zxid <= self.zxid {
            return Ok(());
        }
        // The first one may leave a gap to the tree only in counting: a tree may be labelled with
        // the start of an epoch.
        if !continues(self.last(), zxid) {
            return Err(Fall::LeaderRefused);
        }
        self.entries.push((zxid, payload));
        Ok(())
    }
}

impl Learner {
    pub(super) fn handle_plan(
        &mut self,
        plan: &QuorumPacket,
        common: &Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        if self.stage != Stage::AwaitingPlan {
            return Err(Fall::LeaderRefused);
        }
        let last = common.log.last();
        self.stage = match *plan {
            // Our log had to be given up, so whatever follows is put on an empty tree.
            QuorumPacket::Diff { .. } if common.start_over => {
                self.collect(SnapshotBase::Empty, Zxid::ZERO)
            }
            QuorumPacket::Diff { .. } => self.catch_up_from(last),
            QuorumPacket::Trunc { zxid } if zxid == last => self.catch_up_from(last),
            QuorumPacket::Trunc { .. }
                if common.settings.mistake == Some(Mistake::SkipTruncate) =>
            {
                self.catch_up_from(last)
            }
            QuorumPacket::Trunc { zxid } if zxid < last && !common.start_over => {
                out.push(Output::Truncate { zxid });
                Stage::Truncating
            }
            QuorumPacket::Snap { zxid } => {
                let link = self.link.expect("packets come over a link");
                self.collect(SnapshotBase::Received(link), zxid)
            }
            _ => return Err(Fall::LeaderRefused),
        };
        Ok(())
    }

    fn collect(&mut self, base: SnapshotBase, zxid: Zxid) -> Stage {
        self.agreed = zxid;
        Stage::Collecting(Collected { base, zxid, entries: Vec::new() })
    }

    /// The log up to here is a prefix of the leader's, and agreed on once the leader is established.
    fn catch_up_from(&mut self, last: Zxid) -> Stage {
        self.agreed = last;
        Stage::CatchingUp
    }

    pub fn handle_truncated(
        &mut self,
        now_ms: u64,
        zxid: Zxid,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        if self.stage != Stage::Truncating {
            return Ok(());
        }
        self.stage = self.catch_up_from(zxid);
        self.unpark(now_ms, common, out)
    }

    /// Proposals, commits, and both in one for observers; while catching up and afterwards.
    pub(super) fn handle_txn(
        &mut self,
        packet: QuorumPacket,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        match packet {
            QuorumPacket::Proposal { zxid, payload } => self.take(zxid, payload, common, out),
            QuorumPacket::Inform { zxid, payload } => {
                self.take(zxid, payload, common, out)?;
                self.believe(zxid, common, out)
            }
            QuorumPacket::Commit { zxid } => self.believe(zxid, common, out),
            _ => Err(Fall::LeaderRefused),
        }
    }

    fn take(
        &mut self,
        zxid: Zxid,
        payload: Bytes,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        match &mut self.stage {
            Stage::Collecting(collected) => return collected.push(zxid, payload),
            Stage::CatchingUp
            | Stage::FlushingHistory { .. }
            | Stage::SavingCurrentEpoch
            | Stage::AwaitingUpToDate
            | Stage::Active => {}
            _ => return Err(Fall::LeaderRefused),
        }
        // Apache's leader may begin a little before our end.
        if common.log.history().contains(zxid) {
            return Ok(());
        }
        if !common.log.continues_with(zxid) {
            return Err(Fall::LeaderRefused);
        }
        common.append(zxid, payload, out);
        match common.settings.mistake {
            Some(Mistake::AckBeforeFlush) => self.acknowledge(common, out),
            Some(Mistake::ApplyBeforeCommit) => common.log.commit(zxid, out),
            _ => {}
        }
        Ok(())
    }

    /// A txn is agreed on. Before UPTODATE it is only noted: the leader itself is not agreed on yet.
    fn believe(
        &mut self,
        zxid: Zxid,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        let last = match &self.stage {
            Stage::Collecting(collected) => collected.last(),
            _ => common.log.last(),
        };
        if zxid > last {
            return Err(Fall::LeaderRefused);
        }
        self.agreed = self.agreed.max(zxid);
        if self.stage == Stage::Active {
            common.log.commit(zxid, out);
        }
        Ok(())
    }

    pub(super) fn handle_new_leader(
        &mut self,
        zxid: Zxid,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        if zxid != Zxid::start_of(self.epoch) {
            return Err(Fall::LeaderRefused);
        }
        match std::mem::replace(&mut self.stage, Stage::CatchingUp) {
            Stage::CatchingUp => {
                self.acked = self.agreed;
                let skip = common.settings.mistake == Some(Mistake::EpochBeforeHistory);
                if common.log.is_settled() || skip {
                    self.save_current_epoch(out);
                } else {
                    self.stage = Stage::FlushingHistory { to: common.log.last() };
                }
                Ok(())
            }
            Stage::Collecting(collected) => {
                self.install(collected, out);
                Ok(())
            }
            _ => Err(Fall::LeaderRefused),
        }
    }

    /// What is agreed on becomes part of the snapshot, the rest goes to the log behind it.
    fn install(&mut self, collected: Collected, out: &mut Vec<Output>) {
        let Collected { base, zxid, mut entries } = collected;
        let agreed = entries.iter().take_while(|(zxid, _)| *zxid <= self.agreed).count();
        let rest = entries.split_off(agreed);
        let rest = rest.into_iter().map(|(zxid, payload)| QuorumPacket::Proposal { zxid, payload });
        self.stage = Stage::Installing { rest: rest.collect() };
        out.push(Output::InstallSnapshot { base, zxid, entries });
    }

    pub fn handle_installed(
        &mut self,
        now_ms: u64,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        let Stage::Installing { rest } = &mut self.stage else {
            return Ok(());
        };
        let rest = std::mem::take(rest);
        self.acked = common.log.last();
        self.save_current_epoch(out);
        for packet in rest {
            self.handle_txn(packet, common, out)?;
        }
        self.unpark(now_ms, common, out)
    }
}
