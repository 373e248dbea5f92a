//! Counters of a member of an ensemble. Apache: `ServerMetrics`, `BufferStats`.
//!
//! Written by the role log only, from the outputs of the protocol core.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Counter, Histogram, Series, SharedDistribution, SharedSeries};

/// Counters of a member of an ensemble.
#[derive(Debug, Default)]
pub struct EnsembleStats {
    /// Elections in which this server took part.
    pub searches: Counter,
    /// From the start of a search to its decision.
    pub election: SharedDistribution,
    /// From a follower's promise of the epoch until it is synchronized.
    pub follower_sync: SharedDistribution,
    /// The same for an observer.
    pub observer_sync: SharedDistribution,
    /// From the start of a search to serving again.
    pub unavailable: SharedDistribution,
    /// The same for searches that ended with leading.
    pub leader_unavailable: SharedDistribution,
    /// How often this leader stepped down because it lost its voters.
    pub deserted: Counter,
    /// Txns proposed by this leader.
    pub proposals: Counter,
    /// Txns committed by this leader.
    pub commits: Counter,
    /// From a proposal to its acknowledgement by a quorum.
    pub quorum_ack: SharedDistribution,
    /// Sizes of proposals since this server leads.
    pub proposal_size: SharedSeries,
    /// Bytes of the last proposal.
    pub last_proposal_bytes: AtomicU64,
    /// Learners that received the missing txns.
    pub diffs: Counter,
    /// Learners that received a whole tree.
    pub snapshots: Counter,
    /// Sessions that learners have revalidated.
    pub revalidations: Counter,
    /// Txns received from the leader.
    pub proposals_received: Counter,
    /// Commits received from the leader.
    pub commits_received: Counter,
    /// From the leader's clock in a txn to its arrival.
    pub proposal_latency: SharedDistribution,
    /// From a txn's arrival to its commit.
    pub commit_propagation: SharedDistribution,
    /// From the leader's clock in a txn to its commit here.
    pub propagation: SharedDistribution,
    /// From a leader's proposal, or a txn's arrival at a learner, to its commit there; never reset.
    pub commit: Histogram,
}

impl EnsembleStats {
    /// Resets everything.
    pub fn reset(&self) {
        for counter in [
            &self.searches,
            &self.deserted,
            &self.proposals,
            &self.commits,
            &self.diffs,
            &self.snapshots,
            &self.revalidations,
            &self.proposals_received,
            &self.commits_received,
        ] {
            counter.reset();
        }
        for spread in [
            &self.election,
            &self.follower_sync,
            &self.observer_sync,
            &self.unavailable,
            &self.leader_unavailable,
            &self.quorum_ack,
            &self.proposal_latency,
            &self.commit_propagation,
            &self.propagation,
        ] {
            spread.reset();
        }
        self.reset_proposal_sizes();
    }

    /// Resets the sizes of proposals, for a new leader or an operator.
    pub fn reset_proposal_sizes(&self) {
        self.proposal_size.reset();
        self.last_proposal_bytes.store(0, Ordering::Relaxed);
    }

    /// Counts a proposed txn of this many bytes.
    pub fn proposed(&self, bytes: u64) {
        self.proposals.add(1);
        self.proposal_size.add(bytes);
        self.last_proposal_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The sizes of proposals: last, smallest, largest. -1 before the first one, as in Apache.
    #[must_use]
    pub fn proposal_sizes(&self) -> [i64; 3] {
        let Series { count, min, max, .. } = self.proposal_size.get();
        if count == 0 {
            return [-1; 3];
        }
        let last = self.last_proposal_bytes.load(Ordering::Relaxed);
        [last, min, max].map(u64::cast_signed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_unknown_before_the_first_proposal() {
        let stats = EnsembleStats::default();
        assert_eq!(stats.proposal_sizes(), [-1, -1, -1]);
        stats.proposed(88);
        stats.proposed(48);
        stats.proposed(60);
        assert_eq!(stats.proposal_sizes(), [60, 48, 88]);
        stats.reset_proposal_sizes();
        assert_eq!((stats.proposal_sizes(), stats.proposals.get()), ([-1, -1, -1], 3));
        stats.reset();
        assert_eq!(stats.proposals.get(), 0);
    }
}
