//! A search for a leader: the votes that were received, and the decisions that follow from them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use herdsman_proto::{LearnerKind, Notification, ServerId, ServerState, Vote, Zxid};

use super::{Decision, Election, NO_VOTE, NotificationOutcome, Phase};
use crate::io::Output;

/// The zxid of a server that does not know its own log.
const UNKNOWN: Zxid = Zxid(-1);

/// The state of a search, which only matters until a leader is found.
#[derive(Debug)]
pub(super) struct Search {
    /// The vote with which a round begins.
    first: Vote,
    /// The last vote of each voter in our round, including this server.
    pub(super) in_round: BTreeMap<ServerId, Ballot>,
    /// The last vote of each voter that has a leader, of any round.
    pub(super) settled: BTreeMap<ServerId, Ballot>,
    /// Set while a quorum has our vote: until then a better one may come.
    pub(super) finalize_at_ms: Option<u64>,
    pub(super) repeat_at_ms: u64,
    pub(super) repeat_ms: u64,
}

/// The vote and the state of a voter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ballot {
    pub(super) state: ServerState,
    pub(super) vote: Vote,
}

impl Search {
    pub(super) fn new(first: Vote, repeat_ms: u64) -> Search {
        Search {
            first,
            in_round: BTreeMap::new(),
            settled: BTreeMap::new(),
            finalize_at_ms: None,
            repeat_at_ms: 0,
            repeat_ms,
        }
    }

    /// Returns the voters that support this leader.
    pub(super) fn supporters(&self, leader: ServerId) -> BTreeSet<ServerId> {
        let ballots = self.in_round.iter().chain(&self.settled);
        ballots.filter(|(_, ballot)| ballot.vote.leader == leader).map(|(id, _)| *id).collect()
    }
}

impl Ballot {
    /// Whether it supports the leader of a server that has one in our round.
    fn supports(&self, settled: Vote) -> bool {
        match self.state {
            ServerState::Looking => self.vote == settled,
            _ => self.vote.leader == settled.leader,
        }
    }
}

/// What this server does while it looks.
impl Election {
    pub(super) fn hear_looking(
        &mut self,
        now_ms: u64,
        from: ServerId,
        message: &Notification,
        out: &mut Vec<Output>,
    ) -> NotificationOutcome {
        if message.state == ServerState::Looking && self.should_answer(from, message) {
            out.push(self.notify(from));
        }
        if !self.electorate.is_voter(from) || !self.electorate.is_voter(message.vote.leader) {
            return NotificationOutcome::Nothing;
        }
        let decision = match message.state {
            ServerState::Looking => self.count_looking(now_ms, from, message, out),
            ServerState::Following | ServerState::Leading => {
                self.count_settled(now_ms, from, message)
            }
            ServerState::Observing => None,
        };
        decision.into()
    }

    /// Whether our vote is news to a server that also looks.
    fn should_answer(&self, from: ServerId, message: &Notification) -> bool {
        // A server that does not know that this one is a voter would answer again, and so on without end.
        let is_known_voter = self.electorate.current().is_voter(self.settings.me);
        if !self.is_voter() || !is_known_voter || self.vote.leader == NO_VOTE.leader {
            return false;
        }
        // The vote of a server with another membership may name a server that is not a voter here. Our answer would not
        // change it, and would be answered with the same vote again.
        let candidate = message.vote.leader;
        let is_comparable = candidate == NO_VOTE.leader || self.electorate.is_voter(candidate);
        match message.round.cmp(&self.round) {
            Ordering::Less => true,
            Ordering::Equal if self.electorate.is_voter(from) => {
                is_comparable && self.is_behind(from, message.vote)
            }
            Ordering::Equal => is_comparable,
            Ordering::Greater => false,
        }
    }

    /// Whether a voter in our round has not received our vote. One whose vote has improved since its
    /// last notification receives messages, and ours is on its way.
    fn is_behind(&self, from: ServerId, vote: Vote) -> bool {
        let Phase::Looking(Search { in_round, .. }) = &self.phase else { return false };
        let is_on_its_way = |ballot: &Ballot| self.rank(ballot.vote) < self.rank(vote);
        self.rank(vote) < self.rank(self.vote) && !in_round.get(&from).is_some_and(is_on_its_way)
    }

    fn count_looking(
        &mut self,
        now_ms: u64,
        from: ServerId,
        message: &Notification,
        out: &mut Vec<Output>,
    ) -> Option<Decision> {
        let search = self.search_mut()?;
        search.settled.remove(&from);
        let first = search.first;
        if first.zxid == UNKNOWN || message.vote.zxid == UNKNOWN {
            return None;
        }
        if self.is_suspended_voter() {
            // The other servers hold an election: they will have a leader soon, and tell only servers that ask.
            self.repeat_soon(now_ms);
            return None;
        }
        match message.round.cmp(&self.round) {
            // A server that has not voted yet joins an earlier round to vote there, or to become a candidate: no other
            // server would follow it into a later one. It need not know that a pending membership makes it a voter.
            Ordering::Less
                if self.vote.leader == NO_VOTE.leader
                    && self.may_become_voter()
                    && (self.is_voter() || self.is_better(message.vote, first)) =>
            {
                self.join_round(now_ms, message, out)?;
            }
            Ordering::Less => {
                self.tell_again_if_pending(now_ms);
                return None;
            }
            Ordering::Equal if self.may_adopt() && self.is_better(message.vote, self.vote) => {
                self.propose(now_ms, message.vote, out);
            }
            Ordering::Equal if message.vote != self.vote => self.tell_again_if_pending(now_ms),
            Ordering::Equal => {}
            Ordering::Greater => self.join_round(now_ms, message, out)?,
        }
        let ballot = Ballot { state: message.state, vote: message.vote };
        self.search_mut()?.in_round.insert(from, ballot);
        self.adopt_best(now_ms, out);
        self.conclude(now_ms)
    }

    /// Goes on in another server's round, with the better of its vote and our first one.
    fn join_round(
        &mut self,
        now_ms: u64,
        message: &Notification,
        out: &mut Vec<Output>,
    ) -> Option<()> {
        self.round = message.round;
        let search = self.search_mut()?;
        search.in_round.clear();
        let first = search.first;
        let theirs_is_better = self.may_adopt() && self.is_better(message.vote, first);
        self.propose(now_ms, if theirs_is_better { message.vote } else { first }, out);
        Some(())
    }

    /// Returns the vote for itself of a server that only a pending membership makes a voter, if it has to become a
    /// candidate: for a while it has received only votes for shorter logs than its own. It can never follow those, and
    /// without it there may be no quorum. While there is a voter in force with an equal log, that one is to lead: every
    /// server knows it to be a voter.
    pub(super) fn vote_of_last_resort(&self) -> Option<Vote> {
        let Phase::Looking(Search { in_round, .. }) = &self.phase else { return None };
        let has_no_candidate = self.vote.leader == NO_VOTE.leader;
        let is_behind = |vote: Vote| (vote.epoch, vote.zxid) < (self.vote.epoch, self.vote.zxid);
        let is_candidate = has_no_candidate
            && self.is_voter()
            && in_round.values().any(|ballot| is_behind(ballot.vote));
        is_candidate.then_some(Vote { leader: self.settings.me, ..self.vote })
    }

    /// Whether other servers may count this server's vote: it is not an observer.
    fn may_become_voter(&self) -> bool {
        self.settings.kind == LearnerKind::Follower
    }

    /// Whether this server is listed as a voter but must not vote. It sends only votes without a candidate, which other
    /// servers ignore, to find out which server leads.
    fn is_suspended_voter(&self) -> bool {
        self.settings.kind == LearnerKind::Observer && self.electorate.is_voter(self.settings.me)
    }

    /// Repeats the vote soon if only a pending membership makes this server a voter: such a server does not answer
    /// while it looks.
    fn tell_again_if_pending(&mut self, now_ms: u64) {
        let is_pending = self.is_voter() && !self.electorate.current().is_voter(self.settings.me);
        if is_pending && self.vote.leader != NO_VOTE.leader {
            self.repeat_soon(now_ms);
        }
    }

    /// Whether votes for a server that only a pending membership makes a voter have led to no decision: a server that
    /// does not know of that membership may be needed, and ignores them. The voters in force then try again
    /// among themselves, in a new round.
    pub(super) fn is_round_split(&self) -> bool {
        let Phase::Looking(Search { in_round, .. }) = &self.phase else { return false };
        let current = self.electorate.current();
        let is_pending = |ballot: &Ballot| {
            ballot.state == ServerState::Looking && !current.is_voter(ballot.vote.leader)
        };
        self.settings.kind == LearnerKind::Follower
            && current.is_voter(self.settings.me)
            && in_round.values().any(is_pending)
            && !self.has_quorum()
    }

    /// Begins a new round with the first vote.
    pub(super) fn begin_new_round(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        self.round = self.round.saturating_add(1);
        let Some(search) = self.search_mut() else { return };
        search.in_round.clear();
        let first = search.first;
        self.propose(now_ms, first, out);
    }

    /// Repeats our vote to all voters soon, which also asks them for their leader.
    fn repeat_soon(&mut self, now_ms: u64) {
        let soon_ms = self.settings.notification_min_ms;
        if let Some(search) = self.search_mut() {
            search.repeat_ms = soon_ms;
            search.repeat_at_ms = search.repeat_at_ms.min(now_ms.saturating_add(soon_ms));
        }
    }

    /// Counts the vote of a voter that has a leader, which may be ours.
    fn count_settled(
        &mut self,
        now_ms: u64,
        from: ServerId,
        message: &Notification,
    ) -> Option<Decision> {
        let (round, vote) = (message.round, message.vote);
        let ballot = Ballot { state: message.state, vote };
        let is_in_round = round == self.round;
        let search = self.search_mut()?;
        search.settled.insert(from, ballot);
        if is_in_round {
            search.in_round.insert(from, ballot);
        }
        if self.has_leader_in_round(round, vote) || self.has_leader_elsewhere(round, vote) {
            self.round = round;
            return Some(self.decide(vote));
        }
        self.conclude(now_ms)
    }

    /// Whether our round is over for a quorum, with this winner.
    fn has_leader_in_round(&self, round: i64, vote: Vote) -> bool {
        let Phase::Looking(Search { in_round, .. }) = &self.phase else { return false };
        let supports = |id| in_round.get(&id).is_some_and(|ballot| ballot.supports(vote));
        round == self.round
            && self.leads(vote.leader, round, in_round)
            && self.has_enough_support(vote.leader, supports)
    }

    /// Whether a quorum follows this leader, since any round.
    fn has_leader_elsewhere(&self, round: i64, vote: Vote) -> bool {
        let Phase::Looking(Search { settled, .. }) = &self.phase else { return false };
        let is_same = |other: Vote| (other.leader, other.epoch) == (vote.leader, vote.epoch);
        let supports = |id| settled.get(&id).is_some_and(|ballot| is_same(ballot.vote));
        self.leads(vote.leader, round, settled) && self.has_enough_support(vote.leader, supports)
    }

    /// Whether enough voters support a leader to join it. To lead, this server needs every required quorum.
    /// To join another one, a quorum of either membership is enough: that server has counted for itself, and
    /// a change of membership that is pending here may have been given up there, with servers that never
    /// return.
    fn has_enough_support(&self, leader: ServerId, supports: impl Fn(ServerId) -> bool) -> bool {
        if leader == self.settings.me {
            self.electorate.is_quorum(supports)
        } else {
            self.electorate.is_quorum_of_any(supports)
        }
    }

    /// Whether a server that other servers name as their leader reports that it leads.
    fn leads(&self, leader: ServerId, round: i64, said: &BTreeMap<ServerId, Ballot>) -> bool {
        if leader == self.settings.me {
            return self.is_voter() && round == self.round && self.may_adopt();
        }
        said.get(&leader).is_some_and(|ballot| ballot.state == ServerState::Leading)
    }

    /// Decides if our vote has won.
    pub(super) fn conclude(&mut self, now_ms: u64) -> Option<Decision> {
        let has_quorum = self.has_quorum() && self.may_adopt();
        let has_heard_all = self.has_heard_all_candidates();
        let wait_until = now_ms.saturating_add(self.settings.finalize_wait_ms);
        let search = self.search_mut()?;
        if !has_quorum {
            search.finalize_at_ms = None;
            return None;
        }
        let wait_until = *search.finalize_at_ms.get_or_insert(wait_until);
        (has_heard_all || now_ms >= wait_until).then(|| self.decide(self.vote))
    }

    /// Whether a quorum has our vote.
    fn has_quorum(&self) -> bool {
        let Phase::Looking(Search { in_round, .. }) = &self.phase else { return false };
        let has_vote = |id| in_round.get(&id).is_some_and(|ballot| ballot.vote == self.vote);
        self.electorate.is_quorum(has_vote)
    }

    /// Whether every server that could have a better vote in this round has sent one.
    fn has_heard_all_candidates(&self) -> bool {
        let Phase::Looking(Search { in_round, .. }) = &self.phase else { return false };
        let mut candidates =
            self.electorate.voters().filter(|id| self.electorate.is_electable(*id));
        candidates.all(|id| in_round.contains_key(&id))
    }

    pub(super) fn is_better(&self, vote: Vote, than: Vote) -> bool {
        self.electorate.is_electable(vote.leader) && self.rank(vote) > self.rank(than)
    }

    /// Votes, and notifies all voters.
    pub(super) fn propose(&mut self, now_ms: u64, vote: Vote, out: &mut Vec<Output>) {
        self.vote = vote;
        let (me, state) = (self.settings.me, ServerState::Looking);
        let is_counted = self.is_voter() && self.electorate.is_voter(vote.leader);
        if let Phase::Looking(search) = &mut self.phase {
            search.finalize_at_ms = None;
            if is_counted && search.first.zxid != UNKNOWN {
                search.in_round.insert(me, Ballot { state, vote });
            }
        }
        self.broadcast(now_ms, out);
    }

    /// Sends our vote to all other voters; it is repeated if there is no decision in time.
    pub(super) fn broadcast(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let others = self.electorate.voters().filter(|id| *id != self.settings.me);
        out.extend(others.map(|id| self.notify(id)));
        if let Some(search) = self.search_mut() {
            search.repeat_at_ms = now_ms.saturating_add(search.repeat_ms);
        }
    }

    pub(super) fn search_mut(&mut self) -> Option<&mut Search> {
        match &mut self.phase {
            Phase::Looking(search) => Some(search),
            _ => None,
        }
    }
}
