//! Which membership is in force here, and which one is pending.
//!
//! A change of membership is a txn. The membership that it brings is *pending* from the moment that the
//! txn is in this server's log until it is agreed on, and *in force* from then on. Meanwhile every decision
//! needs a quorum of both (see [`Electorate`]): no server can tell yet which of the two the other servers use.
//!
//! Invariants:
//! - What is pending is in the log or in the tree that it begins with. It is found there when a server starts
//!   and when a leader has replaced both, and forgotten when its txn is cut off or goes with a log that a
//!   snapshot replaces. There is no separate file that could outlive it.
//! - What is in force is agreed on. The version of a membership is the zxid of its txn, so a learner can tell
//!   from the zxid up to which its leader has committed; see [`Memberships::is_agreed`].
//! - At most one change is pending. A leader proposes the next one only when the last is agreed on, so a second
//!   change in a log proves that the first one is agreed on.
//!
//! Apache: `QuorumPeer.getQuorumVerifier` and `getLastSeenQuorumVerifier`. The second one is kept in a file
//! `zoo.cfg.dynamic.next` that is never taken back, and is put in force at UPTODATE even if it was only proposed.

use std::sync::Arc;

use herdsman_proto::membership::Role;
use herdsman_proto::{LearnerKind, Membership, ServerId, Zxid};

use crate::io::Output;
use crate::quorum::Electorate;
use crate::settings::Reconfig;

/// The membership in force and the pending one.
#[derive(Debug)]
pub(crate) struct Memberships {
    me: ServerId,
    reconfig: Reconfig,
    in_force: Arc<Membership>,
    /// Newer than the one in force.
    pending: Option<Arc<Membership>>,
    electorate: Electorate,
}

/// What a new membership changes for a server that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MembershipChange {
    /// Nothing that would end its role.
    Minor,
    /// Whether it votes has changed, or its leader is no longer a voter at the same address.
    Major,
}

impl Memberships {
    /// Starts with a membership in force.
    pub fn new(me: ServerId, reconfig: Reconfig, in_force: Arc<Membership>) -> Self {
        let electorate = Electorate::of(&in_force);
        Memberships { me, reconfig, in_force, pending: None, electorate }
    }

    pub fn in_force(&self) -> &Arc<Membership> {
        &self.in_force
    }

    pub fn pending(&self) -> Option<&Arc<Membership>> {
        self.pending.as_ref()
    }

    /// Returns the voters that have to agree to a decision.
    pub fn electorate(&self) -> &Electorate {
        &self.electorate
    }

    /// Whether the membership may change.
    pub fn may_change(&self) -> bool {
        matches!(self.reconfig, Reconfig::Enabled(_))
    }

    /// Whether this server follows or observes. One that the pending membership makes a voter follows already, without
    /// a vote in the one in force: otherwise the change could never be acknowledged by a quorum.
    pub fn kind(&self) -> LearnerKind {
        let will_vote = |pending: &Arc<Membership>| pending.voters().any(|voter| voter == self.me);
        if self.pending.as_ref().is_some_and(will_vote) {
            return LearnerKind::Follower;
        }
        kind_of(&self.in_force, self.me)
    }

    /// Returns the membership that a txn carries, if it carries one.
    pub fn brought_by(&self, payload: &[u8]) -> Option<Membership> {
        match self.reconfig {
            Reconfig::Enabled(membership_in) => membership_in(payload),
            Reconfig::Disabled => None,
        }
    }

    /// Notes that a txn with a membership is in the log: a server that acknowledges it needs the new servers for its
    /// decisions, too. One that was pending before is agreed on, or this one would not have been proposed.
    pub fn logged(&mut self, membership: Membership, out: &mut Vec<Output>) {
        let newest = self.pending.as_ref().unwrap_or(&self.in_force).version;
        if !self.may_change() || membership.version <= newest {
            return;
        }
        if let Some(agreed) = self.pending.take() {
            self.put_in_force(agreed, out);
        }
        self.set_pending(Some(Arc::new(membership)), out);
    }

    /// Takes the memberships that this server finds in its history when it starts. If the one in force has no version,
    /// this server has never received a membership: what it finds belongs to another ensemble, of which its history
    /// is a copy.
    pub fn found(&mut self, brought: impl IntoIterator<Item = Membership>, out: &mut Vec<Output>) {
        if self.in_force.version != 0 {
            for membership in brought {
                self.logged(membership, out);
            }
        }
    }

    /// Notes that the log was cut after this txn.
    pub fn cut_after(&mut self, zxid: Zxid, out: &mut Vec<Output>) {
        if self.pending.as_ref().is_some_and(|pending| version_zxid(pending) > zxid) {
            self.set_pending(None, out);
        }
    }

    /// Forgets the pending membership: a snapshot has replaced the log.
    pub fn forget_pending(&mut self, out: &mut Vec<Output>) {
        if self.pending.is_some() {
            self.set_pending(None, out);
        }
    }

    /// Puts a membership in force that is agreed on.
    pub fn activate(
        &mut self,
        membership: Arc<Membership>,
        leader: ServerId,
        out: &mut Vec<Output>,
    ) -> MembershipChange {
        if !self.may_change() || membership.version <= self.in_force.version {
            return MembershipChange::Minor;
        }
        let leader_stays = same_voter(&self.in_force, &membership, leader);
        let role_stays = kind_of(&membership, self.me) == kind_of(&self.in_force, self.me);
        let newer = self.pending.take().filter(|newer| newer.version > membership.version);
        self.put_in_force(membership, out);
        self.set_pending(newer, out);
        if leader_stays && role_stays { MembershipChange::Minor } else { MembershipChange::Major }
    }

    /// Whether a membership that a leader of this epoch sends is agreed on, if the history up to `agreed` is.
    /// Only a txn of the leader's own epoch can be undecided: everything older was agreed on when the
    /// leader was established. The start of the epoch is not a txn; it is the version that the very first
    /// membership gets.
    pub fn is_agreed(membership: &Membership, epoch: u32, agreed: Zxid) -> bool {
        let zxid = version_zxid(membership);
        zxid <= agreed || zxid.epoch() != epoch || zxid.counter() == 0
    }

    /// Gives the very first membership, which has no version, the start of this epoch as its version: only servers
    /// that took part when it was agreed on have it.
    pub fn number_first(&mut self, epoch: u32, out: &mut Vec<Output>) {
        if self.in_force.version == 0 && self.pending.is_none() && self.may_change() {
            let mut first = (*self.in_force).clone();
            first.version = Zxid::start_of(epoch).0 as u64;
            self.set_pending(Some(Arc::new(first)), out);
        }
    }

    /// Returns the membership that NEWLEADER carries. Before a leader is established this is the pending one: it is in
    /// the history that a quorum is about to agree on. Afterwards it is the one in force.
    pub fn for_new_leader(&self, established: bool) -> &Membership {
        self.pending.as_ref().filter(|_| !established).unwrap_or(&self.in_force)
    }

    fn put_in_force(&mut self, membership: Arc<Membership>, out: &mut Vec<Output>) {
        out.push(Output::Activate { membership: Arc::clone(&membership) });
        self.in_force = membership;
        self.count_voters();
    }

    fn set_pending(&mut self, pending: Option<Arc<Membership>>, out: &mut Vec<Output>) {
        if let Some(membership) = &pending {
            out.push(Output::MembershipPending { membership: Arc::clone(membership) });
        }
        self.pending = pending;
        self.count_voters();
    }

    fn count_voters(&mut self) {
        self.electorate = Electorate::during_change(&self.in_force, self.pending.as_deref());
    }
}

/// Returns the zxid of the txn that carried a membership.
pub(crate) fn version_zxid(membership: &Membership) -> Zxid {
    Zxid(membership.version as i64)
}

/// Returns whether a server follows or observes. One that is no longer listed goes on as a follower without a vote.
pub(crate) fn kind_of(membership: &Membership, server: ServerId) -> LearnerKind {
    match membership.members.get(&server).map(|member| member.role) {
        Some(Role::Observer) => LearnerKind::Observer,
        Some(Role::Participant) | None => LearnerKind::Follower,
    }
}

/// Whether a server votes in both memberships, and listens for learners where it did.
pub(crate) fn same_voter(before: &Membership, after: &Membership, server: ServerId) -> bool {
    let place = |membership: &Membership| {
        let member = membership.members.get(&server)?;
        let places = member.addresses.iter().map(|at| (at.host.clone(), at.quorum_port));
        (member.role == Role::Participant).then(|| places.collect::<Vec<_>>())
    };
    let (before, after) = (place(before), place(after));
    before.is_some() && before == after
}
