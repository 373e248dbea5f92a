//! Catching up: DIFF, TRUNC or SNAP, the txns after it, and NEWLEADER.

use std::collections::VecDeque;

use bytes::Bytes;
use herdsman_proto::txn::Entry;
use herdsman_proto::{LearnerKind, QuorumPacket, Zxid};

use super::{Learner, Stage};
use crate::history::continues;
use crate::io::{LinkId, Output, TreeAfterCut};
use crate::replica::{Replica, StepDownReason};
use crate::settings::Mistake;

/// A tree that was received from the leader, to which txns are applied as soon as they are agreed on. At NEWLEADER it
/// becomes a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceivedTree {
    link: LinkId,
    /// The zxid of SNAP.
    zxid: Zxid,
    /// The last txn that was received, or that the tree contains.
    last: Zxid,
    /// Txns that are not known to be agreed on: no more than the leader has in flight.
    uncommitted: VecDeque<(Zxid, Bytes)>,
}

impl ReceivedTree {
    /// Adds a txn, unless the tree certainly contains it.
    fn push(&mut self, zxid: Zxid, payload: Bytes) -> Result<(), StepDownReason> {
        if zxid <= self.zxid || repeats_zxid(zxid, &payload, self.last) {
            return Ok(());
        }
        // The tree may be labelled with the start of an epoch, which `continues` allows for.
        if !continues(self.last, zxid) {
            return Err(StepDownReason::LeaderRefused);
        }
        self.last = zxid;
        self.uncommitted.push_back((zxid, payload));
        Ok(())
    }

    /// Applies what is agreed on up to here to the tree; it need not be kept any longer.
    fn replay_to(&mut self, agreed: Zxid, out: &mut Vec<Output>) {
        let link = self.link;
        while let Some((zxid, payload)) = self.uncommitted.pop_front_if(|(zxid, _)| *zxid <= agreed)
        {
            out.push(Output::Replay { link, zxid, payload });
        }
    }
}

/// Refuses a leader whose history, which would replace the one here, ends before a txn that is known to be
/// agreed on. This is more than the protocol requires: no quorum elects such a leader unless it has lost what it
/// had on disk. Only the ends are compared, so a leader that has lost txns and made others since is not detected.
fn check_keeps_committed(end: Zxid, replica: &Replica) -> Result<(), StepDownReason> {
    let committed = replica.log.committed_txn();
    if end < committed { Err(StepDownReason::LeaderBehind { end, committed }) } else { Ok(()) }
}

/// Whether a txn changes nothing and has no zxid of its own: Apache's leader proposes a request that it cannot decode
/// with the zxid that it gave last, or with counter 0 if that was none of its epoch. It belongs to no history here.
fn repeats_zxid(zxid: Zxid, payload: &[u8], last: Zxid) -> bool {
    (zxid <= last || zxid.counter() == 0) && Entry::may_repeat_zxid(payload)
}

impl Learner {
    pub(super) fn handle_plan(
        &mut self,
        plan: &QuorumPacket,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if self.stage != Stage::AwaitingPlan {
            return Err(StepDownReason::LeaderRefused);
        }
        let last = replica.log.last();
        let link = self.link.expect("packets come over a link");
        self.stage = match *plan {
            // Our log was given up, so all following txns are applied to an empty tree.
            QuorumPacket::Diff { .. } if replica.start_over => self.begin_empty(link, out),
            QuorumPacket::Trunc { zxid } if replica.start_over && zxid == Zxid::ZERO => {
                self.begin_empty(link, out)
            }
            // Nothing may be cut.
            QuorumPacket::Trunc { .. } if replica.start_over => {
                return Err(StepDownReason::LeaderRefused);
            }
            QuorumPacket::Diff { .. } => self.catch_up_from(last),
            QuorumPacket::Trunc { zxid } if zxid == last => self.catch_up_from(last),
            QuorumPacket::Trunc { .. }
                if replica.settings.mistake == Some(Mistake::SkipTruncate) =>
            {
                self.catch_up_from(last)
            }
            QuorumPacket::Trunc { zxid } if zxid < last => {
                check_keeps_committed(zxid, replica)?;
                // What was never announced is not in the tree.
                let tree = if replica.log.is_unannounced_after(zxid) {
                    TreeAfterCut::Kept
                } else {
                    TreeAfterCut::Reloaded
                };
                out.push(Output::Truncate { zxid, tree });
                Stage::Truncating
            }
            QuorumPacket::Snap { zxid } if zxid.epoch() <= self.epoch => self.collect(link, zxid),
            _ => return Err(StepDownReason::LeaderRefused),
        };
        Ok(())
    }

    /// All txns come from the leader.
    fn begin_empty(&mut self, link: LinkId, out: &mut Vec<Output>) -> Stage {
        out.push(Output::BeginEmpty { link });
        self.collect(link, Zxid::ZERO)
    }

    fn collect(&mut self, link: LinkId, zxid: Zxid) -> Stage {
        self.agreed = zxid;
        Stage::ReceivingTree(ReceivedTree { link, zxid, last: zxid, uncommitted: VecDeque::new() })
    }

    /// Continues after this txn: the log up to it is a prefix of the leader's, and agreed on once the leader is
    /// established.
    fn catch_up_from(&mut self, last: Zxid) -> Stage {
        self.agreed = last;
        Stage::CatchingUp
    }

    pub fn handle_truncated(
        &mut self,
        now_ms: u64,
        zxid: Zxid,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if self.stage != Stage::Truncating {
            return Ok(());
        }
        self.stage = self.catch_up_from(zxid);
        self.unpark(now_ms, replica, out)
    }

    /// Handles PROPOSAL, COMMIT, and INFORM, which is both in one for observers; while catching up and afterwards.
    pub(super) fn handle_txn(
        &mut self,
        packet: QuorumPacket,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        match packet {
            QuorumPacket::Proposal { zxid, payload } => self.take(zxid, payload, replica, out),
            QuorumPacket::Inform { zxid, payload } => {
                self.take(zxid, payload, replica, out)?;
                self.believe(zxid, replica, out)
            }
            QuorumPacket::Commit { zxid } => self.believe(zxid, replica, out),
            _ => Err(StepDownReason::LeaderRefused),
        }
    }

    fn take(
        &mut self,
        zxid: Zxid,
        payload: Bytes,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        // No leader has txns of a later epoch than its own, and a log with such txns could not be recovered.
        if zxid.epoch() > self.epoch {
            return Err(StepDownReason::LeaderRefused);
        }
        match &mut self.stage {
            Stage::ReceivingTree(received) => return received.push(zxid, payload),
            Stage::CatchingUp
            | Stage::FlushingHistory { .. }
            | Stage::SavingCurrentEpoch
            | Stage::AwaitingUpToDate
            | Stage::Active => {}
            _ => return Err(StepDownReason::LeaderRefused),
        }
        if repeats_zxid(zxid, &payload, replica.log.last()) {
            self.acknowledge_repeat(zxid, out);
            return Ok(());
        }
        // Apache's leader may begin a little before our end.
        if replica.log.history().contains(zxid) {
            return Ok(());
        }
        if !replica.log.continues_with(zxid) {
            return Err(StepDownReason::LeaderRefused);
        }
        replica.append(zxid, payload, out);
        match replica.settings.mistake {
            Some(Mistake::AckBeforeFlush) => self.acknowledge(replica, out),
            Some(Mistake::ApplyBeforeCommit) => replica.log.commit(zxid, out),
            _ => {}
        }
        Ok(())
    }

    /// Acknowledges a txn again that Apache's leader has proposed again: if it was not committed yet, the leader has
    /// forgotten who had acknowledged it.
    fn acknowledge_repeat(&self, zxid: Zxid, out: &mut Vec<Output>) {
        let may_ack = matches!(self.stage, Stage::AwaitingUpToDate | Stage::Active);
        let is_owed = zxid.counter() != 0 && zxid <= self.acked;
        if may_ack && is_owed && self.kind == LearnerKind::Follower {
            self.send(QuorumPacket::Ack { zxid }, out);
        }
    }

    /// Handles a commit. The txn is agreed on only if the leader is established. A txn of the leader's own epoch shows
    /// that: it was proposed, and acknowledged by a quorum, after the leader was established, and the history before it
    /// is agreed on, too. Such a txn is committed at once, so that what is written while this server catches up does
    /// not accumulate in memory. All other commits are only noted until UPTODATE.
    fn believe(
        &mut self,
        zxid: Zxid,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        let last = match &self.stage {
            Stage::ReceivingTree(received) => received.last,
            _ => replica.log.last(),
        };
        if zxid > last {
            return Err(StepDownReason::LeaderRefused);
        }
        match &mut self.stage {
            Stage::ReceivingTree(received) => received.replay_to(zxid, out),
            Stage::Active => replica.log.commit(zxid, out),
            Stage::CatchingUp
            | Stage::FlushingHistory { .. }
            | Stage::SavingCurrentEpoch
            | Stage::AwaitingUpToDate => {
                if zxid.epoch() == self.epoch {
                    replica.log.commit(zxid, out);
                }
            }
            // It is not known yet whether the log here is the leader's.
            _ => return Err(StepDownReason::LeaderRefused),
        }
        self.agreed = self.agreed.max(zxid);
        Ok(())
    }

    pub(super) fn handle_new_leader(
        &mut self,
        zxid: Zxid,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if zxid != Zxid::start_of(self.epoch) {
            return Err(StepDownReason::LeaderRefused);
        }
        match std::mem::replace(&mut self.stage, Stage::CatchingUp) {
            Stage::CatchingUp => {
                self.acked = self.agreed;
                let skip = replica.settings.mistake == Some(Mistake::EpochBeforeHistory);
                if replica.log.is_settled() || skip {
                    return self.save_current_epoch(replica, out);
                }
                self.stage = Stage::FlushingHistory { to: replica.log.last() };
                Ok(())
            }
            Stage::ReceivingTree(received) => {
                // This is where the snapshot will end; a crash may come before the rest is in the log.
                check_keeps_committed(self.agreed, replica)?;
                self.install(received, replica, out);
                Ok(())
            }
            _ => Err(StepDownReason::LeaderRefused),
        }
    }

    /// Requests the installation of the received tree. It contains what is agreed on; the rest will be appended to the
    /// log after it.
    fn install(&mut self, received: ReceivedTree, replica: &Replica, out: &mut Vec<Output>) {
        let ReceivedTree { link, zxid, uncommitted, .. } = received;
        let rest = uncommitted.into_iter();
        let rest = rest.map(|(zxid, payload)| QuorumPacket::Proposal { zxid, payload });
        self.stage = Stage::Installing { rest: rest.collect() };
        out.push(Output::InstallSnapshot { link, zxid, voting: replica.voting });
    }

    pub fn handle_installed(
        &mut self,
        now_ms: u64,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        let Stage::Installing { rest } = &mut self.stage else {
            return Ok(());
        };
        let rest = std::mem::take(rest);
        self.acked = replica.log.last();
        self.save_current_epoch(replica, out)?;
        for packet in rest {
            self.handle_txn(packet, replica, out)?;
        }
        self.unpark(now_ms, replica, out)
    }
}
