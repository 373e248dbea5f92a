//! Logs role changes: a leader is found, a role begins, or it ends.

use std::mem::Discriminant;
use std::time::Duration;

use herdsman_node::Now;
use herdsman_proto::{LearnerKind, ServerId, ServerState, Zxid};
use herdsman_zab::{LearnerPort, RoleStatus, StepDownReason};
use tracing::Level;

use super::history::{NewRole, RoleChange};
use super::wording::{self, duration, reason_in_words};
use super::{RoleLog, ZabView};
use crate::operators::stats::EnsembleStats;
use herdsman_runtime::LineLimit;

/// The last reported role of this server.
#[derive(Debug)]
pub(super) enum Role {
    /// Looks for a leader.
    Looking,
    /// Was elected, and waits for a quorum of followers.
    Elected,
    /// Leads.
    Leading { since_ms: u64, epoch: u32 },
    /// Has found a leader and catches up.
    Joining { leader: ServerId, catching_up: CatchingUp },
    /// Follows or observes.
    Learning { since_ms: u64, leader: ServerId, kind: LearnerKind },
}

/// How a learner catches up.
#[derive(Debug, Default)]
pub(super) struct CatchingUp {
    pub promised_ms: Option<u64>,
    /// The leader's epoch, as it has reported it.
    pub leader_epoch: Option<u32>,
    pub cut_to: Option<Zxid>,
    pub took_tree: bool,
    pub txns: usize,
}

/// Consecutive attempts that failed in the same way.
#[derive(Debug)]
pub(super) struct Failures {
    pub last: Option<(Option<ServerId>, Discriminant<StepDownReason>)>,
    pub lines: LineLimit,
}

impl Default for Failures {
    fn default() -> Self {
        Failures { last: None, lines: LineLimit::per_minute(1) }
    }
}

impl RoleLog {
    pub(super) fn found_leader(
        &mut self,
        now_ms: u64,
        leader: ServerId,
        port: LearnerPort,
        view: &ZabView,
        stats: &EnsembleStats,
    ) {
        let took_ms = now_ms.saturating_sub(self.search_ms);
        let role = if view.state == ServerState::Observing {
            "an observer"
        } else {
            stats.election.add(took_ms);
            "a follower"
        };
        let catching_up = CatchingUp::default();
        self.role = Role::Joining { leader, catching_up };
        let took = duration(took_ms);
        self.say_unless_repeated(match port {
            LearnerPort::Quorum => {
                format!("server {leader} is the elected leader, found in {took}: joining as {role}")
            }
            LearnerPort::ObserverMaster => {
                format!("there is a leader, found in {took}: observing through server {leader}")
            }
        });
    }

    /// Records a role change in the history.
    pub(super) fn remember(&mut self, now: Now, status: RoleStatus, view: &ZabView) {
        let had_role = matches!(self.role, Role::Leading { .. } | Role::Learning { .. });
        let (role, leader) = match status {
            RoleStatus::Looking if had_role => (NewRole::Looking, None),
            // A failed attempt changes nothing.
            RoleStatus::Looking => return,
            RoleStatus::Leading { .. } => (NewRole::Leading, Some(self.me)),
            RoleStatus::Following { leader, .. } => (NewRole::Following, Some(leader)),
            RoleStatus::Observing { leader, .. } => (NewRole::Observing, Some(leader)),
        };
        let epoch = match status {
            RoleStatus::Looking => None,
            RoleStatus::Leading { epoch } => Some(epoch),
            RoleStatus::Following { .. } | RoleStatus::Observing { .. } => Some(view.epoch),
        };
        let since_ms = self.unavailable_ms.filter(|_| role != NewRole::Looking);
        let took_ms = since_ms.map(|since_ms| now.monotonic_ms.saturating_sub(since_ms));
        self.history.add(RoleChange { at_ms: now.wall_ms, role, epoch, leader, took_ms });
    }

    pub(super) fn role_changed(
        &mut self,
        now_ms: u64,
        status: RoleStatus,
        view: &ZabView,
        stats: &EnsembleStats,
    ) {
        match status {
            RoleStatus::Looking => return self.role_ended(now_ms, view, stats),
            RoleStatus::Leading { epoch } => {
                stats.reset_proposal_sizes();
                self.role = Role::Leading { since_ms: now_ms, epoch };
                let ready = self.ready(now_ms, stats);
                self.say(Level::INFO, format!("leading epoch {epoch}; {ready}"));
            }
            RoleStatus::Following { leader, .. } => {
                self.joined(now_ms, leader, LearnerKind::Follower, view, stats);
            }
            RoleStatus::Observing { leader, .. } => {
                self.joined(now_ms, leader, LearnerKind::Observer, view, stats);
            }
        }
        self.failures = Failures::default();
        self.commit_latencies.clear();
    }

    /// Logs that a learner is synchronized.
    fn joined(
        &mut self,
        now_ms: u64,
        leader: ServerId,
        kind: LearnerKind,
        view: &ZabView,
        stats: &EnsembleStats,
    ) {
        let sync_time = match kind {
            LearnerKind::Follower => &stats.follower_sync,
            LearnerKind::Observer => &stats.observer_sync,
        };
        let joined = Role::Learning { since_ms: now_ms, leader, kind };
        let mut caught_up = String::new();
        if let Role::Joining { catching_up, .. } = std::mem::replace(&mut self.role, joined) {
            caught_up = catching_up.in_words(view.last);
            if let Some(promised_ms) = catching_up.promised_ms {
                sync_time.add(now_ms.saturating_sub(promised_ms));
            }
        }
        let (joins, epoch, ready) = (participle(kind), view.epoch, self.ready(now_ms, stats));
        self.say(
            Level::INFO,
            format!("{joins} server {leader} in epoch {epoch}; {caught_up}{ready}"),
        );
    }

    fn ready(&mut self, now_ms: u64, stats: &EnsembleStats) -> String {
        let since_ms = self.unavailable_ms.take().unwrap_or(self.search_ms);
        let took_ms = now_ms.saturating_sub(since_ms);
        stats.unavailable.add(took_ms);
        if matches!(self.role, Role::Leading { .. }) {
            stats.leader_unavailable.add(took_ms);
        }
        format!("ready after {}", duration(took_ms))
    }

    /// Logs that a role has ended, or never began.
    fn role_ended(&mut self, now_ms: u64, view: &ZabView, stats: &EnsembleStats) {
        let fall = view.step_down_reason.unwrap_or(StepDownReason::LeaderLost);
        let role = std::mem::replace(&mut self.role, Role::Looking);
        stats.searches.add(1);
        self.search_ms = now_ms;
        self.unavailable_ms.get_or_insert(now_ms);
        self.commit_latencies.clear();
        let why = reason_in_words(fall);
        let then = match fall {
            StepDownReason::StorageLost => "not taking part until that changes",
            StepDownReason::VotingAllowed { .. } => "rejoining the same leader as a voter",
            _ => "looking for a leader",
        };
        match role {
            Role::Leading { since_ms, epoch } => {
                stats.deserted.add(u64::from(fall == StepDownReason::NotSupported));
                let lasted = duration(now_ms.saturating_sub(since_ms));
                let text = format!("no longer leading epoch {epoch}, after {lasted}: {why}");
                self.say(Level::WARN, format!("{text}; {then}"));
            }
            Role::Learning { since_ms, leader, kind } => {
                let (lasted, joins) = (duration(now_ms.saturating_sub(since_ms)), participle(kind));
                let text = format!("no longer {joins} server {leader}, after {lasted}: {why}");
                let expected = matches!(fall, StepDownReason::VotingAllowed { .. });
                let level = if expected { Level::INFO } else { Level::WARN };
                self.say(level, format!("{text}; {then}"));
            }
            Role::Elected => {
                stats.deserted.add(u64::from(fall == StepDownReason::NotSupported));
                self.failed(now_ms, None, fall, &format!("failed to become leader: {why}"));
            }
            Role::Joining { leader, catching_up } => {
                let text = match catching_up.leader_epoch {
                    Some(epoch) if epoch < view.promised => newer_than_leader(leader, epoch, view),
                    _ => format!("could not join server {leader}: {why}"),
                };
                self.failed(now_ms, Some(leader), fall, &text);
            }
            Role::Looking if fall == StepDownReason::StorageLost => {
                self.say(Level::ERROR, format!("not taking part in elections: {why}"));
            }
            Role::Looking => {}
        }
    }

    /// Logs a failed attempt, rate-limited if it repeats.
    fn failed(&mut self, now_ms: u64, leader: Option<ServerId>, fall: StepDownReason, text: &str) {
        let failures = &mut self.failures;
        // Equal if the reasons are equal, whatever their zxids.
        let failure = Some((leader, std::mem::discriminant(&fall)));
        if failures.last != failure {
            *failures = Failures { last: failure, ..Failures::default() };
        }
        let Some(suppressed) = failures.lines.admit(Duration::from_millis(now_ms)) else { return };
        let times = match suppressed {
            0 => String::new(),
            times => format!(" ({times} similar messages suppressed)"),
        };
        self.say(Level::WARN, format!("{text}{times}; looking for a leader again"));
    }

    /// Logs a step of an attempt, unless the previous attempt has failed already.
    pub(super) fn say_unless_repeated(&mut self, text: String) {
        let level = if self.failures.last.is_some() { Level::DEBUG } else { Level::INFO };
        self.say(level, text);
    }
}

impl CatchingUp {
    fn in_words(&self, last: Zxid) -> String {
        let txns = wording::txns(self.txns);
        match (self.took_tree, self.cut_to) {
            (false, None) if self.txns == 0 => format!("up to date at {last} (DIFF); "),
            (true, _) => format!("received a snapshot and {txns} after it, up to {last} (SNAP); "),
            (false, Some(to)) => {
                format!("truncated the log after {to} and received {txns}, up to {last} (TRUNC); ")
            }
            (false, None) => format!("received {txns}, up to {last} (DIFF); "),
        }
    }
}

fn participle(kind: LearnerKind) -> &'static str {
    match kind {
        LearnerKind::Follower => "following",
        LearnerKind::Observer => "observing",
    }
}

/// The promise may be to a leader that failed: then the current leader soon begins a later epoch. If the message is
/// repeated, both sides cannot be right, and only an operator can know which one is.
fn newer_than_leader(leader: ServerId, epoch: u32, view: &ZabView) -> String {
    let (promised, last) = (view.promised, view.last);
    format!(
        "cannot join server {leader}, which leads epoch {epoch}: this server has already promised \
         epoch {promised}, and its last txn is {last}. The leader begins a later epoch for it within 60 \
         ticks. If this message is repeated: if the other servers have lost their data, stop them all and start them \
         again with the data that they should have; if this server's data is older or belongs to another ensemble
         ensemble, stop it and move its version-2 directories away, so that it takes everything from \
         the leader"
    )
}
