//! Synchronization: each learner gets what it lacks, and a quorum that has it establishes the leader.

use herdsman_proto::Zxid;

use super::{Leader, Stage};
use crate::io::{CloseReason, LinkId, Output, RoleStatus};
use crate::learner_peer::{SendProgress, Step};
use crate::replica::Replica;

impl Leader {
    /// Sends a learner what it lacks, then NEWLEADER. When it has acknowledged that, it is sent what was agreed on
    /// meanwhile, UPTODATE, and then every proposal.
    pub(super) fn synchronize(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        let agreed = self.agreed(replica);
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        if peer.send_history(now_ms, link, agreed, replica, out) == SendProgress::Complete {
            self.send_new_leader(now_ms, link, replica, out);
        }
    }

    /// Notes that a tree, or the log up to `log_to`, is on its way to a learner.
    pub fn handle_sent(
        &mut self,
        now_ms: u64,
        link: LinkId,
        log_to: Option<Zxid>,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        if let Some(peer) = self.learners.get_mut(&link).filter(|peer| peer.is_streaming()) {
            peer.sent_to = peer.sent_to.max(log_to.unwrap_or(peer.sent_to));
            self.send_more(now_ms, link, replica, out);
        }
    }

    /// Sends what was agreed on since, until nothing is left.
    fn send_more(&mut self, now_ms: u64, link: LinkId, replica: &Replica, out: &mut Vec<Output>) {
        let agreed = self.agreed(replica);
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        match (peer.send_more(link, agreed, replica, out), peer.step) {
            (SendProgress::Partial, _) => {}
            (SendProgress::Complete, Step::Resuming) if peer.has_old_membership(replica) => {
                self.dismiss(link, CloseReason::MembershipChanged, out);
            }
            (SendProgress::Complete, Step::Resuming) => {
                peer.send_up_to_date(now_ms, link, replica, out);
            }
            (SendProgress::Complete, _) => self.send_new_leader(now_ms, link, replica, out),
        }
    }

    /// Sends the tree to a learner for which the log on disk cannot be used.
    pub fn handle_log_missed(&mut self, link: LinkId, replica: &Replica, out: &mut Vec<Output>) {
        let sending = self.learners.get_mut(&link).filter(|peer| peer.step == Step::Sending);
        if let Some(peer) = sending {
            peer.send_snapshot(link, replica, out);
        }
    }

    /// Sends NEWLEADER, which the learner must acknowledge: it has been sent everything that is agreed on.
    fn send_new_leader(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        let (agreed, epoch) = (self.agreed(replica), self.epoch);
        let membership = replica.memberships.for_new_leader(self.is_established());
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        peer.send_new_leader(now_ms, link, epoch, (agreed, membership), replica, out);
    }

    /// Returns the zxid up to which the history is certain: before broadcast that is the end of this server's own,
    /// which is agreed on as soon as a quorum has it.
    fn agreed(&self, replica: &Replica) -> Zxid {
        if self.is_established() { replica.log.committed() } else { replica.log.last() }
    }

    pub(super) fn handle_new_leader_ack(
        &mut self,
        now_ms: u64,
        link: LinkId,
        zxid: Zxid,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        if zxid != Zxid::start_of(self.epoch) {
            return self.dismiss(link, CloseReason::UnexpectedPacket, out);
        }
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        peer.acked = peer.synced_to;
        replica.claims.remove(&peer.server);
        if self.stage == Stage::Broadcasting {
            peer.step = Step::Resuming;
            self.send_more(now_ms, link, replica, out);
            self.try_to_commit(replica, out);
        } else {
            peer.step = Step::Synced;
            self.try_to_establish(now_ms, replica, out);
        }
    }

    /// Begins broadcast if a quorum has this server's whole history durable, so that it is agreed on.
    pub(super) fn try_to_establish(
        &mut self,
        now_ms: u64,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        // If its own epoch were not saved, this server could propose txns of an epoch that it forgets in a restart.
        if self.stage != Stage::AwaitingNewLeaderAcks
            || !self.own_epoch_saved
            || !self.is_quorum(replica, |peer| peer.step == Step::Synced)
        {
            return;
        }
        self.enter(Stage::Broadcasting, now_ms, replica);
        replica.log.commit(self.initial.1, out);
        if let Some(membership) = replica.memberships.pending().cloned() {
            let next = self.designate(&membership, replica);
            self.retired = next != replica.me();
            replica.activate(membership, next, out);
        }
        out.push(Output::RoleChanged(RoleStatus::Leading { epoch: self.epoch }));
        let synced = self.learners.iter().filter(|(_, peer)| peer.step == Step::Synced);
        for link in synced.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.activate(now_ms, link, replica, out);
        }
    }

    fn activate(&mut self, now_ms: u64, link: LinkId, replica: &Replica, out: &mut Vec<Output>) {
        if let Some(peer) = self.learners.get_mut(&link) {
            peer.send_up_to_date(now_ms, link, replica, out);
        }
    }
}
