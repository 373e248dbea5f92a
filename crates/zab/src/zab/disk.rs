//! What the disk reports, and what it has not reported yet.

use herdsman_proto::Zxid;

use super::{Role, Zab};
use crate::common::Fall;
use crate::io::{EpochKind, Input, Output};

impl Zab {
    /// What the disk reports.
    pub(super) fn handle_disk(
        &mut self,
        now_ms: u64,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<(), Fall> {
        match input {
            Input::Flushed { zxid } => {
                self.handle_flushed(zxid, out);
                Ok(())
            }
            Input::EpochSaved { kind, epoch } => {
                self.handle_epoch_saved(now_ms, kind, epoch, out);
                Ok(())
            }
            Input::Truncated { zxid } => {
                self.disk_work -= 1;
                self.common.log.handle_truncated(zxid);
                match &mut self.role {
                    Role::Learning(learner) => {
                        learner.handle_truncated(now_ms, zxid, &mut self.common, out)
                    }
                    _ => Ok(()),
                }
            }
            Input::TruncateMissed => {
                self.disk_work -= 1;
                self.common.start_over = true;
                match &self.role {
                    Role::Learning(_) => Err(Fall::StartOver),
                    _ => Ok(()),
                }
            }
            Input::InstallMissed => {
                self.disk_work -= 1;
                match &self.role {
                    Role::Learning(_) => Err(Fall::LeaderRefused),
                    _ => Ok(()),
                }
            }
            Input::SnapshotInstalled { zxid } => {
                self.disk_work -= 1;
                self.common.start_over = false;
                self.common.log.handle_installed(zxid);
                match &mut self.role {
                    Role::Learning(learner) => {
                        learner.handle_installed(now_ms, &mut self.common, out)
                    }
                    _ => Ok(()),
                }
            }
            other => unreachable!("{other:?} does not come from the disk"),
        }
    }

    pub(super) fn handle_flushed(&mut self, zxid: Zxid, out: &mut Vec<Output>) {
        self.common.log.handle_flushed(zxid, out);
        match &mut self.role {
            Role::Leading(leader) => leader.try_to_commit(&mut self.common, out),
            Role::Learning(learner) => learner.handle_flushed(&self.common, out),
            _ => {}
        }
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
            EpochKind::Accepted => self.common.epochs.accepted = epoch,
            EpochKind::Current => self.common.epochs.current = epoch,
        }
        match &mut self.role {
            Role::Leading(leader) => {
                leader.handle_epoch_saved(now_ms, kind, &mut self.common, out);
                self.note_epoch();
            }
            Role::Learning(learner) => learner.handle_epoch_saved(kind, &self.common, out),
            _ => {}
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
