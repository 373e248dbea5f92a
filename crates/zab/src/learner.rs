//! Learning: from the connection to the leader to every commit that it sends.
//!
//! The stages, each named for what it awaits. `Connecting`, `AwaitingLeaderInfo`, `SavingAcceptedEpoch`:
//! a promise is saved before it is given. `AwaitingPlan`: DIFF, TRUNC or SNAP. `CatchingUp`: txns come,
//! until NEWLEADER. Then, in this order and no other (ZOOKEEPER-3911, 4643, 4646, 4685, 4785):
//! everything that came is durable (`FlushingHistory` or `Installing`), then the epoch is
//! (`SavingCurrentEpoch`), then NEWLEADER is acknowledged (`AwaitingUpToDate`). `Active`: proposals are
//! logged and acknowledged, commits are believed.
//!
//! After DIFF and TRUNC txns go straight to the log. After SNAP nothing on disk changes until
//! NEWLEADER: txns are collected beside the received tree and both become one snapshot, which takes
//! the place of the old log in one step. A link that is lost before leaves this server as it was
//! (ZOOKEEPER-2872, 3642, 5094).
//!
//! Apache: `Learner`, `Follower`, `Observer`. How we differ: no txn is applied before UPTODATE, and
//! none before it is durable here.

mod catching_up;

use std::collections::VecDeque;
use std::sync::Arc;

use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{LearnerKind, Membership, QuorumPacket, ServerId, Zxid};

use crate::common::{Change, Common, Fall};
use crate::io::{CloseReason, Door, EpochKind, LinkId, Output, Standing};
use crate::settings::Mistake;
use catching_up::Collected;

/// What a learner waits for.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    AwaitingLeaderInfo,
    SavingAcceptedEpoch { before: u32 },
    AwaitingPlan,
    Truncating,
    CatchingUp,
    Collecting(Collected),
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
    /// The follower that plays the leader for this observer.
    observer_master: Option<ServerId>,
    stage: Stage,
    link: Option<LinkId>,
    /// The leader's, from LEADERINFO on.
    epoch: u32,
    /// When something must have come from the leader.
    deadline_ms: u64,
    /// What of the history is agreed on, as far as the leader has said; believed at UPTODATE.
    agreed: Zxid,
    /// The last txn that needs no acknowledgement of its own any more.
    acked: Zxid,
    /// Packets that came while the disk was busy.
    parked: VecDeque<QuorumPacket>,
    parked_bytes: usize,
    /// The membership that came with NEWLEADER; in force from UPTODATE on.
    leaders_config: Option<Arc<Membership>>,
}

impl Learner {
    /// Learns from the leader, or from another server that plays it.
    pub fn begin(
        now_ms: u64,
        leader: ServerId,
        (to, door): (ServerId, Door),
        common: &Common,
        out: &mut Vec<Output>,
    ) -> Self {
        out.push(Output::Connect { to, door });
        Learner {
            leader,
            observer_master: (door == Door::ObserverMaster).then_some(to),
            stage: Stage::Connecting,
            link: None,
            epoch: 0,
            deadline_ms: now_ms + common.settings.init_limit_ms(),
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

    pub fn is_active(&self) -> bool {
        self.stage == Stage::Active
    }

    pub fn link(&self) -> Option<LinkId> {
        self.link
    }

    pub fn next_deadline(&self) -> u64 {
        self.deadline_ms
    }

    pub fn handle_connected(&mut self, link: LinkId, common: &Common, out: &mut Vec<Output>) {
        if self.stage != Stage::Connecting {
            return out.push(Output::Close { link, reason: CloseReason::NotFollowing });
        }
        self.link = Some(link);
        self.stage = Stage::AwaitingLeaderInfo;
        let info = LearnerInfo {
            server: common.me(),
            protocol_version: PROTOCOL_VERSION,
            config_version: common.membership.version,
        };
        let packet = QuorumPacket::Info {
            kind: common.kind,
            accepted_epoch: common.epochs.accepted,
            info: Some(info),
        };
        out.push(Output::Send { link, packet });
    }

    pub fn tick(&self, now_ms: u64) -> Result<(), Fall> {
        if now_ms >= self.deadline_ms { Err(Fall::LeaderSilent) } else { Ok(()) }
    }

    /// The leader lives.
    pub fn handle_heard(&mut self, now_ms: u64, common: &Common) {
        let limit_ms = match self.stage {
            Stage::Active => common.settings.sync_limit_ms(),
            _ => common.settings.init_limit_ms(),
        };
        self.deadline_ms = now_ms + limit_ms;
    }

    pub fn handle_packet(
        &mut self,
        now_ms: u64,
        packet: QuorumPacket,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        self.handle_heard(now_ms, common);
        if matches!(self.stage, Stage::Truncating | Stage::Installing { .. }) {
            return self.park(packet, common);
        }
        match packet {
            QuorumPacket::LeaderInfo { epoch, .. } => self.handle_leader_info(epoch, common, out),
            QuorumPacket::Diff { .. } | QuorumPacket::Trunc { .. } | QuorumPacket::Snap { .. } => {
                self.handle_plan(&packet, common, out)
            }
            QuorumPacket::Proposal { .. }
            | QuorumPacket::Commit { .. }
            | QuorumPacket::Inform { .. } => self.handle_txn(packet, common, out),
            QuorumPacket::CommitAndActivate { zxid, leader } => {
                self.handle_txn(QuorumPacket::Commit { zxid }, common, out)?;
                self.activate(zxid, leader, common, out)
            }
            QuorumPacket::InformAndActivate { zxid, leader, payload } => {
                self.handle_txn(QuorumPacket::Inform { zxid, payload }, common, out)?;
                self.activate(zxid, leader, common, out)
            }
            QuorumPacket::NewLeader { zxid, config } => {
                self.note_config(&config, common, out);
                self.handle_new_leader(zxid, common, out)
            }
            QuorumPacket::UpToDate => self.handle_up_to_date(now_ms, common, out),
            _ => Err(Fall::LeaderRefused),
        }
    }

    fn park(&mut self, packet: QuorumPacket, common: &Common) -> Result<(), Fall> {
        self.parked_bytes += match &packet {
            QuorumPacket::Proposal { payload, .. } | QuorumPacket::Inform { payload, .. } => {
                payload.len()
            }
            _ => 0,
        };
        self.parked.push_back(packet);
        if self.parked_bytes > common.settings.parked_bytes_max {
            return Err(Fall::LeaderRefused);
        }
        Ok(())
    }

    fn unpark(
        &mut self,
        now_ms: u64,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        self.parked_bytes = 0;
        let mut parked = std::mem::take(&mut self.parked);
        while let Some(packet) = parked.pop_front() {
            self.handle_packet(now_ms, packet, common, out)?;
        }
        Ok(())
    }

    fn handle_leader_info(
        &mut self,
        epoch: u32,
        common: &Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        if self.stage != Stage::AwaitingLeaderInfo || epoch < common.epochs.accepted {
            return Err(Fall::LeaderRefused);
        }
        self.epoch = epoch;
        if epoch == common.epochs.accepted {
            // Promised before, maybe to another one: it must not count again.
            self.send_epoch_ack(None, common, out);
        } else {
            self.stage = Stage::SavingAcceptedEpoch { before: common.epochs.current };
            out.push(Output::SaveEpoch { kind: EpochKind::Accepted, epoch });
        }
        Ok(())
    }

    fn send_epoch_ack(&mut self, current: Option<u32>, common: &Common, out: &mut Vec<Output>) {
        self.stage = Stage::AwaitingPlan;
        let last_zxid = if common.start_over { Zxid::ZERO } else { common.log.last() };
        self.send(QuorumPacket::AckEpoch { last_zxid, current_epoch: current }, out);
    }

    pub fn handle_epoch_saved(&mut self, kind: EpochKind, common: &Common, out: &mut Vec<Output>) {
        match (kind, &self.stage) {
            (EpochKind::Accepted, Stage::SavingAcceptedEpoch { before }) => {
                let before = *before;
                self.send_epoch_ack(Some(before), common, out);
            }
            (EpochKind::Current, Stage::SavingCurrentEpoch) => {
                self.stage = Stage::AwaitingUpToDate;
                self.send(QuorumPacket::Ack { zxid: Zxid::start_of(self.epoch) }, out);
                self.acknowledge(common, out);
            }
            _ => {}
        }
    }

    pub fn handle_flushed(&mut self, common: &Common, out: &mut Vec<Output>) {
        if let Stage::FlushingHistory { to } = self.stage
            && common.log.flushed() >= to
        {
            self.save_current_epoch(out);
        }
        self.acknowledge(common, out);
    }

    fn save_current_epoch(&mut self, out: &mut Vec<Output>) {
        self.stage = Stage::SavingCurrentEpoch;
        out.push(Output::SaveEpoch { kind: EpochKind::Current, epoch: self.epoch });
    }

    /// Acknowledges, one by one as Apache's leader wants it, what has become durable.
    fn acknowledge(&mut self, common: &Common, out: &mut Vec<Output>) {
        let may_ack = matches!(self.stage, Stage::AwaitingUpToDate | Stage::Active);
        if !may_ack || common.kind == LearnerKind::Observer {
            return;
        }
        let durable = if common.settings.mistake == Some(Mistake::AckBeforeFlush) {
            common.log.last()
        } else {
            common.log.flushed()
        };
        let Some(link) = self.link else { return };
        for (zxid, _) in common.log.history().after(self.acked) {
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
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        if self.stage != Stage::AwaitingUpToDate {
            return Err(Fall::LeaderRefused);
        }
        self.stage = Stage::Active;
        self.handle_heard(now_ms, common);
        self.send(QuorumPacket::Ack { zxid: Zxid::start_of(self.epoch) }, out);
        common.log.commit(self.agreed, out);
        let link = self.link.expect("packets come over a link");
        let leader = self.leader;
        if let Some(membership) = self.leaders_config.take()
            && common.activate(membership, leader, out) == Change::Major
        {
            return Err(Fall::Reconfigured { next: None });
        }
        out.push(Output::Standing(match common.kind {
            LearnerKind::Follower => Standing::Following { link, leader },
            LearnerKind::Observer => Standing::Observing { link, leader },
        }));
        Ok(())
    }

    /// The membership that the leader goes by, or is about to.
    fn note_config(&mut self, config: &[u8], common: &mut Common, out: &mut Vec<Output>) {
        let text = String::from_utf8_lossy(config);
        if let Ok(membership) = Membership::parse_text(&text)
            && common.may_change()
        {
            common.see(membership.clone(), out);
            self.leaders_config = Some(Arc::new(membership));
        }
    }

    /// A change of the membership is agreed on. It was seen when its txn came.
    fn activate(
        &self,
        zxid: Zxid,
        next: ServerId,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        let proposed = common.proposed.clone();
        let Some(membership) = proposed.filter(|seen| seen.version == zxid.0 as u64) else {
            return Ok(());
        };
        let change = common.activate(membership, self.leader, out);
        if change == Change::Major || next != self.leader {
            return Err(Fall::Reconfigured { next: Some(next) });
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
