//! The repair phase: a member of an ensemble whose files are damaged gets the records that it lacks from the other
//! members, before it takes part in anything.
//!
//! In: a data directory that recovery refuses. Out: one that it accepts, or the decision to join a leader without a
//! vote and take everything from it ([`FilesState::Unusable`]). To agreement a server in this phase is down: no vote is
//! sent and no packet is answered except FETCH. Clients and operators are not served either.
//!
//! The loop, once a second, until something of this is so:
//! - All missing records were found. They are put into the log files ([`splice`]), and the start begins again. The
//!   server then has exactly what it had before the damage, so it votes.
//! - Some member says that there is a leader with a quorum, and its records do not complete the repair either. That
//!   quorum does without this server, so everything that was agreed on is there. See [`InitialFiles::Unusable`].
//! - The start is given up ([`StopSignal`]).
//!
//! Members that are damaged, too, answer from what they have, so servers that are damaged in different places repair
//! each other. If a txn cannot be had from anybody, it is waited for: nobody who could be asked knows whether it was
//! acknowledged.
//!
//! Apache's servers do not answer FETCH. That there is a leader among them shows when one answers a learner
//! ([`members::ask`]).
//!
//! [`InitialFiles::Unusable`]: herdsman_zab::InitialFiles::Unusable

pub(crate) mod leader_wait;
mod members;
mod progress;
mod receiver;

use std::sync::Arc;
use std::time::Duration;

use herdsman_config::{Config, Mode};
use herdsman_proto::{Membership, ServerId};
use herdsman_quorum::{NetworkSettings, QuorumNetwork};
use herdsman_store::{
    Damage, Dirs, Disk, EpochFile, RecoverError, RecoverOptions, Recovered, Repair, assess_refusal,
    splice,
};
use herdsman_tree::Tree;
use tracing::{info, warn};

use crate::error::StartError;
use crate::logins::Logins;
use crate::operators::stats::ServerStats;
use crate::start::certificates::Certificates;
use crate::start::network::network_settings;
use crate::start::startup;
use crate::start::stop_signal::StopSignal;
use members::Members;
use progress::Progress;
use receiver::RepairReceiver;

/// Between two rounds of questions.
const ROUND_PAUSE: Duration = Duration::from_secs(1);
/// Repairs in one start. A second one is needed if the disk fails further during the first.
const REPAIRS_MAX: usize = 3;
/// Rounds in which members report a leader before this server takes everything from it, although records that could
/// be repaired are missing.
const LEADER_ROUNDS_MIN: usize = 2;
/// Rounds in a row in which some member may be too busy to send records, before what it has is done without.
const BUSY_ROUNDS_MAX: usize = 60;

/// What a start has made of the files.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// The state; empty if the files cannot be used.
    pub recovered: Recovered,
    /// Whether they can.
    pub files: FilesState,
}

/// Whether a server can use its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilesState {
    /// It can, perhaps after a repair.
    Whole,
    /// It cannot, and there is a leader from which it takes everything. Until then they stay as they are.
    Unusable,
}

/// What the repair phase needs.
pub(crate) struct RepairContext<'a> {
    pub disk: &'a Arc<dyn Disk>,
    pub dirs: &'a Dirs,
    pub options: &'a RecoverOptions,
    pub config: &'a Config,
    pub access: (&'a Certificates, &'a Logins),
    pub stop: &'a StopSignal,
}

/// How a repair phase ended.
enum PhaseEnd {
    Repaired,
    JoinWithoutVote,
}

/// Loads the state; a member of an ensemble repairs it first, if it has to.
pub(crate) fn recover(
    context: &RepairContext<'_>,
    stats: &ServerStats,
) -> Result<Recovery, StartError> {
    let RepairContext { disk, dirs, options, .. } = *context;
    for _ in 0..REPAIRS_MAX {
        let refusal = match startup::recover(&**disk, dirs, options, stats) {
            Ok(recovered) => return Ok(whole(recovered)),
            Err(StartError::Recover(refusal)) => refusal,
            Err(error) => return Err(error),
        };
        let Some(network) = network_of_member(context) else { return Err(refusal.into()) };
        let Some(damage) = repairable_damage(context, &refusal) else {
            return Err(refusal.into());
        };
        match repair(context, network, damage)? {
            PhaseEnd::Repaired => info!("the files are repaired; starting again"),
            PhaseEnd::JoinWithoutVote => {
                let recovered = without_data(context.options);
                return Ok(Recovery { recovered, files: FilesState::Unusable });
            }
        }
    }
    startup::recover(&**disk, dirs, options, stats).map(whole)
}

fn whole(recovered: Recovered) -> Recovery {
    Recovery { recovered, files: FilesState::Whole }
}

/// The settings of the network, if there are other members that could help.
fn network_of_member(context: &RepairContext<'_>) -> Option<NetworkSettings> {
    let RepairContext { config, access: (certificates, logins), .. } = *context;
    let Mode::Ensemble { my_id, .. } = config.mode else { return None };
    let has_others = config.quorum.membership.members.keys().any(|id| *id != my_id);
    if !startup::repairs_itself(config) || !has_others {
        return None;
    }
    let protection = certificates.quorum_protection(config, logins);
    network_settings(config).map(|settings| NetworkSettings { protection, ..settings })
}

/// What records or a tree of other members can repair; `None` if the start is refused for another reason.
fn repairable_damage(context: &RepairContext<'_>, refusal: &RecoverError) -> Option<Damage> {
    let RepairContext { disk, dirs, options, .. } = *context;
    assess_refusal(&**disk, dirs, options, refusal).unwrap_or_else(|error| {
        warn!("cannot find out what is damaged: {error}");
        None
    })
}

/// The state of a server that has nothing of its own.
fn without_data(options: &RecoverOptions) -> Recovered {
    Recovered {
        tree: Tree::new(options.tree.clone()),
        snapshot: None,
        fresh: false,
        damaged_snapshots: Vec::new(),
        txns_replayed: 0,
        log_bytes_replayed: 0,
        orphan_ephemeral_sessions: Vec::new(),
        digest_mismatch: None,
        cut: None,
        accepted_loss: None,
    }
}

/// Repairs the files, or finds a leader to take everything from.
fn repair(
    context: &RepairContext<'_>,
    settings: NetworkSettings,
    damage: Damage,
) -> Result<PhaseEnd, StartError> {
    let RepairContext { disk, dirs, options, stop, .. } = *context;
    let (my_id, membership) = (settings.my_id, Arc::clone(&settings.membership));
    let network = Arc::new(QuorumNetwork::new(settings));
    let receiver = Arc::new(RepairReceiver::new(disk, dirs, &damage, &network));
    let mut phase = Phase {
        progress: Progress::begin(&damage),
        members: Members::new(Arc::clone(&network), my_id, &membership, accepted_epoch(context)),
        others: others(my_id, &membership),
        repair: Repair::new(damage),
        leader_rounds: LeaderRounds::default(),
    };
    let started = network.start(Arc::clone(&receiver) as Arc<dyn herdsman_quorum::Receiver>);
    let end = started.map_err(StartError::from).and_then(|()| phase.run(stop, &receiver));
    // The normal start opens the same ports.
    network.stop();
    let end = end?;
    if matches!(end, PhaseEnd::Repaired) {
        let spliced = splice(&**disk, dirs, options, &phase.repair)?;
        phase.progress.note_splice(&spliced);
    }
    Ok(end)
}

/// The epoch that this server has promised last, as far as it is known.
fn accepted_epoch(context: &RepairContext<'_>) -> u32 {
    startup::known_epoch(&**context.disk, context.dirs, EpochFile::Accepted)
}

/// The other members, voters first.
fn others(me: ServerId, membership: &Membership) -> Vec<ServerId> {
    let mut others: Vec<_> = membership.members.keys().copied().filter(|id| *id != me).collect();
    others.sort_by_key(|id| !membership.voters().any(|voter| voter == *id));
    others
}

struct Phase {
    members: Members,
    others: Vec<ServerId>,
    repair: Repair,
    progress: Progress,
    leader_rounds: LeaderRounds,
}

/// Counts rounds in a row in which some member reported a leader.
#[derive(Debug, Default)]
struct LeaderRounds {
    /// Those in which all members that answered had the time to read their records.
    complete: usize,
    /// The others. After many of them they count, too: a member that serves others for ever, who perhaps only claim to
    /// be members, must not keep this server out.
    busy: usize,
}

impl LeaderRounds {
    fn note(&mut self, has_leader: bool, is_busy: bool) {
        if !has_leader {
            *self = LeaderRounds::default();
        } else if is_busy && self.busy < BUSY_ROUNDS_MAX {
            self.busy += 1;
        } else {
            self.complete += 1;
        }
    }
}

impl Phase {
    fn run(
        &mut self,
        stop: &StopSignal,
        receiver: &RepairReceiver,
    ) -> Result<PhaseEnd, StartError> {
        loop {
            if let Some(failure) = receiver.take_port_failure() {
                return Err(StartError::PeerPort(failure.to_string()));
            }
            if let Some(end) = self.round(stop) {
                return Ok(end);
            }
            if stop.wait(ROUND_PAUSE) {
                return Err(StartError::Stopped);
            }
        }
    }

    /// Asks every other member once.
    fn round(&mut self, stop: &StopSignal) -> Option<PhaseEnd> {
        let is_wanted = || !stop.is_stopped();
        for id in &self.others {
            self.members.ask(*id, &mut self.repair, &is_wanted);
            if self.repair.is_complete() {
                self.progress.note_complete();
                return Some(PhaseEnd::Repaired);
            }
            if stop.is_stopped() {
                return None;
            }
        }
        self.progress.report(&self.repair, &self.members, &self.others);
        let leader = self.members.reports_leader();
        self.leader_rounds.note(leader.is_some(), self.members.has_busy());
        let reason = self.repair.irreparable();
        let needed = if reason.is_some() { 1 } else { LEADER_ROUNDS_MIN };
        let leader = leader.filter(|_| self.leader_rounds.complete >= needed)?;
        self.progress.note_join(&self.repair, &self.others, leader);
        Some(PhaseEnd::JoinWithoutVote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_members_are_waited_for_but_not_for_ever() {
        let mut rounds = LeaderRounds::default();
        for _ in 0..BUSY_ROUNDS_MAX {
            rounds.note(true, true);
            assert_eq!(rounds.complete, 0);
        }
        rounds.note(true, true);
        rounds.note(true, true);
        assert_eq!(rounds.complete, LEADER_ROUNDS_MIN);
        rounds.note(false, true);
        assert_eq!(rounds.complete, 0);
        rounds.note(true, true);
        rounds.note(true, false);
        rounds.note(true, false);
        assert_eq!(rounds.complete, LEADER_ROUNDS_MIN);
    }
}
