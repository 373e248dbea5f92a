//! What others may know about this server's part in agreement.

use std::sync::Arc;

use herdsman_proto::{LearnerKind, Membership, ServerId, ServerState, Zxid};

use super::{Role, Zab};
use crate::io::LinkId;
use crate::learner_peer::{Learners, needed_after};
use crate::log::Log;
use crate::replica::{Epochs, StepDownReason, Voting};

impl Zab {
    /// What the others are told that this server does.
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

    /// Whom this server follows, or itself if it leads.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        match &self.role {
            Role::Leading(_) => Some(self.replica.me()),
            Role::Learning(learner) => Some(learner.leader()),
            _ => None,
        }
    }

    /// The membership this server goes by.
    #[must_use]
    pub fn membership(&self) -> &Arc<Membership> {
        self.replica.memberships.in_force()
    }

    /// The epochs on disk.
    #[must_use]
    pub fn epochs(&self) -> Epochs {
        self.replica.epochs
    }

    /// This server's log, as far as agreement sees it.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.replica.log
    }

    /// Learners are being sent the txns after this one, or will be behind a tree: these must stay in the log.
    #[must_use]
    pub fn log_needed_after(&self, now_ms: u64) -> Option<Zxid> {
        self.sent_learners().and_then(|learners| needed_after(learners, now_ms))
    }

    /// Whoever learns from this server.
    pub(super) fn sent_learners(&self) -> Option<&Learners> {
        match (&self.role, &self.observer_master) {
            (Role::Leading(leader), _) => Some(leader.all_learners()),
            (_, Some(master)) => Some(master.all_observers()),
            _ => None,
        }
    }

    /// Why the last role ended.
    #[must_use]
    pub fn last_step_down(&self) -> Option<StepDownReason> {
        self.last_step_down
    }

    /// Learners that are up to date, if this server leads.
    pub fn learners(&self) -> impl Iterator<Item = (LinkId, ServerId, LearnerKind)> + '_ {
        let leader = match &self.role {
            Role::Leading(leader) => Some(leader),
            _ => None,
        };
        leader.into_iter().flat_map(|leader| leader.learners())
    }

    /// Whether requests on this link are to be taken: this server leads, and the learner is up to
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

    /// The membership that is in the log but not in force yet.
    #[must_use]
    pub fn pending_membership(&self) -> Option<&Arc<Membership>> {
        self.replica.memberships.pending()
    }

    /// Whether this server may vote, as far as the membership lets it.
    #[must_use]
    pub fn voting(&self) -> Voting {
        self.replica.voting
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
