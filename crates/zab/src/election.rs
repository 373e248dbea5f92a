//! Fast leader election: how servers without a leader find one, and how a late server finds the existing leader.
//!
//! In: the start of a search, other servers' notifications, time. Out: notifications to other servers, and in the
//! end a [`Decision`]. Deliberately not here: connections (the driver keeps
//! them, and connects when a notification is to be sent), epochs on disk, and everything that an elected server
//! does to become the leader.
//!
//! # What an election guarantees
//!
//! Not safety. Two servers may leave an election with different leaders, or elect a server that is down,
//! and nothing is lost by it: an elected leader leads only after a quorum has
//! promised it a new epoch, and a follower follows only a leader whose history is at least as new as its
//! own. The election makes it likely that this works the first time: all servers that look choose the same
//! live server, and one whose log is newest among a quorum, so that no committed txn has to be
//! fetched from a follower and the leader's log becomes the common log.
//!
//! # The algorithm
//!
//! A vote names a candidate, the last zxid in its log, and the epoch it last followed. Votes are
//! ordered by epoch, then zxid, then the candidate's id: the epoch first because a log with txns of a
//! newer leader is newer than one that is only longer, and the id last
//! to break ties. While the membership changes, a voter in force comes before
//! one that will be a voter, if their logs are equal.
//!
//! A server that begins to look increments its *round*, votes for itself, and notifies all voters. When it receives a
//! better vote of its round, it adopts it and notifies all voters again. Votes only ever get better
//! within a round, so after a few exchanges all servers that can reach each other have the best vote. When a
//! quorum has the same vote as this server, the round has a winner; see below for when
//! it is declared. The winner leads, the other servers follow.
//!
//! Rounds separate elections. A vote of an older round is not counted, and its sender is sent
//! ours; a vote of a newer round makes us discard what we have counted, join that round, and
//! begin it with the better of our own first vote and the received one.
//!
//! A late server finds servers that no longer look. They answer with the vote by which their
//! election ended and with their current state. Such answers may be of any round, since the leader
//! may have been elected long ago; they are collected separately. If a quorum names the same leader in
//! the same epoch, and the leader itself reports that it leads, the late server joins and takes over
//! their round. The leader's own report is needed because followers take a while to notice that their
//! leader is down; without it, servers would elect it over and over. If the named leader is
//! this very server, it cannot report so itself: then the round must be the one it is in, because
//! otherwise the other servers refer to a leadership that it has lost.
//!
//! The votes of late answers are compared by leader and epoch only. The zxid and the round in them
//! depend on when and how their sender joined. The epoch in a stored vote is replaced once the new
//! epoch is established ([`Election::took_epoch`]), because servers that elected the leader remember
//! the epoch before, and servers that joined later would otherwise remember the one after
//! (ZOOKEEPER-1732). In the round in which this server itself looks there is no earlier term of the
//! same leader to confuse it with: there only the leader is compared, and the votes of servers
//! that still look must be equal in every field.
//!
//! Messages get lost, and servers may be down when a message is sent. A server that looks without success
//! repeats its vote to all voters after [`ElectionSettings::notification_min_ms`], and doubles that time
//! with every repetition. Apache only tries to connect if nothing could be delivered before; our
//! driver does that whenever there is something to send.
//!
//! Servers without a vote look too: they must find the leader. They begin with a vote that is worse
//! than any, and theirs is not counted. Only voters are elected, and only their votes count. A candidate
//! whose vote has weight 0 is not elected. A vote with the zxid -1 comes from a server that does
//! not know its own log: it is not counted. While the membership changes, "a quorum" and "voter"
//! are meant as in [`Electorate`].
//!
//! # When a winner is declared
//!
//! A quorum with the same vote is not the end: a server that has not sent its vote yet may have a
//! better one. Apache always waits 200 ms for it. We declare the winner
//! * at once, if every voter that could be elected has sent a vote in this round. The first vote
//!   that a server sends in a round is its own or a better one, so the best of all has arrived,
//!   and it is ours. There is nothing to wait for.
//! * otherwise after [`ElectionSettings::finalize_wait_ms`].
//!
//! After a leader has died, exactly one voter is missing, and the second rule decides how long the
//! ensemble is without a leader. A few round trips are enough to wait for a live server; waiting 200 ms
//! for a dead one would only prolong the outage.
//!
//! What if we decide too early, among Apache servers that still wait? There are three cases.
//! * They decide as we did, only later. If we follow, the leader does not listen yet, and our driver
//!   goes on trying to connect. If we lead, we wait for our followers anyway. Meanwhile we
//!   answer all servers that look, and our answer counts in the same round, so deciding early never takes a
//!   vote away from servers that are still counting.
//! * A better vote arrives while they wait, and they adopt it. If we had the votes of all
//!   candidates, there could be none. Otherwise a server that changes its vote notifies all voters, including us:
//!   if that is the leader that we follow, or if the servers that still support us as leader are no longer a
//!   quorum, the decision will fail, and [`NotificationOutcome::SupportLost`] reports it at once. We look
//!   again in a new round, and find them looking or settled. Without this we would wait for a leader
//!   or for followers that never connect. Apache has the same race whenever a better vote comes 201 ms
//!   late; there a leader can be configured to give up after a while (`leader.maxTimeToWaitForEpoch`).
//! * That notification is lost. Then the driver gives up connecting, or waiting for followers, and
//!   looks again: slower, but no worse than any lost follower.
//!
//! Once the epoch is established, the link between leader and follower is more reliable than
//! notifications, and these no longer end a role.
//!
//! # Which servers are answered
//!
//! | we | the sender looks and | answer |
//! |---|---|---|
//! | have settled | whatever else | with the vote by which we settled |
//! | look | has a vote, is in an older round, or in ours with a worse vote | with our vote |
//! | look | has none, and is in our round or an older one | with our vote |
//!
//! No other notification is answered. Unlike Apache we do not answer where that is of no use, and answer
//! where it helps:
//! * Apache always answers a server without a vote. If both look, and the voter's round
//!   is the older one, the other server discards the answer and answers it, and so on without
//!   end. A voter therefore does not answer from an older round, and a server without a vote does
//!   not answer a voter while both look.
//! * The answer to such a server while we look is our current vote. Apache sends the one
//!   by which its last election ended: perhaps that of the leader whose loss made us look.
//! * A worse vote in our round comes from a server that has not received ours. When a leader goes down, its
//!   followers notice one after the other; a server that still follows when our first vote arrives answers it
//!   but does not keep it, and then begins to look without it. Apache does nothing about that
//!   until we repeat our vote, after 200 ms or up to a minute; we answer at once. A server whose vote has
//!   improved since its last notification is not answered: it receives our messages, and has our vote or will get
//!   it. At most one of two servers has the worse vote, so answers are not answered.
//! * What a server reported about an existing leader is dropped when it begins to look. Apache goes on counting it.
//! * Servers before 3.4.6 did not replace the epoch in their votes; Apache supports them, we do not.
//!
//! # Servers without any data
//!
//! See [`empty`](Election::set_started_empty): a voter whose directory is empty may have lost what it had acknowledged.
//!
//! # Invariants
//!
//! * While this server looks, its vote never gets worse within a round, and every vote that it
//!   holds was some server's own first vote.
//! * Whenever its vote or its round changes, every voter is notified.
//! * Every table here has at most one entry for each voter.
//!
//! Apache: `FastLeaderElection`. There, two threads and four queues surround one long method that
//! holds the state of an election in its local variables, and a server's message to itself passes through
//! all of them; here its own vote is counted directly.

use std::collections::BTreeSet;

use herdsman_proto::{LearnerKind, Membership, Notification, ServerId, ServerState, Vote, Zxid};

use crate::io::Output;
use crate::quorum::Electorate;

mod empty;
mod search;

use search::Search;

/// The settings of the election; only `kind` changes, with the membership.
#[derive(Clone, Debug)]
pub struct ElectionSettings {
    /// This server.
    pub me: ServerId,
    /// Whether it votes, or only looks for the leader. A follower that the membership does not list
    /// as a voter only looks for the leader, too.
    pub kind: LearnerKind,
    /// How long a winner waits for a better candidate that has not sent its vote.
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
    /// The server to follow; this very server if it is to lead.
    pub leader: ServerId,
    /// The vote that won. In an election that was over when this server joined, its zxid and epoch may
    /// be of any time since.
    pub vote: Vote,
    /// Whether this server follows or observes that leader.
    pub kind: LearnerKind,
}

/// The result of handling a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum NotificationOutcome {
    /// The caller has nothing to do.
    Nothing,
    /// The election is over.
    Decided(Decision),
    /// The decision will fail, because servers that it depends on no longer support it: look again.
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
    /// The vote in our notifications: the best one known while looking, afterwards the one that won.
    vote: Vote,
    phase: Phase,
    /// See [`Election::set_started_empty`].
    started_empty: bool,
    /// Some voter has a history. Never forgotten.
    has_heard_history: bool,
    /// Voters that have sent something since this process started.
    heard: BTreeSet<ServerId>,
    /// Those of them of which it is known that they have said it since then. Never forgotten.
    heard_again: BTreeSet<ServerId>,
}

#[derive(Debug)]
enum Phase {
    /// Not begun: sends nothing and ignores notifications.
    Idle,
    Looking(Search),
    /// With a leader. `state` is not LOOKING.
    Settled {
        state: ServerState,
        support: Support,
    },
}

/// Whether the elected leader is established.
#[derive(Debug)]
enum Support {
    /// Not yet; these voters support it, as far as we know.
    Awaited {
        supporters: BTreeSet<ServerId>,
    },
    Established,
}

/// Worse than every vote of a voter.
const NO_VOTE: Vote = Vote { leader: ServerId(i64::MIN), zxid: Zxid(i64::MIN), epoch: i64::MIN };

impl Election {
    /// Creates an election that does nothing before [`look`](Self::look) is called.
    #[must_use]
    pub fn new(settings: ElectionSettings, membership: &Membership) -> Election {
        Election {
            settings,
            electorate: Electorate::of(membership),
            config: membership.to_text(),
            round: 0,
            vote: NO_VOTE,
            phase: Phase::Idle,
            started_empty: false,
            has_heard_history: false,
            heard: BTreeSet::new(),
            heard_again: BTreeSet::new(),
        }
    }

    /// Uses another membership from now on; `last_seen` is the newest one that was proposed, if
    /// it is not the one in force. A server that is looking has to look again: its votes were counted
    /// by the old membership.
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

    /// Returns the sender's membership, if we look, and it is newer than the one in force here. A caller that may
    /// change its membership then adopts it ([`set_membership`](Self::set_membership)) and
    /// looks again instead of handling the notification; a caller that may not does not call this.
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

    /// Settles without an election, because a change of membership designated the leader.
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

    /// Handles a notification, from a voter or any other server, in any state.
    pub fn handle_notification(
        &mut self,
        now_ms: u64,
        from: ServerId,
        message: &Notification,
        out: &mut Vec<Output>,
    ) -> NotificationOutcome {
        // Another server with our id is misconfigured; it is not a member.
        if from == self.settings.me {
            return NotificationOutcome::Nothing;
        }
        self.note_history(from, message);
        match self.phase {
            Phase::Idle => NotificationOutcome::Nothing,
            Phase::Looking(_) => self.hear_looking(now_ms, from, message, out),
            Phase::Settled { .. } => self.hear_settled(from, message, out),
        }
    }

    /// Does what is due at this time.
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

    /// Returns when [`handle_tick`](Self::handle_tick) is to be called next; `None` while this server does not look.
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

    /// Counts a voter as a supporter that has connected to this server as its leader, whatever it voted before.
    /// Otherwise a leader could conclude that it has lost the support of servers that have returned to it.
    pub fn joined_by(&mut self, voter: ServerId) {
        if let Phase::Settled { support: Support::Awaited { supporters }, .. } = &mut self.phase
            && self.electorate.is_voter(voter)
        {
            supporters.insert(voter);
        }
    }

    /// Notes that the elected leader is established in this epoch, which late servers will find in our vote.
    pub fn took_epoch(&mut self, epoch: u32) {
        if let Phase::Settled { support, .. } = &mut self.phase {
            *support = Support::Established;
            self.vote.epoch = i64::from(epoch);
        }
    }

    /// Returns the state in our notifications. It is LOOKING also before the first search.
    #[must_use]
    pub fn state(&self) -> ServerState {
        match self.phase {
            Phase::Idle | Phase::Looking(_) => ServerState::Looking,
            Phase::Settled { state, .. } => state,
        }
    }

    /// Returns the vote in our notifications.
    #[must_use]
    pub fn vote(&self) -> Vote {
        self.vote
    }

    /// Returns the round of the current or last search.
    #[must_use]
    pub fn round(&self) -> i64 {
        self.round
    }

    /// Returns the vote with which a search begins. Observers vote for no candidate. A server that is not a voter yet
    /// begins with that, too, since servers that do not know of the pending membership would ignore its vote; but the
    /// end of its log keeps it from adopting votes for shorter logs, and if it receives no others for a while, it
    /// becomes a candidate.
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
        let kind = self.kind_towards(vote);
        let state = match kind {
            _ if vote.leader == self.settings.me => ServerState::Leading,
            LearnerKind::Follower => ServerState::Following,
            LearnerKind::Observer => ServerState::Observing,
        };
        let supporters = match &self.phase {
            Phase::Looking(search) => search.supporters(vote.leader),
            _ => BTreeSet::new(),
        };
        self.vote = vote;
        self.phase = Phase::Settled { state, support: Support::Awaited { supporters } };
        Decision { leader: vote.leader, vote, kind }
    }

    /// Handles a notification while this server has a leader: a server that looks is answered, and its vote may show
    /// that our leader has lost its support.
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

    /// Whether the decision will fail because the sender looks. Only a voter that is in our round and votes for
    /// our leader still supports it. One that votes for another server has found a
    /// better vote, and votes only get better; and in another round it has given our leader up, or
    /// has restarted and does not know it.
    fn loses_support(&mut self, from: ServerId, message: &Notification) -> bool {
        let Phase::Settled { state, support: Support::Awaited { supporters } } = &mut self.phase
        else {
            return false;
        };
        let supports_us = message.round == self.round && message.vote.leader == self.vote.leader;
        if supports_us && self.electorate.is_voter(from) {
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

    /// Returns the rank of a vote; the greater of two ranks is the better vote. If logs are equal, a voter in force is
    /// better than a voter of the pending membership, which not all servers know.
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
