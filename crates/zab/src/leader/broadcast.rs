//! Broadcast: propose, count acknowledgements, commit in order.

use bytes::Bytes;
use herdsman_proto::{LearnerKind, Membership, QuorumPacket, ServerId, Zxid};

use super::checks::Check;
use super::{Leader, Stage, WaitingSync};
use crate::io::{CloseReason, LinkId, Output};
use crate::learner_peer::Step;
use crate::memberships::{kind_of, same_voter, version_zxid};
use crate::quorum::Quorum;
use crate::replica::Replica;
use crate::settings::Mistake;

/// Pending syncs of all learners. A learner that requests more is disconnected.
pub(super) const SYNCS_MAX: usize = 1 << 16;

impl Leader {
    /// Proposes a txn: to its own log and to all followers, at the same time.
    pub fn propose(
        &mut self,
        now_ms: u64,
        zxid: Zxid,
        payload: Bytes,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        assert_eq!(self.stage, Stage::Broadcasting, "only an established leader proposes");
        assert_eq!(zxid.epoch(), self.epoch, "{zxid} is of another epoch");
        for (link, peer) in &mut self.learners {
            if peer.is_forwarding() && peer.kind == LearnerKind::Follower {
                peer.proposed(zxid, now_ms);
                let packet = QuorumPacket::Proposal { zxid, payload: payload.clone() };
                out.push(Output::Send { link: *link, packet });
            }
        }
        replica.append(zxid, payload, out);
        if replica.log.is_settled() {
            self.try_to_commit(replica, out);
        }
    }

    pub(super) fn handle_ack(
        &mut self,
        now_ms: u64,
        link: LinkId,
        zxid: Zxid,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        let last = replica.log.last();
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        // The answer to UPTODATE has no meaning, and what was never proposed cannot be acknowledged.
        if zxid.counter() == 0 || zxid > last {
            return;
        }
        peer.acknowledged(zxid, last, now_ms);
        self.try_to_commit(replica, out);
    }

    /// Commits what every required quorum has acknowledged. This server's own log counts like any
    /// other, once it is durable.
    pub fn try_to_commit(&mut self, replica: &mut Replica, out: &mut Vec<Output>) {
        while self.stage == Stage::Broadcasting && !self.retired {
            if !self.commit_run(replica, out) {
                return;
            }
        }
    }

    /// Commits what is agreed on, up to a change of membership, after which other servers have to agree.
    /// Returns false when there is nothing more.
    fn commit_run(&mut self, replica: &mut Replica, out: &mut Vec<Output>) -> bool {
        let agreed = if replica.settings.mistake == Some(Mistake::CommitWithoutQuorum) {
            replica.log.flushed()
        } else {
            replica.memberships.electorate().agreed(|voter| self.acked_by(voter, replica))
        };
        let before = replica.log.committed();
        if agreed <= before {
            return false;
        }
        self.pass_syncs_before(agreed, before, out);
        let pending = replica.memberships.pending().cloned();
        let change = pending.filter(|next| version_zxid(next) <= agreed);
        let change_at = change.as_deref().map(version_zxid);
        let next = change.as_ref().map(|next| self.designate(next, replica));
        let until = change_at.unwrap_or(agreed);
        for (zxid, payload) in replica.log.history().after(before) {
            if *zxid > until {
                break;
            }
            let activates = next.filter(|_| Some(*zxid) == change_at);
            self.send_commit(*zxid, payload, activates, out);
            self.answer_syncs(*zxid, out);
        }
        replica.log.commit(until, out);
        if let (Some(membership), Some(next)) = (change, next) {
            self.retired = next != replica.me();
            replica.activate(membership, next, out);
        }
        until < agreed || change_at.is_some()
    }

    /// Queues a learner's sync. It is answered when its check has passed and all earlier proposals are committed,
    /// immediately after that commit: otherwise an Apache learner would not find the requests that its client sent
    /// after it.
    pub fn sync(&mut self, link: LinkId, replica: &mut Replica, out: &mut Vec<Output>) {
        if self.syncs.len() >= SYNCS_MAX {
            return self.dismiss(link, CloseReason::TooManyPending, out);
        }
        let zxid = replica.log.last();
        // After the previous one, whatever `begin_check` returns.
        let check = Check(replica.last_check.0 + 1);
        self.syncs.push_back(WaitingSync { zxid, check, link });
        self.begin_check(replica, out);
    }

    /// Passes the checks of syncs that came before an acknowledged proposal: that a quorum has acknowledged it shows,
    /// like an answered ping, that this server still led when the sync came. So no write waits for a sync.
    fn pass_syncs_before(&mut self, agreed: Zxid, committed: Zxid, out: &mut Vec<Output>) {
        let shown = self.syncs.partition_point(|sync| sync.zxid < agreed);
        let last = shown.checked_sub(1).and_then(|last| self.syncs.get(last));
        if let Some(WaitingSync { check, .. }) = last.copied()
            && check > self.passed
        {
            self.passed = check;
            out.push(Output::CheckPassed { check });
            self.answer_syncs(committed, out);
        }
    }

    /// Answers the syncs that wait for nothing more.
    pub(super) fn answer_syncs(&mut self, committed: Zxid, out: &mut Vec<Output>) {
        while let Some(sync) = self.syncs.front()
            && sync.zxid <= committed
            && sync.check <= self.passed
        {
            out.push(Output::Send { link: sync.link, packet: QuorumPacket::Sync });
            self.syncs.pop_front();
        }
    }

    /// Chooses the leader under a new membership: this server if it still votes at the same address, else
    /// the voter that has acknowledged most.
    pub(super) fn designate(&self, membership: &Membership, replica: &Replica) -> ServerId {
        if same_voter(replica.memberships.in_force(), membership, replica.me()) {
            return replica.me();
        }
        let voters = membership.voters().filter(|voter| *voter != replica.me());
        voters.max_by_key(|voter| self.acked_by(*voter, replica)).unwrap_or(replica.me())
    }

    /// Whether a quorum of these voters follows and is up to date. Observers that the membership would make
    /// voters do not count, not even one that does not know yet that it is an observer: they acknowledge nothing before
    /// the membership is agreed on.
    pub fn has_quorum_of(&self, membership: &Membership, replica: &Replica) -> bool {
        let in_force = replica.memberships.in_force();
        Quorum::of(membership).is_quorum(|voter| {
            voter == replica.me()
                || kind_of(in_force, voter) == LearnerKind::Follower
                    && self.has_follower(voter, |peer| peer.step == Step::Active)
        })
    }

    fn acked_by(&self, voter: ServerId, replica: &Replica) -> Zxid {
        if voter == replica.me() {
            return replica.log.flushed();
        }
        let of_voter = self.followers().filter(|peer| peer.server == voter);
        of_voter.map(|peer| peer.acked).max().unwrap_or(Zxid::ZERO)
    }

    /// Sends a commit to all learners. `next` is the leader from here on, if the txn changes the membership.
    fn send_commit(
        &self,
        zxid: Zxid,
        payload: &Bytes,
        next: Option<ServerId>,
        out: &mut Vec<Output>,
    ) {
        for (link, peer) in self.learners.iter().filter(|(_, peer)| peer.is_forwarding()) {
            let payload = || payload.clone();
            let packet = match (peer.kind, next) {
                (LearnerKind::Follower, None) => QuorumPacket::Commit { zxid },
                (LearnerKind::Follower, Some(leader)) => {
                    QuorumPacket::CommitAndActivate { zxid, leader }
                }
                (LearnerKind::Observer, None) => QuorumPacket::Inform { zxid, payload: payload() },
                (LearnerKind::Observer, Some(leader)) => {
                    QuorumPacket::InformAndActivate { zxid, leader, payload: payload() }
                }
            };
            out.push(Output::Send { link: *link, packet });
        }
    }
}
