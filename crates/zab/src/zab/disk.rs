//! Reports of the disk, and the count of the work that it has not reported yet.

use herdsman_proto::Zxid;

use super::{Role, Zab};
use crate::io::{EpochKind, Input, Output};
use crate::log::LogStorage;
use crate::replica::{StepDownReason, Voting};

impl Zab {
    /// Handles a report of the disk.
    pub(super) fn handle_disk(
        &mut self,
        now_ms: u64,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), StepDownReason> {
        match input {
            Input::Flushed { zxid } => self.handle_flushed(zxid, out),
            Input::EpochSaved { kind, epoch } => {
                self.handle_epoch_saved(now_ms, kind, epoch, out);
                Ok(())
            }
            Input::Truncated { zxid, tree } => {
                self.disk_work -= 1;
                self.replica.handle_truncated(zxid, tree, out);
                match &mut self.role {
                    Role::Learning(learner) => {
                        learner.handle_truncated(now_ms, zxid, &mut self.replica, out)
                    }
                    _ => Ok(()),
                }
            }
            Input::TruncateMissed => {
                self.disk_work -= 1;
                self.replica.start_over = true;
                match &self.role {
                    Role::Learning(_) => Err(StepDownReason::StartOver),
                    _ => Ok(()),
                }
            }
            Input::InstallMissed => {
                self.disk_work -= 1;
                match &self.role {
                    Role::Learning(_) => Err(StepDownReason::LeaderRefused),
                    _ => Ok(()),
                }
            }
            Input::SnapshotInstalled { zxid, in_tree } => {
                self.disk_work -= 1;
                self.replica.handle_installed(zxid, in_tree, out);
                match &mut self.role {
                    Role::Learning(learner) => {
                        learner.handle_installed(now_ms, &mut self.replica, out)
                    }
                    _ => Ok(()),
                }
            }
            Input::VotingAllowed => self.handle_voting_allowed(),
            other => unreachable!("{other:?} does not come from the disk"),
        }
    }

    fn handle_flushed(&mut self, zxid: Zxid, out: &mut Vec<Output>) -> Result<(), StepDownReason> {
        self.replica.log.handle_flushed(zxid, out);
        match &mut self.role {
            Role::Leading(leader) => leader.try_to_commit(&mut self.replica, out),
            Role::Learning(learner) => return learner.handle_flushed(&mut self.replica, out),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn handle_epoch_saved(
        &mut self,
        now_ms: u64,
        kind: EpochKind,
        epoch: u32,
        out: &mut Vec<Output>,
    ) {
        self.disk_work -= 1;
        match kind {
            EpochKind::Accepted => self.replica.epochs.accepted = epoch,
            EpochKind::Current => {
                self.replica.epochs.current = epoch;
                self.replica.started_empty = false;
            }
        }
        match &mut self.role {
            Role::Leading(leader) => {
                leader.handle_epoch_saved(now_ms, kind, &mut self.replica, out);
                self.note_epoch();
            }
            Role::Learning(learner) => learner.handle_epoch_saved(kind, &mut self.replica, out),
            _ => {}
        }
    }

    /// Notes that a txn which this server requested after it was brought up to date is agreed on and durable here: its
    /// leader has a quorum that has followed it since (see [`Voting`]). Returns whether to allow voting durably.
    #[must_use]
    pub fn prove_quorum(&mut self) -> bool {
        let is_up_to_date = matches!(&self.role, Role::Learning(learner) if learner.is_active());
        // A log in memory does not replace what the disk has lost.
        let asks = is_up_to_date
            && self.replica.voting == Voting::Suspended
            && self.replica.log.storage() == LogStorage::OnDisk
            && !self.asked_to_vote;
        if asks {
            self.asked_to_vote = true;
            self.disk_work += 1;
        }
        asks
    }

    /// Makes this server rejoin its leader as a follower.
    fn handle_voting_allowed(&mut self) -> Result<(), StepDownReason> {
        self.disk_work -= 1;
        self.asked_to_vote = false;
        self.replica.voting = Voting::Allowed;
        match &self.role {
            Role::Learning(learner) if learner.kind() != self.replica.kind() => {
                Err(StepDownReason::VotingAllowed { leader: learner.leader() })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn note_disk_work(&mut self, outputs: &[Output]) {
        let is_work = |output: &&Output| {
            matches!(
                output,
                Output::SaveEpoch { .. } | Output::Truncate { .. } | Output::InstallSnapshot { .. }
            )
        };
        self.disk_work += outputs.iter().filter(is_work).count();
    }
}
