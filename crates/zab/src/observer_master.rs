//! A follower that serves observers in place of the leader, so that the leader has fewer learners.
//!
//! In: packets of observers on the observer master's port, and every commit that this follower receives.
//! Out: LEADERINFO with the epoch that this server follows, what an observer lacks, NEWLEADER, UPTODATE,
//! then INFORM for every commit, and pings. Each observer goes through the steps by itself:
//! nothing is decided here, so there is no quorum to wait for. Deliberately not here: requests of observers'
//! clients. The node forwards these to the leader and returns the answers.
//!
//! Invariants: an observer receives only txns that the leader has committed; it receives every such
//! txn once and in order; it is never told to cut off what is agreed on. Observers are disconnected when
//! this server loses its leader, because it could send them nothing more.
//!
//! Apache: `ObserverMaster`, `LearnerHandler`. How we differ: there an observer that comes from a
//! master that is slightly ahead has to cut its log; here it waits for the commits that this
//! follower has not received yet. Observers catch up from this server's log, as at a leader, not from a
//! separate queue (`observerMaster.sizeLimit`).

use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{LearnerKind, QuorumPacket, ServerId, Zxid};

use crate::io::{CloseReason, LinkId, Output};
use crate::learner_peer::{
    Contest, LearnerPeer, Learners, SendProgress, Step, contesting, judge_contest,
    judge_introduction, late_links, ping,
};
use crate::replica::Replica;

/// A follower's observers.
#[derive(Debug)]
pub(crate) struct ObserverMaster {
    /// The leader's epoch.
    epoch: u32,
    /// The last txn that all observers which have caught up were sent.
    informed_to: Zxid,
    observers: Learners,
    next_ping_ms: u64,
    next_check_ms: u64,
}

impl ObserverMaster {
    pub fn begin(now_ms: u64, epoch: u32, replica: &Replica) -> Self {
        ObserverMaster {
            epoch,
            informed_to: replica.log.committed(),
            observers: Learners::new(),
            next_ping_ms: now_ms + replica.settings.tick_ms / 2,
            next_check_ms: now_ms + replica.settings.tick_ms,
        }
    }

    pub fn knows(&self, link: LinkId) -> bool {
        self.observers.contains_key(&link)
    }

    /// Returns the observers that are up to date.
    pub fn observers(&self) -> impl Iterator<Item = (LinkId, ServerId)> + '_ {
        let active = self.observers.iter().filter(|(_, peer)| peer.step == Step::Active);
        active.map(|(link, peer)| (*link, peer.server))
    }

    pub fn all_observers(&self) -> &Learners {
        &self.observers
    }

    pub fn is_active(&self, link: LinkId) -> bool {
        self.observers.get(&link).is_some_and(|peer| peer.step == Step::Active)
    }

    pub fn handle_link_opened(&mut self, now_ms: u64, link: LinkId, replica: &Replica) {
        let deadline_ms = now_ms + replica.settings.init_limit_ms();
        self.observers.insert(link, LearnerPeer::new(now_ms, deadline_ms));
    }

    pub fn handle_link_lost(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        self.observers.remove(&link);
        self.settle_contests(now_ms, replica, out);
    }

    pub fn handle_heard(&mut self, now_ms: u64, link: LinkId) {
        if let Some(peer) = self.observers.get_mut(&link) {
            peer.heard_ms = now_ms;
        }
    }

    pub fn handle_packet(
        &mut self,
        now_ms: u64,
        link: LinkId,
        packet: &QuorumPacket,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        self.handle_heard(now_ms, link);
        let start = Zxid::start_of(self.epoch);
        let Some(peer) = self.observers.get_mut(&link) else { return };
        match (packet, peer.step) {
            (QuorumPacket::Info { kind, info: Some(info), .. }, Step::AwaitingInfo) => {
                self.handle_info(link, *kind, info, replica, out);
            }
            (QuorumPacket::AckEpoch { last_zxid, .. }, Step::AwaitingEpochAck) => {
                peer.last_zxid = *last_zxid;
                self.settle_contest(now_ms, link, replica, out);
            }
            (QuorumPacket::Ack { zxid }, Step::Syncing) if *zxid == start => {
                peer.step = Step::Resuming;
                self.send_more(now_ms, link, replica, out);
            }
            // The answer to UPTODATE has no meaning.
            (QuorumPacket::Ack { zxid }, Step::Active) if *zxid == start => {}
            _ => self.dismiss(link, CloseReason::UnexpectedPacket, out),
        }
    }

    fn handle_info(
        &mut self,
        link: LinkId,
        kind: LearnerKind,
        info: &LearnerInfo,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        if kind != LearnerKind::Observer {
            return self.dismiss(link, CloseReason::NotAnObserver, out);
        }
        if let Err(reason) = judge_introduction(info, replica) {
            return self.dismiss(link, reason, out);
        }
        let peer = self.observers.get_mut(&link).expect("the caller has looked");
        peer.server = info.server;
        peer.kind = kind;
        peer.step = Step::AwaitingEpochAck;
        let (epoch, protocol_version) = (self.epoch, PROTOCOL_VERSION);
        let packet = QuorumPacket::LeaderInfo { epoch, protocol_version };
        out.push(Output::Send { link, packet });
    }

    /// Checks all links again that contest another one.
    fn settle_contests(&mut self, now_ms: u64, replica: &Replica, out: &mut Vec<Output>) {
        for link in contesting(&self.observers) {
            if self.observers.contains_key(&link) {
                self.settle_contest(now_ms, link, replica, out);
            }
        }
    }

    /// Goes on with an observer, unless it may have a link that is in use.
    fn settle_contest(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        let contest = judge_contest(&self.observers, link, now_ms, replica);
        let peer = self.observers.get_mut(&link).expect("the caller has looked");
        match contest {
            Contest::Lost => self.dismiss(link, CloseReason::AlreadyConnected, out),
            Contest::Open => peer.contest(now_ms),
            Contest::Won { over } => {
                peer.step = Step::Promised;
                if let Some(older) = over {
                    self.dismiss(older, CloseReason::Replaced, out);
                }
                self.synchronize(now_ms, link, replica, out);
            }
        }
    }

    /// Sends an observer what it lacks, unless it is ahead of this server. What it has of the current epoch will
    /// be agreed on while the leader stays, and this server will soon receive the commits.
    fn synchronize(&mut self, now_ms: u64, link: LinkId, replica: &Replica, out: &mut Vec<Output>) {
        let agreed = replica.log.committed();
        let promised = self.observers.get_mut(&link).filter(|peer| peer.step == Step::Promised);
        let Some(peer) = promised else { return };
        let ahead = peer.last_zxid.epoch() == self.epoch && peer.last_zxid > agreed;
        // The start of the epoch is not a txn: no commit will come for it.
        if ahead && peer.last_zxid.counter() != 0 {
            return;
        }
        if peer.send_history(now_ms, link, agreed, replica, out) == SendProgress::Complete {
            self.send_new_leader(now_ms, link, replica, out);
        }
    }

    /// Notes that a tree, or the log up to `log_to`, is on its way to an observer.
    pub fn handle_sent(
        &mut self,
        now_ms: u64,
        link: LinkId,
        log_to: Option<Zxid>,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        if let Some(peer) = self.observers.get_mut(&link).filter(|peer| peer.is_streaming()) {
            peer.sent_to = peer.sent_to.max(log_to.unwrap_or(peer.sent_to));
            self.send_more(now_ms, link, replica, out);
        }
    }

    /// Sends what was agreed on since, until nothing is left.
    fn send_more(&mut self, now_ms: u64, link: LinkId, replica: &Replica, out: &mut Vec<Output>) {
        let peer = self.observers.get_mut(&link).expect("the caller has looked");
        match (peer.send_more(link, replica.log.committed(), replica, out), peer.step) {
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

    /// Sends the tree to an observer for which the log on disk cannot be used.
    pub fn handle_log_missed(&mut self, link: LinkId, replica: &Replica, out: &mut Vec<Output>) {
        let sending = self.observers.get_mut(&link).filter(|peer| peer.step == Step::Sending);
        if let Some(peer) = sending {
            peer.send_snapshot(link, replica, out);
        }
    }

    /// Sends NEWLEADER: everything that the observer lacked is on its way.
    fn send_new_leader(
        &mut self,
        now_ms: u64,
        link: LinkId,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        let peer = self.observers.get_mut(&link).expect("the caller has looked");
        let agreed = replica.log.committed();
        let membership = replica.memberships.for_new_leader(true);
        peer.send_new_leader(now_ms, link, self.epoch, (agreed, membership), replica, out);
    }

    /// Sends the observers what this server has just learned to be agreed on. The last txn of it may
    /// change the membership and designate the next leader.
    pub fn inform(
        &mut self,
        now_ms: u64,
        activates: Option<(Zxid, ServerId)>,
        replica: &Replica,
        out: &mut Vec<Output>,
    ) {
        let agreed = replica.log.committed();
        if agreed == self.informed_to {
            return;
        }
        let news = replica.log.history().after(self.informed_to);
        for (zxid, payload) in news.take_while(|(zxid, _)| *zxid <= agreed) {
            let (zxid, payload) = (*zxid, payload.clone());
            let packet = match activates {
                Some((at, leader)) if at == zxid => {
                    QuorumPacket::InformAndActivate { zxid, leader, payload }
                }
                _ => QuorumPacket::Inform { zxid, payload },
            };
            for (link, _) in self.observers.iter().filter(|(_, peer)| peer.is_forwarding()) {
                out.push(Output::Send { link: *link, packet: packet.clone() });
            }
        }
        self.informed_to = agreed;
        let waiting = self.observers.iter().filter(|(_, peer)| peer.step == Step::Promised);
        for link in waiting.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.synchronize(now_ms, link, replica, out);
        }
    }

    pub fn next_deadline(&self) -> u64 {
        self.next_ping_ms.min(self.next_check_ms)
    }

    pub fn tick(&mut self, now_ms: u64, replica: &Replica, out: &mut Vec<Output>) {
        if now_ms >= self.next_check_ms {
            self.next_check_ms = now_ms + replica.settings.tick_ms;
            for link in late_links(&self.observers, now_ms, replica) {
                self.dismiss(link, CloseReason::TimedOut, out);
            }
            self.settle_contests(now_ms, replica, out);
        }
        if now_ms >= self.next_ping_ms {
            self.next_ping_ms = now_ms + replica.settings.tick_ms / 2;
            ping(&self.observers, replica.log.committed(), out);
        }
    }

    /// Disconnects an observer.
    pub fn dismiss(&mut self, link: LinkId, reason: CloseReason, out: &mut Vec<Output>) {
        self.observers.remove(&link);
        out.push(Output::Close { link, reason });
    }

    /// Disconnects all observers, which have to find another master: this server has lost its leader.
    pub fn end(self, out: &mut Vec<Output>) {
        for link in self.observers.into_keys() {
            out.push(Output::Close { link, reason: CloseReason::NotObserverMaster });
        }
    }
}

#[cfg(test)]
mod tests;
