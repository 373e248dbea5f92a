//! Both ends of an observer master: which one an observer chooses, and when a follower acts as one.

use herdsman_proto::{LearnerKind, QuorumPacket, ServerId, Zxid};

use super::{Role, Zab};
use crate::io::{CloseReason, LearnerPort, LinkId, Output};
use crate::observer_master::ObserverMaster;
use crate::settings::ObserverMasters;

impl Zab {
    /// Chooses the server to learn from. An observer may connect to any voter and tries another one each time, so that
    /// it leaves a master that is down or does not keep up. When all have failed, it tries the leader once: a leader
    /// that is not established yet may need this very observer, which a pending membership makes a voter, and at that
    /// time no follower serves observers.
    pub(super) fn choose_upstream(&mut self, leader: ServerId) -> (ServerId, LearnerPort) {
        let ObserverMasters::On { seed } = self.replica.settings.observer_masters else {
            return (leader, LearnerPort::Quorum);
        };
        let memberships = &self.replica.memberships;
        let voters = memberships.in_force().voters().filter(|voter| *voter != leader);
        let mut masters: Vec<_> = voters.collect();
        if memberships.kind() != LearnerKind::Observer || masters.is_empty() {
            return (leader, LearnerPort::Quorum);
        }
        // Each observer has its own order, so that they do not all choose the same master.
        masters.sort_unstable_by_key(|master| scatter(seed, *master));
        self.masters_failed += 1;
        if self.masters_failed.is_multiple_of(masters.len() + 1) {
            return (leader, LearnerPort::Quorum);
        }
        let master = masters[self.masters_tried % masters.len()];
        self.masters_tried = self.masters_tried.wrapping_add(1);
        (master, LearnerPort::ObserverMaster)
    }

    /// Begins to serve observers if the settings say so: this server follows and can forward the requests of
    /// observers' clients from now on.
    pub fn serve_observers(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let Role::Learning(learner) = &self.role else { return };
        let is_follower = learner.is_active() && learner.kind() == LearnerKind::Follower;
        let is_told = matches!(self.replica.settings.observer_masters, ObserverMasters::On { .. });
        if !is_follower || !is_told || self.observer_master.is_some() {
            return;
        }
        let mut master = ObserverMaster::begin(now_ms, learner.epoch(), &self.replica);
        for (link, waiting) in self.take_waiting(LearnerPort::ObserverMaster) {
            master.handle_link_opened(now_ms, link, &self.replica);
            if let Some(info) = waiting.info {
                master.handle_packet(now_ms, link, &info, &self.replica, out);
            }
        }
        self.observer_master = Some(master);
    }

    /// Informs observers of what this follower has just learned to be agreed on.
    pub(super) fn inform_observers(
        &mut self,
        now_ms: u64,
        activates: Option<(Zxid, ServerId)>,
        out: &mut Vec<Output>,
    ) {
        if let Some(master) = &mut self.observer_master {
            master.inform(now_ms, activates, &self.replica, out);
        }
    }

    /// Whether requests on this link are to be forwarded: its other end is an observer that is up to date.
    #[must_use]
    pub fn is_active_observer(&self, link: LinkId) -> bool {
        self.observer_master.as_ref().is_some_and(|master| master.is_active(link))
    }

    /// Returns the observers that learn from this follower and are up to date.
    pub fn observers(&self) -> impl Iterator<Item = (LinkId, ServerId)> + '_ {
        self.observer_master.iter().flat_map(ObserverMaster::observers)
    }

    /// Closes the link of an observer that has too many requests pending.
    pub fn dismiss_observer(&mut self, link: LinkId, out: &mut Vec<Output>) {
        if let Some(master) = &mut self.observer_master {
            master.dismiss(link, CloseReason::TooManyPending, out);
        }
    }

    /// Returns the follower that this observer learns from, if it is not the leader.
    #[must_use]
    pub fn observer_master(&self) -> Option<ServerId> {
        match &self.role {
            Role::Learning(learner) => learner.observer_master(),
            _ => None,
        }
    }
}

/// Returns the txn whose membership a packet puts in force, and the next leader.
pub(super) fn activated_by(packet: &QuorumPacket) -> Option<(Zxid, ServerId)> {
    match packet {
        QuorumPacket::CommitAndActivate { zxid, leader } => Some((*zxid, *leader)),
        _ => None,
    }
}

/// A number that looks random and is always the same (the last steps of splitmix64).
fn scatter(seed: u64, server: ServerId) -> u64 {
    let mut mixed = seed ^ (server.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
