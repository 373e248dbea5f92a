//! Compares digests while a log is replayed. A digest that does not fit is reported and not an error,
//! since Apache's own bugs have made some. Apache: `DataTree.compareDigest`.

use herdsman_proto::Zxid;
use herdsman_proto::txn::TxnDigest;
use herdsman_tree::Tree;

use super::Base;

/// The tree does not have the digest that it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestMismatch {
    /// After which txn.
    pub zxid: Zxid,
    /// What the file says.
    pub expected: i64,
    /// What the tree has.
    pub found: i64,
}

/// Compares the tree's digest with the ones in the files, wherever that means something.
pub(super) struct DigestCheck {
    /// Before this txn the tree may be ahead of the log.
    from: Zxid,
    pub(super) mismatch: Option<DigestMismatch>,
}

impl DigestCheck {
    pub(super) fn new(base: &Base) -> Self {
        let mut check = DigestCheck { from: base.fuzzy_until(), mismatch: None };
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
        if !tree.options().digest || zxid < self.from || self.mismatch.is_some() {
            return;
        }
        if digest.tree_digest != tree.digest() {
            self.mismatch =
                Some(DigestMismatch { zxid, expected: digest.tree_digest, found: tree.digest() });
        }
    }
}
