//! The history of this server's roles, for operators.
//!
//! In: role changes. Out: a short list, oldest first. Failed attempts to join are not in
//! it: there can be several a second, and they are in the log.

use std::collections::VecDeque;

use herdsman_proto::ServerId;

/// Changes that are kept; the oldest are dropped.
const CHANGES_MAX: usize = 100;

/// The new role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewRole {
    /// It has lost its role and looks for a leader.
    Looking,
    /// It leads.
    Leading,
    /// It follows.
    Following,
    /// It follows without a vote.
    Observing,
}

/// A change of a server's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleChange {
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The new role.
    pub role: NewRole,
    /// The epoch of the new role.
    pub epoch: Option<u32>,
    /// The leader.
    pub leader: Option<ServerId>,
    /// How long this server had not served clients when the role began.
    pub took_ms: Option<u64>,
}

/// The last changes.
#[derive(Debug, Default)]
pub(super) struct RoleHistory(VecDeque<RoleChange>);

impl RoleHistory {
    pub(super) fn add(&mut self, change: RoleChange) {
        if self.0.len() == CHANGES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(change);
    }

    pub(super) fn all(&self) -> Vec<RoleChange> {
        self.0.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_changes_make_room() {
        let mut history = RoleHistory::default();
        for at_ms in 0..CHANGES_MAX as i64 + 5 {
            let (role, epoch, leader, took_ms) = (NewRole::Looking, None, None, None);
            history.add(RoleChange { at_ms, role, epoch, leader, took_ms });
        }
        let kept = history.all();
        assert_eq!((kept.len(), kept[0].at_ms), (CHANGES_MAX, 5));
    }
}
