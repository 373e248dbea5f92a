//! createSession and closeSession.

use herdsman_proto::txn::Entry;
use herdsman_proto::{Txn, TxnHeader, path};

use super::Prepared;
use crate::overlay::Overlay;
use crate::tree::Tree;

impl Overlay {
    /// A new session.
    pub fn prepare_create_session(
        &mut self,
        tree: &Tree,
        header: TxnHeader,
        timeout_ms: i32,
    ) -> Prepared {
        Entry {
            header,
            txn: Txn::CreateSession { timeout_ms },
            digest: self.txn_digest(tree),
        }
    }

    /// The end of a session: its ephemerals, in the tree and in flight, are part of the txn.
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
        let listed = tree.options.close_session_lists_ephemerals;
        let ephemerals = listed.then(|| ephemerals.iter().map(|path| (**path).into()).collect());
        Entry {
            header,
            txn: Txn::CloseSession { ephemerals },
            digest: self.txn_digest(tree),
        }
    }
}
