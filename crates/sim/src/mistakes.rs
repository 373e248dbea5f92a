//! Known mistakes, by name, with seeds by which each is found out.

use std::ops::RangeInclusive;

use herdsman_zab::Mistake;

/// A mistake, its name, and seeds of [`crate::Plan::rough`] of which one finds it out.
pub const MISTAKES: &[(Mistake, &str, RangeInclusive<u64>)] = &[
    (Mistake::AckBeforeFlush, "ack-before-flush", 1..=300),
    (Mistake::EpochBeforeHistory, "epoch-before-history", 1..=300),
    (Mistake::CommitWithoutQuorum, "commit-without-quorum", 1..=300),
    (Mistake::IgnoreFollowerAhead, "ignore-follower-ahead", 1..=300),
    (Mistake::SkipTruncate, "skip-truncate", 1..=300),
    (Mistake::ApplyBeforeCommit, "apply-before-commit", 1..=300),
    (Mistake::SyncWithoutCheck, "sync-without-check", 701..=1000),
];

/// The properties of which a mistake in agreement must break one.
pub const AGREEMENT: &[&str] = &[
    "agreement",
    "forward only",
    "prefix consistency",
    "primary order",
    "primary integrity",
    "integrity",
    "leadership",
    "durability",
    "equal digests",
    "linearizable writes",
];

/// The mistake of a name.
#[must_use]
pub fn by_name(name: &str) -> Option<Mistake> {
    MISTAKES.iter().find(|(_, known, _)| *known == name).map(|(mistake, ..)| *mistake)
}
