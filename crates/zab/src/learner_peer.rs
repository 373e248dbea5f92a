//! One learner, from the view of the server that brings it up to date: the leader, or a follower that serves
//! observers. This module holds what both do in the same way; when to do it is decided in `leader` and
//! `observer_master`.

use std::collections::BTreeMap;

use bytes::Bytes;
use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{LearnerKind, Membership, QuorumPacket, ServerId, Zxid};

use crate::io::{CloseReason, LinkId, Output};
use crate::leader::checks::Check;
use crate::replica::Replica;
use crate::sync::{SyncPlan, plan_sync};

/// The most that is queued for a learner at once before it gets live proposals: it must read all of this before it
/// can answer a ping. Anything more is read from the log, at the learner's pace.
const REST_BYTES_MAX: usize = 8 << 20;
/// Approximate size of PROPOSAL and COMMIT without the payload.
const PACKET_EXTRA_BYTES: usize = 64;

/// All learners of one server.
pub(crate) type Learners = BTreeMap<LinkId, LearnerPeer>;

/// How far a learner has come, and what is awaited from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Awaits its introduction (FOLLOWERINFO or OBSERVERINFO).
    AwaitingInfo,
    /// Awaits nothing: the new epoch is not chosen yet.
    Introduced,
    /// Awaits its promise (ACKEPOCH).
    AwaitingEpochAck,
    /// Awaits nothing: other servers' promises are missing.
    Promised,
    /// Awaits nothing: its server has an older link, which may be in use.
    Contesting,
    /// Awaits nothing: a tree or a part of the log is being sent to it.
    Sending,
    /// Awaits the acknowledgement of NEWLEADER.
    Syncing,
    /// Awaits nothing: it is being sent the txns that were agreed on while it stored the earlier ones.
    Resuming,
    /// Awaits nothing: too few other learners have caught up.
    Synced,
    /// Is up to date; sends acknowledgements, requests and answers to pings.
    Active,
}

/// One learner.
#[derive(Clone, Debug)]
pub(crate) struct LearnerPeer {
    pub step: Step,
    pub server: ServerId,
    pub kind: LearnerKind,
    /// The epoch that it had promised before it connected.
    pub accepted_epoch: u32,
    /// Its promise counts: it was given to this leader.
    pub promised: bool,
    /// When it began to contest its server's older link.
    pub contests_since_ms: u64,
    /// When this server began to send what it lacks.
    pub syncs_since_ms: u64,
    /// The end of its log when it connected.
    pub last_zxid: Zxid,
    /// It has this txn, or has been sent it, and all before it.
    pub sent_to: Zxid,
    /// Everything up to here is durable at the learner.
    pub acked: Zxid,
    /// The last agreed txn that it was sent before NEWLEADER: acknowledged together with it.
    pub synced_to: Zxid,
    /// The version of the membership in NEWLEADER.
    pub membership_version: u64,
    /// When something was last received from it.
    pub heard_ms: u64,
    /// When it must have caught up.
    pub ready_deadline_ms: u64,
    /// When UPTODATE was sent to it.
    up_to_date_ms: u64,
    /// The last check for which it was pinged since it became up to date, and the last one that it has answered.
    pub check_asked: Check,
    pub check_answered: Check,
    /// A proposal that it has not acknowledged, and when it was sent.
    pub owes: Option<(Zxid, u64)>,
}

impl LearnerPeer {
    pub fn new(now_ms: u64, ready_deadline_ms: u64) -> Self {
        LearnerPeer {
            step: Step::AwaitingInfo,
            server: ServerId(-1),
            kind: LearnerKind::Observer,
            accepted_epoch: 0,
            promised: false,
            contests_since_ms: 0,
            syncs_since_ms: 0,
            last_zxid: Zxid::ZERO,
            sent_to: Zxid::ZERO,
            acked: Zxid::ZERO,
            synced_to: Zxid::ZERO,
            membership_version: 0,
            heard_ms: now_ms,
            up_to_date_ms: now_ms,
            ready_deadline_ms,
            check_asked: Check::default(),
            check_answered: Check::default(),
            owes: None,
        }
    }

    /// Whether it gets every proposal and commit. A learner that is still receiving or storing what it lacks does not,
    /// so nothing accumulates for it on either side, however long that takes.
    pub fn is_forwarding(&self) -> bool {
        matches!(self.step, Step::Synced | Step::Active)
    }

    /// Whether a tree or a part of the log is being streamed to it.
    pub fn is_streaming(&self) -> bool {
        matches!(self.step, Step::Sending | Step::Resuming)
    }

    /// Whether it has acknowledged NEWLEADER, so that it must answer pings.
    pub fn is_established(&self) -> bool {
        matches!(self.step, Step::Resuming | Step::Synced | Step::Active)
    }

    /// Returns how long its link may be silent and still be in use. While a learner stores a tree it cannot answer: it
    /// may take as long for that as it has taken to read it.
    fn silence_max_ms(&self, tick_ms: u64) -> u64 {
        match self.step {
            Step::Syncing => tick_ms.max(self.heard_ms.saturating_sub(self.syncs_since_ms)),
            _ => tick_ms,
        }
    }

    /// Makes it wait until it is clear whether its server's older link is in use.
    pub fn contest(&mut self, now_ms: u64) {
        if self.step != Step::Contesting {
            self.step = Step::Contesting;
            self.contests_since_ms = now_ms;
        }
    }

    pub fn is_late(&self, now_ms: u64, sync_limit_ms: u64) -> bool {
        match self.step {
            // However large the tree is; the link itself fails when the learner does not read.
            Step::Sending | Step::Resuming | Step::Synced => false,
            Step::Active => {
                let owes_long = self.owes.is_some_and(|(_, since)| now_ms > since + sync_limit_ms);
                // It reads UPTODATE, and answers it, only after its disk has written what came before.
                let has_answered = self.heard_ms > self.up_to_date_ms;
                let silent_until_ms = self.heard_ms + sync_limit_ms;
                owes_long
                    || now_ms > silent_until_ms && (has_answered || now_ms > self.ready_deadline_ms)
            }
            _ => now_ms > self.ready_deadline_ms,
        }
    }

    /// Begins to send the part of the history that it lacks; everything up to `agreed` is agreed on.
    pub fn send_history(
        &mut self,
        now_ms: u64,
        link: LinkId,
        agreed: Zxid,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) -> SendProgress {
        self.step = Step::Sending;
        self.syncs_since_ms = now_ms;
        match plan_sync(replica.log.history(), agreed, self.last_zxid) {
            SyncPlan::Diff { after } => {
                out.push(Output::Send { link, packet: QuorumPacket::Diff { zxid: agreed } });
                self.sent_to = after;
            }
            SyncPlan::Trunc { to } => {
                out.push(Output::Send { link, packet: QuorumPacket::Trunc { zxid: to } });
                self.sent_to = to;
            }
            SyncPlan::Log { after } => {
                self.sent_to = after;
                let to = durable(agreed, replica);
                out.push(Output::SendLog { link, after, to, diff: Some(agreed) });
                return SendProgress::Partial;
            }
            SyncPlan::Snap => {
                self.send_snapshot(link, replica, out);
                return SendProgress::Partial;
            }
        }
        self.send_more(link, agreed, replica, out)
    }

    pub fn send_snapshot(&mut self, link: LinkId, replica: &Replica, out: &mut Vec<Output>) {
        self.sent_to = replica.log.applied();
        out.push(Output::SendSnapshot { link, zxid: self.sent_to });
    }

    /// Sends what was agreed on since it was last sent something. After a tree this includes every txn that the tree
    /// may already contain (ZOOKEEPER-3104). It may again be more than the window holds.
    pub fn send_more(
        &mut self,
        link: LinkId,
        agreed: Zxid,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) -> SendProgress {
        let (after, to) = (self.sent_to, durable(agreed, replica));
        let history = replica.log.history();
        let rest = history.after(after).take_while(|(zxid, _)| *zxid <= agreed);
        let rest_bytes: usize = rest.map(|(_, payload)| payload.len() + PACKET_EXTRA_BYTES).sum();
        let is_much = rest_bytes > REST_BYTES_MAX && after < to;
        if history.base() > after || is_much {
            out.push(Output::SendLog { link, after, to, diff: None });
            return SendProgress::Partial;
        }
        self.send_agreed(link, agreed, replica, out);
        SendProgress::Complete
    }

    fn send_agreed(
        &mut self,
        link: LinkId,
        agreed: Zxid,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        let rest = replica.log.history().after(self.sent_to);
        for (zxid, payload) in rest.take_while(|(zxid, _)| *zxid <= agreed) {
            let (zxid, payload) = (*zxid, payload.clone());
            out.push(Output::Send { link, packet: QuorumPacket::Proposal { zxid, payload } });
            out.push(Output::Send { link, packet: QuorumPacket::Commit { zxid } });
        }
        self.sent_to = self.sent_to.max(agreed);
    }

    /// Whether a membership has taken effect since NEWLEADER was sent; the txn alone does not tell the learner.
    pub fn has_old_membership(&self, replica: &Replica) -> bool {
        self.membership_version != replica.memberships.in_force().version
    }

    /// Sends what is proposed and not agreed on. From here on it gets every new proposal.
    fn send_proposed(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        if self.kind == LearnerKind::Follower {
            for (zxid, payload) in replica.log.history().after(self.sent_to) {
                let (zxid, payload) = (*zxid, payload.clone());
                self.proposed(zxid, now_ms);
                out.push(Output::Send { link, packet: QuorumPacket::Proposal { zxid, payload } });
            }
        }
    }

    /// Sends NEWLEADER with this membership, which it must acknowledge: it has been sent everything up to `agreed`.
    pub fn send_new_leader(
        &mut self,
        now_ms: u64,
        link: LinkId,
        epoch: u32,
        (agreed, membership): (Zxid, &Membership),
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        self.step = Step::Syncing;
        self.synced_to = agreed;
        self.membership_version = membership.version;
        // It may take as long to store what it was sent as it took to read it.
        let sending_ms = now_ms.saturating_sub(self.syncs_since_ms);
        self.ready_deadline_ms = now_ms + replica.settings.init_limit_ms() + sending_ms;
        let (zxid, config) = (Zxid::start_of(epoch), Bytes::from(membership.to_text()));
        out.push(Output::Send { link, packet: QuorumPacket::NewLeader { zxid, config } });
    }

    /// Sends UPTODATE: it may serve clients.
    pub fn send_up_to_date(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        self.send_proposed(now_ms, link, replica, out);
        self.step = Step::Active;
        self.heard_ms = now_ms;
        self.up_to_date_ms = now_ms;
        self.ready_deadline_ms = now_ms + replica.settings.init_limit_ms();
        self.owes = self.owes.map(|(zxid, _)| (zxid, now_ms));
        out.push(Output::Send { link, packet: QuorumPacket::UpToDate });
    }

    /// Notes that it was sent a proposal.
    pub fn proposed(&mut self, zxid: Zxid, now_ms: u64) {
        self.owes.get_or_insert((zxid, now_ms));
    }

    /// Notes that it acknowledged a proposal; `last` is the last one that was sent.
    pub fn acknowledged(&mut self, zxid: Zxid, last: Zxid, now_ms: u64) {
        self.acked = self.acked.max(zxid);
        if self.owes.is_some_and(|(owed, _)| self.acked >= owed) {
            self.owes = (self.acked < last).then_some((last, now_ms));
        }
    }
}

/// Whether all of the history is on its way to a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendProgress {
    /// All of it.
    Complete,
    /// Not yet: a tree or a part of the log is being streamed.
    Partial,
}

/// How long log files are kept for a learner that is catching up; a slower one may have to start over.
const LOG_KEPT_MS: u64 = 60 * 60 * 1000;

/// Whether it will be sent what is agreed on meanwhile.
fn is_behind(peer: &LearnerPeer) -> bool {
    peer.is_streaming() || peer.step == Step::Syncing
}

/// Whether one of the learners will be sent what is agreed on meanwhile.
pub(crate) fn is_sending(learners: &Learners) -> bool {
    learners.values().any(is_behind)
}

/// Returns the txn after which the part of the log begins that learners are being sent.
pub(crate) fn needed_after(learners: &Learners, now_ms: u64) -> Option<Zxid> {
    let sending = learners
        .values()
        .filter(|peer| is_behind(peer) && now_ms.saturating_sub(peer.syncs_since_ms) < LOG_KEPT_MS);
    sending.map(|peer| peer.sent_to).min()
}

/// Returns the last txn up to which the log on disk can be sent.
fn durable(agreed: Zxid, replica: &Replica) -> Zxid {
    agreed.min(replica.log.flushed())
}

/// Checks whether a learner with this introduction can be brought up to date by this server.
pub(crate) fn judge_introduction(info: &LearnerInfo, replica: &Replica) -> Result<(), CloseReason> {
    if info.config_version > replica.memberships.in_force().version {
        return Err(CloseReason::NewerConfig);
    }
    if info.protocol_version < PROTOCOL_VERSION || info.server == replica.me() {
        return Err(CloseReason::UnexpectedPacket);
    }
    Ok(())
}

/// The result of a contest between two links that claim to be the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contest {
    /// This link is used, and the other one, if there is one, is closed.
    Won { over: Option<LinkId> },
    /// Undecided: it has to wait until it is clear whether the other link is in use.
    Open,
    /// The other link is in use: the peer on this link is not that server.
    Lost,
}

/// Decides which of two links of a server is used. A server has one link at a time, so a genuine server that connects
/// again has lost the older link, whether we noticed or not; but any host that reaches the port can claim to be a
/// member. So the older link stays until the newer one has promised the epoch and nothing was received on the older
/// one for a tick. A learner that has caught up is pinged in that time; one that reads a tree is noticed as it reads.
pub(crate) fn judge_contest(
    learners: &Learners,
    link: LinkId,
    now_ms: u64,
    replica: &Replica,
) -> Contest {
    let peer = &learners[&link];
    let has_promised = |other: &LearnerPeer| {
        use Step::{AwaitingEpochAck, AwaitingInfo, Contesting, Introduced};
        !matches!(other.step, AwaitingInfo | Introduced | AwaitingEpochAck | Contesting)
    };
    let older = learners.iter().find(|(other, rival)| {
        **other != link && rival.server == peer.server && has_promised(rival)
    });
    let Some((older, rival)) = older else {
        return Contest::Won { over: None };
    };
    let tick_ms = replica.settings.tick_ms;
    let since_ms = if peer.step == Step::Contesting { peer.contests_since_ms } else { now_ms };
    let silent_until_ms = rival.heard_ms.saturating_add(rival.silence_max_ms(tick_ms));
    if rival.heard_ms > since_ms {
        Contest::Lost
    } else if now_ms >= silent_until_ms.max(since_ms + tick_ms) {
        Contest::Won { over: Some(*older) }
    } else {
        Contest::Open
    }
}

/// Returns the links that contest another one, the newest first: of several links of one server that is the one in use.
pub(crate) fn contesting(learners: &Learners) -> Vec<LinkId> {
    let contesting = learners.iter().filter(|(_, peer)| peer.step == Step::Contesting);
    contesting.map(|(link, _)| *link).rev().collect()
}

/// Returns the links of learners that are not ready in time, or have not answered for too long.
pub(crate) fn late_links(learners: &Learners, now_ms: u64, replica: &Replica) -> Vec<LinkId> {
    let limit_ms = replica.settings.sync_limit_ms();
    let late = learners.iter().filter(|(_, peer)| peer.is_late(now_ms, limit_ms));
    late.map(|(link, _)| *link).collect()
}

/// Pings all learners that have caught up, or are about to.
pub(crate) fn ping(learners: &Learners, zxid: Zxid, out: &mut Vec<Output>) {
    let knows_leader = |peer: &LearnerPeer| {
        matches!(peer.step, Step::Syncing | Step::Resuming | Step::Synced | Step::Active)
    };
    for (link, _) in learners.iter().filter(|(_, peer)| knows_leader(peer)) {
        let packet = QuorumPacket::Ping { zxid, touched: Vec::new() };
        out.push(Output::Send { link: *link, packet });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// An observer reads UPTODATE only after its disk has written what came before, and cannot answer earlier.
    #[test]
    fn a_learner_has_time_to_read_that_it_is_up_to_date() {
        let replica = testing::replica(1, Zxid::ZERO, &[]);
        let (init_ms, sync_ms) = (replica.settings.init_limit_ms(), 10);
        assert!(init_ms > sync_ms);
        let mut peer = LearnerPeer::new(0, 100);
        peer.send_up_to_date(5000, LinkId(1), &replica, &mut Vec::new());
        assert!(!peer.is_late(5000 + init_ms, sync_ms));
        assert!(peer.is_late(5001 + init_ms, sync_ms));
        peer.heard_ms = 5001;
        assert!(!peer.is_late(5001 + sync_ms, sync_ms));
        assert!(peer.is_late(5002 + sync_ms, sync_ms));
    }
}
