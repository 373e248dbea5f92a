//! What every role needs: the settings, who votes, the log, the epochs.

use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::membership::Role;
use herdsman_proto::{LearnerKind, Membership, ServerId, Zxid};

use crate::io::Output;
use crate::log::Log;
use crate::quorum::Electorate;
use crate::settings::{Reconfig, ZabSettings};

/// The epochs that this server remembers, as they are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// Followed.
    pub current: u32,
    /// Promised.
    pub accepted: u32,
}

/// What every role needs.
#[derive(Debug)]
pub(crate) struct Common {
    pub settings: ZabSettings,
    /// As what this server takes part, by the membership in force.
    pub kind: LearnerKind,
    /// In force.
    pub membership: Arc<Membership>,
    /// Proposed but, as far as this server knows, not in force yet: newer than the other.
    pub proposed: Option<Arc<Membership>>,
    pub electorate: Electorate,
    pub log: Log,
    pub epochs: Epochs,
    /// The own log could not be brought in line with the leader's: take everything anew.
    pub start_over: bool,
}

/// What a new membership changes for a server that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that would end its role.
    Minor,
    /// It votes now or no longer, or its leader is no longer to be found.
    Major,
}

impl Common {
    pub fn me(&self) -> ServerId {
        self.settings.me
    }

    /// The membership as NEWLEADER carries it: the newest one, so that a leader completes a change
    /// that it has found in its log.
    pub fn config_bytes(&self) -> Bytes {
        Bytes::from(self.proposed.as_ref().unwrap_or(&self.membership).to_text())
    }

    /// Whether the membership may change.
    pub fn may_change(&self) -> bool {
        matches!(self.settings.reconfig, Reconfig::Enabled(_))
    }

    /// Appends a txn. One that carries a membership makes it count from here on: whoever
    /// acknowledges the txn has promised to ask the new servers too.
    pub fn append(&mut self, zxid: Zxid, payload: Bytes, out: &mut Vec<Output>) {
        if let Reconfig::Enabled(membership_in) = self.settings.reconfig
            && let Some(membership) = membership_in(&payload)
        {
            self.see(membership, out);
        }
        self.log.append(zxid, payload, out);
    }

    /// A membership was proposed.
    pub fn see(&mut self, membership: Membership, out: &mut Vec<Output>) {
        let newest = self.proposed.as_ref().unwrap_or(&self.membership).version;
        if !self.may_change() || membership.version <= newest {
            return;
        }
        let membership = Arc::new(membership);
        out.push(Output::KeepProposed { membership: Arc::clone(&membership) });
        self.proposed = Some(membership);
        self.count_voters();
    }

    /// A membership is in force.
    pub fn activate(
        &mut self,
        membership: Arc<Membership>,
        leader: ServerId,
        out: &mut Vec<Output>,
    ) -> Change {
        if !self.may_change() || membership.version <= self.membership.version {
            return Change::Minor;
        }
        let leader_stays = same_voter(&self.membership, &membership, leader);
        let kind = kind_of(&membership, self.me());
        let role_stays = kind == self.kind;
        self.kind = kind;
        out.push(Output::Activate { membership: Arc::clone(&membership) });
        self.proposed = self.proposed.take().filter(|newer| newer.version > membership.version);
        self.membership = membership;
        self.count_voters();
        if leader_stays && role_stays { Change::Minor } else { Change::Major }
    }

    fn count_voters(&mut self) {
        self.electorate = Electorate::during_change(&self.membership, self.proposed.as_deref());
    }
}

/// A server that is not in the list any more goes on as a follower without a vote.
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

/// Why a role is given up, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fall {
    /// Too few followers in time.
    NoQuorum,
    /// Most voters support somebody else.
    NotSupported,
    /// The link to the leader is gone, or was never made.
    LeaderLost,
    /// The leader broke the protocol, or has no right to lead.
    LeaderRefused,
    /// Nothing came from the leader for too long.
    LeaderSilent,
    /// The log could not be cut: everything has to come anew.
    StartOver,
    /// The disk takes nothing.
    StorageLost,
    /// The epoch has no zxids left.
    EpochExhausted,
    /// A voter has promised a later epoch than this leader's.
    EpochOutbid,
    /// A new membership gives this server another role or another leader.
    Reconfigured {
        /// Who is to lead, if that was said.
        next: Option<ServerId>,
    },
}
