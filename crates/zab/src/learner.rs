//! The learner's role, from the connection to the leader to every commit that it sends.
//!
//! The stages, each named for what it awaits. `Connecting`, `AwaitingLeaderInfo`, `SavingAcceptedEpoch`:
//! a promise is saved before it is given. `AwaitingPlan`: DIFF, TRUNC or SNAP. `CatchingUp`: txns arrive,
//! until NEWLEADER. Then, in this order and no other (ZOOKEEPER-3911, 4643, 4646, 4685, 4785):
//! everything received becomes durable (`FlushingHistory` or `Installing`), then the epoch
//! (`SavingCurrentEpoch`), then NEWLEADER is acknowledged (`AwaitingUpToDate`). `Active`: proposals are
//! logged and acknowledged, and commits are accepted.
//!
//! After DIFF and TRUNC txns are written straight to the log. After SNAP nothing on disk changes until
//! NEWLEADER: txns are applied to the received tree, and this becomes one snapshot, which replaces
//! the old log in one step. If the link is lost before that, this server is unchanged
//! (ZOOKEEPER-2872, 3642, 5094).
//!
//! Apache: `Learner`, `Follower`, `Observer`. How we differ: no txn of an earlier epoch than the leader's is applied
//! before UPTODATE, and none at all before it is durable here.

mod catching_up;

use std::collections::VecDeque;
use std::sync::Arc;

use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{EPOCH_MAX, LearnerKind, Membership, QuorumPacket, ServerId, Zxid};

use crate::io::{CloseReason, EpochKind, LearnerPort, LinkId, Output, RoleStatus};
use crate::memberships::{MembershipChange, Memberships, version_zxid};
use crate::replica::{Epochs, Replica, StepDownReason, Voting};
use crate::settings::Mistake;
use catching_up::ReceivedTree;

/// Bytes that a waiting packet counts in addition to its payload.
const PARKED_PACKET_BYTES: usize = 64;

/// The stage of a learner, named for what it awaits.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    AwaitingLeaderInfo,
    SavingAcceptedEpoch,
    AwaitingPlan,
    Truncating,
    CatchingUp,
    ReceivingTree(ReceivedTree),
    FlushingHistory { to: Zxid },
    Installing { rest: Vec<QuorumPacket> },
    SavingCurrentEpoch,
    AwaitingUpToDate,
    Active,
}

/// A server that follows a leader, or tries to.
#[derive(Debug)]
pub(crate) struct Learner {
    leader: ServerId,
    /// The follower that serves this observer, if it is not the leader.
    observer_master: Option<ServerId>,
    /// Whether this server follows or observes; fixed for the whole role, even if a new membership changes it.
    kind: LearnerKind,
    /// This server's history is known not to be ahead of the leader's.
    not_ahead: bool,
    stage: Stage,
    link: Option<LinkId>,
    /// The leader's epoch, known from LEADERINFO on.
    epoch: u32,
    /// When something must have been received from the leader.
    deadline_ms: u64,
    /// The zxid up to which the leader has committed, as far as its packets show; relied on from UPTODATE on.
    agreed: Zxid,
    /// The last txn that is acknowledged, or included in the acknowledgement of NEWLEADER.
    acked: Zxid,
    /// Packets that arrived while the disk was busy.
    parked: VecDeque<QuorumPacket>,
    parked_bytes: usize,
    /// The membership that came with NEWLEADER; in force from UPTODATE on, if it is agreed on.
    leaders_config: Option<Membership>,
}

/// The server to learn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upstream {
    /// The leader.
    pub leader: ServerId,
    /// The server to connect to: the leader or an observer master.
    pub to: ServerId,
    /// Its port.
    pub port: LearnerPort,
    /// The vote by which the leader was elected shows that it is not behind this server.
    pub not_ahead: bool,
}

impl Learner {
    /// Begins to learn from the leader or from an observer master.
    pub fn begin(
        now_ms: u64,
        upstream: Upstream,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) -> Self {
        let Upstream { leader, to, port, not_ahead } = upstream;
        out.push(Output::Connect { to, port });
        Learner {
            leader,
            observer_master: (port == LearnerPort::ObserverMaster).then_some(to),
            kind: replica.kind(),
            not_ahead,
            stage: Stage::Connecting,
            link: None,
            epoch: 0,
            deadline_ms: now_ms + replica.settings.init_limit_ms(),
            agreed: Zxid::ZERO,
            acked: Zxid::ZERO,
            parked: VecDeque::new(),
            parked_bytes: 0,
            leaders_config: None,
        }
    }

    pub fn leader(&self) -> ServerId {
        self.leader
    }

    pub fn observer_master(&self) -> Option<ServerId> {
        self.observer_master
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    pub fn kind(&self) -> LearnerKind {
        self.kind
    }

    pub fn is_active(&self) -> bool {
        self.stage == Stage::Active
    }

    pub fn link(&self) -> Option<LinkId> {
        self.link
    }

    pub fn next_deadline(&self) -> u64 {
        self.deadline_ms
    }

    pub fn handle_connected(&mut self, link: LinkId, replica: &Replica, out: &mut Vec<Output>) {
        if self.stage != Stage::Connecting {
            return out.push(Output::Close { link, reason: CloseReason::NotFollowing });
        }
        self.link = Some(link);
        self.stage = Stage::AwaitingLeaderInfo;
        let info = LearnerInfo {
            server: replica.me(),
            protocol_version: PROTOCOL_VERSION,
            config_version: replica.memberships.in_force().version,
        };
        let packet = QuorumPacket::Info {
            kind: self.kind,
            accepted_epoch: replica.epochs.accepted,
            info: Some(info),
        };
        out.push(Output::Send { link, packet });
    }

    pub fn tick(&self, now_ms: u64) -> Result<(), StepDownReason> {
        if now_ms >= self.deadline_ms { Err(StepDownReason::LeaderSilent) } else { Ok(()) }
    }

    /// Notes that the leader is alive.
    pub fn handle_heard(&mut self, now_ms: u64, replica: &Replica) {
        let limit_ms = match self.stage {
            Stage::Active => replica.settings.sync_limit_ms(),
            _ => replica.settings.init_limit_ms(),
        };
        self.deadline_ms = now_ms + limit_ms;
    }

    /// Notes that this server is busy with what the leader has sent. While it catches up, that may take any time. Once
    /// it serves clients, it must receive packets from the leader: clients must not be shown an old tree for longer
    /// than syncLimit.
    pub fn handle_still_busy(&mut self, now_ms: u64, replica: &Replica) {
        if !self.is_active() {
            self.handle_heard(now_ms, replica);
        }
    }

    pub fn handle_packet(
        &mut self,
        now_ms: u64,
        packet: QuorumPacket,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        self.handle_heard(now_ms, replica);
        if matches!(self.stage, Stage::Truncating | Stage::Installing { .. }) {
            return self.park(packet, replica);
        }
        match packet {
            QuorumPacket::LeaderInfo { epoch, .. } => self.handle_leader_info(epoch, replica, out),
            QuorumPacket::Diff { .. } | QuorumPacket::Trunc { .. } | QuorumPacket::Snap { .. } => {
                self.handle_plan(&packet, replica, out)
            }
            QuorumPacket::Proposal { .. }
            | QuorumPacket::Commit { .. }
            | QuorumPacket::Inform { .. } => self.handle_txn(packet, replica, out),
            QuorumPacket::CommitAndActivate { zxid, leader } => {
                self.handle_txn(QuorumPacket::Commit { zxid }, replica, out)?;
                self.activate(zxid, leader, replica, out)
            }
            QuorumPacket::InformAndActivate { zxid, leader, payload } => {
                self.handle_txn(QuorumPacket::Inform { zxid, payload }, replica, out)?;
                self.activate(zxid, leader, replica, out)
            }
            QuorumPacket::NewLeader { zxid, config } => {
                let text = String::from_utf8_lossy(&config);
                self.leaders_config = Membership::parse_text(&text).ok();
                self.handle_new_leader(zxid, replica, out)
            }
            QuorumPacket::UpToDate => self.handle_up_to_date(now_ms, replica, out),
            _ => Err(StepDownReason::LeaderRefused),
        }
    }

    fn park(&mut self, packet: QuorumPacket, replica: &Replica) -> Result<(), StepDownReason> {
        self.parked_bytes += match &packet {
            QuorumPacket::Proposal { payload, .. } | QuorumPacket::Inform { payload, .. } => {
                payload.len()
            }
            _ => 0,
        };
        self.parked_bytes += PARKED_PACKET_BYTES;
        self.parked.push_back(packet);
        if self.parked_bytes > replica.settings.parked_bytes_max {
            return Err(StepDownReason::LeaderRefused);
        }
        Ok(())
    }

    fn unpark(
        &mut self,
        now_ms: u64,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        self.parked_bytes = 0;
        let mut parked = std::mem::take(&mut self.parked);
        while let Some(packet) = parked.pop_front() {
            self.handle_packet(now_ms, packet, replica, out)?;
        }
        Ok(())
    }

    fn handle_leader_info(
        &mut self,
        epoch: u32,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        let Epochs { current, accepted } = replica.epochs;
        // No quorum relies on an observer's promise, and no leader uses it to choose a later epoch. But a voter that
        // observes only because it may not vote yet is a voter to its leader, and Apache's counts its ack.
        let is_observer = self.kind == LearnerKind::Observer && replica.voting == Voting::Allowed;
        // It may know txns to be agreed on that are of a later epoch than the last one that it fully joined.
        let committed = replica.log.committed().epoch();
        let earliest = if is_observer { current.max(committed) } else { accepted };
        let is_possible = (earliest..EPOCH_MAX).contains(&epoch);
        if self.stage != Stage::AwaitingLeaderInfo || !is_possible {
            return Err(StepDownReason::LeaderRefused);
        }
        self.epoch = epoch;
        if epoch <= accepted {
            // A promise to another leader must not count for this one.
            let promised = epoch == accepted && replica.promise_owed_to == Some(self.leader);
            self.send_epoch_ack(promised, replica, out);
        } else {
            self.stage = Stage::SavingAcceptedEpoch;
            replica.promise_owed_to = Some(self.leader);
            replica.save_epoch(EpochKind::Accepted, epoch, out);
        }
        Ok(())
    }

    /// Sends ACKEPOCH. The leader compares the epoch and the zxid with its own, to see whether this server is ahead of
    /// it. A server that requests everything again hides its zxid, so its promise counts only if it is known not to be
    /// ahead. The promise of a server that may not vote does not count.
    fn send_epoch_ack(&mut self, promised: bool, replica: &mut Replica, out: &mut Vec<Output>) {
        self.stage = Stage::AwaitingPlan;
        replica.promise_owed_to = None;
        let may_vote = replica.voting == Voting::Allowed;
        let counts = promised && may_vote && (!replica.start_over || self.not_ahead);
        let current_epoch = counts.then_some(replica.epochs.current);
        let last_zxid = if replica.start_over { Zxid::ZERO } else { replica.log.last() };
        self.send(QuorumPacket::AckEpoch { last_zxid, current_epoch }, out);
    }

    pub fn handle_epoch_saved(
        &mut self,
        kind: EpochKind,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        match (kind, &self.stage) {
            (EpochKind::Accepted, Stage::SavingAcceptedEpoch) => {
                self.send_epoch_ack(true, replica, out);
            }
            (EpochKind::Current, Stage::SavingCurrentEpoch) => {
                self.stage = Stage::AwaitingUpToDate;
                self.send(QuorumPacket::Ack { zxid: Zxid::start_of(self.epoch) }, out);
                self.acknowledge(replica, out);
            }
            _ => {}
        }
    }

    pub fn handle_flushed(
        &mut self,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if let Stage::FlushingHistory { to } = self.stage
            && replica.log.flushed() >= to
        {
            self.save_current_epoch(replica, out)?;
        }
        self.acknowledge(replica, out);
        Ok(())
    }

    /// Saves the current epoch: the leader's history is durable here. The membership is noted first, since one that
    /// came in a tree cannot be found in the log.
    fn save_current_epoch(
        &mut self,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if let Some(membership) = self.agreed_config() {
            replica.memberships.logged(membership.clone(), out);
        }
        // The membership just received changes whether this server votes, so its acknowledgement would count
        // differently.
        if replica.kind() != self.kind {
            return Err(StepDownReason::Reconfigured { next: Some(self.leader) });
        }
        self.stage = Stage::SavingCurrentEpoch;
        replica.save_epoch(EpochKind::Current, self.epoch, out);
        Ok(())
    }

    /// Acknowledges what has become durable, one txn at a time because Apache's leader needs that.
    fn acknowledge(&mut self, replica: &Replica, out: &mut Vec<Output>) {
        let may_ack = matches!(self.stage, Stage::AwaitingUpToDate | Stage::Active);
        if !may_ack || self.kind == LearnerKind::Observer {
            return;
        }
        let durable = if replica.settings.mistake == Some(Mistake::AckBeforeFlush) {
            replica.log.last()
        } else {
            replica.log.flushed()
        };
        let Some(link) = self.link else { return };
        for (zxid, _) in replica.log.history().after(self.acked) {
            if *zxid > durable {
                break;
            }
            out.push(Output::Send { link, packet: QuorumPacket::Ack { zxid: *zxid } });
        }
        self.acked = self.acked.max(durable);
    }

    fn handle_up_to_date(
        &mut self,
        now_ms: u64,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if self.stage != Stage::AwaitingUpToDate {
            return Err(StepDownReason::LeaderRefused);
        }
        self.stage = Stage::Active;
        self.handle_heard(now_ms, replica);
        self.send(QuorumPacket::Ack { zxid: Zxid::start_of(self.epoch) }, out);
        replica.log.commit(self.agreed, out);
        let link = self.link.expect("packets come over a link");
        let leader = self.leader;
        if let Some(membership) = self.agreed_config().cloned()
            && replica.activate(Arc::new(membership), leader, out) == MembershipChange::Major
        {
            return Err(StepDownReason::Reconfigured { next: None });
        }
        // A change of membership was found to be agreed on while catching up.
        if replica.kind() != self.kind {
            return Err(StepDownReason::Reconfigured { next: Some(leader) });
        }
        out.push(Output::RoleChanged(match self.kind {
            LearnerKind::Follower => RoleStatus::Following { link, leader },
            LearnerKind::Observer => RoleStatus::Observing { link, leader },
        }));
        Ok(())
    }

    /// Returns the membership that came with NEWLEADER, unless it is only pending: then it takes effect when
    /// its txn is agreed on.
    fn agreed_config(&self) -> Option<&Membership> {
        let config = self.leaders_config.as_ref()?;
        Memberships::is_agreed(config, self.epoch, self.agreed).then_some(config)
    }

    /// Puts the pending membership in force if its txn is the one that was committed.
    fn activate(
        &self,
        zxid: Zxid,
        next: ServerId,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        let pending = replica.memberships.pending().cloned();
        let Some(membership) = pending.filter(|pending| version_zxid(pending) == zxid) else {
            return Ok(());
        };
        let change = replica.activate(membership, self.leader, out);
        if change == MembershipChange::Major || next != self.leader {
            return Err(StepDownReason::Reconfigured { next: Some(next) });
        }
        Ok(())
    }

    fn send(&self, packet: QuorumPacket, out: &mut Vec<Output>) {
        if let Some(link) = self.link {
            out.push(Output::Send { link, packet });
        }
    }

    /// Leaves the leader.
    pub fn end(self, out: &mut Vec<Output>) {
        if let Some(link) = self.link {
            out.push(Output::Close { link, reason: CloseReason::NotFollowing });
        }
    }
}

#[cfg(test)]
mod tests;
