//! An exact copy of the tree while writes go on.
//!
//! In: a running server. Out: a snapshot file of one moment, in Apache's format, not packed, because
//! Apache's `restore` does not unpack. Apache: `SnapshotCommand`, which hands out its ordinary snapshot.
//! That one is fuzzy: it may show a later txn's effect here and not there, and whoever restores it
//! without the log has a tree that never was. So this is done in two rounds:
//!
//! 1. The tree is walked in small steps into a file, as for any snapshot, and the tree notes down what
//!    changes meanwhile.
//! 2. Under one guard the changed znodes are looked up once more, with the sessions, the ACLs and the
//!    digest of that moment; then the file is written again with those znodes in place.
//!
//! Invariants: no guard is held while the disk works; what is held at the end are the znodes that changed
//! since the round before, which are few. Memory is bounded by the znodes that change during the walk,
//! and their number by `herdsman_tree::changes`. If nothing changed, the first file is exact already.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::{Acl, SessionId, StatPersisted, Zxid};
use herdsman_store::disk::ReadFile;
use herdsman_store::snapshot::reader::{SnapshotError, SnapshotVisitor, read_snapshot_at};
use herdsman_store::{
    Compression, Disk, LastZxid, SnapshotFile, SnapshotWriteError, SnapshotWriter, Trailer,
};
use herdsman_tree::{Dump, LoadError, SnapshotTables, SnapshotZnode, TooManyChanges, Tree};
use parking_lot::RwLockReadGuard;

use super::service::{CopyPermit, SnapshotService};
use super::{NODES_PER_GUARD, SPILL_BYTES};
use crate::core::Core;
use crate::handle::ServerHandle;

/// Changed znodes that may be looked up under one guard.
const CHANGES_PER_GUARD: usize = 4096;
/// How often changes are looked up in pieces before the rest is looked up at once.
const ROUNDS_MAX: usize = 16;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// One is being made.
    #[error("another copy is being made")]
    Busy,
    /// Too many writes.
    #[error(transparent)]
    TooManyChanges(#[from] TooManyChanges),
    /// Another tree has taken the place of the one that was copied.
    #[error("the server's tree was replaced during the copy; try again")]
    Replaced,
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] SnapshotWriteError),
    /// It could not be read again.
    #[error(transparent)]
    Read(#[from] SnapshotError),
    /// The folder for copies cannot be used.
    #[error("cannot use the directory for copies {folder}: {source}", folder = folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

/// A copy, in a file that goes with this value.
pub struct TreeCopy {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn ReadFile>,
    /// The last txn in it.
    pub zxid: Zxid,
    /// Its length.
    pub bytes: u64,
    _permit: CopyPermit,
}

impl TreeCopy {
    /// Reads some of it; 0 at its end.
    ///
    /// # Errors
    /// The disk fails.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }
}

impl Drop for TreeCopy {
    fn drop(&mut self) {
        if let Err(error) = self.disk.remove(&self.path) {
            tracing::warn!("cannot remove the copy {}: {error}", self.path.display());
        }
    }
}

impl ServerHandle {
    /// Copies the tree into a file, exactly, while writes go on. Blocks for as long as that takes.
    ///
    /// # Errors
    /// Another copy is being made, too much changes meanwhile, or the disk fails.
    pub fn copy_tree(&self) -> Result<TreeCopy, CopyError> {
        let service = &self.shared.snapshots;
        let permit = CopyPermit::acquire(&service.outgoing).ok_or(CopyError::Busy)?;
        let tracking = ChangeTracking::begin(self.core())?;
        let disk = &service.settings.disk;
        let at = |source| CopyError::Folder { folder: service.folder.clone(), source };
        let outgoing = service.folder.join("out");
        clear(&**disk, &outgoing).map_err(at)?;
        let copy = CopyTask { service, tracking, folder: &outgoing };
        let SnapshotFile { name, path, bytes } = copy.run()?;
        let file = disk.open_read(&path).map_err(at)?;
        Ok(TreeCopy { disk: Arc::clone(disk), path, file, zxid: name.zxid, bytes, _permit: permit })
    }
}

/// Makes a folder and takes out what an earlier life has left there.
pub(super) fn clear(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    disk.create_dir(folder)?;
    for entry in disk.list(folder)? {
        disk.remove(&folder.join(&entry.name))?;
    }
    Ok(())
}

/// The tree notes down what changes while this lives.
struct ChangeTracking<'a> {
    core: &'a Core,
    generation: u64,
}

impl<'a> ChangeTracking<'a> {
    fn begin(core: &'a Core) -> Result<Self, CopyError> {
        let tree = core.tree();
        tree.listen_to_changes().map_err(|_| CopyError::Busy)?;
        Ok(ChangeTracking { core, generation: core.tree_generation() })
    }

    /// The tree, if it is still the one that is being copied.
    fn tree(&self) -> Result<RwLockReadGuard<'a, Tree>, CopyError> {
        let tree = self.core.tree();
        if self.core.tree_generation() == self.generation {
            Ok(tree)
        } else {
            Err(CopyError::Replaced)
        }
    }
}

impl Drop for ChangeTracking<'_> {
    fn drop(&mut self) {
        // Another tree has a listener of its own, or none.
        if let Ok(tree) = self.tree() {
            tree.stop_listening_to_changes();
        }
    }
}

struct CopyTask<'a> {
    service: &'a SnapshotService,
    tracking: ChangeTracking<'a>,
    folder: &'a Path,
}

/// What the tree was like at the moment that the copy shows.
struct FinalState {
    images: HashMap<Box<str>, Option<SnapshotZnode>>,
    tables: SnapshotTables,
    trailer: Trailer,
    zxid: Zxid,
}

impl CopyTask<'_> {
    fn run(self) -> Result<SnapshotFile, CopyError> {
        let dump = Dump::start(&*self.tracking.tree()?);
        let begun_at = dump.zxid();
        let writer = self.walk(dump)?;
        let final_state = self.collect_changes()?;
        let first = writer.finish(&final_state.trailer, &mut |_| {})?;
        if final_state.zxid == begun_at && final_state.images.is_empty() {
            return Ok(first);
        }
        let exact = self.folder.join("exact");
        let at = |source| CopyError::Folder { folder: exact.clone(), source };
        let disk = &self.service.settings.disk;
        clear(&**disk, &exact).map_err(at)?;
        let file = self.rewrite(&first, &exact, final_state);
        disk.remove(&first.path).map_err(at)?;
        file
    }

    fn begin(
        &self,
        folder: &Path,
        zxid: Zxid,
        tables: &SnapshotTables,
    ) -> Result<SnapshotWriter, CopyError> {
        let disk = Arc::clone(&self.service.settings.disk);
        let head = (zxid, Compression::None);
        Ok(SnapshotWriter::begin(disk, folder, head, &tables.sessions, &tables.acls)?)
    }

    /// The first round: everything, each znode as it is when its turn comes.
    fn walk(&self, mut dump: Dump) -> Result<SnapshotWriter, CopyError> {
        let tables =
            SnapshotTables { sessions: dump.sessions().to_vec(), acls: dump.acls().to_vec() };
        let mut writer = self.begin(self.folder, dump.zxid(), &tables)?;
        let mut more = true;
        while more {
            let tree = self.tracking.tree()?;
            more = dump.step(&tree, NODES_PER_GUARD, &mut |path, data, acl, stat| {
                writer.encode_node(path, data, acl, stat);
            });
            drop(tree);
            if writer.buffered_bytes() >= SPILL_BYTES {
                writer.spill(&mut |_| {})?;
            }
        }
        Ok(writer)
    }

    /// Looks up what changed, in pieces as long as it is much; the last piece decides the moment.
    fn collect_changes(&self) -> Result<FinalState, CopyError> {
        let mut images = HashMap::new();
        for round in 1.. {
            let tree = self.tracking.tree()?;
            let changed = tree.take_changes()?;
            if changed.len() <= CHANGES_PER_GUARD || round >= ROUNDS_MAX {
                images.extend(changed.into_iter().map(|path| {
                    let image = tree.image(&path);
                    (path, image)
                }));
                let trailer = Trailer::of(&tree, LastZxid::Write);
                return Ok(FinalState {
                    images,
                    tables: tree.tables(),
                    trailer,
                    zxid: tree.last_zxid(),
                });
            }
            drop(tree);
            let mut changed = changed.into_iter().peekable();
            while changed.peek().is_some() {
                let tree = self.tracking.tree()?;
                for path in changed.by_ref().take(CHANGES_PER_GUARD) {
                    let image = tree.image(&path);
                    images.insert(path, image);
                }
            }
        }
        unreachable!("the last round always returns")
    }

    /// The second round: the same file with the znodes of the moment in place of those that changed.
    fn rewrite(
        &self,
        first: &SnapshotFile,
        folder: &Path,
        final_state: FinalState,
    ) -> Result<SnapshotFile, CopyError> {
        let writer = self.begin(folder, final_state.zxid, &final_state.tables)?;
        let mut rewriter = Rewriter { writer, images: final_state.images, failed: None };
        let disk = &*self.service.settings.disk;
        read_snapshot_at(disk, &first.path, Compression::None, &mut rewriter, &mut |_| {})?;
        let mut writer = rewriter.finish_nodes()?;
        writer.spill(&mut |_| {})?;
        Ok(writer.finish(&final_state.trailer, &mut |_| {})?)
    }
}

/// Takes the first file's parts and writes the second.
struct Rewriter {
    writer: SnapshotWriter,
    /// Znodes that changed and have not been written.
    images: HashMap<Box<str>, Option<SnapshotZnode>>,
    failed: Option<SnapshotWriteError>,
}

impl Rewriter {
    fn write(&mut self, path: &str, data: Option<&[u8]>, acl_key: i64, stat: &StatPersisted) {
        if self.failed.is_some() {
            return;
        }
        self.writer.encode_node(path, data, acl_key, stat);
        if self.writer.buffered_bytes() >= SPILL_BYTES {
            self.failed = self.writer.spill(&mut |_| {}).err();
        }
    }

    /// Writes those that the first file does not have. A parent's path sorts before its children's.
    fn finish_nodes(mut self) -> Result<SnapshotWriter, SnapshotWriteError> {
        let mut rest: Vec<_> = std::mem::take(&mut self.images).into_iter().collect();
        rest.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (path, image) in rest {
            if let Some(SnapshotZnode { data, acl_key, stat }) = image {
                self.write(&path, data.as_deref(), acl_key, &stat);
            }
        }
        match self.failed {
            None => Ok(self.writer),
            Some(failed) => Err(failed),
        }
    }
}

impl SnapshotVisitor for Rewriter {
    // The tables of the moment are written already.
    fn session(&mut self, _id: SessionId, _timeout_ms: i32) {}

    fn acl(&mut self, _key: i64, _acl: Vec<Acl>) {}

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        match self.images.remove(path) {
            None => self.write(path, data, acl_key, &stat),
            Some(None) => {}
            Some(Some(SnapshotZnode { data, acl_key, stat })) => {
                self.write(path, data.as_deref(), acl_key, &stat);
            }
        }
        Ok(())
    }
}
