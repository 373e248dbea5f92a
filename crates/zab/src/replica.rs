//! The state that a server keeps across roles: its log, its epochs, the memberships, and whether it may vote.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::{EPOCH_MAX, LearnerKind, Membership, ServerId, Zxid};

use crate::io::{EpochKind, Output, TreeAfterCut};
use crate::leader::checks::Check;
use crate::leader::claims::Claims;
use crate::log::{Log, LogStorage};
use crate::memberships::{MembershipChange, Memberships};
use crate::settings::ZabSettings;

/// How far ahead of a leader a voter's promise may be. Each attempt to lead in which a voter takes part raises what it
/// has promised by one, and a leader that took part in none of them lacks them all; but an attempt takes a good part of
/// a second, and one that gets so far usually succeeds. A promise further ahead than this comes from another ensemble,
/// a damaged file or a hostile host, and to outbid it would use up the epochs, of which there are only 2³¹.
///
/// Smaller steps count at once ([`EPOCHS_RAISED_MAX`]): a hostile host could raise a leader's epoch and let it fail,
/// and that leader would then be ahead of all others by one more than they accept. Promises in between have to be
/// repeated, as [`claims`](crate::leader) says.
pub(crate) const EPOCHS_AHEAD_MAX: u32 = 1 << 20;
/// How far a voter's promise raises the epoch of a leader that is being elected, or of the one after a step-down.
pub(crate) const EPOCHS_RAISED_MAX: u32 = 1 << 16;

/// The epochs that this server remembers, as they are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// The epoch of the last leader that this server followed.
    pub current: u32,
    /// The last epoch that it promised.
    pub accepted: u32,
}

/// Whether this server may vote.
///
/// A voter that has lost part of what it acknowledged or promised could help to elect a leader that lacks
/// it too. So it takes part as an observer until an intact leader has brought it up to date. That is not enough:
/// the leader may have been replaced by a later one that this server followed and forgot. So it requests a txn from
/// the leader, and votes again when that is agreed on. Then a quorum without this server has followed the leader
/// after the loss, and every quorum that this server was part of before has a member in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voting {
    /// It may, if the membership makes it a voter.
    Allowed,
    /// It may not before it has been brought up to date.
    Suspended,
}

/// The state that a server keeps across roles.
#[derive(Debug)]
pub(crate) struct Replica {
    pub settings: ZabSettings,
    pub memberships: Memberships,
    pub log: Log,
    pub epochs: Epochs,
    /// The leader for which an epoch was saved but not promised yet: the link may be lost in between. No server leads
    /// twice in one epoch, so the promise can be given later.
    pub promise_owed_to: Option<ServerId>,
    /// The latest plausible epoch that a voter says it has promised to any leader: the next epoch is above it.
    pub promised_by_voters: u32,
    /// Voters that claim to have promised a later epoch.
    pub claims: Claims,
    /// When this server last stepped down because a voter had promised a later epoch.
    pub outbid_ms: Option<u64>,
    /// The last check that was begun, by this leader or an earlier one of this process.
    pub last_check: Check,
    pub voting: Voting,
    /// This server's log could not be brought in line with the leader's, or cannot be used at all: fetch everything
    /// again. No txn is appended and nothing is cut before the leader's tree has replaced all files in one step.
    pub start_over: bool,
    /// This server has begun without any data, and has taken part in nothing since. It is new, or has lost everything
    /// that it ever acknowledged and promised: see [`Election::set_started_empty`](crate::election::Election).
    pub started_empty: bool,
}

impl Replica {
    pub fn me(&self) -> ServerId {
        self.settings.me
    }

    /// Whether this server takes part as a follower or as an observer.
    pub fn kind(&self) -> LearnerKind {
        match self.voting {
            // What it acknowledges would be lost in a restart.
            Voting::Allowed if self.log.storage() == LogStorage::InMemory => LearnerKind::Observer,
            Voting::Allowed => self.memberships.kind(),
            Voting::Suspended => LearnerKind::Observer,
        }
    }

    /// Appends a txn.
    pub fn append(&mut self, zxid: Zxid, payload: Bytes, out: &mut Vec<Output>) {
        if let Some(membership) = self.memberships.brought_by(&payload) {
            self.memberships.logged(membership, out);
        }
        self.log.append(zxid, payload, out);
    }

    /// Saves an epoch. A promised or followed epoch is never taken back: another leader may rely on it.
    pub fn save_epoch(&self, kind: EpochKind, epoch: u32, out: &mut Vec<Output>) {
        let Epochs { current, accepted } = self.epochs;
        let is_later = match kind {
            EpochKind::Accepted => (accepted..EPOCH_MAX).contains(&epoch),
            EpochKind::Current => (current..=accepted).contains(&epoch),
        };
        assert!(is_later, "{kind:?} epoch {epoch} after {:?}", self.epochs);
        out.push(Output::SaveEpoch { kind, epoch });
    }

    /// Notes that the log was cut after this txn.
    pub fn handle_truncated(&mut self, zxid: Zxid, tree: TreeAfterCut, out: &mut Vec<Output>) {
        self.log.handle_truncated(zxid, tree);
        self.memberships.cut_after(zxid, out);
    }

    /// Notes that everything was replaced by a snapshot.
    pub fn handle_installed(
        &mut self,
        zxid: Zxid,
        in_tree: Option<Membership>,
        out: &mut Vec<Output>,
    ) {
        self.start_over = false;
        self.started_empty = false;
        self.log.handle_installed(zxid);
        self.memberships.forget_pending(out);
        // A tree from a leader is of this ensemble, also if this server was never told of a membership.
        if let Some(membership) = in_tree {
            self.memberships.logged(membership, out);
        }
        // All is on disk now, and stays there from here on if the tree makes this server a voter.
        if self.memberships.kind() == LearnerKind::Follower {
            self.log.keep_on_disk();
        }
    }

    /// Puts a membership in force that is agreed on. A server that kept no log and becomes a voter writes everything
    /// to disk before it votes.
    pub fn activate(
        &mut self,
        membership: Arc<Membership>,
        leader: ServerId,
        out: &mut Vec<Output>,
    ) -> MembershipChange {
        let change = self.memberships.activate(membership, leader, out);
        self.keep_log_if_voter();
        change
    }

    pub fn keep_log_if_voter(&mut self) {
        if self.memberships.kind() == LearnerKind::Follower
            && self.log.storage() == LogStorage::InMemory
        {
            self.log.keep_on_disk();
            self.start_over = true;
            self.started_empty = false;
            self.voting = Voting::Suspended;
        }
    }
}

/// Why a server gives up a role, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDownReason {
    /// Too few followers in time.
    NoQuorum,
    /// Most voters support another server.
    NotSupported,
    /// The link to the leader is lost, or was never established.
    LeaderLost,
    /// The leader broke the protocol, or has no right to lead.
    LeaderRefused,
    /// The leader's history lacks a txn that this server knows to be agreed on.
    LeaderBehind {
        /// Where the history that the leader sent ends, or where it wants the log to be cut.
        end: Zxid,
        /// The last txn that is known to be agreed on.
        committed: Zxid,
    },
    /// Nothing was received from the leader for too long.
    LeaderSilent,
    /// The log could not be cut: everything has to be fetched again.
    StartOver,
    /// The disk accepts no writes.
    StorageLost,
    /// The epoch has no zxids left.
    EpochExhausted,
    /// All epochs are used up.
    NoEpochLeft,
    /// A voter has promised a later epoch than this leader's, or too many cannot promise this one.
    EpochOutbid,
    /// A new membership gives this server another role or another leader.
    Reconfigured {
        /// The next leader, if one was designated.
        next: Option<ServerId>,
    },
    /// A server that had lost data is up to date, and becomes a voter again.
    VotingAllowed {
        /// The leader.
        leader: ServerId,
    },
}

#[cfg(test)]
mod tests {
    use herdsman_proto::membership::Role;

    use super::*;
    use crate::settings::Reconfig;
    use crate::testing::{replica, zxid};

    /// It may lose its leader before NEWLEADER says what is in force.
    #[test]
    fn a_membership_in_a_tree_from_the_leader_is_pending() {
        let mut replica = replica(1, zxid(1, 0), &[zxid(1, 1)]);
        let in_force = Arc::clone(replica.memberships.in_force());
        let reconfig = Reconfig::Enabled(|_| None);
        replica.memberships = Memberships::new(ServerId(1), reconfig, Arc::clone(&in_force));
        let next = Membership { version: zxid(1, 2).0 as u64, ..(*in_force).clone() };

        let mut out = Vec::new();
        replica.handle_installed(zxid(1, 3), Some(next.clone()), &mut out);
        assert_eq!(replica.memberships.pending().map(|pending| &**pending), Some(&next));
        replica.handle_installed(zxid(1, 3), Some((*in_force).clone()), &mut out);
        assert_eq!(replica.memberships.pending(), None);
        // Also if it was never told of one.
        let never = Arc::new(Membership { version: 0, ..(*in_force).clone() });
        replica.memberships = Memberships::new(ServerId(1), reconfig, never);
        replica.handle_installed(zxid(1, 3), Some(next.clone()), &mut out);
        assert_eq!(replica.memberships.pending().map(|pending| &**pending), Some(&next));
    }

    /// What follows must not leave a hole on disk when the membership is put in force.
    #[test]
    fn a_tree_that_makes_a_server_a_voter_makes_it_keep_its_log() {
        let mut replica = replica(1, zxid(1, 0), &[]);
        let mut observer = (**replica.memberships.in_force()).clone();
        let voter = Membership { version: zxid(1, 2).0 as u64, ..observer.clone() };
        observer.members.get_mut(&ServerId(1)).unwrap().role = Role::Observer;
        let reconfig = Reconfig::Enabled(|_| None);
        replica.memberships = Memberships::new(ServerId(1), reconfig, Arc::new(observer));
        replica.log =
            Log::new(LogStorage::InMemory, replica.settings.history, zxid(1, 0), Vec::new());

        replica.handle_installed(zxid(1, 3), Some(voter), &mut Vec::new());
        assert_eq!(replica.log.storage(), LogStorage::OnDisk);
    }
}
