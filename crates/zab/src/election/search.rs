//! A server that looks for a leader: what it has heard, and what follows from it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use herdsman_proto::{LearnerKind, Notification, ServerId, ServerState, Vote, Zxid};

use super::{Decision, Election, NO_VOTE, NotificationOutcome, Phase};
use crate::io::Output;

/// The zxid of a server that does not know its own log.
const UNKNOWN: Zxid = Zxid(-1);

/// What only matters until a leader is found.
#[derive(Debug)]
pub(super) struct Search {
    /// The vote with which a round is begun.
    first: Vote,
    /// What voters have said last in our round, this server included.
    in_round: BTreeMap<ServerId, Ballot>,
    /// What voters that have a leader have said last, of whatever round.
    settled: BTreeMap<ServerId, Ballot>,
    /// Set while a quorum has our vote: until then a better one may come.
    pub(super) finalize_at_ms: Option<u64>,
    pub(super) repeat_at_ms: u64,
    pub(super) repeat_ms: u64,
}

/// What a voter has said.
#[derive(Clone, Copy, Debug)]
struct Ballot {
    state: ServerState,
    vote: Vote,
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

    /// Who wants this leader.
    pub(super) fn supporters(&self, leader: ServerId) -> BTreeSet<ServerId> {
        let ballots = self.in_round.iter().chain(&self.settled);
        ballots.filter(|(_, ballot)| ballot.vote.leader == leader).map(|(id, _)| *id).collect()
    }
}

impl Ballot {
    /// Whether it speaks for the leader of a server that has one in our round.
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

    /// Whether a server that looks, too, learns something from our vote.
    fn should_answer(&self, from: ServerId, message: &Notification) -> bool {
        // A server that does not know that this one is a voter would answer again, and so on without end.
        let is_known_voter = self.electorate.current().is_voter(self.settings.me);
        if !self.is_voter() || !is_known_voter || self.vote.leader == NO_VOTE.leader {
            return false;
        }
        // The vote of a server with another membership may name somebody who is no voter here. It will not change by
        // our answer, but be the answer to it.
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

    /// Whether a voter in our round has not heard of our vote. One whose vote has got better since
    /// we heard of it listens, and ours is on its way.
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
            // The others hold an election: they will have a leader soon, and tell only who asks.
            self.repeat_soon(now_ms);
            return None;
        }
        match message.round.cmp(&self.round) {
            // A server that has not voted yet joins an earlier round to vote there, or to stand: no other server
            // would follow it into a later one. It need not know that a pending membership makes it a voter.
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
            Ordering::Equal if self.is_better(message.vote, self.vote) => {
                self.propose(now_ms, message.vote, out);
            }
            Ordering::Equal if message.vote != self.vote => self.tell_again_if_pending(now_ms),
            Ordering::Equal => {}
            Ordering::Greater => self.join_round(now_ms, message, out)?,
        }
        let ballot = Ballot { state: message.state, vote: message.vote };
        self.search_mut()?.in_round.insert(from, ballot);
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
        let theirs_is_better = self.is_better(message.vote, first);
        self.propose(now_ms, if theirs_is_better { message.vote } else { first }, out);
        Some(())
    }

    /// The own vote of a server that only a pending membership makes a voter, if it has to stand: for a while it has
    /// heard only votes for less than it has logged. It can never follow those, and without it there may be no
    /// quorum. As long as there is a voter in force with an equal log, that one is to lead: every server knows it
    /// to be a voter.
    pub(super) fn vote_of_last_resort(&self) -> Option<Vote> {
        let Phase::Looking(Search { in_round, .. }) = &self.phase else { return None };
        let nobody_is_better = self.vote.leader == NO_VOTE.leader;
        let is_behind = |vote: Vote| (vote.epoch, vote.zxid) < (self.vote.epoch, self.vote.zxid);
        let stands = nobody_is_better
            && self.is_voter()
            && in_round.values().any(|ballot| is_behind(ballot.vote));
        stands.then_some(Vote { leader: self.settings.me, ..self.vote })
    }

    /// Whether others may count this server's vote: it is no observer.
    fn may_become_voter(&self) -> bool {
        self.settings.kind == LearnerKind::Follower
    }

    /// Whether this server is listed as a voter but must not vote. It sends only votes for nobody, which other
    /// servers ignore, and asks who leads.
    fn is_suspended_voter(&self) -> bool {
        self.settings.kind == LearnerKind::Observer && self.electorate.is_voter(self.settings.me)
    }

    /// A server that only a pending membership makes a voter answers nobody while it looks; instead it tells
    /// everybody its vote again before long.
    fn tell_again_if_pending(&mut self, now_ms: u64) {
        let is_pending = self.is_voter() && !self.electorate.current().is_voter(self.settings.me);
        if is_pending && self.vote.leader != NO_VOTE.leader {
            self.repeat_soon(now_ms);
        }
    }

    /// Whether votes for a server that only a pending membership makes a voter have brought no decision: somebody who
    /// does not know of that membership may be needed, and does not hear of them. The voters in force then try again
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

    /// Tells everybody our vote again before long, and with that asks who leads.
    fn repeat_soon(&mut self, now_ms: u64) {
        let soon_ms = self.settings.notification_min_ms;
        if let Some(search) = self.search_mut() {
            search.repeat_ms = soon_ms;
            search.repeat_at_ms = search.repeat_at_ms.min(now_ms.saturating_add(soon_ms));
        }
    }

    /// A voter has a leader: maybe it is ours.
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

    /// Whether a quorum follows this leader since some round.
    fn has_leader_elsewhere(&self, round: i64, vote: Vote) -> bool {
        let Phase::Looking(Search { settled, .. }) = &self.phase else { return false };
        let is_same = |other: Vote| (other.leader, other.epoch) == (vote.leader, vote.epoch);
        let supports = |id| settled.get(&id).is_some_and(|ballot| is_same(ballot.vote));
        self.leads(vote.leader, round, settled) && self.has_enough_support(vote.leader, supports)
    }

    /// Whether enough voters support a leader to join it. To lead, this server needs every quorum that has a
    /// say. To join another one, a quorum of any membership will do: that server has counted for itself, and
    /// a change of membership that is pending here may have been given up there, with servers that never
    /// come back.
    fn has_enough_support(&self, leader: ServerId, supports: impl Fn(ServerId) -> bool) -> bool {
        if leader == self.settings.me {
            self.electorate.is_quorum(supports)
        } else {
            self.electorate.is_quorum_of_any(supports)
        }
    }

    /// Whether a server that others call their leader believes so itself.
    fn leads(&self, leader: ServerId, round: i64, said: &BTreeMap<ServerId, Ballot>) -> bool {
        if leader == self.settings.me {
            return self.is_voter() && round == self.round;
        }
        said.get(&leader).is_some_and(|ballot| ballot.state == ServerState::Leading)
    }

    /// Decides if our vote has won.
    pub(super) fn conclude(&mut self, now_ms: u64) -> Option<Decision> {
        let (has_quorum, has_heard_all) = (self.has_quorum(), self.has_heard_all_candidates());
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

    /// Whether nobody is left who could come with a better vote in this round.
    fn has_heard_all_candidates(&self) -> bool {
        let Phase::Looking(Search { in_round, .. }) = &self.phase else { return false };
        let mut candidates =
            self.electorate.voters().filter(|id| self.electorate.is_electable(*id));
        candidates.all(|id| in_round.contains_key(&id))
    }

    fn is_better(&self, vote: Vote, than: Vote) -> bool {
        self.electorate.is_electable(vote.leader) && self.rank(vote) > self.rank(than)
    }

    /// Votes, and tells everybody.
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

    /// Tells all other voters our vote; it is repeated when nothing comes of it.
    pub(super) fn broadcast(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let others = self.electorate.voters().filter(|id| *id != self.settings.me);
        out.extend(others.map(|id| self.notify(id)));
        if let Some(search) = self.search_mut() {
            search.repeat_at_ms = now_ms.saturating_add(search.repeat_ms);
        }
    }

    fn search_mut(&mut self) -> Option<&mut Search> {
        match &mut self.phase {
            Phase::Looking(search) => Some(search),
            _ => None,
        }
    }
}
