//! Compares digests while a log is replayed: the resulting tree must be the one that the files were written from.
//! This detects a gap before a new epoch, which zxids do not show.
//!
//! A digest is compared under these conditions:
//! - It has our version, and digests are enabled.
//! - The snapshot is no longer fuzzy at that txn. If the end of a snapshot does not say up to where it is fuzzy
//!   (written before 3.6, or without a digest), a znode that was deleted meanwhile may be missing earlier than in the
//!   log. So a mismatch is dropped when a later digest matches: then the tree is correct, whatever was
//!   wrong before. What counts is the last digest of the log.
//!
//! Apache: `DataTree.compareDigest`, which reports a difference and goes on.

use std::fmt;

use herdsman_proto::Zxid;
use herdsman_proto::txn::TxnDigest;
use herdsman_tree::Tree;

use super::ReplayBase;

/// A digest of the tree that is not the one in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestMismatch {
    /// The txn after which it was computed.
    pub zxid: Zxid,
    /// The digest in the file.
    pub expected: i64,
    /// The digest of the tree.
    pub found: i64,
    /// The last txn before it whose digest matches.
    pub last_fit: Option<Zxid>,
    /// The first txn after it whose digest matches.
    pub healed_by: Option<Zxid>,
}

impl fmt::Display for DigestMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DigestMismatch { zxid, expected, found, .. } = self;
        write!(
            f,
            "after txn {zxid} the tree has digest {found:x}, but the files say {expected:x}"
        )?;
        match self.last_fit {
            Some(zxid) => write!(f, " (the last matching digest is that of txn {zxid})"),
            None => Ok(()),
        }
    }
}

/// Compares the tree's digest with the ones in the files, wherever they are comparable.
pub(super) struct DigestCheck {
    /// Before this txn the tree may be ahead of the log.
    from: Zxid,
    last_fit: Option<Zxid>,
    /// The first mismatch since the last match; or the last such one before a later match.
    pub(super) mismatch: Option<DigestMismatch>,
}

impl DigestCheck {
    pub(super) fn new(base: &ReplayBase) -> Self {
        let mut check = DigestCheck { from: base.fuzzy_until(), last_fit: None, mismatch: None };
        let snapshot = base.snapshot.as_ref();
        let in_snapshot = snapshot.and_then(|snapshot| snapshot.trailer.digest);
        if let Some(digest) = in_snapshot
            && digest.zxid > Zxid::ZERO
            && digest.zxid == base.tree.last_zxid()
        {
            let digest_in_txn = TxnDigest { version: digest.version, tree_digest: digest.digest };
            check.check(&base.tree, digest.zxid, Some(digest_in_txn));
        }
        check
    }

    pub(super) fn check(&mut self, tree: &Tree, zxid: Zxid, digest: Option<TxnDigest>) {
        let Some(digest) = digest.filter(|digest| digest.version == TxnDigest::VERSION) else {
            return;
        };
        if !tree.options().digest || zxid < self.from {
            return;
        }
        let (expected, found) = (digest.tree_digest, tree.digest());
        let open = self.mismatch.as_mut().filter(|mismatch| mismatch.healed_by.is_none());
        match (expected == found, open) {
            (true, Some(mismatch)) => mismatch.healed_by = Some(zxid),
            (false, None) => {
                let last_fit = self.last_fit;
                self.mismatch =
                    Some(DigestMismatch { zxid, expected, found, last_fit, healed_by: None });
            }
            (true, None) | (false, Some(_)) => {}
        }
        if expected == found {
            self.last_fit = Some(zxid);
        }
    }
}
