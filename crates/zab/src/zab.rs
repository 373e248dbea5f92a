//! One server's part in agreement: its role, and the dispatch of inputs to it.
//!
//! A role ends with a [`StepDownReason`]. Then this server first waits for its disk to finish all pending work
//! (`Settling`), because a vote describes what is on disk, and only then looks for a leader. There
//! is no other way from one role to the next, so nothing of an old term can act in a new one
//! (ZOOKEEPER-4409, 4502, 4541, 4712).

mod disk;
mod links;
mod observers;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use herdsman_proto::{LearnerKind, Membership, Notification, QuorumPacket, ServerId, Vote, Zxid};

use crate::election::{Decision, Election, ElectionSettings, NotificationOutcome};
use crate::io::{CloseReason, Input, LearnerPort, LinkId, Output, RoleStatus};
use crate::leader::Leader;
use crate::leader::checks::Check;
use crate::learner::{Learner, Upstream};
use crate::learner_peer::is_sending;
use crate::log::{Log, LogStorage};
use crate::memberships::Memberships;
use crate::observer_master::ObserverMaster;
use crate::replica::{Epochs, Replica, StepDownReason, Voting};
use crate::settings::ZabSettings;

/// Links that may wait for the end of an election.
const WAITING_LINKS_MAX: usize = 256;
/// How much longer a server pauses each time that it fails to join a leader.
const REST_STEP_MS: u64 = 100;
/// The longest such pause.
const REST_MS_MAX: u64 = 1000;

/// What this server does at the moment.
#[derive(Debug)]
enum Role {
    /// Waits for the disk to finish pending work.
    Settling,
    /// Looks for a leader.
    Looking,
    /// Leads, or tries to.
    Leading(Box<Leader>),
    /// Follows or observes, or tries to.
    Learning(Box<Learner>),
    /// Cannot write to its disk, so it does not take part.
    Halted,
}

/// The state with which a server starts.
#[derive(Debug)]
pub struct InitialState {
    /// The membership in force, as this server remembers it.
    pub membership: Arc<Membership>,
    /// The membership in the tree: the last one that a txn carried, agreed on or not.
    pub in_tree: Option<Membership>,
    /// Whether this server may vote if the membership makes it a voter.
    pub voting: Voting,
    /// The epochs on disk.
    pub epochs: Epochs,
    /// The txn before the tail.
    pub base: Zxid,
    /// The end of the log.
    pub tail: Vec<(Zxid, Bytes)>,
    /// What the files allow this server to begin with.
    pub files: InitialFiles,
}

/// What a server finds in its files at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialFiles {
    /// A tree and a log that continues it: what this server has acknowledged.
    Whole,
    /// Nothing, or nothing but promises of epochs. It may be a new server, or one that has lost everything: it counts
    /// as a voter only while that makes no difference ([`Election::set_started_empty`]).
    Empty,
    /// Something that cannot be used. Everything is taken from a leader, and no file is touched before its tree
    /// replaces them all; voting must be suspended.
    Unusable,
}

impl InitialFiles {
    /// Judges files without damage by the last txn and the epochs in them. A server that has followed a leader, or has
    /// a txn of one, is not empty; a promise alone says nothing about what was acknowledged.
    #[must_use]
    pub fn of(last_zxid: Zxid, epochs: Epochs) -> Self {
        if last_zxid == Zxid::ZERO && epochs.current == 0 {
            InitialFiles::Empty
        } else {
            InitialFiles::Whole
        }
    }
}

/// One server's part in agreement.
#[derive(Debug)]
pub struct Zab {
    replica: Replica,
    election: Election,
    role: Role,
    /// A follower's observers; ends with the role.
    observer_master: Option<ObserverMaster>,
    /// How often this observer has chosen an observer master.
    masters_tried: usize,
    /// How often in a row that failed.
    masters_failed: usize,
    /// Links that were opened before this server had a role in which it can serve them.
    waiting: BTreeMap<LinkId, WaitingLink>,
    /// Disk work that has not been reported done.
    disk_work: usize,
    /// How often in a row this server failed to join a leader.
    refusals: u64,
    /// The election does not begin before this time.
    rest_until_ms: Option<u64>,
    /// The server that a change of membership has designated to lead next.
    appointed: Option<ServerId>,
    last_step_down: Option<StepDownReason>,
    /// [`Output::AllowVoting`] has been requested and not been reported done.
    asked_to_vote: bool,
    /// The last inputs of the election: the versions of the memberships, and whether this server follows or observes.
    election_inputs: Option<(u64, Option<u64>, LearnerKind)>,
}

#[derive(Debug)]
struct WaitingLink {
    port: LearnerPort,
    since_ms: u64,
    info: Option<QuorumPacket>,
}

impl Zab {
    /// Starts a server. It looks for a leader at once.
    pub fn new(
        settings: ZabSettings,
        initial: InitialState,
        now_ms: u64,
        out: &mut Vec<Output>,
    ) -> Self {
        let InitialState { membership, in_tree, voting, epochs, base, tail, files } = initial;
        let start_over = files == InitialFiles::Unusable;
        assert!(!start_over || voting == Voting::Suspended, "a damaged server must not vote");
        let started_empty = files == InitialFiles::Empty && voting == Voting::Allowed;
        let memberships = Memberships::new(settings.me, settings.reconfig, membership);
        let election_settings = ElectionSettings {
            me: settings.me,
            kind: memberships.kind(),
            finalize_wait_ms: settings.finalize_wait_ms,
            notification_min_ms: settings.notification_min_ms,
            notification_max_ms: settings.notification_max_ms,
        };
        let election = Election::new(election_settings, memberships.in_force());
        let storage = match memberships.kind() {
            LearnerKind::Follower => LogStorage::OnDisk,
            LearnerKind::Observer => settings.log_storage,
        };
        let brought: Vec<_> =
            tail.iter().filter_map(|(_, payload)| memberships.brought_by(payload)).collect();
        let log = Log::new(storage, settings.history, base, tail);
        let mut replica = Replica {
            settings,
            memberships,
            log,
            epochs,
            promise_owed_to: None,
            promised_by_voters: 0,
            claims: BTreeMap::new(),
            outbid_ms: None,
            last_check: Check::default(),
            voting,
            start_over,
            started_empty,
        };
        replica.memberships.found(brought.into_iter().chain(in_tree), out);
        replica.keep_log_if_voter();
        let mut zab = Zab {
            replica,
            election,
            role: Role::Settling,
            observer_master: None,
            masters_tried: 0,
            masters_failed: 0,
            waiting: BTreeMap::new(),
            disk_work: 0,
            refusals: 0,
            rest_until_ms: None,
            appointed: None,
            last_step_down: None,
            asked_to_vote: false,
            election_inputs: None,
        };
        zab.follow_membership();
        zab.look_if_settled(now_ms, out);
        zab
    }

    /// Returns when [`Input::Tick`] is due next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let role = match &self.role {
            Role::Leading(leader) => Some(leader.next_deadline()),
            Role::Learning(learner) => Some(learner.next_deadline()),
            Role::Looking => self.election.next_deadline(),
            Role::Settling => self.rest_until_ms,
            Role::Halted => None,
        };
        let oldest = self.waiting.values().map(|waiting| waiting.since_ms).min();
        let waiting = oldest.map(|since_ms| since_ms + self.replica.settings.init_limit_ms() + 1);
        let observers = self.observer_master.as_ref().map(ObserverMaster::next_deadline);
        [role, observers, waiting].into_iter().flatten().min()
    }

    /// Handles one input.
    pub fn step(&mut self, now_ms: u64, input: Input, out: &mut Vec<Output>) {
        let start = out.len();
        if let Err(reason) = self.handle(now_ms, input, out) {
            self.leave_role(now_ms, reason, out);
        }
        self.note_disk_work(&out[start..]);
        self.follow_membership();
        self.look_if_settled(now_ms, out);
    }

    /// Proposes a txn. Only an established leader may.
    pub fn propose(&mut self, now_ms: u64, zxid: Zxid, payload: Bytes, out: &mut Vec<Output>) {
        let Role::Leading(leader) = &mut self.role else {
            unreachable!("only a leader proposes");
        };
        leader.propose(now_ms, zxid, payload, &mut self.replica, out);
        self.follow_membership();
    }

    /// Passes changes of the memberships on to the election.
    fn follow_membership(&mut self) {
        let memberships = &self.replica.memberships;
        let (in_force, pending) = (memberships.in_force(), memberships.pending());
        let inputs =
            (in_force.version, pending.map(|pending| pending.version), self.replica.kind());
        if self.election_inputs != Some(inputs) {
            self.election_inputs = Some(inputs);
            let pending = pending.map(Arc::as_ref);
            self.election.set_membership(in_force, pending, self.replica.kind());
        }
    }

    /// Handles a sync of a learner's client, which wants to see everything that was committed before now.
    pub fn sync(&mut self, link: LinkId, out: &mut Vec<Output>) {
        if let Role::Leading(leader) = &mut self.role {
            leader.sync(link, &mut self.replica, out);
            self.follow_membership();
        }
    }

    /// Closes the link of a learner that has too many requests pending.
    pub fn dismiss_learner(&mut self, link: LinkId, out: &mut Vec<Output>) {
        if let Role::Leading(leader) = &mut self.role {
            leader.dismiss(link, CloseReason::TooManyPending, out);
            self.follow_membership();
        }
    }

    /// Begins to check whether this server still leads; [`Output::CheckPassed`] reports that it does.
    pub fn begin_check(&mut self, out: &mut Vec<Output>) -> Check {
        let Role::Leading(leader) = &mut self.role else {
            return Check::NEVER_PASSED;
        };
        let check = leader.begin_check(&mut self.replica, out);
        self.follow_membership();
        check
    }

    /// Handles a learner's answer to a ping.
    pub fn ping_answered(&mut self, link: LinkId, zxid: Zxid, out: &mut Vec<Output>) {
        if let Role::Leading(leader) = &mut self.role {
            leader.handle_ping_answer(link, zxid, &mut self.replica, out);
            self.follow_membership();
        }
    }

    /// Gives up the current role.
    pub fn step_down(&mut self, now_ms: u64, reason: StepDownReason, out: &mut Vec<Output>) {
        let start = out.len();
        self.leave_role(now_ms, reason, out);
        self.note_disk_work(&out[start..]);
        self.follow_membership();
        self.look_if_settled(now_ms, out);
    }

    /// Notes that the tree contains everything up to this txn.
    pub fn applied(&mut self, zxid: Zxid) {
        let is_sending = self.sent_learners().is_some_and(is_sending);
        self.replica.log.handle_applied(zxid, is_sending);
    }

    fn handle(
        &mut self,
        now_ms: u64,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        match input {
            Input::Notification { from, message } => {
                self.handle_notification(now_ms, from, &message, out)
            }
            Input::LinkOpened { link, port } => {
                self.handle_link_opened(now_ms, link, port, out);
                Ok(())
            }
            Input::Connected { link } => {
                match &mut self.role {
                    Role::Learning(learner) => learner.handle_connected(link, &self.replica, out),
                    _ => out.push(Output::Close { link, reason: CloseReason::NotFollowing }),
                }
                Ok(())
            }
            Input::ConnectFailed => match &self.role {
                Role::Learning(learner) if learner.link().is_none() => {
                    Err(StepDownReason::LeaderLost)
                }
                _ => Ok(()),
            },
            Input::Packet { link, packet } => self.handle_packet(now_ms, link, packet, out),
            Input::Heard { link } => {
                match &mut self.role {
                    Role::Learning(learner) if learner.link() == Some(link) => {
                        learner.handle_still_busy(now_ms, &self.replica);
                    }
                    _ => self.heard(now_ms, link),
                }
                Ok(())
            }
            Input::SnapshotSent { link } => {
                self.handle_sent(now_ms, link, None, out);
                Ok(())
            }
            Input::LogSent { link, to } => {
                self.handle_sent(now_ms, link, Some(to), out);
                Ok(())
            }
            Input::LogMissed { link } => {
                self.handle_log_missed(link, out);
                Ok(())
            }
            Input::LinkLost { link } => self.handle_link_lost(now_ms, link, out),
            Input::StorageLost => {
                self.halt(out);
                Ok(())
            }
            Input::StorageBack => {
                if matches!(self.role, Role::Halted) {
                    self.role = Role::Settling;
                }
                Ok(())
            }
            Input::Tick => self.tick(now_ms, out),
            on_disk => self.handle_disk(now_ms, on_disk, out),
        }
    }

    fn handle_notification(
        &mut self,
        now_ms: u64,
        from: ServerId,
        message: &Notification,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        if matches!(self.role, Role::Settling | Role::Halted) {
            return Ok(());
        }
        if self.replica.memberships.may_change()
            && let Some(newer) = self.election.newer_membership(message)
        {
            return self.take_over(newer, out);
        }
        match self.election.handle_notification(now_ms, from, message, out) {
            NotificationOutcome::Nothing => Ok(()),
            NotificationOutcome::Decided(decision) => {
                self.take_role(now_ms, &decision, out);
                Ok(())
            }
            NotificationOutcome::SupportLost => Err(StepDownReason::NotSupported),
        }
    }

    /// Adopts the newer membership of another server: its txn may not be here yet, but it is in force.
    fn take_over(
        &mut self,
        newer: Membership,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        self.replica.activate(Arc::new(newer), self.replica.me(), out);
        Err(StepDownReason::Reconfigured { next: None })
    }

    fn take_role(&mut self, now_ms: u64, decision: &Decision, out: &mut Vec<Output>) {
        self.judge_emptiness(decision);
        if decision.leader == self.replica.me() {
            let mut leader = Box::new(Leader::begin(now_ms, &self.replica));
            self.close_waiting(LearnerPort::ObserverMaster, CloseReason::NotObserverMaster, out);
            for (link, waiting) in self.take_waiting(LearnerPort::Quorum) {
                leader.handle_link_opened(now_ms, link, &self.replica);
                if let Some(info) = waiting.info {
                    self.note_supporter(&info);
                    leader.handle_packet(now_ms, link, info, &mut self.replica, out);
                }
            }
            leader.try_to_choose_epoch(now_ms, &mut self.replica, out);
            self.role = Role::Leading(leader);
        } else {
            self.close_waiting(LearnerPort::Quorum, CloseReason::NotLeading, out);
            let (to, port) = self.choose_upstream(decision.leader);
            let own = (i64::from(self.replica.epochs.current), self.replica.log.last());
            let not_ahead = own <= (decision.vote.epoch, decision.vote.zxid);
            let upstream = Upstream { leader: decision.leader, to, port, not_ahead };
            let learner = Learner::begin(now_ms, upstream, &self.replica, out);
            self.role = Role::Learning(Box::new(learner));
        }
    }

    /// Decides as what a server that has started empty takes part. If no voter is known to have a history, it helps to
    /// found an ensemble. Otherwise it takes everything from the leader, in one step: a part of it would make it a
    /// voter with a log that ends too early. If something may be missing at that leader that only this server has
    /// acknowledged, it does not vote before the leader is known to have a quorum without it.
    fn judge_emptiness(&mut self, decision: &Decision) {
        if !self.replica.started_empty || self.replica.kind() == LearnerKind::Observer {
            return;
        }
        if !self.election.has_heard_history() {
            self.replica.started_empty = false;
        } else if decision.leader != self.replica.me() {
            self.replica.start_over = true;
            if decision.kind == LearnerKind::Observer {
                self.replica.voting = Voting::Suspended;
            }
        }
    }

    /// Lets a server that is still empty begin again as one.
    fn reset_emptiness(&mut self) {
        if self.replica.started_empty {
            self.replica.start_over = false;
            self.replica.voting = Voting::Allowed;
        }
        self.election.set_started_empty(self.replica.started_empty);
        self.follow_membership();
    }

    /// Puts an established epoch into our vote, for servers that join later (ZOOKEEPER-1732).
    fn note_epoch(&mut self) {
        match &self.role {
            Role::Leading(leader) if leader.is_established() => {
                self.election.took_epoch(leader.epoch());
                self.refusals = 0;
            }
            Role::Learning(learner) if learner.is_active() => {
                self.election.took_epoch(learner.epoch());
                self.masters_failed = 0;
                self.refusals = 0;
            }
            _ => {}
        }
    }

    fn tick(&mut self, now_ms: u64, out: &mut Vec<Output>) -> Result<(), StepDownReason> {
        let limit_ms = self.replica.settings.init_limit_ms();
        let late = self.waiting.extract_if(.., |_, waiting| now_ms > waiting.since_ms + limit_ms);
        for (link, _) in late {
            out.push(Output::Close { link, reason: CloseReason::TimedOut });
        }
        match &mut self.role {
            Role::Leading(leader) => leader.tick(now_ms, &mut self.replica, out),
            Role::Learning(learner) => {
                if let Some(master) = &mut self.observer_master {
                    master.tick(now_ms, &self.replica, out);
                }
                learner.tick(now_ms)
            }
            Role::Looking => {
                if let Some(decision) = self.election.handle_tick(now_ms, out) {
                    self.take_role(now_ms, &decision, out);
                }
                Ok(())
            }
            Role::Settling | Role::Halted => Ok(()),
        }
    }

    fn leave_role(&mut self, now_ms: u64, reason: StepDownReason, out: &mut Vec<Output>) {
        self.end_role(Role::Settling, out);
        self.rest_until_ms = None;
        if matches!(reason, StepDownReason::LeaderRefused | StepDownReason::LeaderBehind { .. }) {
            // The leader would refuse this server again: retry with a growing pause, not at once.
            self.rest_until_ms = Some(now_ms + (self.refusals * REST_STEP_MS).min(REST_MS_MAX));
            self.refusals += 1;
        }
        match reason {
            StepDownReason::Reconfigured { next } => self.appointed = next,
            StepDownReason::VotingAllowed { leader } => self.appointed = Some(leader),
            _ => {}
        }
        self.last_step_down = Some(reason);
    }

    fn halt(&mut self, out: &mut Vec<Output>) {
        self.end_role(Role::Halted, out);
        self.close_waiting(LearnerPort::Quorum, CloseReason::NotLeading, out);
        self.close_waiting(LearnerPort::ObserverMaster, CloseReason::NotObserverMaster, out);
        self.last_step_down = Some(StepDownReason::StorageLost);
    }

    fn end_role(&mut self, next: Role, out: &mut Vec<Output>) {
        if let Some(master) = self.observer_master.take() {
            master.end(out);
        }
        match std::mem::replace(&mut self.role, next) {
            Role::Leading(leader) => leader.end(out),
            Role::Learning(learner) => learner.end(out),
            _ => {}
        }
        out.push(Output::RoleChanged(RoleStatus::Looking));
    }

    fn look_if_settled(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let settled = self.disk_work == 0 && self.replica.log.is_settled();
        let rests = self.rest_until_ms.is_some_and(|until_ms| now_ms < until_ms);
        if !matches!(self.role, Role::Settling) || !settled || rests {
            return;
        }
        self.rest_until_ms = None;
        self.role = Role::Looking;
        self.reset_emptiness();
        let own = Vote {
            leader: self.replica.me(),
            zxid: self.replica.log.last(),
            epoch: i64::from(self.replica.epochs.current),
        };
        let start = out.len();
        let decision = match self.appointed.take() {
            Some(leader) => {
                self.election.appoint(Vote { leader, ..own });
                // No vote says how far that server's log reaches.
                let vote = Vote { leader, zxid: Zxid(i64::MIN), epoch: i64::MIN };
                Some(Decision { leader, vote, kind: self.replica.kind() })
            }
            None => self.election.look(now_ms, own, out),
        };
        if let Some(decision) = decision {
            self.take_role(now_ms, &decision, out);
        }
        self.note_disk_work(&out[start..]);
    }
}
