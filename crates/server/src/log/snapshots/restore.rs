//! A snapshot takes the place of everything a standalone server has.
//!
//! In: a file that came from outside. Out: a server with another tree, or the server as it was. Apache:
//! `RestoreCommand`, `ZooKeeperServer.restoreFromSnapshot`, which puts the tree into memory only: after a
//! restart the old one is back. How we differ: everything is checked before anything is touched
//! ([`ServerHandle::verify_snapshot`]), and the tree is on disk before anybody sees it
//! ([`ServerHandle::restore`]); a crash leaves the state before or the state after, see
//! `herdsman_store::install`.
//!
//! # What clients see
//! All connections close. Writes in flight that are not answered are lost, and their clients cannot know.
//! A session that the snapshot has gets a whole timeout to come back; any other is over. Zxids go on
//! upwards: a client that has seen a later one than the server's would be turned away for ever, so the
//! restored tree counts as a change after the last one. Its znodes keep their zxids.
//!
//! # Why not in an ensemble
//! One server's tree would differ from the others', and the next txn would make that permanent. An
//! ensemble is restored offline, on every server or on one that the others then take everything from.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use herdsman_node::{Input, StorageState};
use herdsman_proto::{TxnDigest, Zxid};
use herdsman_store::disk::WriteFile;
use herdsman_store::snapshot::reader::{SnapshotError, detect_compression, read_snapshot_at};
use herdsman_store::{Compression, Disk, InstallError, Trailer};
use herdsman_tree::{LoadError, Loader, Tree};
use tracing::{info, warn};

use super::copy::clear;
use super::service::CopyPermit;
use crate::core::Core;
use crate::handle::ServerHandle;
use crate::log::disk_keeper::DiskChange;
use herdsman_config::Mode;

/// Why a snapshot is not restored. Nothing was changed, unless the last one says so.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The server has companions.
    #[error(
        "a member of an ensemble cannot be restored while it runs: its tree would differ from the others'. \
         Stop all servers, run `herdsman restore FILE --data-dir DIR` for each, and start them again"
    )]
    InEnsemble,
    /// The bytes are not a snapshot, or not a whole one.
    #[error(transparent)]
    Unreadable(#[from] SnapshotError),
    /// The bytes begin with none of the known magic numbers.
    #[error("not a snapshot (bad magic)")]
    NoSnapshot,
    /// A snapshot of a server before 3.6, or one with those settings off.
    #[error(
        "the snapshot does not say which txn it ends with (serializeLastProcessedZxid.enabled, digest.enabled); \
         restore it offline: herdsman restore FILE --data-dir DIR"
    )]
    NoZxid,
    /// The tree that comes out is another one than was written.
    #[error(
        "digest mismatch: the snapshot records {stored}, its znodes have {computed}; it was taken during writes \
         and needs its log, or it is damaged"
    )]
    Digest {
        /// What the snapshot says.
        stored: i64,
        /// What its znodes make.
        computed: i64,
    },
    /// The znodes do not make a tree.
    #[error("the snapshot's znodes do not form a tree: {0}")]
    NoTree(#[from] LoadError),
    /// It is between two moments.
    #[error(
        "the snapshot is of txn {last} but shows a change of txn {newest_effect}: it was taken while writes \
         went on and needs its log; restore it offline: herdsman restore FILE --data-dir DIR"
    )]
    Fuzzy {
        /// Its last txn.
        last: Zxid,
        /// A later one.
        newest_effect: Zxid,
    },
    /// The log is full or broken.
    #[error("the server cannot write to its disk at the moment")]
    NotWritable,
    /// It could not be put in place; what was there is still there.
    #[error("{0}; the existing data is unchanged")]
    Install(InstallError),
    /// The disk failed at the wrong moment.
    #[error(
        "the disk failed while the snapshot was being installed: the server refuses writes; restart it to see which state it is in"
    )]
    Broken,
    /// The server ends.
    #[error("the server is stopping")]
    Stopping,
}

/// What came in and was found right.
#[derive(Debug)]
pub struct VerifiedSnapshot {
    tree: Box<Tree>,
    /// Its last txn.
    pub zxid: Zxid,
    /// How many znodes it has.
    pub znodes: usize,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The snapshot's last txn.
    pub zxid: Zxid,
    /// The server's last txn from now on.
    pub server_zxid: Zxid,
    /// Connections that were closed.
    pub closed: usize,
}

/// A tree on its way to the thread that owns the log.
#[derive(Debug)]
pub struct RestoreRequest {
    pub(crate) tree: Box<Tree>,
    pub(crate) done: mpsc::SyncSender<Result<Restored, InstallError>>,
}

/// A file for a snapshot that comes in; it goes with this value.
pub struct IncomingSnapshot {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Option<Box<dyn WriteFile>>,
    bytes: u64,
    /// What may still come; more would take the room that the restored tree needs.
    room_bytes: u64,
    _permit: CopyPermit,
}

/// Why a snapshot cannot come in.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// One at a time.
    #[error("another snapshot is being restored")]
    Busy,
    /// The disk is too small for it.
    #[error("the snapshot is larger than the {0} bytes that are available on the disk")]
    TooLarge(u64),
    /// The disk failed.
    #[error("cannot store the snapshot: {0}")]
    Io(#[from] std::io::Error),
}

impl IncomingSnapshot {
    /// Adds what came.
    ///
    /// # Errors
    /// There is no room, or the disk fails.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), IncomingError> {
        let end = self.bytes + bytes.len() as u64;
        if end > self.room_bytes {
            return Err(IncomingError::TooLarge(self.room_bytes));
        }
        if let Some(file) = &mut self.file {
            file.write_at(self.bytes, bytes)?;
        }
        self.bytes = end;
        Ok(())
    }

    /// How much may come in all.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }
}

impl Drop for IncomingSnapshot {
    fn drop(&mut self) {
        self.file = None;
        if let Err(error) = self.disk.remove(&self.path) {
            warn!("cannot remove the unused snapshot {}: {error}", self.path.display());
        }
    }
}

impl ServerHandle {
    /// Whether this server can be restored while it runs.
    ///
    /// # Errors
    /// It is a member of an ensemble, stops, or takes no writes.
    pub fn check_restorable(&self) -> Result<(), RestoreError> {
        if self.config().mode != Mode::Standalone {
            return Err(RestoreError::InEnsemble);
        }
        if self.is_stopping() {
            return Err(RestoreError::Stopping);
        }
        match self.core().with_node(herdsman_node::Node::storage) {
            StorageState::Writable => Ok(()),
            StorageState::Full | StorageState::Failed => Err(RestoreError::NotWritable),
        }
    }

    /// A file for a snapshot that comes in, beside the data. Half of the free disk may be used: the other
    /// half is for the tree that is made of it.
    ///
    /// # Errors
    /// Another one is coming in, or the disk fails.
    pub fn receive_snapshot(&self) -> Result<IncomingSnapshot, IncomingError> {
        let service = &self.shared.snapshots;
        let permit = CopyPermit::acquire(&service.incoming).ok_or(IncomingError::Busy)?;
        let disk = &service.settings.disk;
        let folder = service.folder.join("in");
        clear(&**disk, &folder)?;
        let path = folder.join("incoming");
        let file = Some(disk.create(&path)?);
        let room_bytes = disk.free_bytes(&folder)? / 2;
        let disk = Arc::clone(disk);
        Ok(IncomingSnapshot { disk, path, file, bytes: 0, room_bytes, _permit: permit })
    }

    /// Reads all of it into a tree of its own, and checks all that can be checked. Changes nothing.
    ///
    /// # Errors
    /// It is not a snapshot that can be restored; the sentence says why.
    pub fn verify_snapshot(
        &self,
        incoming: &IncomingSnapshot,
    ) -> Result<VerifiedSnapshot, RestoreError> {
        let service = &self.shared.snapshots;
        let mut loader = Loader::new(service.tree.clone());
        let compression = compression_of(&*incoming.disk, &incoming.path)?;
        let summary = read_snapshot_at(
            &*incoming.disk,
            &incoming.path,
            compression,
            &mut loader,
            &mut |_| {},
        )?;
        let Trailer { digest, last_zxid } = summary.trailer;
        let zxid = last_zxid.or(digest.map(|digest| digest.zxid)).ok_or(RestoreError::NoZxid)?;
        let newest_effect = loader.newest_effect();
        if newest_effect > zxid {
            return Err(RestoreError::Fuzzy { last: zxid, newest_effect });
        }
        let tree = loader.finish(zxid)?;
        if let Some(stored) = digest.filter(|digest| digest.zxid > Zxid::ZERO) {
            let version = stored.version;
            if !tree.has_digest(&TxnDigest { version, tree_digest: stored.digest }) {
                return Err(RestoreError::Digest {
                    stored: stored.digest,
                    computed: tree.digest(),
                });
            }
        }
        let znodes = tree.node_count();
        Ok(VerifiedSnapshot { tree: Box::new(tree), zxid, znodes })
    }

    /// Puts it in the place of everything, on disk and in memory, and goes on serving. Blocks until that
    /// is done.
    ///
    /// # Errors
    /// Nothing has changed, except where the error says so.
    pub fn restore(&self, snapshot: VerifiedSnapshot) -> Result<Restored, RestoreError> {
        self.check_restorable()?;
        let (done, result) = mpsc::sync_channel(1);
        let request = RestoreRequest { tree: snapshot.tree, done };
        self.core().change_disk(DiskChange::Restore(Some(request)));
        match result.recv() {
            Ok(Ok(restored)) => Ok(Restored { zxid: snapshot.zxid, ..restored }),
            Ok(Err(failure @ InstallError::Io { .. })) => {
                warn!("{failure}");
                Err(RestoreError::Broken)
            }
            Ok(Err(failure)) => Err(RestoreError::Install(failure)),
            Err(mpsc::RecvError) if self.is_stopping() => Err(RestoreError::Stopping),
            Err(mpsc::RecvError) => Err(RestoreError::NotWritable),
        }
    }
}

fn compression_of(disk: &dyn Disk, path: &Path) -> Result<Compression, RestoreError> {
    match detect_compression(disk, path) {
        Ok(Some(compression)) => Ok(compression),
        Ok(None) | Err(_) => Err(RestoreError::NoSnapshot),
    }
}

/// Nothing more is proposed from here on, so that what is on its way to the log stays all there is.
pub(crate) fn stop_writes(core: &Core) {
    core.step(Input::Storage(StorageState::Full));
}

/// The old tree goes on.
pub(crate) fn resume_writes(core: &Core) {
    core.step(Input::Storage(StorageState::Writable));
}

/// The zxid of a tree that takes the place of another: its own, or the next one after all that clients
/// may have seen.
pub(crate) fn zxid_after(seen: Zxid, restored: Zxid) -> Zxid {
    if seen < restored { restored } else { seen.next() }
}

/// Tells of it.
pub(crate) fn tell(restored: &Restored) {
    let Restored { zxid, server_zxid, closed } = restored;
    info!(
        "restored a snapshot of txn {zxid} as txn {server_zxid}: all previous data was replaced, {closed} connections were closed"
    );
}
