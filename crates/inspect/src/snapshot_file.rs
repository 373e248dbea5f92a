//! Reads a snapshot of any name, compressed or not.
//!
//! In: a file. Out: its parts, or a whole tree and its trailer.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use herdsman_proto::Zxid;
use herdsman_proto::txn::TxnDigest;
use herdsman_store::names::SnapshotName;
use herdsman_store::snapshot::reader::{
    ReadProgress, SnapshotError, SnapshotFault, SnapshotSummary, SnapshotVisitor,
    detect_compression, read_snapshot_at,
};
use herdsman_store::{RealDisk, Trailer};
use herdsman_tree::{Loader, Tree, TreeOptions};

use crate::show::OWNER_RULES;

/// The options of trees that are only inspected.
pub(crate) fn tree_options() -> TreeOptions {
    TreeOptions { owner_rules: OWNER_RULES, ..TreeOptions::default() }
}

/// The snapshot name of a file, if a server would read it as a snapshot.
pub(crate) fn snapshot_name(path: &Path) -> Option<SnapshotName> {
    path.file_name()?.to_str().and_then(SnapshotName::parse)
}

/// An error of reading a snapshot.
pub(crate) enum SnapshotReadError {
    /// The file cannot be read at all, or is something else.
    Other(anyhow::Error),
    /// It has a snapshot's header, and is damaged.
    Damaged(SnapshotError),
}

impl From<SnapshotReadError> for anyhow::Error {
    fn from(error: SnapshotReadError) -> Self {
        match error {
            SnapshotReadError::Other(error) => error,
            SnapshotReadError::Damaged(error) => error.into(),
        }
    }
}

/// Reads a snapshot to its end.
pub(crate) fn read_parts(
    path: &Path,
    visitor: &mut dyn SnapshotVisitor,
    progress: &mut ReadProgress<'_>,
) -> Result<SnapshotSummary, SnapshotReadError> {
    let compression = detect_compression(&RealDisk, path)
        .with_context(|| format!("cannot read {}", path.display()))
        .map_err(SnapshotReadError::Other)?;
    let Some(compression) = compression else {
        let text = format!("{}: not a snapshot ({})", path.display(), magic_text(path));
        return Err(SnapshotReadError::Other(anyhow!(text)));
    };
    read_snapshot_at(&RealDisk, path, compression, visitor, progress)
        .map_err(SnapshotReadError::Damaged)
}

/// Describes the first bytes of a file, where a snapshot has its magic number.
fn magic_text(path: &Path) -> String {
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    match read {
        Ok(()) => format!("bad magic 0x{:08x}", u32::from_be_bytes(magic)),
        Err(_) => "shorter than 4 bytes".to_owned(),
    }
}

/// A snapshot in memory.
pub(crate) struct LoadedSnapshot {
    /// The tree; its zxid is `as_of`.
    pub(crate) tree: Tree,
    /// The rest of the file: trailer and sizes.
    pub(crate) summary: SnapshotSummary,
    /// The zxid in its name, if it has one.
    pub(crate) named: Option<Zxid>,
    /// The last txn of which some znode shows an effect.
    pub(crate) newest_effect: Zxid,
    /// The last txn of which there may be an effect: by name, trailer and znodes.
    pub(crate) as_of: Zxid,
}

/// The result of comparing the digest in a snapshot's trailer with its znodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigestVerdict {
    /// There is no digest, or one of a version that is not computed here.
    Absent,
    /// It is the digest of the znodes.
    Fits,
    /// It differs, and may differ: the snapshot was taken during writes, and the log completes it.
    Fuzzy,
    /// It differs although no write was in progress: something is wrong.
    Differs {
        /// The digest in the file.
        expected: i64,
        /// The digest of its znodes.
        found: i64,
    },
}

impl LoadedSnapshot {
    /// Reads a snapshot into a tree.
    pub(crate) fn load(
        path: &Path,
        progress: &mut ReadProgress<'_>,
    ) -> Result<Self, SnapshotReadError> {
        let mut loader = Loader::new(tree_options());
        let summary = read_parts(path, &mut loader, progress)?;
        let newest_effect = loader.newest_effect();
        let named = snapshot_name(path).map(|name| name.zxid);
        let as_of = summary.trailer.fuzzy_until(named.unwrap_or(Zxid::ZERO)).max(newest_effect);
        let tree = loader.finish(as_of).map_err(|fault| {
            let fault = SnapshotFault::from(fault);
            SnapshotReadError::Damaged(SnapshotError { path: path.to_owned(), offset: 0, fault })
        })?;
        Ok(LoadedSnapshot { tree, summary, named, newest_effect, as_of })
    }

    /// A tree that was built from an archive, as a snapshot of it would be.
    pub(crate) fn of_tree(tree: Tree) -> Self {
        let (as_of, nodes) = (tree.last_zxid(), tree.node_count() as u64);
        let summary = SnapshotSummary { trailer: Trailer::default(), nodes, file_bytes: 0 };
        LoadedSnapshot { tree, summary, named: None, newest_effect: as_of, as_of }
    }

    /// Whether it was taken during writes, so that only the log makes it complete.
    pub(crate) fn is_fuzzy(&self) -> bool {
        match self.digest_verdict() {
            DigestVerdict::Fuzzy => true,
            DigestVerdict::Absent => self.named.is_some_and(|named| named < self.newest_effect),
            DigestVerdict::Fits | DigestVerdict::Differs { .. } => false,
        }
    }

    /// Compares the digest in the trailer with that of the znodes.
    pub(crate) fn digest_verdict(&self) -> DigestVerdict {
        let Some(digest) = self.summary.trailer.digest else {
            return DigestVerdict::Absent;
        };
        if digest.version != TxnDigest::VERSION || digest.zxid == Zxid::ZERO {
            return DigestVerdict::Absent;
        }
        if digest.digest == self.tree.digest() {
            return DigestVerdict::Fits;
        }
        if self.named.is_none_or(|named| named < digest.zxid) {
            return DigestVerdict::Fuzzy;
        }
        DigestVerdict::Differs { expected: digest.digest, found: self.tree.digest() }
    }
}
