//! What agreement asks of the data directory besides appending: epochs, cuts, whole trees.
//!
//! In: a [`DiskChange`], on the thread that owns the log. Out: what happened, as the input that
//! agreement waits for. A tree that takes the place of another is complete and durable before the
//! core sees it.

use std::io;
use std::sync::Arc;

use herdsman_node::membership_of;
use herdsman_proto::{Membership, Zxid};
use herdsman_store::{
    Dirs, Disk, EpochError, EpochFile, InstallError, LogOptions, LogWriter, Progress,
    RecoverOptions, ReloadError, VotingError, install_snapshot, is_out_of_descriptors,
    truncate_and_reload, voting, write_epoch,
};
use herdsman_tree::Tree;
use herdsman_zab::{EpochKind, Input, TreeAfterCut, Voting};
use tracing::{error, info, warn};

use crate::clients::listener::ClientPort;
use crate::core::Core;
use crate::log::progress::LogProgress;
use crate::log::scrubber::SetAside;
use crate::log::snapshots::{
    self, RestoreRequest, Restored, SnapshotHold, SnapshotRequests, SnapshotSettings,
};
use herdsman_config::DynamicFiles;

/// Why a server does not vote after it has taken everything from a leader.
const INSTALLED_REASON: &str = "the files of this server were lost or damaged, and a leader's tree has replaced them; \
     no later txn has shown yet that this leader has a quorum without this server";

/// A change of the data directory.
#[derive(Debug)]
pub enum DiskChange {
    /// Make an epoch durable.
    SaveEpoch {
        /// Which.
        kind: EpochKind,
        /// Its number.
        epoch: u32,
    },
    /// Cut the log and load what is left.
    Truncate {
        /// The last txn to keep.
        zxid: Zxid,
        /// Whether the tree shows what is cut off.
        tree: TreeAfterCut,
    },
    /// End the log file, so that it can be archived.
    EndLogFile,
    /// Forget that this server must not vote.
    AllowVoting,
    /// Remember the membership that is in force.
    Activate {
        /// It.
        membership: Arc<Membership>,
    },
    /// Replace everything by a tree from the leader.
    InstallSnapshot {
        /// The tree, if it is still there.
        tree: Option<Box<Tree>>,
        /// If it is suspended, that is made durable first.
        voting: Voting,
    },
    /// Continue the log in a new file.
    RollLog,
    /// Rename a damaged log file that is not needed.
    SetAside(SetAside),
    /// Replace everything by a tree from an operator; a standalone server's. `None` once it was tried.
    Restore(Option<RestoreRequest>),
}

impl DiskChange {
    /// Whether another history takes the place of the one on disk. A learner takes no txns before that is done.
    #[must_use]
    pub fn replaces_history(&self) -> bool {
        matches!(self, DiskChange::Truncate { .. } | DiskChange::InstallSnapshot { .. })
    }

    /// Whether what is in the log files may not stay there.
    #[must_use]
    pub fn changes_log(&self) -> bool {
        self.replaces_history() || matches!(self, DiskChange::Restore(_))
    }
}

/// Why a change could not be made. What is on disk is whole, but this process cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// An epoch could not be written.
    #[error(transparent)]
    Epoch(#[from] EpochError),
    /// This server could not be allowed to vote.
    #[error(transparent)]
    Voting(#[from] VotingError),
    /// A membership could not be kept. A server that forgot it would vote by the one before.
    #[error(
        "cannot save the new membership beside zoo.cfg: {0}; make its directory writable and restart the server"
    )]
    Membership(io::Error),
    /// The log could not be cut.
    #[error(transparent)]
    Reload(#[from] ReloadError),
    /// A tree could not be put in place.
    #[error(transparent)]
    Install(#[from] InstallError),
}

impl ChangeError {
    /// There was no file descriptor to make the change with. It can be made later, from its start. A tree that
    /// is half in place is the exception: the next recovery finishes that.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        !matches!(self, ChangeError::Install(_)) && is_out_of_descriptors(self)
    }
}

/// A change that was made.
#[derive(Debug)]
pub struct CompletedChange<'a> {
    /// The input that Zab waits for.
    pub input: Input,
    /// The tree to replace the old one together with that input, and what keeps snapshots from being taken until then.
    pub tree: Option<(Tree, SnapshotHold<'a>)>,
}

impl From<Input> for CompletedChange<'_> {
    fn from(input: Input) -> Self {
        CompletedChange { input, tree: None }
    }
}

/// Makes the changes.
pub struct DiskKeeper {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Where.
    pub dirs: Dirs,
    /// How a tree is loaded.
    pub recover: RecoverOptions,
    /// How a log is written.
    pub log: LogOptions,
    /// How a snapshot is written.
    pub snapshots: SnapshotSettings,
    /// Where a membership is kept; nowhere without a zoo.cfg.
    pub files: Option<DynamicFiles>,
    /// Where clients connect.
    pub client_port: Arc<ClientPort>,
    /// Keeps the thread that takes snapshots out of the way.
    pub requests: Arc<SnapshotRequests>,
    /// Where it is published how far the log is durable.
    pub progress: Arc<LogProgress>,
}

impl DiskKeeper {
    /// Makes one change. `log` is replaced if its files were changed. The caller gives the result to the core. After a
    /// temporary error the same change can be made again.
    pub fn make(
        &self,
        core: &Core,
        change: &mut DiskChange,
        log: &mut LogWriter,
    ) -> Result<Option<CompletedChange<'_>>, ChangeError> {
        match change {
            DiskChange::EndLogFile => {
                log.roll();
                Ok(None)
            }
            DiskChange::AllowVoting => {
                voting::allow(&*self.disk, &self.dirs)?;
                info!("a leader has brought this server up to date: it may vote now");
                Ok(Some(Input::VotingAllowed.into()))
            }
            DiskChange::Activate { membership } => {
                self.keep(membership)?;
                self.move_client_port(membership);
                Ok(None)
            }
            &mut DiskChange::SaveEpoch { kind, epoch } => {
                let file = match kind {
                    EpochKind::Accepted => EpochFile::Accepted,
                    EpochKind::Current => EpochFile::Current,
                };
                write_epoch(&*self.disk, &self.dirs.data, file, epoch)?;
                Ok(Some(Input::EpochSaved { kind, epoch }.into()))
            }
            &mut DiskChange::Truncate { zxid, tree } => self.cut(zxid, tree, log).map(Some),
            DiskChange::InstallSnapshot { tree, voting } => {
                // First: this may fail for lack of a file descriptor, and is tried again with the tree.
                if *voting == Voting::Suspended && tree.is_some() {
                    voting::suspend(&*self.disk, &self.dirs, INSTALLED_REASON)?;
                }
                let Some(tree) = tree.take() else { return Ok(Some(Input::InstallMissed.into())) };
                self.install(*tree, log).map(Some)
            }
            DiskChange::RollLog => {
                log.roll();
                Ok(None)
            }
            DiskChange::SetAside(order) => {
                self.set_aside(order, log);
                Ok(None)
            }
            DiskChange::Restore(order) => {
                let Some(RestoreRequest { tree, done }) = order.take() else { return Ok(None) };
                let restored = self.restore(core, *tree, log);
                let broken = match &restored {
                    Err(InstallError::Io { path, source }) => {
                        let source = io::Error::new(source.kind(), source.to_string());
                        Err(InstallError::Io { path: path.clone(), source }.into())
                    }
                    _ => Ok(None),
                };
                // Whoever asked may have gone.
                _ = done.send(restored);
                broken
            }
        }
    }

    /// Here and not where the membership is taken over, because names may have to be resolved.
    fn move_client_port(&self, membership: &Membership) {
        let Some(files) = &self.files else { return };
        let member = membership.members.get(&files.my_id());
        if let Some(endpoint) = member.and_then(|member| member.client.as_ref())
            && let Err(failure) = self.client_port.move_to(endpoint)
        {
            error!("cannot open the client port {endpoint} of the new membership: {failure}");
        }
    }

    /// A server that forgot a change would vote by the membership before. The number that the first membership gets
    /// changes nothing: it is given again.
    fn keep(&self, membership: &Membership) -> Result<(), ChangeError> {
        let Some(files) = &self.files else { return Ok(()) };
        match files.activate(membership) {
            Err(failure) if Zxid(membership.version as i64).counter() == 0 => {
                error!("cannot save the version of the membership beside zoo.cfg: {failure}");
                Ok(())
            }
            kept => kept.map_err(ChangeError::Membership),
        }
    }

    /// Cuts the log alone if the tree shows nothing of what goes. Where that cannot be done, as for the start of an
    /// epoch, which is no txn, the tree is loaded again.
    fn cut(
        &self,
        zxid: Zxid,
        tree: TreeAfterCut,
        log: &mut LogWriter,
    ) -> Result<CompletedChange<'_>, ChangeError> {
        if tree == TreeAfterCut::Reloaded || zxid.counter() == 0 {
            return self.truncate(zxid, log);
        }
        *log = self.new_log(log.last_zxid());
        match herdsman_store::truncate(&*self.disk, &self.dirs, zxid) {
            Ok(()) => {
                info!("truncated the log after {zxid}: the txns after it were never committed");
                *log = self.new_log(zxid);
                Ok(Input::Truncated { zxid, tree }.into())
            }
            Err(ReloadError::Impossible { .. }) => self.truncate(zxid, log),
            Err(error) => Err(error.into()),
        }
    }

    fn truncate(
        &self,
        zxid: Zxid,
        log: &mut LogWriter,
    ) -> Result<CompletedChange<'_>, ChangeError> {
        let hold = self.requests.hold();
        // Nobody may write behind the cut: the writer would not know of it.
        *log = self.new_log(log.last_zxid());
        let progress = &mut |_: Progress<'_>| {};
        match truncate_and_reload(&*self.disk, &self.dirs, zxid, &self.recover, progress) {
            Ok(recovered) => {
                let last_zxid = recovered.tree.last_zxid();
                info!(
                    "truncated the log after {last_zxid}: the txns after it were never committed"
                );
                *log = self.new_log(last_zxid);
                let input = Input::Truncated { zxid: last_zxid, tree: TreeAfterCut::Reloaded };
                Ok(CompletedChange { input, tree: Some((recovered.tree, hold)) })
            }
            Err(error @ ReloadError::Impossible { .. }) => {
                warn!("{error}; taking a full snapshot from the leader");
                Ok(Input::TruncateMissed.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the log file and renames it, unless a txn has come that the snapshot does not cover: then the file is
    /// needed, and shows that its damage is covered. If it cannot be renamed, it will be found again.
    fn set_aside(&self, order: &SetAside, log: &mut LogWriter) {
        let SetAside { changes, log: name, covered, done } = order;
        if *changes == self.progress.changes() && log.last_zxid() <= *covered {
            log.roll();
            let path = name.path(&self.dirs.log);
            match herdsman_store::scrub::set_log_aside(&*self.disk, &self.dirs.log, *name) {
                Ok(aside) => warn!(
                    "renamed the damaged {} to {}: the snapshot of {covered} has everything in it",
                    path.display(),
                    aside.display()
                ),
                Err(failure) => error!("cannot rename the damaged {}: {failure}", path.display()),
            }
        }
        // Whoever asked may have gone.
        _ = done.send(());
    }

    fn new_log(&self, last_zxid: Zxid) -> LogWriter {
        LogWriter::new(Arc::clone(&self.disk), &self.dirs.log, last_zxid, self.log)
            .noted_in(&self.dirs.data)
    }

    fn install(
        &self,
        mut tree: Tree,
        log: &mut LogWriter,
    ) -> Result<CompletedChange<'_>, ChangeError> {
        tree.forget_digests_before(tree.last_zxid());
        let hold = self.requests.hold();
        let SnapshotSettings { compression, last_zxid, .. } = self.snapshots;
        *log = self.new_log(log.last_zxid());
        let file = match install_snapshot(&self.disk, &self.dirs, &tree, compression, last_zxid) {
            Ok(file) => file,
            Err(failure @ (InstallError::Fuzzy { .. } | InstallError::Write(_))) => {
                error!("{failure}; the existing data is unchanged, asking the leader again");
                return Ok(Input::InstallMissed.into());
            }
            Err(failure) => return Err(failure.into()),
        };
        info!(
            "installed the leader's snapshot up to {}: {}",
            tree.last_zxid(),
            file.path.display()
        );
        let zxid = tree.last_zxid();
        *log = self.new_log(zxid);
        let in_tree = membership_of(&tree);
        let input = Input::SnapshotInstalled { zxid, in_tree };
        Ok(CompletedChange { input, tree: Some((tree, hold)) })
    }

    /// What is proposed but not durable when this begins is lost, and its clients are told nothing.
    fn restore(
        &self,
        core: &Core,
        mut tree: Tree,
        log: &mut LogWriter,
    ) -> Result<Restored, InstallError> {
        snapshots::stop_writes(core);
        let _held = self.requests.hold();
        let zxid = tree.last_zxid();
        let seen = log.last_zxid().max(core.tree().last_zxid());
        tree.skip_to(snapshots::zxid_after(seen, zxid));
        let SnapshotSettings { compression, last_zxid, .. } = self.snapshots;
        *log = self.new_log(log.last_zxid());
        match install_snapshot(&self.disk, &self.dirs, &tree, compression, last_zxid) {
            Ok(_) => {
                let server_zxid = tree.last_zxid();
                *log = self.new_log(server_zxid);
                let restored = Restored { zxid, server_zxid, closed: core.restart_with(tree) };
                snapshots::tell(&restored);
                Ok(restored)
            }
            Err(failure) => {
                if !matches!(failure, InstallError::Io { .. }) {
                    snapshots::resume_writes(core);
                }
                Err(failure)
            }
        }
    }
}
