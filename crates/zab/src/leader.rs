//! Leading: from the first learner's word to the last commit.
//!
//! The stages, each named for what it awaits:
//! 1. **Discovery.** `AwaitingInfos`: a quorum of voters, this server among them, has said which epoch
//!    it promised last. The new epoch is one more than the largest, and saved (`SavingAcceptedEpoch`)
//!    before anybody hears of it. `AwaitingEpochAcks`: a quorum has promised it, and none of them has
//!    a history that is newer than this server's.
//! 2. **Synchronization.** `AwaitingNewLeaderAcks`: each learner gets what it lacks and NEWLEADER
//!    behind it. A quorum that has all of it durable makes this server's whole history agreed on.
//! 3. **Broadcast.** `Broadcasting`: txns are proposed, acknowledged and committed, in zxid order.
//!
//! Learners may come late: each goes through the same steps by itself and joins at the end.
//!
//! Invariants: nothing is committed before stage 3; a txn is committed when every quorum that has a
//! say acknowledged it or a later one of this epoch; a learner hears of a commit only behind the
//! proposal; observers and strangers never count (ZOOKEEPER-2959).
//!
//! Apache: `Leader`, `LearnerHandler`. How we differ: no thread waits for anything; no snapshot is
//! written before serving; an acknowledgement stands for all earlier ones on the same link.

mod broadcast;
mod discovery;
mod synchronize;

use std::collections::{BTreeSet, VecDeque};

use herdsman_proto::{LearnerKind, QuorumPacket, ServerId, Zxid};

use crate::common::{Common, Fall};
use crate::io::{CloseReason, EpochKind, LinkId, Output};
use crate::learner_peer::{LearnerPeer, Learners, Step, late_links, ping_active};

/// What a leader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    AwaitingInfos,
    SavingAcceptedEpoch,
    AwaitingEpochAcks,
    AwaitingNewLeaderAcks,
    Broadcasting,
}

/// A server that leads, or tries to.
#[derive(Debug)]
pub(crate) struct Leader {
    stage: Stage,
    /// Known from `SavingAcceptedEpoch` on.
    epoch: u32,
    /// When the stage must be over.
    stage_deadline_ms: u64,
    /// The end of this server's log when it was elected, and the epoch it had followed: what the
    /// followers' are compared with.
    initial: (u32, Zxid),
    /// This server's own epoch is saved, so its own history counts.
    own_epoch_saved: bool,
    /// A new membership gives the lead to somebody else: nothing more is committed here.
    retired: bool,
    learners: Learners,
    /// Learners' syncs, and the proposal behind which each is answered; oldest first.
    syncs: VecDeque<(Zxid, LinkId)>,
    next_ping_ms: u64,
    next_check_ms: u64,
}

impl Leader {
    pub fn begin(now_ms: u64, common: &Common) -> Self {
        let Common { settings, log, epochs, .. } = common;
        Leader {
            stage: Stage::AwaitingInfos,
            epoch: 0,
            stage_deadline_ms: now_ms + settings.init_limit_ms(),
            initial: (epochs.current, log.last()),
            own_epoch_saved: false,
            retired: false,
            learners: Learners::new(),
            syncs: VecDeque::new(),
            next_ping_ms: now_ms + settings.tick_ms / 2,
            next_check_ms: now_ms + settings.tick_ms,
        }
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    pub fn is_established(&self) -> bool {
        self.stage == Stage::Broadcasting
    }

    /// The learners that are up to date: who, on which link, as what.
    pub fn learners(&self) -> impl Iterator<Item = (LinkId, ServerId, LearnerKind)> + '_ {
        let active = self.learners.iter().filter(|(_, peer)| peer.step == Step::Active);
        active.map(|(link, peer)| (*link, peer.server, peer.kind))
    }

    pub fn is_active(&self, link: LinkId) -> bool {
        self.learners.get(&link).is_some_and(|peer| peer.step == Step::Active)
    }

    pub fn handle_link_opened(&mut self, now_ms: u64, link: LinkId, common: &Common) {
        let deadline_ms = now_ms + common.settings.init_limit_ms();
        self.learners.insert(link, LearnerPeer::new(now_ms, deadline_ms));
    }

    /// A leader that has named another one stays until its learners have heard of it and left.
    pub fn handle_link_lost(&mut self, link: LinkId) -> Result<(), Fall> {
        self.learners.remove(&link);
        if self.retired && self.learners().next().is_none() {
            return Err(Fall::Reconfigured { next: None });
        }
        Ok(())
    }

    pub fn handle_heard(&mut self, now_ms: u64, link: LinkId) {
        if let Some(peer) = self.learners.get_mut(&link) {
            peer.heard_ms = now_ms;
        }
    }

    pub fn handle_packet(
        &mut self,
        now_ms: u64,
        link: LinkId,
        packet: QuorumPacket,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) {
        self.handle_heard(now_ms, link);
        let Some(peer) = self.learners.get(&link) else {
            return;
        };
        match (packet, peer.step) {
            (QuorumPacket::Info { kind, accepted_epoch, info: Some(info) }, Step::AwaitingInfo) => {
                self.handle_info(now_ms, link, kind, accepted_epoch, info, common, out);
            }
            (QuorumPacket::AckEpoch { last_zxid, current_epoch }, Step::AwaitingEpochAck) => {
                self.handle_epoch_ack(now_ms, link, last_zxid, current_epoch, common, out);
            }
            (QuorumPacket::Ack { zxid }, Step::Syncing) => {
                self.handle_new_leader_ack(now_ms, link, zxid, common, out);
            }
            (QuorumPacket::Ack { zxid }, Step::Synced | Step::Active) => {
                self.handle_ack(now_ms, link, zxid, common, out);
            }
            _ => self.dismiss(link, CloseReason::UnexpectedPacket, out),
        }
    }

    /// A voter has promised a later epoch, to a leader that never came to lead: it can never follow
    /// this one. A new epoch above it costs a moment; without it the ensemble would be one voter short
    /// until the next election, as Apache's is.
    pub fn is_outbid(&self, common: &Common) -> bool {
        self.stage != Stage::AwaitingInfos
            && self.learners.values().any(|peer| {
                peer.accepted_epoch > self.epoch
                    && peer.kind == LearnerKind::Follower
                    && common.electorate.is_voter(peer.server)
            })
    }

    pub fn handle_epoch_saved(
        &mut self,
        now_ms: u64,
        kind: EpochKind,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) {
        match (kind, self.stage) {
            (EpochKind::Accepted, Stage::SavingAcceptedEpoch) => {
                self.announce_epoch(now_ms, common, out);
            }
            (EpochKind::Current, Stage::AwaitingNewLeaderAcks) => {
                self.own_epoch_saved = true;
                self.try_to_establish(now_ms, common, out);
            }
            _ => {}
        }
    }

    pub fn next_deadline(&self) -> u64 {
        let stage = if self.is_established() { u64::MAX } else { self.stage_deadline_ms };
        stage.min(self.next_ping_ms).min(self.next_check_ms)
    }

    pub fn tick(
        &mut self,
        now_ms: u64,
        common: &Common,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        if !self.is_established() && now_ms >= self.stage_deadline_ms {
            return Err(Fall::NoQuorum);
        }
        if now_ms >= self.next_check_ms {
            self.next_check_ms = now_ms + common.settings.tick_ms;
            for link in late_links(&self.learners, now_ms, common) {
                self.dismiss(link, CloseReason::TimedOut, out);
            }
            self.check_quorum(now_ms, common)?;
        }
        if now_ms >= self.next_ping_ms {
            self.next_ping_ms = now_ms + common.settings.tick_ms / 2;
            ping_active(&self.learners, common.log.last(), out);
        }
        Ok(())
    }

    fn check_quorum(&self, now_ms: u64, common: &Common) -> Result<(), Fall> {
        if !self.is_established() {
            return Ok(());
        }
        let limit_ms = common.settings.sync_limit_ms();
        let alive: BTreeSet<_> = self
            .learners
            .values()
            .filter(|peer| peer.step == Step::Active && now_ms <= peer.heard_ms + limit_ms)
            .map(|peer| peer.server)
            .chain([common.me()])
            .collect();
        if common.electorate.is_quorum(|voter| alive.contains(&voter)) {
            Ok(())
        } else {
            Err(Fall::NoQuorum)
        }
    }

    /// Sends a learner away.
    fn dismiss(&mut self, link: LinkId, reason: CloseReason, out: &mut Vec<Output>) {
        self.learners.remove(&link);
        out.push(Output::Close { link, reason });
    }

    /// The leader steps down: everybody has to look for another one.
    pub fn end(self, out: &mut Vec<Output>) {
        for link in self.learners.into_keys() {
            out.push(Output::Close { link, reason: CloseReason::NotLeading });
        }
    }

    fn enter(&mut self, stage: Stage, now_ms: u64, common: &Common) {
        self.stage = stage;
        self.stage_deadline_ms = now_ms + common.settings.init_limit_ms();
    }
}
