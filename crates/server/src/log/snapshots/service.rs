//! Where the server's other doors ask for snapshots: what it takes to write, copy or restore one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use herdsman_tree::TreeOptions;

use super::{SnapshotRequests, SnapshotResult, SnapshotSettings};
use crate::handle::ServerHandle;
use crate::log::archive::ArchiveProgress;

/// The folder beside `version-2` for copies on their way out and in. What a crash leaves there is
/// removed when the next copy is made.
const FOLDER: &str = "herdsman-copies";

/// What it takes to write, copy or restore a snapshot.
#[derive(Clone)]
pub struct SnapshotService {
    pub(super) requests: Arc<SnapshotRequests>,
    pub(super) settings: SnapshotSettings,
    /// The rules of a tree that is restored.
    pub(super) tree: TreeOptions,
    pub(super) folder: PathBuf,
    /// A copy is on its way out.
    pub(super) outgoing: Arc<AtomicBool>,
    /// A snapshot is on its way in.
    pub(super) incoming: Arc<AtomicBool>,
}

/// One copy at a time goes each way: they share a folder. The next may come when this is dropped.
#[derive(Debug)]
pub(super) struct CopyPermit(Arc<AtomicBool>);

impl CopyPermit {
    /// `None` while somebody else has it.
    pub(super) fn acquire(busy: &Arc<AtomicBool>) -> Option<Self> {
        let was_busy = busy.swap(true, Ordering::AcqRel);
        (!was_busy).then(|| CopyPermit(Arc::clone(busy)))
    }
}

impl Drop for CopyPermit {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl SnapshotService {
    /// How far the archive is, if there is one.
    pub(crate) fn archive(&self) -> Option<&ArchiveProgress> {
        self.settings.archive.as_deref()
    }

    /// Of a server whose thread for snapshots listens to `requests`.
    pub(crate) fn new(
        requests: Arc<SnapshotRequests>,
        settings: SnapshotSettings,
        tree: TreeOptions,
    ) -> Self {
        let beside = settings.dirs.data.parent().unwrap_or(&settings.dirs.data);
        let folder = beside.join(FOLDER);
        let (outgoing, incoming) = Default::default();
        SnapshotService { requests, settings, tree, folder, outgoing, incoming }
    }
}

impl ServerHandle {
    /// Writes a snapshot into the data directory, and waits for it. Writes go on meanwhile.
    ///
    /// # Errors
    /// It could not be written, or the server stops.
    pub fn write_snapshot(&self) -> SnapshotResult {
        self.shared.snapshots.requests.request_and_wait()
    }
}
