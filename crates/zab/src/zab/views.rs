//! Read access to the state of agreement, for the node and for operators' views.

use std::sync::Arc;

use herdsman_proto::{LearnerKind, Membership, ServerId, ServerState, Zxid};

use super::{Role, Zab};
use crate::io::LinkId;
use crate::learner_peer::{Learners, needed_after};
use crate::log::Log;
use crate::replica::{Epochs, StepDownReason, Voting};

impl Zab {
    /// Returns the state that notifications report to other servers.
    #[must_use]
    pub fn state(&self) -> ServerState {
        match &self.role {
            Role::Leading(_) => ServerState::Leading,
            Role::Learning(learner) if learner.kind() == LearnerKind::Observer => {
                ServerState::Observing
            }
            Role::Learning(_) => ServerState::Following,
            _ => ServerState::Looking,
        }
    }

    /// Returns the leader that this server follows, or itself if it leads.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        match &self.role {
            Role::Leading(_) => Some(self.replica.me()),
            Role::Learning(learner) => Some(learner.leader()),
            _ => None,
        }
    }

    /// Returns the membership in force.
    #[must_use]
    pub fn membership(&self) -> &Arc<Membership> {
        self.replica.memberships.in_force()
    }

    /// Returns the epochs on disk.
    #[must_use]
    pub fn epochs(&self) -> Epochs {
        self.replica.epochs
    }

    /// Returns the state of this server's log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.replica.log
    }

    /// Returns the txn after which the log must be kept: learners are being sent what follows it, or will be after a
    /// tree.
    #[must_use]
    pub fn log_needed_after(&self, now_ms: u64) -> Option<Zxid> {
        self.sent_learners().and_then(|learners| needed_after(learners, now_ms))
    }

    /// Returns the learners of this server.
    pub(super) fn sent_learners(&self) -> Option<&Learners> {
        match (&self.role, &self.observer_master) {
            (Role::Leading(leader), _) => Some(leader.all_learners()),
            (_, Some(master)) => Some(master.all_observers()),
            _ => None,
        }
    }

    /// Returns why the last role ended.
    #[must_use]
    pub fn last_step_down(&self) -> Option<StepDownReason> {
        self.last_step_down
    }

    /// Returns the learners that are up to date, if this server leads.
    pub fn learners(&self) -> impl Iterator<Item = (LinkId, ServerId, LearnerKind)> + '_ {
        let leader = match &self.role {
            Role::Leading(leader) => Some(leader),
            _ => None,
        };
        leader.into_iter().flat_map(|leader| leader.learners())
    }

    /// Whether requests on this link are to be accepted: this server leads, and the learner is up to
    /// date.
    #[must_use]
    pub fn is_active_learner(&self, link: LinkId) -> bool {
        matches!(&self.role, Role::Leading(leader) if leader.is_active(link))
    }

    /// Whether this is the link to the leader that this server follows.
    #[must_use]
    pub fn is_active_leader(&self, link: LinkId) -> bool {
        let is_active = matches!(&self.role, Role::Learning(learner) if learner.is_active());
        is_active && self.is_to_leader(link)
    }

    /// Whether this is the link to the leader that this server follows, or is about to.
    #[must_use]
    pub fn is_to_leader(&self, link: LinkId) -> bool {
        matches!(&self.role, Role::Learning(learner) if learner.link() == Some(link))
    }

    /// Returns the membership that is in the log but not in force yet.
    #[must_use]
    pub fn pending_membership(&self) -> Option<&Arc<Membership>> {
        self.replica.memberships.pending()
    }

    /// Whether this server may vote if the membership makes it a voter.
    #[must_use]
    pub fn voting(&self) -> Voting {
        self.replica.voting
    }

    /// Whether everything is still to be taken from a leader: the tree here is empty or given up.
    #[must_use]
    pub fn starts_over(&self) -> bool {
        self.replica.start_over
    }

    /// Whether a leader has answered this server, and the link to it stands.
    #[must_use]
    pub fn has_answer_of_leader(&self) -> bool {
        matches!(&self.role, Role::Learning(learner) if learner.epoch() > 0)
    }

    /// Whether the membership may change.
    #[must_use]
    pub fn may_change_membership(&self) -> bool {
        self.replica.memberships.may_change()
    }

    /// Whether a quorum of these voters follows this server and is up to date.
    #[must_use]
    pub fn has_quorum_of(&self, membership: &Membership) -> bool {
        match &self.role {
            Role::Leading(leader) => leader.has_quorum_of(membership, &self.replica),
            _ => false,
        }
    }
}
