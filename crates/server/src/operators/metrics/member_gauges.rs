//! Gauges of a member of an ensemble. Apache: `QuorumZooKeeperServer.registerMetrics`,
//! `LeaderZooKeeperServer.registerMetrics`.

use herdsman_node::{Node, ServesAs};
use herdsman_proto::LearnerKind;

use crate::clients::io_threads::ServerContext;

/// All gauges of a member at one moment.
#[derive(Debug, Default)]
pub(crate) struct MemberGauges {
    pub leads: bool,
    pub voters: usize,
    pub learners: usize,
    pub followers: usize,
    pub followers_without_vote: usize,
    pub observers: usize,
    pub syncs_waiting: usize,
    pub has_linearizable_syncs: bool,
    pub led_ms: u64,
    /// Last, smallest, largest.
    pub proposal_sizes: [i64; 3],
}

impl MemberGauges {
    /// `None` on a standalone server.
    pub fn of(shared: &ServerContext) -> Option<Self> {
        let core = &shared.core;
        let peers = core.peers()?;
        let mut member = core.with_node(of_node)?;
        let since_ms = peers.leading_since_ms();
        member.led_ms =
            since_ms.map_or(0, |since_ms| core.clock.monotonic_ms().saturating_sub(since_ms));
        member.learners = peers.learners();
        member.proposal_sizes = core.stats.ensemble.proposal_sizes();
        Some(member)
    }
}

fn of_node(node: &Node) -> Option<MemberGauges> {
    let zab = node.zab()?;
    let voters: Vec<_> = zab.membership().voters().collect();
    let mut member = MemberGauges {
        leads: node.serves_as() == Some(ServesAs::Leader),
        voters: voters.len(),
        syncs_waiting: node.syncs_waiting(),
        has_linearizable_syncs: node.has_linearizable_syncs(),
        ..MemberGauges::default()
    };
    for (_, server, kind) in zab.learners() {
        match kind {
            LearnerKind::Observer => member.observers += 1,
            LearnerKind::Follower => {
                member.followers += 1;
                member.followers_without_vote += usize::from(!voters.contains(&server));
            }
        }
    }
    Some(member)
}
