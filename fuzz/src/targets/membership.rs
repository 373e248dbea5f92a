//! The members of an ensemble, as servers encode them for each other.

use herdsman_proto::Membership;
use herdsman_proto::membership::TEXT_BYTES_MAX;

/// In: the text in a vote, in a leader's last packet before it serves, or in `/zookeeper/config`.
pub fn run(bytes: &[u8]) {
    let Ok(membership) = Membership::parse_text(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    assert!(membership.voters().next().is_some(), "there is a voter");
    let text = membership.to_text();
    assert!(!text.ends_with('\n'), "the version is last");
    // Roles and addresses are written out, so the text may have become too long.
    if text.len() <= TEXT_BYTES_MAX {
        assert_eq!(Membership::parse_text(&text).as_ref(), Ok(&membership));
    }
}
