//! Voters that claim to have promised a later epoch than the leader's.
//!
//! Such a promise was given to a leader that was never established. The voter can never follow this one, and the
//! ensemble is one voter short until the next election, as Apache's is. A new epoch above the promise takes little
//! time, so the leader steps down for it. But any host that reaches the port can send FOLLOWERINFO with a voter's id.
//! Therefore
//! - a claim is ignored if that voter follows on another link;
//! - a voter that must not vote yet joins as an observer, and keeps its promise all the same: an Apache leader would
//!   count its acks. So its claim counts, unless it observes on another link, as a voter does whose log is still in
//!   memory and whose promise is not relied on;
//! - the voter has to repeat it for a tick, as a genuine one does, which is refused each time;
//! - a server steps down for this once in [`OUTBID_PAUSE_TICKS`], whichever voter claims it;
//! - each time the epoch rises by [`EPOCHS_RAISED_MAX`] at most. A voter that is further ahead can follow after several
//!   step-downs, 16 at most.
//!
//! A host that impersonates a voter that is down can still force an election at that rate: only TLS or SASL
//! between servers prevent it.

use std::collections::BTreeMap;

use herdsman_proto::{LearnerKind, ServerId};

use super::Leader;
use crate::learner_peer::LearnerPeer;
use crate::replica::{EPOCHS_RAISED_MAX, Replica};

/// Time between two step-downs of a server because of claims: two minutes if a tick is 2 s.
const OUTBID_PAUSE_TICKS: u64 = 60;
/// A voter that was refused connects again within this time plus the time to connect. Ours pauses for at most a second.
const REPEAT_MS_MAX: u64 = 10_000;

/// The epoch that a voter claims to have promised, and since when it has claimed so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    epoch: u32,
    first_ms: u64,
    last_ms: u64,
}

/// At most one claim per voter. Claims outlive a leader's term: a term without the claimants may not last a tick.
pub(crate) type Claims = BTreeMap<ServerId, Claim>;

impl Leader {
    /// Handles a voter's claim that it has promised a later epoch. One that may not vote claims it as an observer.
    pub(super) fn handle_claim(
        &mut self,
        now_ms: u64,
        (voter, kind): (ServerId, LearnerKind),
        epoch: u32,
        replica: &mut Replica,
    ) {
        let is_it = |peer: &LearnerPeer| {
            let is_kind = peer.kind == LearnerKind::Follower || peer.kind == kind;
            peer.server == voter && is_kind && peer.is_established()
        };
        if self.learners.values().any(is_it) {
            return;
        }
        let forget_ms = replica.settings.init_limit_ms() + REPEAT_MS_MAX;
        replica.claims.retain(|_, claim| now_ms <= claim.last_ms + forget_ms);
        let claim = replica.claims.entry(voter).or_insert(Claim {
            epoch,
            first_ms: now_ms,
            last_ms: now_ms,
        });
        (claim.epoch, claim.last_ms) = (epoch, now_ms);
        let persists = now_ms >= claim.first_ms + replica.settings.tick_ms;
        let pause_ms = OUTBID_PAUSE_TICKS * replica.settings.tick_ms;
        let has_paused = replica.outbid_ms.is_none_or(|last_ms| now_ms >= last_ms + pause_ms);
        if persists && has_paused {
            let claimed = replica.claims.values().map(|claim| claim.epoch).max().unwrap_or(epoch);
            let believed = claimed.min(self.epoch.saturating_add(EPOCHS_RAISED_MAX));
            replica.promised_by_voters = replica.promised_by_voters.max(believed);
            replica.outbid_ms = Some(now_ms);
            self.outbid = true;
        }
    }
}
