//! Decides how a learner catches up. In: the leader's history window and the end of the learner's log.
//! Out: a plan; nothing is sent or read here.
//!
//! Invariant: a plan never skips a txn, and never lets a learner keep one that the leader does not have.
//! A zxid names one txn only, and logs of one epoch are prefixes of what its leader proposed. So
//! if the leader has the learner's last txn, the learner's whole log is a prefix of the leader's.
//!
//! Apache: `LearnerHandler.syncFollower`. How we differ: log files are used only if they hold the learner's
//! last txn and everything after it, without a hole (ZOOKEEPER-2418, 2846, 4352); a learner that would have
//! to cut its log there gets a snapshot. Apache's leader still counts the acknowledgement of a learner that it has
//! meanwhile told to cut the txn off; ours forgets it together with the link.

use herdsman_proto::Zxid;

use crate::history::History;

/// How a learner catches up. The rest of the window is sent afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPlan {
    /// It has a prefix: send what follows its last txn.
    Diff {
        /// Its last txn.
        after: Zxid,
    },
    /// It has txns that were never agreed on: cut, then send what follows.
    Trunc {
        /// The last txn that it keeps.
        to: Zxid,
    },
    /// It is behind the window: send what follows its last txn from the log on disk if that reaches back far
    /// enough, else a snapshot.
    Log {
        /// Its last txn.
        after: Zxid,
    },
    /// It has nothing, or it is unknown where its log left our history.
    Snap,
}

/// Chooses a plan for a learner whose log ends with `last`. Of the history, everything up to `agreed`
/// is agreed on.
#[must_use]
pub fn plan_sync(history: &History, agreed: Zxid, last: Zxid) -> SyncPlan {
    if history.contains(last) {
        // A learner regards all that it has as agreed on. What is not is cut off and proposed to it
        // again: nothing relies on it, since acknowledgements count only while their link lasts.
        return if last <= agreed {
            SyncPlan::Diff { after: last }
        } else {
            SyncPlan::Trunc { to: agreed }
        };
    }
    let Some(floor) = history.floor(last) else {
        // A server may have begun with a tree that cannot be built from a log, so an empty learner needs the tree.
        return if last == Zxid::ZERO { SyncPlan::Snap } else { SyncPlan::Log { after: last } };
    };
    // The start of an epoch is not a txn: a tree is labelled with it when its server has
    // everything that this epoch began with and none of its txns.
    if last.counter() == 0 {
        let next = history.after(last).next();
        return match next {
            Some((next, _)) if next.epoch() == last.epoch() => SyncPlan::Diff { after: floor },
            _ => SyncPlan::Snap,
        };
    }
    // Beyond our end nothing can be agreed on, so there is nothing to lose by cutting. Inside the
    // window, the learner surely has the floor only if it is of the same epoch.
    if last > history.last() || floor.epoch() == last.epoch() {
        SyncPlan::Trunc { to: floor.min(agreed) }
    } else {
        SyncPlan::Snap
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::history::HistoryLimits;

    fn zxid(epoch: u32, counter: i64) -> Zxid {
        Zxid(Zxid::start_of(epoch).0 | counter)
    }

    /// A window (1:5, 1:6, 1:7, 3:1, 3:2], all of it agreed on.
    fn check(last: Zxid, expected: SyncPlan) {
        check_with(zxid(3, 2), last, expected);
    }

    fn check_with(agreed: Zxid, last: Zxid, expected: SyncPlan) {
        let limits = HistoryLimits { txns_max: 10, bytes_max: 1000 };
        let mut history = History::new(limits, zxid(1, 5));
        for next in [zxid(1, 6), zxid(1, 7), zxid(3, 1), zxid(3, 2)] {
            history.push(next, Bytes::new());
        }
        assert_eq!(plan_sync(&history, agreed, last), expected, "{last}");
    }

    #[test]
    fn plans() {
        // It has a prefix.
        check(zxid(3, 2), SyncPlan::Diff { after: zxid(3, 2) });
        check(zxid(3, 1), SyncPlan::Diff { after: zxid(3, 1) });
        check(zxid(1, 7), SyncPlan::Diff { after: zxid(1, 7) });
        check(zxid(1, 5), SyncPlan::Diff { after: zxid(1, 5) });
        // Too far behind.
        check(zxid(1, 4), SyncPlan::Log { after: zxid(1, 4) });
        check(zxid(1, 0), SyncPlan::Log { after: zxid(1, 0) });
        check(Zxid::ZERO, SyncPlan::Snap);
        // It logged what was never agreed on.
        check(zxid(3, 3), SyncPlan::Trunc { to: zxid(3, 2) });
        check(zxid(4, 1), SyncPlan::Trunc { to: zxid(3, 2) });
        check(zxid(1, 8), SyncPlan::Trunc { to: zxid(1, 7) });
        // Of an epoch that we never saw: where its log left ours is not known.
        check(zxid(2, 4), SyncPlan::Snap);
        // The start of an epoch.
        check(zxid(3, 0), SyncPlan::Diff { after: zxid(1, 7) });
        check(zxid(2, 0), SyncPlan::Snap);
        check(zxid(4, 0), SyncPlan::Snap);
        // It has what is not agreed on yet.
        check_with(zxid(3, 1), zxid(3, 2), SyncPlan::Trunc { to: zxid(3, 1) });
        check_with(zxid(1, 7), zxid(3, 2), SyncPlan::Trunc { to: zxid(1, 7) });
        check_with(zxid(1, 7), zxid(4, 1), SyncPlan::Trunc { to: zxid(1, 7) });
    }
}
