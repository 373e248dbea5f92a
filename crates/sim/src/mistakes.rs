//! Known mistakes, by name, with the number of seeds within which each is found out.

use herdsman_zab::Mistake;

/// A mistake, its name, and within how many seeds it is found out, counted from seed 1 in
/// [`crate::Plan::rough`].
pub const MISTAKES: &[(Mistake, &str, u64)] = &[
    (Mistake::AckBeforeFlush, "ack-before-flush", 300),
    (Mistake::EpochBeforeHistory, "epoch-before-history", 300),
    (Mistake::CommitWithoutQuorum, "commit-without-quorum", 300),
    (Mistake::IgnoreFollowerAhead, "ignore-follower-ahead", 300),
    (Mistake::SkipTruncate, "skip-truncate", 300),
    (Mistake::ApplyBeforeCommit, "apply-before-commit", 300),
    (Mistake::SyncWithoutCheck, "sync-without-check", 300),
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
