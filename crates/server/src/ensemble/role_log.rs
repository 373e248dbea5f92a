//! Log lines and statistics about this server's role in the ensemble: elections,
//! roles, how long things took, and why they ended.
//!
//! In: all outputs of the protocol core, in order, with a [`ZabView`] of it afterwards; of its inputs,
//! only introductions. Out: lines for the log, and numbers in [`EnsembleStats`]. Deliberately not
//! here: any decision. An attempt that keeps failing in the same way is logged once a minute, because a
//! server that cannot join tries several times a second.
//!
//! Times come from the threads that step the core, so they may be out of order by a little, which counts as no time.
//!
//! Apache: lines of `QuorumPeer`, `Leader`, `Learner` and `LearnerHandler`, and `ServerMetrics`.

mod commit_latencies;
mod history;
mod learners;
mod roles;
mod voters;
mod wording;

use herdsman_node::Now;
use herdsman_proto::{LearnerKind, Membership, QuorumPacket, ServerId, ServerState, Zxid};
use herdsman_zab::{Input, Output, StepDownReason, Zab};
use tracing::{Level, debug, error, info, warn};

use crate::operators::stats::EnsembleStats;
use commit_latencies::CommitLatencies;
use history::RoleHistory;
pub use history::{NewRole, RoleChange};
use learners::{Learners, LineKind};
use roles::{Failures, Role};
use voters::Voters;
use wording::{duration, servers};

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    level: Level,
    text: String,
}

impl Line {
    fn new(level: Level, text: String) -> Self {
        Line { level, text }
    }

    /// Writes it.
    pub fn log(&self) {
        let text = &self.text;
        match self.level {
            Level::ERROR => error!("{text}"),
            Level::WARN => warn!("{text}"),
            Level::INFO => info!("{text}"),
            _ => debug!("{text}"),
        }
    }
}

/// The relevant state of the protocol core, after a step.
#[derive(Clone, Copy, Debug)]
pub struct ZabView {
    /// The state in our notifications.
    pub state: ServerState,
    /// The epoch of the current leader.
    pub epoch: u32,
    /// The epoch that was promised.
    pub promised: u32,
    /// The end of the log.
    pub last: Zxid,
    /// The last committed txn.
    pub committed: Zxid,
    /// Why the last role ended.
    pub step_down_reason: Option<StepDownReason>,
}

impl ZabView {
    /// Reads the current state.
    #[must_use]
    pub fn of(zab: &Zab) -> Self {
        let epochs = zab.epochs();
        ZabView {
            state: zab.state(),
            epoch: epochs.current,
            promised: epochs.accepted,
            last: zab.log().last(),
            committed: zab.log().committed(),
            step_down_reason: zab.last_step_down(),
        }
    }
}

/// The log of this server's roles.
#[derive(Debug)]
pub struct RoleLog {
    me: ServerId,
    role: Role,
    /// When the current search for a leader began.
    search_ms: u64,
    /// When this server stopped serving; `None` while it does.
    unavailable_ms: Option<u64>,
    failures: Failures,
    learners: Learners,
    voters: Voters,
    commit_latencies: CommitLatencies,
    history: RoleHistory,
    lines: Vec<Line>,
}

impl RoleLog {
    /// Creates the log of a server that begins to look for a leader.
    #[must_use]
    pub fn new(me: ServerId, now_ms: u64) -> Self {
        RoleLog {
            me,
            role: Role::Looking,
            search_ms: now_ms,
            unavailable_ms: Some(now_ms),
            failures: Failures::default(),
            learners: Learners::default(),
            voters: Voters::default(),
            commit_latencies: CommitLatencies::default(),
            history: RoleHistory::default(),
            lines: Vec::new(),
        }
    }

    /// Logs the membership and this server's state at startup.
    pub fn begin(&mut self, membership: &Membership, view: &ZabView, stats: &EnsembleStats) {
        stats.searches.add(1);
        self.set_membership(membership);
        let voters: Vec<_> = membership.voters().collect();
        let observers: Vec<_> = membership.observers().map(|(id, _)| id).collect();
        let observing = if observers.is_empty() {
            String::new()
        } else {
            format!(" and {} without a vote", servers(&observers))
        };
        let (me, epoch, last, voters) = (self.me, view.epoch, view.last, servers(&voters));
        self.say(
            Level::INFO,
            format!(
                "this is server {me} of an ensemble with {voters}{observing}; its last txn is \
                 {last}, its epoch {epoch}; looking for a leader"
            ),
        );
    }

    fn set_membership(&mut self, membership: &Membership) {
        self.voters = Voters::of(membership);
        self.learners.set_members(membership);
    }

    /// Takes the lines since the last call.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// When this server began to lead.
    #[must_use]
    pub fn leading_since_ms(&self) -> Option<u64> {
        match self.role {
            Role::Leading { since_ms, .. } => Some(since_ms),
            _ => None,
        }
    }

    /// The last role changes, oldest first.
    #[must_use]
    pub fn history(&self) -> Vec<RoleChange> {
        self.history.all()
    }

    /// Learners that have introduced themselves, synchronized or not.
    #[must_use]
    pub fn learners(&self) -> usize {
        self.learners.len()
    }

    /// Whether [`RoleLog::observe`] uses an input.
    #[must_use]
    pub fn wants(input: &Input) -> bool {
        match input {
            Input::LinkLost { .. } => true,
            Input::Packet { packet, .. } => matches!(
                packet,
                QuorumPacket::Info { .. }
                    | QuorumPacket::AckEpoch { .. }
                    | QuorumPacket::LeaderInfo { .. }
            ),
            _ => false,
        }
    }

    /// Records the server at the other end of a link, before the protocol core decides about it.
    pub fn observe(&mut self, now_ms: u64, input: &Input) {
        match input {
            Input::LinkLost { link } => {
                let follower = self.learners.follower(*link);
                self.learners.lost(*link);
                self.lost_follower(now_ms, follower);
            }
            Input::Packet { link, packet } => match packet {
                QuorumPacket::Info { kind, accepted_epoch, info: Some(info) } => {
                    self.learners.introduced(now_ms, *link, info.server, *kind);
                    if *kind == LearnerKind::Follower {
                        self.warn_of_newer(now_ms, info.server, *accepted_epoch);
                    }
                }
                QuorumPacket::AckEpoch { last_zxid, current_epoch } => {
                    self.learners.promised(*link, *current_epoch, *last_zxid);
                }
                QuorumPacket::LeaderInfo { epoch, .. } => {
                    if let Role::Joining { catching_up, .. } = &mut self.role {
                        catching_up.leader_epoch = Some(*epoch);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Logs how many more voters a leader can lose, when it has lost one. When it gives up the lead, that
    /// has a line of its own.
    fn lost_follower(&mut self, now_ms: u64, follower: Option<ServerId>) {
        let Some(server) = follower.filter(|_| matches!(self.role, Role::Leading { .. })) else {
            return;
        };
        let present = self.learners.followers().chain([self.me]).collect();
        if let Some(text) = self.voters.after_loss_of(server, &present) {
            let line = Line::new(Level::WARN, text);
            self.lines.push(self.learners.limited(now_ms, server, LineKind::Lost, line));
        }
    }

    /// Warns of a voter that has promised a later epoch, and so cannot follow this leader.
    fn warn_of_newer(&mut self, now_ms: u64, server: ServerId, promised: u32) {
        let Role::Leading { epoch, .. } = self.role else { return };
        if promised > epoch {
            let text = format!(
                "server {server} has promised epoch {promised}, but this server leads epoch \
                 {epoch}: it cannot follow this leader; if it keeps trying for a tick, a new epoch will begin"
            );
            let line = Line::new(Level::WARN, text);
            self.lines.push(self.learners.limited(now_ms, server, LineKind::Newer, line));
        }
    }

    /// Logs and counts one output of the protocol core.
    pub fn note(&mut self, now: Now, output: &Output, view: &ZabView, stats: &EnsembleStats) {
        let now_ms = now.monotonic_ms;
        match output {
            Output::Connect { to, port } => self.found_leader(now_ms, *to, *port, view, stats),
            Output::RoleChanged(status) => {
                self.remember(now, *status, view);
                self.role_changed(now_ms, *status, view, stats);
            }
            Output::Close { link, reason } => {
                let follower = self.learners.follower(*link);
                let line = self.learners.closed(now_ms, *link, *reason, self.me);
                self.lines.extend(line);
                self.lost_follower(now_ms, follower);
            }
            Output::Activate { membership } => self.set_membership(membership),
            Output::Send { link, packet } => {
                if let QuorumPacket::AckEpoch { .. } = packet
                    && let Role::Joining { catching_up, .. } = &mut self.role
                {
                    catching_up.promised_ms = Some(now_ms);
                } else {
                    let line = self.learners.sent(now_ms, *link, packet, stats);
                    self.lines.extend(line);
                }
            }
            Output::SendSnapshot { link, zxid } => {
                let line = self.learners.sent_tree(now_ms, *link, *zxid, stats);
                self.lines.extend(line);
            }
            Output::SendLog { link, after, diff: Some(_), .. } => {
                self.learners.sends_log(*link, *after);
            }
            Output::Append { zxid, payload, .. } => self.appended(now, *zxid, payload, stats),
            Output::Truncate { zxid, .. } => {
                if let Role::Joining { catching_up, .. } = &mut self.role {
                    catching_up.cut_to = Some(*zxid);
                }
            }
            Output::Replay { .. } => {
                if let Role::Joining { catching_up, .. } = &mut self.role {
                    catching_up.txns += 1;
                }
            }
            Output::InstallSnapshot { .. } => {
                if let Role::Joining { catching_up, .. } = &mut self.role {
                    catching_up.took_tree = true;
                }
            }
            // Not interesting to operators.
            _ => {}
        }
    }

    /// Logs and counts the result of a step.
    pub fn after_step(&mut self, now: Now, view: &ZabView, stats: &EnsembleStats) {
        if matches!(self.role, Role::Looking) && view.state == ServerState::Leading {
            let took_ms = now.monotonic_ms.saturating_sub(self.search_ms);
            stats.election.add(took_ms);
            self.role = Role::Elected;
            let text =
                format!("elected in {}: waiting for a quorum of followers", duration(took_ms));
            self.say_unless_repeated(text);
        }
        match self.role {
            Role::Leading { .. } => {
                self.commit_latencies.committed(now, view.committed, |latency, _| {
                    stats.commits.add(1);
                    stats.quorum_ack.add(latency.since_append_ms);
                    stats.commit.add(latency.since_append);
                    latency.count_propagation(&stats.propagation);
                });
            }
            Role::Learning { .. } => {
                self.commit_latencies.committed(now, view.committed, |latency, _| {
                    stats.commits_received.add(1);
                    stats.commit_propagation.add(latency.since_append_ms);
                    stats.commit.add(latency.since_append);
                    latency.count_propagation(&stats.propagation);
                });
            }
            _ => {}
        }
    }

    fn appended(&mut self, now: Now, zxid: Zxid, payload: &[u8], stats: &EnsembleStats) {
        match &mut self.role {
            Role::Leading { .. } => {
                stats.proposed(payload.len() as u64);
                self.commit_latencies.appended(now, zxid, payload);
            }
            Role::Learning { kind, .. } => {
                let latency_ms = self.commit_latencies.appended(now, zxid, payload);
                // Observers receive txns that are already committed.
                if *kind == LearnerKind::Follower {
                    stats.proposals_received.add(1);
                    if let Some(latency_ms) = latency_ms {
                        stats.proposal_latency.add(latency_ms);
                    }
                }
            }
            Role::Joining { catching_up, .. } => catching_up.txns += 1,
            Role::Looking | Role::Elected => {}
        }
    }

    fn say(&mut self, level: Level, text: String) {
        self.lines.push(Line::new(level, text));
    }
}

#[cfg(test)]
mod tests;
