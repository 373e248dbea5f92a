//! Quorums: which servers have to agree to a decision.
//!
//! In: a membership. Out: whether a set of servers is a quorum of it, and the last zxid that a quorum has
//! acknowledged. Nothing here stores which servers have agreed: callers do, and pass a closure.
//!
//! A membership has one of two kinds of quorum, and one representation serves both. Without groups more than
//! half of the voters are needed. With groups (a hierarchical quorum) more than half of the groups
//! are needed, and a group agrees when servers with more than half of its weight do. A plain
//! majority is a single group in which every voter has weight 1. A group without any weight is not
//! counted at all: it could never agree, and must not make agreement harder for the other groups.
//!
//! While the membership changes there are two: the committed one, and a newer one that this server has
//! logged but not yet seen committed. No server can tell yet which of them the other servers use, so a
//! decision needs a quorum of each. An [`Electorate`] holds both; the rest of this crate uses only
//! that, so the second quorum cannot be forgotten.
//!
//! Invariants: two quorums of a [`Quorum`] have a voter in common; servers that do not vote are
//! never part of one, whatever a caller says about them.
//!
//! Apache: `QuorumMaj`, `QuorumHierarchical`, and `SyncedLearnerTracker` for the two memberships.
//! Ours hold no addresses, and accept any set of servers, where `QuorumMaj` relies on being asked about voters
//! only. Not implemented: `QuorumOracleMaj`, by which an external file may let one of two voters go on alone.

use std::collections::{BTreeMap, BTreeSet};

use herdsman_proto::{Membership, ServerId, Zxid};

/// The quorums of one membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The version of the membership: the greater one is newer.
    version: u64,
    /// Every voter and the weight of its vote.
    weights: BTreeMap<ServerId, i64>,
    /// The groups that have any weight.
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// Its voters with a weight above 0.
    voters: Vec<(ServerId, i64)>,
    /// The weight of the whole group. A group may list a server that has a weight but no vote; its
    /// weight counts here and it never agrees, as with Apache.
    weight: i64,
}

impl Quorum {
    /// Returns the quorums of a membership. Its weights must be complete, see
    /// [`Membership::complete_groups`]; a voter without a weight has weight 0 in a group.
    #[must_use]
    pub fn of(membership: &Membership) -> Quorum {
        let version = membership.version;
        if membership.groups.is_empty() {
            let weights: BTreeMap<_, _> = membership.voters().map(|id| (id, 1)).collect();
            let all = Group::of(weights.keys(), &weights, &weights);
            return Quorum { version, weights, groups: all.into_iter().collect() };
        }
        let set = &membership.weights;
        let weight = |id| set.get(&id).copied().unwrap_or(0);
        let weights = membership.voters().map(|id| (id, weight(id))).collect();
        let groups = membership.groups.values();
        let groups = groups.filter_map(|ids| Group::of(ids, set, &weights)).collect();
        Quorum { version, weights, groups }
    }

    /// The servers that vote.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.weights.keys().copied()
    }

    /// Whether a server votes.
    #[must_use]
    pub fn is_voter(&self, id: ServerId) -> bool {
        self.weights.contains_key(&id)
    }

    /// Returns the weight of a server's vote: 0 if it has none.
    #[must_use]
    pub fn weight(&self, id: ServerId) -> i64 {
        self.weights.get(&id).copied().unwrap_or(0)
    }

    /// Whether the servers for which `has` is true are enough to decide.
    pub fn is_quorum(&self, has: impl Fn(ServerId) -> bool) -> bool {
        let agreeing = self.groups.iter().filter(|group| group.agrees(&has)).count();
        agreeing > self.groups.len() / 2
    }

    /// Returns the last zxid that a quorum has acknowledged, if `acked` returns the last one that each voter has
    /// acknowledged. [`Zxid::ZERO`] if no set of voters is a quorum.
    pub fn agreed(&self, acked: impl Fn(ServerId) -> Zxid) -> Zxid {
        let mut by_group: Vec<_> = self.groups.iter().map(|group| group.agreed(&acked)).collect();
        by_group.sort_unstable_by(|one, other| other.cmp(one));
        // A majority of the groups has acknowledged at least the zxid in the middle.
        by_group.get(by_group.len() / 2).copied().unwrap_or(Zxid::ZERO)
    }
}

impl Group {
    /// `None` if it has no weight.
    fn of<'a>(
        ids: impl IntoIterator<Item = &'a ServerId>,
        set: &BTreeMap<ServerId, i64>,
        voters: &BTreeMap<ServerId, i64>,
    ) -> Option<Group> {
        let weighted = ids.into_iter().filter_map(|id| Some((*id, *set.get(id)?)));
        let weighted: Vec<_> = weighted.filter(|(_, weight)| *weight > 0).collect();
        let weight = weighted.iter().map(|(_, weight)| weight).sum();
        let voters = weighted.into_iter().filter(|(id, _)| voters.contains_key(id)).collect();
        (weight > 0).then_some(Group { voters, weight })
    }

    fn agrees(&self, has: impl Fn(ServerId) -> bool) -> bool {
        let agreeing = self.voters.iter().filter(|(id, _)| has(*id));
        self.is_enough(agreeing.map(|(_, weight)| weight).sum())
    }

    fn agreed(&self, acked: impl Fn(ServerId) -> Zxid) -> Zxid {
        let mut acks: Vec<_> =
            self.voters.iter().map(|(id, weight)| (acked(*id), *weight)).collect();
        acks.sort_unstable_by(|one, other| other.cmp(one));
        let mut sum = 0;
        for (zxid, weight) in acks {
            sum += weight;
            if self.is_enough(sum) {
                return zxid;
            }
        }
        Zxid::ZERO
    }

    fn is_enough(&self, weight: i64) -> bool {
        weight > self.weight / 2
    }
}

/// The servers that have to agree: a quorum of the membership in force and, while a newer one is pending, also a
/// quorum of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Electorate {
    current: Quorum,
    pending: Option<Quorum>,
    /// Of both.
    voters: BTreeSet<ServerId>,
}

impl Electorate {
    /// Returns the electorate of a membership while no change is pending.
    #[must_use]
    pub fn of(membership: &Membership) -> Electorate {
        Electorate::during_change(membership, None)
    }

    /// Returns the electorate of the committed membership and of the last one that this server has seen
    /// proposed. The latter counts only if it is newer.
    #[must_use]
    pub fn during_change(current: &Membership, last_seen: Option<&Membership>) -> Electorate {
        let pending = last_seen.filter(|last_seen| last_seen.version > current.version);
        let (current, pending) = (Quorum::of(current), pending.map(Quorum::of));
        let voters = current.voters().chain(pending.iter().flat_map(Quorum::voters)).collect();
        Electorate { current, pending, voters }
    }

    /// The version of the membership in force.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.current.version
    }

    /// The quorum of the membership in force alone.
    #[must_use]
    pub fn current(&self) -> &Quorum {
        &self.current
    }

    /// The servers that vote in either membership, each once, in order.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.voters.iter().copied()
    }

    /// Whether a server votes in either membership.
    #[must_use]
    pub fn is_voter(&self, id: ServerId) -> bool {
        self.voters.contains(&id)
    }

    /// Whether a server may be elected: it votes, and its vote has a weight above 0. For servers that the membership in
    /// force lists, that membership decides.
    #[must_use]
    pub fn is_electable(&self, id: ServerId) -> bool {
        let deciding = self.quorums().find(|quorum| quorum.is_voter(id));
        deciding.is_some_and(|quorum| quorum.weight(id) > 0)
    }

    /// Whether the servers for which `has` is true are enough to decide.
    pub fn is_quorum(&self, has: impl Fn(ServerId) -> bool) -> bool {
        self.quorums().all(|quorum| quorum.is_quorum(&has))
    }

    /// Whether the servers for which `has` is true are a quorum of either membership: not enough to decide, but
    /// enough to believe what they say about themselves.
    pub fn is_quorum_of_any(&self, has: impl Fn(ServerId) -> bool) -> bool {
        self.quorums().any(|quorum| quorum.is_quorum(&has))
    }

    /// Returns the last zxid that every required quorum has acknowledged. See [`Quorum::agreed`].
    pub fn agreed(&self, acked: impl Fn(ServerId) -> Zxid) -> Zxid {
        self.quorums().map(|quorum| quorum.agreed(&acked)).min().unwrap_or(Zxid::ZERO)
    }

    fn quorums(&self) -> impl Iterator<Item = &Quorum> {
        std::iter::once(&self.current).chain(&self.pending)
    }
}
