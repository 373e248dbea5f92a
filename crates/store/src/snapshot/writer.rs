//! Writes a snapshot while the tree changes.
//!
//! In: the tables of sessions and ACLs, znodes in pieces, the trailer. Out: a file under its final name,
//! durable. The caller alternates between two things: while it holds the tree's read guard it lets
//! [`SnapshotWriter::encode_node`] fill a buffer, and without it [`SnapshotWriter::spill`] writes the
//! buffer to the disk. So the guard is never held during disk I/O, and memory is bounded by what
//! is encoded between two spills.
//!
//! `pace` is called with the bytes just written to the file; the caller may sleep there, to leave the
//! disk to the log.
//!
//! Invariant: the final name appears only on a file that is complete and synced. A writer that is
//! dropped before that removes what it has written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::{Acl, JuteWrite, SessionId, StatPersisted, Zxid};
use herdsman_tree::{Dump, Tree};
use simd_adler32::Adler32;

use super::pack::Packer;
use super::{END_PATH, HEADER, LastZxid, Trailer, encode_end, encode_node, encode_tables};
use crate::disk::{Disk, is_full, remove_if_there};
use crate::names::{Compression, SnapshotName};

/// Bytes that are written between two calls of `pace`.
const PIECE_BYTES: usize = 256 << 10;
/// Znodes of an unchanging tree that are encoded between two spills.
const STEP_NODES: usize = 1024;

/// An error of writing a snapshot.
#[derive(Debug, thiserror::Error)]
#[error("cannot write snapshot {path}: {source}", path = path.display())]
pub struct SnapshotWriteError {
    /// The file under its final name.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl SnapshotWriteError {
    /// Whether the disk was full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        is_full(&self.source)
    }
}

/// A snapshot that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Its name.
    pub name: SnapshotName,
    /// Its path.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// Called with the number of bytes just written.
pub type WritePace<'a> = dyn FnMut(u64) + 'a;

/// A snapshot being written.
pub struct SnapshotWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    name: SnapshotName,
    /// `None` once finished.
    packer: Option<Packer>,
    adler: Adler32,
    buffer: Vec<u8>,
}

impl SnapshotWriter {
    /// Starts a snapshot named by `zxid`, the last txn that is surely in it.
    pub fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        (zxid, compression): (Zxid, Compression),
        sessions: &[(SessionId, i32)],
        acls: &[(i64, Arc<[Acl]>)],
    ) -> Result<Self, SnapshotWriteError> {
        let name = SnapshotName { zxid, compression };
        let temporary = dir.join(name.temporary_name());
        let packer = remove_if_there(&*disk, &temporary)
            .and_then(|()| disk.create(&temporary))
            .and_then(|file| Packer::new(file, compression))
            .map_err(|source| SnapshotWriteError { path: name.path(dir), source })?;
        let mut buffer = HEADER.to_vec();
        encode_tables(sessions, acls, &mut buffer);
        Ok(SnapshotWriter {
            disk,
            dir: dir.to_owned(),
            name,
            packer: Some(packer),
            adler: Adler32::new(),
            buffer,
        })
    }

    /// Encodes a znode, in memory. The root comes first, with an empty path, and every parent
    /// before its children.
    pub fn encode_node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: &StatPersisted,
    ) {
        encode_node(path, data, acl_key, stat, &mut self.buffer);
    }

    /// Bytes encoded since the last spill.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Writes the encoded bytes to the disk.
    pub fn spill(&mut self, pace: &mut WritePace<'_>) -> Result<(), SnapshotWriteError> {
        self.try_spill(pace).map_err(|source| self.error(source))
    }

    /// Ends the snapshot and renames it to its final name.
    pub fn finish(
        mut self,
        trailer: &Trailer,
        pace: &mut WritePace<'_>,
    ) -> Result<SnapshotFile, SnapshotWriteError> {
        self.try_finish(trailer, pace).map_err(|source| self.error(source))
    }

    /// Ends the snapshot and makes it durable under its temporary name. Returns the file's length.
    pub(crate) fn seal_unnamed(
        mut self,
        trailer: &Trailer,
        pace: &mut WritePace<'_>,
    ) -> Result<u64, SnapshotWriteError> {
        self.try_complete(trailer, pace).map_err(|source| self.error(source))
    }

    fn try_spill(&mut self, pace: &mut WritePace<'_>) -> io::Result<()> {
        let packer = self.packer.as_mut().expect("not finished yet");
        for piece in self.buffer.chunks(PIECE_BYTES) {
            let before = packer.file_bytes();
            self.adler.write(piece);
            packer.write(piece)?;
            pace(packer.file_bytes() - before);
        }
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest and waits until everything is durable.
    fn try_complete(&mut self, trailer: &Trailer, pace: &mut WritePace<'_>) -> io::Result<u64> {
        encode_end(&mut self.buffer);
        self.seal(pace)?;
        if let Some(digest) = trailer.digest {
            self.buffer.put_long(digest.zxid.0);
            self.buffer.put_int(digest.version);
            self.buffer.put_long(digest.digest);
            self.seal(pace)?;
        }
        if let Some(zxid) = trailer.last_zxid {
            self.buffer.put_long(zxid.0);
            self.seal(pace)?;
        }
        self.try_spill(pace)?;
        let finished = self.packer.take().expect("not finished yet").finish();
        if finished.is_err() {
            self.remove_temporary();
        }
        finished
    }

    fn try_finish(
        &mut self,
        trailer: &Trailer,
        pace: &mut WritePace<'_>,
    ) -> io::Result<SnapshotFile> {
        let bytes = self.try_complete(trailer, pace)?;
        let path = self.name.path(&self.dir);
        let renamed = self.disk.rename(&self.temporary(), &path);
        if renamed.is_err() {
            self.remove_temporary();
        }
        renamed.and_then(|()| self.disk.sync_dir(&self.dir))?;
        Ok(SnapshotFile { name: self.name, path, bytes })
    }

    /// Appends the checksum of everything so far.
    fn seal(&mut self, pace: &mut WritePace<'_>) -> io::Result<()> {
        self.try_spill(pace)?;
        self.buffer.put_long(i64::from(self.adler.finish()));
        self.buffer.put_string(END_PATH);
        Ok(())
    }

    fn temporary(&self) -> PathBuf {
        self.dir.join(self.name.temporary_name())
    }

    fn remove_temporary(&self) {
        if let Err(error) = remove_if_there(&*self.disk, &self.temporary()) {
            tracing::warn!(path = %self.temporary().display(), %error, "cannot remove an unfinished snapshot");
        }
    }

    fn error(&self, source: io::Error) -> SnapshotWriteError {
        SnapshotWriteError { path: self.name.path(&self.dir), source }
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if self.packer.take().is_some() {
            self.remove_temporary();
        }
    }
}

/// Writes a snapshot of a tree that does not change: the first one of a fresh server, or a tool's.
pub fn write_snapshot(
    disk: Arc<dyn Disk>,
    dir: &Path,
    compression: Compression,
    tree: &Tree,
    last_zxid: LastZxid,
) -> Result<SnapshotFile, SnapshotWriteError> {
    let writer = write_nodes(disk, dir, compression, tree, &mut |_, _| {})?;
    writer.finish(&Trailer::of(tree, last_zxid), &mut |_| {})
}

/// Called with path and stat of each znode.
pub(crate) type ObserveZnode<'a> = dyn FnMut(&str, &StatPersisted) + 'a;

/// Writes an unchanging tree up to its last znode; only the trailer is missing.
pub(crate) fn write_nodes(
    disk: Arc<dyn Disk>,
    dir: &Path,
    compression: Compression,
    tree: &Tree,
    witness: &mut ObserveZnode<'_>,
) -> Result<SnapshotWriter, SnapshotWriteError> {
    let mut dump = Dump::start(tree);
    let head = (dump.zxid(), compression);
    let mut writer = SnapshotWriter::begin(disk, dir, head, dump.sessions(), dump.acls())?;
    let mut more = true;
    while more {
        more = dump.step(tree, STEP_NODES, &mut |path, data, acl_key, stat| {
            writer.encode_node(path, data, acl_key, stat);
            witness(path, stat);
        });
        writer.spill(&mut |_| {})?;
    }
    Ok(writer)
}
