//! Links and their packets, in every role.

use std::collections::BTreeMap;

use herdsman_proto::{LearnerKind, QuorumPacket, Zxid};

use super::observers::activated_by;
use super::{Role, WAITING_LINKS_MAX, WaitingLink, Zab};
use crate::io::{CloseReason, LearnerPort, LinkId, Output};
use crate::replica::StepDownReason;

impl Zab {
    pub(super) fn handle_link_opened(
        &mut self,
        now_ms: u64,
        link: LinkId,
        port: LearnerPort,
        out: &mut Vec<Output>,
    ) {
        let may_wait = self.may_yet_serve(port);
        let reason = match (port, &mut self.role, &mut self.observer_master) {
            (LearnerPort::Quorum, Role::Leading(leader), _) => {
                return leader.handle_link_opened(now_ms, link, &self.replica);
            }
            (LearnerPort::ObserverMaster, _, Some(master)) => {
                return master.handle_link_opened(now_ms, link, &self.replica);
            }
            _ if may_wait => {
                if self.waiting.len() < WAITING_LINKS_MAX {
                    self.waiting.insert(link, WaitingLink { port, since_ms: now_ms, info: None });
                    return;
                }
                CloseReason::TooMany
            }
            (LearnerPort::Quorum, ..) => CloseReason::NotLeading,
            (LearnerPort::ObserverMaster, ..) => CloseReason::NotObserverMaster,
        };
        out.push(Output::Close { link, reason });
    }

    /// Whether this server may soon be able to serve links on this port.
    fn may_yet_serve(&self, port: LearnerPort) -> bool {
        match (&self.role, port) {
            (Role::Settling | Role::Looking, _) => true,
            (Role::Learning(learner), LearnerPort::ObserverMaster) => {
                learner.kind() == LearnerKind::Follower
            }
            _ => false,
        }
    }

    pub(super) fn handle_packet(
        &mut self,
        now_ms: u64,
        link: LinkId,
        packet: QuorumPacket,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if let Some(waiting) = self.waiting.get_mut(&link) {
            if waiting.info.is_some() || !matches!(packet, QuorumPacket::Info { .. }) {
                self.waiting.remove(&link);
                out.push(Output::Close { link, reason: CloseReason::UnexpectedPacket });
            } else {
                waiting.info = Some(packet);
            }
            return Ok(());
        }
        if let Some(master) = &mut self.observer_master
            && master.knows(link)
        {
            master.handle_packet(now_ms, link, &packet, &self.replica, out);
            return Ok(());
        }
        if matches!(self.role, Role::Leading(_)) {
            self.note_supporter(&packet);
        }
        match &mut self.role {
            Role::Leading(leader) => {
                leader.handle_packet(now_ms, link, packet, &mut self.replica, out);
                if leader.is_outbid() {
                    return Err(StepDownReason::EpochOutbid);
                }
                self.note_epoch();
                Ok(())
            }
            Role::Learning(learner) if learner.link() == Some(link) => {
                let activates = activated_by(&packet);
                let result = learner.handle_packet(now_ms, packet, &mut self.replica, out);
                // Observers must receive this even if it ends this server's role.
                self.inform_observers(now_ms, activates, out);
                result?;
                self.note_epoch();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Counts a server that joins as a supporter of this leader, whatever it voted before.
    pub(super) fn note_supporter(&mut self, packet: &QuorumPacket) {
        if let QuorumPacket::Info { info: Some(info), .. } = packet {
            self.election.joined_by(info.server);
        }
    }

    pub(super) fn handle_link_lost(
        &mut self,
        now_ms: u64,
        link: LinkId,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        self.waiting.remove(&link);
        if let Some(master) = &mut self.observer_master {
            master.handle_link_lost(now_ms, link, &self.replica, out);
        }
        match &mut self.role {
            Role::Leading(leader) => leader.handle_link_lost(now_ms, link, &mut self.replica, out),
            Role::Learning(learner) if learner.link() == Some(link) => {
                Err(StepDownReason::LeaderLost)
            }
            _ => Ok(()),
        }
    }

    /// Removes and returns the links that wait on this port.
    pub(super) fn take_waiting(&mut self, port: LearnerPort) -> BTreeMap<LinkId, WaitingLink> {
        self.waiting.extract_if(.., |_, waiting| waiting.port == port).collect()
    }

    pub(super) fn close_waiting(
        &mut self,
        port: LearnerPort,
        reason: CloseReason,
        out: &mut Vec<Output>,
    ) {
        for link in self.take_waiting(port).into_keys() {
            out.push(Output::Close { link, reason });
        }
    }

    /// Notes that a tree, or the log up to `log_to`, is on its way to a learner.
    pub(super) fn handle_sent(
        &mut self,
        now_ms: u64,
        link: LinkId,
        log_to: Option<Zxid>,
        out: &mut Vec<Output>,
    ) {
        if let Role::Leading(leader) = &mut self.role {
            leader.handle_sent(now_ms, link, log_to, &self.replica, out);
        } else if let Some(master) = &mut self.observer_master {
            master.handle_sent(now_ms, link, log_to, &self.replica, out);
        }
    }

    /// Sends the tree to a learner for which the log on disk cannot be used.
    pub(super) fn handle_log_missed(&mut self, link: LinkId, out: &mut Vec<Output>) {
        if let Role::Leading(leader) = &mut self.role {
            leader.handle_log_missed(link, &self.replica, out);
        } else if let Some(master) = &mut self.observer_master {
            master.handle_log_missed(link, &self.replica, out);
        }
    }

    /// Notes that the other end of a link is alive: it sent something that does not concern agreement.
    pub fn heard(&mut self, now_ms: u64, link: LinkId) {
        if let Some(master) = &mut self.observer_master {
            master.handle_heard(now_ms, link);
        }
        match &mut self.role {
            Role::Leading(leader) => leader.handle_heard(now_ms, link),
            Role::Learning(learner) if learner.link() == Some(link) => {
                learner.handle_heard(now_ms, &self.replica);
            }
            _ => {}
        }
    }
}
