//! Fast leader election: how servers without a leader find one, and how a late one finds the
//! others'.
//!
//! In: that this server looks for a leader, other servers' notifications, time. Out: notifications
//! to others, and in the end a [`Decision`]. Deliberately not here: connections (the driver keeps
//! them, and connects when a notification is to be sent), epochs on disk, and everything that makes
//! a leader out of an elected one.
//!
//! # What an election has to give
//!
//! Not safety. Two servers may leave an election with different leaders, a leader may be elected
//! that is dead, and nothing is lost by it: an elected leader leads only after a quorum has
//! promised it a new epoch, and a follower follows only who has a history at least as new as its
//! own. The election makes it likely that this works the first time: all who look choose the same
//! live server, and one whose log is newest among a quorum, so that no committed txn has to be
//! fetched from a follower and the leader's log can be everybody's log.
//!
//! # The algorithm
//!
//! A vote names a candidate, the last zxid in its log, and the epoch it last followed. Votes are
//! ordered by epoch, then zxid, then the candidate's number: the epoch first because a server that
//! has followed a newer leader knows better than one that has only logged more, and the number last
//! because something has to break ties. While the membership changes, a voter in force comes before
//! one that will be a voter, if their logs are equal.
//!
//! Who begins to look counts up its *round*, votes for itself, and tells all voters. Who hears of a
//! better vote in its round makes it its own and tells all voters again. Votes only ever get better
//! within a round, so after a few exchanges everybody who can hear the others has the best vote of
//! all. When a quorum has the same vote as this server, the round has a winner, see below for when
//! it is declared. The winner leads, the others follow.
//!
//! Rounds keep elections apart. A vote of an older round is not counted, and its sender is told
//! ours; a vote of a newer round makes us throw away what we have counted, take that round, and
//! begin it with the better of our own first vote and the one that we heard.
//!
//! Who comes late finds servers that no longer look. They answer with the vote by which their
//! election ended and with what they are now. Such answers may be of any round, since the leader
//! may have been elected long ago; they are gathered apart. If a quorum names the same leader in
//! the same epoch, and the leader itself says that it leads, the late one joins and takes over
//! their round. The leader's own word is needed because followers take a while to notice that their
//! leader died; without it, servers would elect a dead one over and over. If the leader so named is
//! this very server, it cannot say so itself: then the round must be the one it is in, for
//! otherwise the others speak of a leadership that it has lost.
//!
//! The votes of late answers are compared by leader and epoch only. The zxid and the round in them
//! depend on when and how their sender joined. The epoch in a stored vote is replaced once the new
//! epoch is established ([`Election::took_epoch`]), because those who elected the leader remember
//! the epoch before, and those who joined later would otherwise remember the one after
//! (ZOOKEEPER-1732). In the round in which this server itself looks there is no earlier term of the
//! same leader to be confused with: there the leader alone is compared, and the votes of servers
//! that still look must be equal in everything.
//!
//! Messages get lost, and servers are not there when they are spoken to. Who looks without success
//! tells all voters its vote again, after [`ElectionSettings::notification_min_ms`] and then after
//! ever twice the time. Apache tries only to connect if nothing could be delivered before; our
//! driver does that whenever there is something to send.
//!
//! Servers without a vote look too: they must find the leader. They begin with a vote that is worse
//! than any, and nobody counts theirs. Nobody but voters is elected or listened to. A candidate
//! whose vote weighs nothing is not elected, and a vote with the zxid -1 is of a server that does
//! not know its own log: it is not counted. While the membership changes, "a quorum" and "voter"
//! are meant as in [`Electorate`].
//!
//! # When a winner is declared
//!
//! A quorum with the same vote is not the end: a server that has not been heard yet may have a
//! better one. Apache always waits 200 ms for it. We declare the winner
//! * at once, if every voter that could be elected has been heard in this round. The first vote
//!   that a server sends in a round is its own or a better one, so the best of all has been heard,
//!   and it is ours. There is nothing to wait for.
//! * otherwise after [`ElectionSettings::finalize_wait_ms`].
//!
//! After a leader has died, exactly one voter is missing, and the second rule decides how long the
//! ensemble is without a leader. A few round trips are enough to wait for a live server; a dead one
//! is not worth 200 ms.
//!
//! What if we are too early, among Apache servers that still wait? There are three cases.
//! * They decide as we did, only later. A leader that we follow does not listen yet; our driver
//!   goes on trying to connect. A leader that we are waits for its followers anyway. Meanwhile we
//!   answer whoever asks, and our answer counts in the same round, so being early never takes a
//!   vote away from those who are still counting.
//! * A better vote shows up while they wait, and they change their mind. Had we heard every
//!   candidate, there could be none. Otherwise whoever changes its mind tells all voters, us too:
//!   if that is the leader that we follow, or if those who still want us as leader are no quorum
//!   any more, the decision will not come true, and [`NotificationOutcome::SupportLost`] says so at once. We look
//!   again in a new round, and find them looking or settled. Without it we would wait for a leader
//!   or for followers that never come. Apache has the same race whenever a better vote comes 201 ms
//!   late; there a leader may be told to give up after a while (`leader.maxTimeToWaitForEpoch`).
//! * That notification is lost. Then the driver gives up connecting, or waiting for followers, and
//!   looks again: slower, but no worse than any lost follower.
//!
//! Once the epoch is established, the link between leader and follower knows more than
//! notifications do, and nobody deserts any more.
//!
//! # Who is answered
//!
//! | we | the sender looks and | answered |
//! |---|---|---|
//! | have settled | whatever else | with the vote by which we settled |
//! | look | has a vote, is in an older round, or in ours with a worse vote | with our vote |
//! | look | has none, and is in our round or an older one | with our vote |
//!
//! Nobody else is. The differences from Apache are to keep silent where an answer is of no use, and
//! to give one where it helps:
//! * Apache answers a server without a vote whatever it does. If both look, and the voter's round
//!   is the older one, the other server throws the answer away and answers it, and so on without
//!   end. A voter therefore does not answer from an older round, and a server without a vote does
//!   not answer a voter while both look.
//! * The answer to such a server while we look is the vote that we have now. Apache sends the one
//!   by which its last election ended: perhaps that of the leader whose death made us look.
//! * A worse vote in our round comes from somebody who has not heard ours. When a leader dies, its
//!   followers notice one after the other; who still follows when our first vote comes, answers it
//!   but does not keep it, and then begins to look without knowing it. Apache leaves it at that
//!   until we repeat ourselves, after 200 ms or up to a minute; we answer at once. Who has a better
//!   vote than when we last heard of it is not answered: it listens, and has our vote or will have
//!   it. At most one of two servers has the worse vote, so that answers are not answered.
//! * Who looks is forgotten as a witness for an existing leader. Apache goes on counting what it
//!   said before.
//! * Servers before 3.4.6 did not replace the epoch in their votes; Apache makes allowance for
//!   them, we do not.
//!
//! # Invariants
//!
//! * While this server looks, its vote never gets worse within a round, and every vote that it
//!   holds was some server's own first vote.
//! * Whenever its vote or its round changes, every voter is told.
//! * Every table here has at most one entry for each voter.
//!
//! Apache: `FastLeaderElection`. There, two threads and four queues surround one long method that
//! holds the state of an election in its local variables, and a message to oneself travels through
//! all of them; here the own vote is counted where it is made.

use std::collections::BTreeSet;

use herdsman_proto::{LearnerKind, Membership, Notification, ServerId, ServerState, Vote, Zxid};

use crate::io::Output;
use crate::quorum::Electorate;

mod search;

use search::Search;

/// What does not change while a server runs.
#[derive(Clone, Debug)]
pub struct ElectionSettings {
    /// This server.
    pub me: ServerId,
    /// Whether it takes part, or only wants to know. A follower that the membership does not name
    /// as a voter only wants to know, too.
    pub kind: LearnerKind,
    /// How long a winner waits for a better candidate that has not been heard.
    pub finalize_wait_ms: u64,
    /// After how long an undecided server repeats its vote. The time is doubled with every
    /// repetition.
    pub notification_min_ms: u64,
    /// The longest time between two repetitions.
    pub notification_max_ms: u64,
}

/// How an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whom to follow; this very server if it is to lead.
    pub leader: ServerId,
    /// The vote that won. In an election that was over when we came, its zxid and epoch may
    /// be of any time since.
    pub vote: Vote,
}

/// What a notification means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum NotificationOutcome {
    /// Nothing that it has to act on.
    Nothing,
    /// The election is over.
    Decided(Decision),
    /// The decision will not come true, because those it rested on have gone on: look again.
    SupportLost,
}

impl From<Option<Decision>> for NotificationOutcome {
    fn from(decision: Option<Decision>) -> NotificationOutcome {
        decision.map_or(NotificationOutcome::Nothing, NotificationOutcome::Decided)
    }
}

/// One server's part in elections.
#[derive(Debug)]
pub struct Election {
    settings: ElectionSettings,
    electorate: Electorate,
    /// The text of the membership in force.
    config: String,
    round: i64,
    /// What others are told: the best one known while looking, afterwards the one that won.
    vote: Vote,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Not begun: says nothing and hears nothing.
    Idle,
    Looking(Search),
    /// With a leader. `state` is not LOOKING.
    Settled {
        state: ServerState,
        support: Support,
    },
}

/// Whether the leader that was decided on has become one.
#[derive(Debug)]
enum Support {
    /// Not yet; these voters want it, as far as we know.
    Awaited {
        supporters: BTreeSet<ServerId>,
    },
    Established,
}

/// Worse than every vote of a voter.
const NO_VOTE: Vote = Vote { leader: ServerId(i64::MIN), zxid: Zxid(i64::MIN), epoch: i64::MIN };

impl Election {
    /// An election that neither says nor hears anything before [`look`](Self::look) is called.
    #[must_use]
    pub fn new(settings: ElectionSettings, membership: &Membership) -> Election {
        Election {
            settings,
            electorate: Electorate::of(membership),
            config: membership.to_text(),
            round: 0,
            vote: NO_VOTE,
            phase: Phase::Idle,
        }
    }

    /// Goes by another membership from now on; `last_seen` is the newest one that was proposed, if
    /// it is not the one in force. Who is looking has to look again: what was counted, was counted
    /// among others.
    pub fn set_membership(
        &mut self,
        current: &Membership,
        last_seen: Option<&Membership>,
        kind: LearnerKind,
    ) {
        self.settings.kind = kind;
        self.electorate = Electorate::during_change(current, last_seen);
        self.config = current.to_text();
    }

    /// The sender's membership, if we look, and it is newer than the one in force here. Who may
    /// change its membership then takes it over ([`set_membership`](Self::set_membership)) and
    /// looks again instead of handling the notification; who may not, does not ask.
    #[must_use]
    pub fn newer_membership(&self, message: &Notification) -> Option<Membership> {
        if !matches!(self.phase, Phase::Looking(_)) || message.config == self.config {
            return None;
        }
        let theirs = Membership::parse_text(&message.config).ok()?;
        (theirs.version > self.electorate.version()).then_some(theirs)
    }

    /// Looks for a leader, in a new round. `own` is the vote for this server: the end of its log
    /// and the epoch that it follows. Decides at once if no other vote is needed.
    pub fn look(&mut self, now_ms: u64, own: Vote, out: &mut Vec<Output>) -> Option<Decision> {
        self.round = self.round.saturating_add(1);
        let first = self.first_vote(own);
        self.phase = Phase::Looking(Search::new(first, self.settings.notification_min_ms));
        self.propose(now_ms, first, out);
        self.conclude(now_ms)
    }

    /// Settles without an election, because a change of membership named the leader.
    pub fn appoint(&mut self, vote: Vote) {
        self.vote = vote;
        let state = match self.settings.kind {
            _ if vote.leader == self.settings.me => ServerState::Leading,
            LearnerKind::Follower => ServerState::Following,
            LearnerKind::Observer => ServerState::Observing,
        };
        let supporters = self.electorate.voters().collect();
        self.phase = Phase::Settled { state, support: Support::Awaited { supporters } };
    }

    /// Takes in what another server says. Voters and others, in any state, may send.
    pub fn handle_notification(
        &mut self,
        now_ms: u64,
        from: ServerId,
        message: &Notification,
        out: &mut Vec<Output>,
    ) -> NotificationOutcome {
        // Another server with our number is a mistake in its configuration, and not one of us.
        if from == self.settings.me {
            return NotificationOutcome::Nothing;
        }
        match self.phase {
            Phase::Idle => NotificationOutcome::Nothing,
            Phase::Looking(_) => self.hear_looking(now_ms, from, message, out),
            Phase::Settled { .. } => self.hear_settled(from, message, out),
        }
    }

    /// Does what is due.
    pub fn handle_tick(&mut self, now_ms: u64, out: &mut Vec<Output>) -> Option<Decision> {
        if let Some(decision) = self.conclude(now_ms) {
            return Some(decision);
        }
        if let Phase::Looking(search) = &mut self.phase
            && search.repeat_at_ms <= now_ms
        {
            search.repeat_ms =
                search.repeat_ms.saturating_mul(2).min(self.settings.notification_max_ms);
            match self.vote_of_last_resort() {
                Some(own) => self.propose(now_ms, own, out),
                None if self.is_round_split() => self.begin_new_round(now_ms, out),
                None => self.broadcast(now_ms, out),
            }
        }
        None
    }

    /// When [`handle_tick`](Self::handle_tick) is to be called next. Nothing is due without a
    /// search.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        match &self.phase {
            Phase::Looking(search) => {
                let finalize_at_ms = search.finalize_at_ms.unwrap_or(u64::MAX);
                Some(search.repeat_at_ms.min(finalize_at_ms))
            }
            _ => None,
        }
    }

    /// A voter has come to this server as to its leader, whatever it said before. A leader that is not
    /// told of it may believe itself deserted by those who have come back.
    pub fn joined_by(&mut self, voter: ServerId) {
        if let Phase::Settled { support: Support::Awaited { supporters }, .. } = &mut self.phase
            && self.electorate.is_voter(voter)
        {
            supporters.insert(voter);
        }
    }

    /// The leader that was decided on leads, in this epoch. Late servers will be told it.
    pub fn took_epoch(&mut self, epoch: u32) {
        if let Phase::Settled { support, .. } = &mut self.phase {
            *support = Support::Established;
            self.vote.epoch = i64::from(epoch);
        }
    }

    /// What this server is, as others are told. LOOKING also before it looks.
    #[must_use]
    pub fn state(&self) -> ServerState {
        match self.phase {
            Phase::Idle | Phase::Looking(_) => ServerState::Looking,
            Phase::Settled { state, .. } => state,
        }
    }

    /// The vote that others are told.
    #[must_use]
    pub fn vote(&self) -> Vote {
        self.vote
    }

    /// The round of the present or last search.
    #[must_use]
    pub fn round(&self) -> i64 {
        self.round
    }

    /// Observers vote for nobody. A server that is not a voter yet begins with that, too, since servers that do not
    /// know of the pending membership would not hear of it; but the end of its log keeps it from believing in votes
    /// for less, and if it hears of nothing else for a while, it stands itself.
    fn first_vote(&self, own: Vote) -> Vote {
        match self.settings.kind {
            LearnerKind::Observer => NO_VOTE,
            LearnerKind::Follower if self.electorate.current().is_voter(self.settings.me) => own,
            LearnerKind::Follower => Vote { leader: NO_VOTE.leader, ..own },
        }
    }

    fn is_voter(&self) -> bool {
        self.settings.kind == LearnerKind::Follower && self.electorate.is_voter(self.settings.me)
    }

    /// Ends the search.
    fn decide(&mut self, vote: Vote) -> Decision {
        let state = if vote.leader == self.settings.me {
            ServerState::Leading
        } else if self.settings.kind == LearnerKind::Follower {
            ServerState::Following
        } else {
            ServerState::Observing
        };
        let supporters = match &self.phase {
            Phase::Looking(search) => search.supporters(vote.leader),
            _ => BTreeSet::new(),
        };
        self.vote = vote;
        self.phase = Phase::Settled { state, support: Support::Awaited { supporters } };
        Decision { leader: vote.leader, vote }
    }

    /// With a leader: who looks is told of it. Whether it should have known is another matter.
    fn hear_settled(
        &mut self,
        from: ServerId,
        message: &Notification,
        out: &mut Vec<Output>,
    ) -> NotificationOutcome {
        if message.state != ServerState::Looking {
            return NotificationOutcome::Nothing;
        }
        out.push(self.notify(from));
        if self.loses_support(from, message) {
            NotificationOutcome::SupportLost
        } else {
            NotificationOutcome::Nothing
        }
    }

    /// Whether the decision has become hopeless because this server looks. Only a voter that is
    /// still counting our leader's votes stands by us. One that votes for somebody else has found a
    /// better vote, and votes only get better; and in another round it has given our leader up, or
    /// was started anew and knows nothing of it.
    fn loses_support(&mut self, from: ServerId, message: &Notification) -> bool {
        let Phase::Settled { state, support: Support::Awaited { supporters } } = &mut self.phase
        else {
            return false;
        };
        let stands_by_us = message.round == self.round && message.vote.leader == self.vote.leader;
        if stands_by_us && self.electorate.is_voter(from) {
            supporters.insert(from);
            return false;
        }
        match state {
            ServerState::Leading => {
                supporters.remove(&from);
                !self.electorate.is_quorum(|id| supporters.contains(&id))
            }
            _ => from == self.vote.leader,
        }
    }

    /// The greater of two ranks is the better vote. Of equal logs, that of a voter in force is better than that of
    /// one by the pending membership, which not all servers know of.
    fn rank(&self, vote: Vote) -> (i64, Zxid, bool, ServerId) {
        let is_in_force = self.electorate.current().is_voter(vote.leader);
        (vote.epoch, vote.zxid, is_in_force, vote.leader)
    }

    fn notify(&self, to: ServerId) -> Output {
        let message = Notification {
            state: self.state(),
            vote: self.vote,
            round: self.round,
            config: self.config.clone(),
        };
        Output::Notify { to, message }
    }
}
