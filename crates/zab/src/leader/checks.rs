//! Checks that this server still leads, which it has to know before it answers a sync.
//!
//! A leader that was paused for a while does not know that it has been replaced, and would answer a sync with an
//! outdated state. So a sync begins a *check*: the followers are pinged, and the check passes when a quorum has
//! answered a ping that was sent after the check began. Then no later leader can have committed anything before the
//! check began: it needs the promises of a quorum, one of these servers has also answered the ping, and a server closes
//! its link to a leader before it promises a later epoch, so that it answers no pings after that. What was committed by
//! this leader or an earlier one is in this server's log, and a sync is answered when all of that is committed here.
//!
//! Pings carry the number of the latest check instead of a zxid, as a negative number so that it is not one. Followers,
//! ours and Apache's, send it back unchanged and use it for nothing else, so it does not matter how many packets
//! answer a ping, or whether pings that arrive before UPTODATE are answered. A follower gets the next ping for a
//! check when it has answered the previous one, so all syncs that arrive meanwhile share a ping.
//!
//! A proposal that was made after a sync and is acknowledged by a quorum shows the same: see `broadcast`.
//!
//! Apache has no such check.

use herdsman_proto::{LearnerKind, QuorumPacket, Zxid};

use super::Leader;
use crate::io::{LinkId, Output};
use crate::learner_peer::{LearnerPeer, Step, ping};
use crate::replica::Replica;
use crate::settings::Mistake;

/// The number of a check. Numbers increase while the process lives; 0 is a check that has always passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check(pub u64);

impl Check {
    /// The check of a server that does not lead.
    pub(crate) const NEVER_PASSED: Check = Check(u64::MAX);

    /// Returns the value that replaces the zxid in a ping.
    pub(crate) fn in_ping(self) -> Zxid {
        Zxid(-1 - self.0 as i64)
    }

    /// Returns the check in a ping, or in the answer to one. `None` if the leader is Apache's, which sends the zxid of
    /// its last proposal.
    #[must_use]
    pub fn of_ping(zxid: Zxid) -> Option<Check> {
        u64::try_from(-1 - zxid.0).ok().map(Check)
    }
}

impl Leader {
    /// Begins a check and returns its number. [`Output::CheckPassed`] reports when it has passed.
    pub fn begin_check(&mut self, replica: &mut Replica, out: &mut Vec<Output>) -> Check {
        replica.last_check.0 += 1;
        for (link, peer) in &mut self.learners {
            ask_again(*link, peer, replica.last_check, out);
        }
        // No follower has answered yet, but this server may be a quorum by itself.
        if self.needs_no_answer(replica) {
            self.pass_checks(replica, out);
        }
        replica.last_check
    }

    /// Handles a learner's answer to a ping.
    pub fn handle_ping_answer(
        &mut self,
        link: LinkId,
        zxid: Zxid,
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) {
        let (Some(peer), Some(check)) = (self.learners.get_mut(&link), Check::of_ping(zxid)) else {
            return;
        };
        if check > peer.check_answered && check <= peer.check_asked {
            peer.check_answered = check;
            ask_again(link, peer, replica.last_check, out);
            self.pass_checks(replica, out);
        }
    }

    /// The periodic ping to all learners that have caught up, or are about to. It carries the latest check, so its
    /// answers count, too.
    pub(super) fn ping(&mut self, replica: &mut Replica, out: &mut Vec<Output>) {
        let check = replica.last_check;
        for peer in self.learners.values_mut().filter(|peer| peer.step == Step::Active) {
            peer.check_asked = check;
        }
        ping(&self.learners, check.in_ping(), out);
        // Fewer servers may be needed since the last answer.
        self.pass_checks(replica, out);
    }

    fn needs_no_answer(&self, replica: &Replica) -> bool {
        replica.settings.mistake == Some(Mistake::SyncWithoutCheck)
            || self.is_quorum(replica, |_| false)
    }

    fn pass_checks(&mut self, replica: &mut Replica, out: &mut Vec<Output>) {
        if self.passed == replica.last_check {
            return;
        }
        let answered =
            |peer: &LearnerPeer, check| peer.step == Step::Active && peer.check_answered >= check;
        let has_passed = |check| {
            self.needs_no_answer(replica) || self.is_quorum(replica, |peer| answered(peer, check))
        };
        // The largest check that a quorum has answered is one that some follower has answered, or the last one if this
        // server is a quorum by itself.
        let answered = self.followers().map(|peer| peer.check_answered);
        let checks = answered.chain([replica.last_check]);
        let passed = checks.filter(|check| *check > self.passed && has_passed(*check)).max();
        if let Some(passed) = passed {
            self.passed = passed;
            out.push(Output::CheckPassed { check: passed });
            self.answer_syncs(replica.log.committed(), out);
            self.try_to_commit(replica, out);
        }
    }
}

/// Pings a follower for the latest check, unless it has one to answer first.
fn ask_again(link: LinkId, peer: &mut LearnerPeer, last: Check, out: &mut Vec<Output>) {
    let owes_answer = peer.check_answered < peer.check_asked;
    let counts = peer.step == Step::Active && peer.kind == LearnerKind::Follower;
    if counts && !owes_answer && peer.check_asked < last {
        peer.check_asked = last;
        let packet = QuorumPacket::Ping { zxid: last.in_ping(), touched: Vec::new() };
        out.push(Output::Send { link, packet });
    }
}
