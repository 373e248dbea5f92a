//! Voters that say they have promised a later epoch than the leader's.
//!
//! Such a promise was made to a leader that never came to lead. The voter can never follow this one, and the ensemble
//! is one voter short until the next election, as Apache's is. A new epoch above the promise costs a moment, so the
//! leader steps down for it. But anybody who reaches the port can say FOLLOWERINFO with a voter's number. So
//! - a voter that follows on another link has promised nothing of the kind;
//! - the voter says so again and again for a tick, as a real one does, which is refused each time;
//! - a server steps down for this once in [`OUTBID_PAUSE_TICKS`], whoever asks;
//! - each time the epoch rises by [`EPOCHS_RAISED_MAX`] at most. A voter that is further ahead follows after several
//!   times, 16 at most.
//!
//! A host that takes the place of a voter that is down can still force an election at that rate: only TLS or SASL
//! between servers keep it out.

use std::collections::BTreeMap;

use herdsman_proto::ServerId;

use super::Leader;
use crate::learner_peer::LearnerPeer;
use crate::replica::{EPOCHS_RAISED_MAX, Replica};

/// Between two times that a server steps down because of a claim: two minutes if a tick is 2 s.
const OUTBID_PAUSE_TICKS: u64 = 60;
/// A voter that was refused comes again within this time and the time to connect. Ours rests for a second at most.
const REPEAT_MS_MAX: u64 = 10_000;

/// What a voter says to have promised, and for how long it has said so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    epoch: u32,
    first_ms: u64,
    last_ms: u64,
}

/// At most one claim a voter. They outlive a leader's term: one that lacks the claimants may not last a tick.
pub(crate) type Claims = BTreeMap<ServerId, Claim>;

impl Leader {
    /// A voter says that it has promised a later epoch.
    pub(super) fn handle_claim(
        &mut self,
        now_ms: u64,
        voter: ServerId,
        epoch: u32,
        replica: &mut Replica,
    ) {
        if self.has_follower(voter, LearnerPeer::is_established) {
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
