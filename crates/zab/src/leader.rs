//! The leader's role, from the first learner's introduction to the last commit.
//!
//! The stages, each named for what it awaits:
//! 1. **Discovery.** `AwaitingInfos`: a quorum of voters, including this server, reports which epoch
//!    each has promised last. The new epoch is one more than the largest, and saved (`SavingAcceptedEpoch`)
//!    before any other server learns it. `AwaitingEpochAcks`: a quorum promises it, and none of them has
//!    a history that is newer than this server's.
//! 2. **Synchronization.** `AwaitingNewLeaderAcks`: each learner gets what it lacks and then NEWLEADER.
//!    When a quorum has all of it durable, this server's whole history is agreed on.
//! 3. **Broadcast.** `Broadcasting`: txns are proposed, acknowledged and committed, in zxid order.
//!
//! Learners may join late: each goes through the same steps by itself and joins at the end.
//!
//! Invariants: nothing is committed before stage 3; a txn is committed when every required quorum has
//! acknowledged it or a later one of this epoch; a learner gets a commit only after the
//! proposal; a sync is answered only after a quorum has shown that it still follows ([`checks`]);
//! observers and servers that are not listed never count (ZOOKEEPER-2959).
//!
//! Apache: `Leader`, `LearnerHandler`. How we differ: no thread waits for anything; no snapshot is
//! written before serving; an acknowledgement includes all earlier ones on the same link.

mod broadcast;
pub(crate) mod checks;
pub(crate) mod claims;
mod discovery;
mod synchronize;

use std::collections::VecDeque;

use herdsman_proto::{LearnerKind, QuorumPacket, ServerId, Zxid};

use self::checks::Check;
use crate::io::{CloseReason, EpochKind, LinkId, Output};
use crate::learner_peer::{LearnerPeer, Learners, Step, late_links};
use crate::quorum::Quorum;
use crate::replica::{Replica, StepDownReason};

/// The stage of a leader, named for what it awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    AwaitingInfos,
    SavingAcceptedEpoch,
    AwaitingEpochAcks,
    AwaitingNewLeaderAcks,
    Broadcasting,
}

/// A learner's sync that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct WaitingSync {
    /// The proposal after whose commit it is answered.
    zxid: Zxid,
    /// The check that has to pass first.
    check: Check,
    link: LinkId,
}

/// A server that leads, or tries to.
#[derive(Debug)]
pub(crate) struct Leader {
    stage: Stage,
    /// Known from `SavingAcceptedEpoch` on.
    epoch: u32,
    /// When the stage began.
    stage_since_ms: u64,
    /// When it must be over.
    stage_deadline_ms: u64,
    /// The epoch that this server had followed and the end of its log when it was elected. The followers' are
    /// compared with these.
    initial: (u32, Zxid),
    /// This server's own epoch is saved, so its own history counts.
    own_epoch_saved: bool,
    /// A new membership designates another leader: nothing more is committed here.
    retired: bool,
    learners: Learners,
    /// Learners' syncs, oldest first.
    syncs: VecDeque<WaitingSync>,
    /// The last check that was passed.
    passed: Check,
    next_ping_ms: u64,
    next_check_ms: u64,
    /// A voter has been shown to be unable to follow, see [`claims`].
    outbid: bool,
}

impl Leader {
    pub fn begin(now_ms: u64, replica: &Replica) -> Self {
        let Replica { settings, log, epochs, .. } = replica;
        Leader {
            stage: Stage::AwaitingInfos,
            epoch: 0,
            stage_since_ms: now_ms,
            stage_deadline_ms: now_ms + settings.init_limit_ms(),
            initial: (epochs.current, log.last()),
            own_epoch_saved: false,
            retired: false,
            learners: Learners::new(),
            syncs: VecDeque::new(),
            passed: replica.last_check,
            next_ping_ms: now_ms + settings.tick_ms / 2,
            next_check_ms: now_ms + settings.tick_ms,
            outbid: false,
        }
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    pub fn is_established(&self) -> bool {
        self.stage == Stage::Broadcasting
    }

    /// Returns the learners that are up to date: link, server and kind.
    pub fn learners(&self) -> impl Iterator<Item = (LinkId, ServerId, LearnerKind)> + '_ {
        let active = self.learners.iter().filter(|(_, peer)| peer.step == Step::Active);
        active.map(|(link, peer)| (*link, peer.server, peer.kind))
    }

    pub fn all_learners(&self) -> &Learners {
        &self.learners
    }

    pub fn is_active(&self, link: LinkId) -> bool {
        self.learners.get(&link).is_some_and(|peer| peer.step == Step::Active)
    }

    pub fn handle_link_opened(&mut self, now_ms: u64, link: LinkId, replica: &Replica) {
        let deadline_ms = now_ms + replica.settings.init_limit_ms();
        self.learners.insert(link, LearnerPeer::new(now_ms, deadline_ms));
    }

    /// Forgets a lost link. A leader that has designated another one stays until its learners have learned of it and
    /// left.
    pub fn handle_link_lost(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        self.forget(link);
        self.settle_contests(now_ms, replica, out);
        if self.retired && self.learners().next().is_none() {
            return Err(StepDownReason::Reconfigured { next: None });
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
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        self.handle_heard(now_ms, link);
        let Some(peer) = self.learners.get(&link) else {
            return;
        };
        match (packet, peer.step) {
            (QuorumPacket::Info { kind, accepted_epoch, info: Some(info) }, Step::AwaitingInfo) => {
                self.handle_info(now_ms, link, kind, accepted_epoch, info, replica, out);
            }
            (QuorumPacket::AckEpoch { last_zxid, current_epoch }, Step::AwaitingEpochAck) => {
                self.handle_epoch_ack(now_ms, link, last_zxid, current_epoch, replica, out);
            }
            // Apache's followers up to 3.9.2 may acknowledge what they were sent before NEWLEADER. It counts with that.
            (QuorumPacket::Ack { zxid }, Step::Syncing)
                if zxid.counter() != 0 && zxid <= peer.sent_to => {}
            (QuorumPacket::Ack { zxid }, Step::Syncing) => {
                self.handle_new_leader_ack(now_ms, link, zxid, replica, out);
            }
            (QuorumPacket::Ack { zxid }, Step::Resuming | Step::Synced | Step::Active) => {
                self.handle_ack(now_ms, link, zxid, replica, out);
            }
            _ => self.dismiss(link, CloseReason::UnexpectedPacket, out),
        }
    }

    /// Whether a voter cannot follow this leader because it needs a later epoch: see [`claims`].
    pub fn is_outbid(&self) -> bool {
        self.outbid
    }

    /// Whether too many promises are missing: a voter has promised this very epoch to another leader, or no longer
    /// knows to which one, and the other connected voters are not a quorum. It can promise the next epoch, which is
    /// faster than waiting for a voter that may never connect. The other voters have a tick to connect first: any host
    /// can claim that it cannot promise.
    fn lacks_promises(&self, now_ms: u64, replica: &Replica) -> bool {
        let refused = |peer: &LearnerPeer| peer.step == Step::Promised && !peer.promised;
        self.stage == Stage::AwaitingEpochAcks
            && now_ms >= self.stage_since_ms + replica.settings.tick_ms
            && self.followers().any(refused)
            && !self.is_quorum_with_new_voters(replica, |peer| !refused(peer))
    }

    /// Whether a voter follows this server and is in a certain state. Everything that counts acknowledgements
    /// uses this: observers never count, and neither does a voter that joined as one because it may not vote. Only
    /// discovery counts more, see [`Self::is_quorum_with_new_voters`].
    pub(super) fn has_follower(&self, voter: ServerId, is: impl Fn(&LearnerPeer) -> bool) -> bool {
        self.followers().any(|peer| peer.server == voter && is(peer))
    }

    /// Returns the learners that count: those that follow.
    pub(super) fn followers(&self) -> impl Iterator<Item = &LearnerPeer> {
        self.learners.values().filter(|peer| peer.kind == LearnerKind::Follower)
    }

    pub fn handle_epoch_saved(
        &mut self,
        now_ms: u64,
        kind: EpochKind,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        match (kind, self.stage) {
            (EpochKind::Accepted, Stage::SavingAcceptedEpoch) => {
                self.announce_epoch(now_ms, replica, out);
            }
            (EpochKind::Current, Stage::AwaitingNewLeaderAcks) => {
                self.own_epoch_saved = true;
                self.try_to_establish(now_ms, replica, out);
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
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if !self.is_established() && now_ms >= self.stage_deadline_ms {
            if !self.is_bringing_quorum_up(replica) {
                let exhausted = self.stage == Stage::AwaitingInfos && self.has_infos(replica);
                return Err(if exhausted {
                    StepDownReason::NoEpochLeft
                } else {
                    StepDownReason::NoQuorum
                });
            }
            self.stage_deadline_ms = now_ms + replica.settings.tick_ms;
        }
        if now_ms >= self.next_check_ms {
            self.next_check_ms = now_ms + replica.settings.tick_ms;
            for link in late_links(&self.learners, now_ms, replica) {
                self.dismiss(link, CloseReason::TimedOut, out);
            }
            self.check_quorum(now_ms, replica)?;
            if self.lacks_promises(now_ms, replica) {
                return Err(StepDownReason::EpochOutbid);
            }
            // After the check for late links: the winner has a tick to catch up.
            self.settle_contests(now_ms, replica, out);
        }
        if now_ms >= self.next_ping_ms {
            self.next_ping_ms = now_ms + replica.settings.tick_ms / 2;
            self.ping(replica, out);
        }
        Ok(())
    }

    /// Whether a quorum has caught up or is about to, for instance with a large tree that takes longer than a stage
    /// may: a learner that is too slow is disconnected individually.
    fn is_bringing_quorum_up(&self, replica: &Replica) -> bool {
        let is_catching_up =
            |peer: &LearnerPeer| matches!(peer.step, Step::Sending | Step::Syncing);
        self.stage == Stage::AwaitingNewLeaderAcks
            && self.own_epoch_saved
            && self.followers().any(is_catching_up)
            && self.is_quorum(replica, |peer| is_catching_up(peer) || peer.step == Step::Synced)
    }

    fn check_quorum(&self, now_ms: u64, replica: &Replica) -> Result<(), StepDownReason> {
        let limit_ms = replica.settings.sync_limit_ms();
        let lives =
            |peer: &LearnerPeer| peer.step == Step::Active && now_ms <= peer.heard_ms + limit_ms;
        if !self.is_established() || self.is_quorum(replica, lives) {
            Ok(())
        } else {
            Err(StepDownReason::NoQuorum)
        }
    }

    /// Like [`Self::is_quorum`], for discovery, where an observer counts too if only the pending membership
    /// makes it a voter. It does not know that yet, and will join as a follower when it does; its promise binds it in
    /// either case. A voter of the membership in force that joins as an observer may not vote.
    pub(super) fn is_quorum_with_new_voters(
        &self,
        replica: &Replica,
        is: impl Fn(&LearnerPeer) -> bool,
    ) -> bool {
        let in_force = Quorum::of(replica.memberships.in_force());
        let counts = |peer: &LearnerPeer| {
            peer.kind == LearnerKind::Follower || !in_force.is_voter(peer.server)
        };
        replica.memberships.electorate().is_quorum(|voter| {
            let mut peers = self.learners.values().filter(|peer| peer.server == voter);
            voter == replica.me() || peers.any(|peer| counts(peer) && is(peer))
        })
    }

    /// Whether this server and the followers in a certain state are a quorum.
    pub(super) fn is_quorum(&self, replica: &Replica, is: impl Fn(&LearnerPeer) -> bool) -> bool {
        let counts = |voter| voter == replica.me() || self.has_follower(voter, &is);
        replica.memberships.electorate().is_quorum(counts)
    }

    fn forget(&mut self, link: LinkId) {
        self.learners.remove(&link);
        self.syncs.retain(|sync| sync.link != link);
    }

    /// Disconnects a learner.
    pub fn dismiss(&mut self, link: LinkId, reason: CloseReason, out: &mut Vec<Output>) {
        self.forget(link);
        out.push(Output::Close { link, reason });
    }

    /// Steps down and disconnects all learners, which have to look for another leader.
    pub fn end(self, out: &mut Vec<Output>) {
        for link in self.learners.into_keys() {
            out.push(Output::Close { link, reason: CloseReason::NotLeading });
        }
    }

    fn enter(&mut self, stage: Stage, now_ms: u64, replica: &Replica) {
        self.stage = stage;
        self.stage_since_ms = now_ms;
        self.stage_deadline_ms = now_ms + replica.settings.init_limit_ms();
    }
}

#[cfg(test)]
mod tests;
