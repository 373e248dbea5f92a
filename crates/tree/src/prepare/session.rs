//! createSession and closeSession.

use std::sync::Arc;

use herdsman_proto::txn::Entry;
use herdsman_proto::{Txn, TxnHeader, path};

use super::Prepared;
use crate::overlay::Overlay;
use crate::tree::Tree;

/// Room for a txn's header, the list's count and the digest.
const ENVELOPE_BYTES: usize = 64;

impl Overlay {
    /// Prepares a new session.
    pub fn prepare_create_session(
        &mut self,
        tree: &Tree,
        header: TxnHeader,
        timeout_ms: i32,
    ) -> Prepared {
        Entry { header, txn: Txn::CreateSession { timeout_ms }, digest: self.txn_digest(tree) }
    }

    /// Prepares the end of a session: its ephemerals, in the tree and in flight, are part of the txn.
    pub fn prepare_close_session(&mut self, tree: &Tree, header: TxnHeader) -> Prepared {
        let ephemerals = self.ephemerals(tree, header.session);
        for path in &ephemerals {
            let parent =
                path::split(path).and_then(|(parent, _)| Some((parent, self.get(tree, parent)?)));
            if let Some((parent_path, mut parent)) = parent {
                parent.stat.pzxid = header.zxid;
                parent.children -= 1;
                self.put(tree, header.zxid, parent_path, parent);
            }
            self.delete(tree, header.zxid, path);
        }
        self.settle_close(tree, header, &ephemerals)
    }

    /// A list that is too long for readers of the log is left out: a server that applies the txn then
    /// deletes what the session owns there, like servers before 3.6. Without a list there is no
    /// digest either, because its bytes could be read as a list.
    fn settle_close(&self, tree: &Tree, header: TxnHeader, paths: &[Arc<str>]) -> Prepared {
        let bytes: usize = paths.iter().map(|path| path.len() + 4).sum();
        let fits = bytes + ENVELOPE_BYTES <= tree.options.txn_bytes_max;
        if tree.options.close_session_lists_ephemerals && fits {
            let ephemerals = Some(paths.iter().map(|path| (**path).into()).collect());
            Entry { header, txn: Txn::CloseSession { ephemerals }, digest: self.txn_digest(tree) }
        } else {
            Entry { header, txn: Txn::CloseSession { ephemerals: None }, digest: None }
        }
    }
}
