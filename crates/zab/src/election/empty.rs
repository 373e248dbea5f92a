//! The election of a voter without any data: it is new, or it has lost everything.
//!
//! A voter that has lost its directory forgets what it has acknowledged. If it voted for the first candidate that it
//! heard of, it and a server that lags behind could elect a leader without txns that this very server had acknowledged,
//! while the only other server that has them is down. So its vote counts only where it can make no difference:
//!
//! * No voter that it has heard of has a history. Then this is a new ensemble, or one that has lost a quorum, which no
//!   server can know.
//! * It has heard the votes of all other voters in its round. Then every quorum that it was part of before has a member
//!   among them, and the best vote is for a server that has all that was agreed on.
//! * All other voters have the same leader. What any of them had promised or acknowledged together with this server,
//!   it did before it followed that leader.
//!
//! The votes of others count from the second message of each on. The first one may be the last one that it had sent to
//! this server before it lost its data: servers repeat that when they connect, ours and Apache's. A vote from then does
//! not show what was acknowledged afterwards. (That others have a leader may be old news, too. But if that leader has
//! lost them, it takes nobody in; and where there has been another one, with this server among its followers, that one
//! has told this server so, and repeats that.)
//!
//! Otherwise it goes on voting for itself, which no voter with a history adopts, and waits for the missing voters or
//! for a leader that is elected without it. Of such a leader it is an observer until it is brought up to date.
//!
//! In an ensemble with Apache's servers only our own server keeps to this. Their notifications say all that it needs.

use herdsman_proto::{LearnerKind, Notification, ServerId, ServerState, Vote, Zxid};

use super::search::Ballot;
use super::{Election, Phase};
use crate::io::Output;

impl Election {
    /// Sets whether this server has begun without any data and has taken part in nothing since. Then its vote counts
    /// only where it makes no difference what it may have acknowledged before:
    /// if no voter that it has heard of has a history; if it has heard all voters; or if all others have one leader.
    pub fn set_started_empty(&mut self, started_empty: bool) {
        self.started_empty = started_empty;
    }

    /// Whether some voter is known to have a history: a txn, or an epoch that it has followed.
    #[must_use]
    pub fn has_heard_history(&self) -> bool {
        self.has_heard_history
    }

    pub(super) fn note_history(&mut self, from: ServerId, message: &Notification) {
        let has_history = message.vote.epoch > 0 || message.vote.zxid > Zxid::ZERO;
        if self.electorate.is_voter(from) {
            self.has_heard_history |= has_history;
            if !self.heard.insert(from) {
                self.heard_again.insert(from);
            }
        }
    }

    /// Whether this server may vote for others, and act on a quorum for its vote.
    pub(super) fn may_adopt(&self) -> bool {
        !self.started_empty || !self.has_heard_history || self.has_heard_all_others()
    }

    /// Votes for the best candidate, once all are known.
    pub(super) fn adopt_best(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        if !self.started_empty || !self.has_heard_history || !self.has_heard_all_others() {
            return;
        }
        let Phase::Looking(search) = &self.phase else { return };
        let votes = search.in_round.values().map(|ballot| ballot.vote);
        let best = votes.filter(|vote| self.is_better(*vote, self.vote));
        if let Some(best) = best.max_by_key(|vote| self.rank(*vote)) {
            self.propose(now_ms, best, out);
        }
    }

    /// Whether this server follows or observes a leader that it has found.
    pub(super) fn kind_towards(&self, vote: Vote) -> LearnerKind {
        let is_in_doubt = self.started_empty && self.has_heard_history;
        if is_in_doubt && !self.is_proven(vote) {
            LearnerKind::Observer
        } else {
            self.settings.kind
        }
    }

    /// Whether a leader has all that this server may have acknowledged.
    fn is_proven(&self, vote: Vote) -> bool {
        let is_elected_here = self.vote.leader == vote.leader && self.has_heard_all_others();
        is_elected_here || self.all_others_follow(vote.leader)
    }

    fn has_heard_all_others(&self) -> bool {
        let Phase::Looking(search) = &self.phase else { return false };
        // Who has settled in another round meanwhile is not known to be still of its last vote in this one.
        let is_valid = |id: &ServerId, ballot: &Ballot| {
            ballot.state != ServerState::Looking || !search.settled.contains_key(id)
        };
        let has_voted = |id| search.in_round.get(&id).is_some_and(|ballot| is_valid(&id, ballot));
        self.others().all(|id| self.heard_again.contains(&id) && has_voted(id))
    }

    fn all_others_follow(&self, leader: ServerId) -> bool {
        let Phase::Looking(search) = &self.phase else { return false };
        let follows = |id| search.settled.get(&id).is_some_and(|it| it.vote.leader == leader);
        self.others().all(follows)
    }

    fn others(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.electorate.voters().filter(|id| *id != self.settings.me)
    }
}
