//! Discovery: a quorum promises a new epoch, and followers with a newer history than the leader's are refused.

use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{EPOCH_MAX, LearnerKind, QuorumPacket, Zxid};

use super::{Leader, Stage};
use crate::io::{CloseReason, EpochKind, LinkId, Output};
use crate::learner_peer::{Contest, Step, contesting, judge_contest, judge_introduction};
use crate::replica::{EPOCHS_AHEAD_MAX, EPOCHS_RAISED_MAX, Replica};
use crate::settings::Mistake;

impl Leader {
    #[expect(clippy::too_many_arguments, reason = "all that an introduction consists of")]
    pub(super) fn handle_info(
        &mut self,
        now_ms: u64,
        link: LinkId,
        kind: LearnerKind,
        accepted_epoch: u32,
        info: LearnerInfo,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        if let Err(reason) = judge_introduction(&info, replica) {
            return self.dismiss(link, reason, out);
        }
        // This leader only waits for its learners to leave.
        if self.retired {
            return self.dismiss(link, CloseReason::NotLeading, out);
        }
        if replica.memberships.electorate().is_voter(info.server) {
            if self.is_implausible(accepted_epoch, replica) {
                return self.dismiss(link, CloseReason::ImplausibleEpoch, out);
            }
            if self.stage == Stage::AwaitingInfos {
                if is_believed(accepted_epoch, replica) {
                    replica.promised_by_voters = replica.promised_by_voters.max(accepted_epoch);
                }
            } else if accepted_epoch > self.epoch {
                self.handle_claim(now_ms, (info.server, kind), accepted_epoch, replica);
            }
        }
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        peer.server = info.server;
        peer.kind = kind;
        peer.accepted_epoch = accepted_epoch;
        peer.step = Step::Introduced;
        match self.stage {
            Stage::AwaitingInfos => self.try_to_choose_epoch(now_ms, replica, out),
            Stage::SavingAcceptedEpoch => {}
            _ => self.send_leader_info(link, out),
        }
    }

    /// Whether no voter can have promised this epoch.
    fn is_implausible(&self, accepted_epoch: u32, replica: &Replica) -> bool {
        let own = self.epoch.max(replica.epochs.accepted);
        accepted_epoch > own.saturating_add(EPOCHS_AHEAD_MAX)
    }

    /// Returns the epoch after all that the connected voters have promised; `None` if no epoch is left. Promises of
    /// observers and of servers that are not listed do not matter to a quorum.
    pub(super) fn next_epoch(&self, replica: &Replica) -> Option<u32> {
        let electorate = replica.memberships.electorate();
        let promised = self
            .learners
            .values()
            .filter(|peer| peer.step == Step::Introduced && electorate.is_voter(peer.server))
            .map(|peer| peer.accepted_epoch)
            .filter(|epoch| is_believed(*epoch, replica));
        let largest = promised.max().unwrap_or(0);
        let largest = largest.max(replica.promised_by_voters).max(replica.epochs.accepted);
        largest.checked_add(1).filter(|epoch| *epoch < EPOCH_MAX)
    }

    /// Chooses the epoch if a quorum is connected. Also called when leading begins: an ensemble of one has its quorum
    /// at once.
    pub fn try_to_choose_epoch(
        &mut self,
        now_ms: u64,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        if self.stage != Stage::AwaitingInfos || !self.has_infos(replica) {
            return;
        }
        // Without one it waits, and steps down: others may have promised less.
        let Some(epoch) = self.next_epoch(replica) else { return };
        self.epoch = epoch;
        self.enter(Stage::SavingAcceptedEpoch, now_ms, replica);
        replica.promise_owed_to = None;
        replica.save_epoch(EpochKind::Accepted, self.epoch, out);
    }

    /// Whether a quorum has reported the epochs that it promised last.
    pub(super) fn has_infos(&self, replica: &Replica) -> bool {
        self.is_quorum_with_new_voters(replica, |peer| peer.step == Step::Introduced)
    }

    /// Announces the epoch to all learners, now that it is saved.
    pub(super) fn announce_epoch(
        &mut self,
        now_ms: u64,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        self.enter(Stage::AwaitingEpochAcks, now_ms, replica);
        replica.memberships.number_first(self.epoch, out);
        let introduced = self.learners.iter().filter(|(_, peer)| peer.step == Step::Introduced);
        for link in introduced.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.send_leader_info(link, out);
        }
        self.try_to_synchronize(now_ms, replica, out);
    }

    fn send_leader_info(&mut self, link: LinkId, out: &mut Vec<Output>) {
        if let Some(peer) = self.learners.get_mut(&link) {
            peer.step = Step::AwaitingEpochAck;
            let packet =
                QuorumPacket::LeaderInfo { epoch: self.epoch, protocol_version: PROTOCOL_VERSION };
            out.push(Output::Send { link, packet });
        }
    }

    pub(super) fn handle_epoch_ack(
        &mut self,
        now_ms: u64,
        link: LinkId,
        last_zxid: Zxid,
        current_epoch: Option<u32>,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        let open = self.stage == Stage::AwaitingEpochAcks;
        let ahead = current_epoch.is_some_and(|current| (current, last_zxid) > self.initial);
        let overlooked = replica.settings.mistake == Some(Mistake::IgnoreFollowerAhead);
        if open && ahead && !overlooked {
            return self.dismiss(link, CloseReason::AheadOfLeader, out);
        }
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        if peer.kind == LearnerKind::Follower && peer.accepted_epoch > self.epoch {
            return self.dismiss(link, CloseReason::UnexpectedPacket, out);
        }
        peer.last_zxid = last_zxid;
        peer.promised = current_epoch.is_some();
        self.settle_contest(now_ms, link, replica, out);
    }

    /// Checks all links again that contest another one.
    pub(super) fn settle_contests(
        &mut self,
        now_ms: u64,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        for link in contesting(&self.learners) {
            if self.learners.contains_key(&link) {
                self.settle_contest(now_ms, link, replica, out);
            }
        }
    }

    /// Goes on with a learner that has promised, unless its server may have a link that is in use.
    fn settle_contest(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        let contest = judge_contest(&self.learners, link, now_ms, replica);
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        match contest {
            Contest::Lost => return self.dismiss(link, CloseReason::AlreadyConnected, out),
            Contest::Open => return peer.contest(now_ms),
            Contest::Won { over } => {
                peer.step = Step::Promised;
                if let Some(older) = over {
                    self.dismiss(older, CloseReason::Replaced, out);
                }
            }
        }
        if self.stage == Stage::AwaitingEpochAcks {
            self.try_to_synchronize(now_ms, replica, out);
        } else {
            self.synchronize(now_ms, link, replica, out);
        }
    }

    /// Begins synchronization if a quorum has promised: from here on this server's history is the one that counts.
    fn try_to_synchronize(&mut self, now_ms: u64, replica: &mut Replica, out: &mut Vec<Output>) {
        if self.stage != Stage::AwaitingEpochAcks
            || !self.is_quorum_with_new_voters(replica, |peer| {
                peer.step == Step::Promised && peer.promised
            })
        {
            return;
        }
        self.enter(Stage::AwaitingNewLeaderAcks, now_ms, replica);
        replica.save_epoch(EpochKind::Current, self.epoch, out);
        let waiting = self.learners.iter().filter(|(_, peer)| peer.step == Step::Promised);
        for link in waiting.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.synchronize(now_ms, link, replica, out);
        }
    }
}

/// Whether a single report of a voter is enough to choose an epoch above this one.
fn is_believed(accepted_epoch: u32, replica: &Replica) -> bool {
    accepted_epoch <= replica.epochs.accepted.saturating_add(EPOCHS_RAISED_MAX)
}
