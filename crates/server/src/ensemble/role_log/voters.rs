//! How many voters a leader can still lose.

use std::collections::BTreeSet;

use herdsman_proto::{Membership, ServerId};

/// The voters of the committed membership.
#[derive(Debug, Default)]
pub(super) struct Voters {
    all: BTreeSet<ServerId>,
    /// Whether groups with weights decide, so that numbers of servers mean little.
    has_groups: bool,
}

impl Voters {
    pub fn of(membership: &Membership) -> Self {
        Voters { all: membership.voters().collect(), has_groups: !membership.groups.is_empty() }
    }

    /// Describes what is left without this server, given the present ones; `None` if it is not a voter.
    pub fn after_loss_of(&self, server: ServerId, present: &BTreeSet<ServerId>) -> Option<String> {
        if !self.all.contains(&server) || present.contains(&server) {
            return None;
        }
        let (left, all) = (self.all.intersection(present).count(), self.all.len());
        let quorum = all / 2 + 1;
        let more = match left.checked_sub(quorum) {
            _ if self.has_groups => "how many more may be lost depends on their groups".to_owned(),
            None => "too few for a quorum".to_owned(),
            Some(0) => "if one more is lost, writes stop".to_owned(),
            Some(spare) => format!("{spare} more may be lost"),
        };
        Some(format!("server {server} no longer follows: {left} of {all} voters are left; {more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(voters: &[i64], present: &[i64], lost: i64, expected: Option<&str>) {
        let ids = |ids: &[i64]| ids.iter().copied().map(ServerId).collect::<BTreeSet<_>>();
        let voters = Voters { all: ids(voters), has_groups: false };
        let line = voters.after_loss_of(ServerId(lost), &ids(present));
        let expected = expected.map(|rest| format!("server {lost} no longer follows: {rest}"));
        assert_eq!(line, expected, "{present:?} of {voters:?}");
    }

    #[test]
    fn a_loss_is_logged_with_the_number_of_spare_voters() {
        let five = [1, 2, 3, 4, 5];
        check(&five, &[1, 2, 3, 4], 5, Some("4 of 5 voters are left; 1 more may be lost"));
        check(
            &five,
            &[1, 2, 3],
            4,
            Some("3 of 5 voters are left; if one more is lost, writes stop"),
        );
        check(&[1, 2, 3], &[1], 2, Some("1 of 3 voters are left; too few for a quorum"));
        // It has reconnected already, or has no vote.
        check(&[1, 2, 3], &[1, 2, 3], 3, None);
        check(&[1, 2, 3], &[1, 2, 3], 4, None);
    }
}
