//! Broadcast: propose, count acknowledgements, commit in order.

use std::collections::VecDeque;

use bytes::Bytes;
use herdsman_proto::{LearnerKind, Membership, QuorumPacket, ServerId, Zxid};

use super::{Leader, Stage};
use crate::common::{Common, same_voter};
use crate::io::{LinkId, Output};
use crate::quorum::Quorum;
use crate::settings::Mistake;

impl Leader {
    /// Proposes a txn: to the own log and to all followers, at the same time.
    pub fn propose(
        &mut self,
        now_ms: u64,
        zxid: Zxid,
        payload: Bytes,
        common: &mut Common,
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
        common.append(zxid, payload, out);
        if common.log.is_settled() {
            self.try_to_commit(common, out);
        }
    }

    pub(super) fn handle_ack(
        &mut self,
        now_ms: u64,
        link: LinkId,
        zxid: Zxid,
        common: &mut Common,
        out: &mut Vec<Output>,
    ) {
        let last = common.log.last();
        let peer = self.learners.get_mut(&link).expect("the caller has looked");
        // The answer to UPTODATE means nothing, and nobody can have what was never proposed.
        if zxid.counter() == 0 || zxid > last {
            return;
        }
        peer.acknowledged(zxid, last, now_ms);
        self.try_to_commit(common, out);
    }

    /// Commits what every quorum that has a say acknowledged. This server's own log counts like any
    /// other, once it is durable.
    pub fn try_to_commit(&mut self, common: &mut Common, out: &mut Vec<Output>) {
        while self.stage == Stage::Broadcasting && !self.retired {
            if !self.commit_run(common, out) {
                return;
            }
        }
    }

    /// Commits what is agreed on, up to a change of membership, behind which others have a say.
    /// False when there is nothing more.
    fn commit_run(&mut self, common: &mut Common, out: &mut Vec<Output>) -> bool {
        let agreed = if common.settings.mistake == Some(Mistake::CommitWithoutQuorum) {
            common.log.flushed()
        } else {
            common.electorate.agreed(|voter| self.acked_by(voter, common))
        };
        let before = common.log.committed();
        if agreed <= before {
            return false;
        }
        let change = common.proposed.clone().filter(|next| next.version <= agreed.0 as u64);
        let change_at = change.as_ref().map(|next| Zxid(next.version as i64));
        let next = change.as_ref().map(|next| self.designate(next, common));
        let until = change_at.unwrap_or(agreed);
        for (zxid, payload) in common.log.history().after(before) {
            if *zxid > until {
                break;
            }
            let activates = next.filter(|_| Some(*zxid) == change_at);
            self.send_commit(*zxid, payload, activates, out);
            answer_syncs(&mut self.syncs, *zxid, out);
        }
        common.log.commit(until, out);
        if let (Some(membership), Some(next)) = (change, next) {
            self.retired = next != common.me();
            common.activate(membership, next, out);
        }
        until < agreed || change_at.is_some()
    }

    /// A learner's sync is answered when all that was proposed before it is committed, right behind
    /// that commit: an Apache learner would not find the requests that its client sent after it
    /// otherwise.
    pub fn sync(&mut self, link: LinkId, common: &Common, out: &mut Vec<Output>) {
        self.syncs.push_back((common.log.last(), link));
        answer_syncs(&mut self.syncs, common.log.committed(), out);
    }

    /// Who leads under a new membership: this server if it still votes at the same address, else
    /// the voter that is furthest on.
    pub(super) fn designate(&self, membership: &Membership, common: &Common) -> ServerId {
        if same_voter(&common.membership, membership, common.me()) {
            return common.me();
        }
        let voters = membership.voters().filter(|voter| *voter != common.me());
        voters.max_by_key(|voter| self.acked_by(*voter, common)).unwrap_or(common.me())
    }

    /// Whether a quorum of these voters follows and is up to date.
    pub fn has_quorum_of(&self, membership: &Membership, common: &Common) -> bool {
        let active = |voter: ServerId| {
            voter == common.me() || self.learners().any(|(_, server, _)| server == voter)
        };
        Quorum::of(membership).is_quorum(active)
    }

    fn acked_by(&self, voter: ServerId, common: &Common) -> Zxid {
        if voter == common.me() {
            return common.log.flushed();
        }
        let links = self.learners.values();
        let of_voter =
            links.filter(|peer| peer.server == voter && peer.kind == LearnerKind::Follower);
        of_voter.map(|peer| peer.acked).max().unwrap_or(Zxid::ZERO)
    }

    /// `next` leads from here on, if the txn changes the membership.
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

fn answer_syncs(syncs: &mut VecDeque<(Zxid, LinkId)>, committed: Zxid, out: &mut Vec<Output>) {
    while let Some((zxid, link)) = syncs.front().copied()
        && zxid <= committed
    {
        syncs.pop_front();
        out.push(Output::Send { link, packet: QuorumPacket::Sync });
    }
}
