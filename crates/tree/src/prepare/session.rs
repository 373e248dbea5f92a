//! createSession and closeSession, and the txns before a closeSession that would be too large.

use std::sync::Arc;

use herdsman_proto::txn::Entry;
use herdsman_proto::{SessionId, Txn, TxnHeader, path};

use super::Prepared;
use crate::overlay::Overlay;
use crate::tree::Tree;

/// Room for a txn's header, the list's count and the digest.
const ENVELOPE_BYTES: usize = 64;

/// The timeout of a session that is ending. Servers that do not know its meaning end the session at once when they
/// begin to lead.
const ENDING_MS: i32 = -1;

/// Bytes of the paths after which a txn that deletes ephemerals lists no further one.
const PATHS_BYTES_MAX: usize = 128 * 1024;

/// Some ephemerals that a session will own when everything in flight is applied.
struct FirstEphemerals {
    /// Their paths, in order.
    paths: Vec<Arc<str>>,
    /// Whether there are no others.
    is_complete: bool,
}

impl Tree {
    /// Whether the end of this session has begun: it will be closed, and some of its ephemerals may be deleted.
    #[must_use]
    pub fn is_ending(&self, session: SessionId) -> bool {
        self.session_timeout_ms(session) == Some(ENDING_MS)
    }

    /// The open sessions whose end has begun, in order of their ids.
    pub fn ending_sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions()
            .filter(|(_, timeout_ms)| *timeout_ms == ENDING_MS)
            .map(|(session, _)| session)
    }
}

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

    /// Prepares the mark that the end of an open session has begun: see [`Tree::is_ending`]. It has the form of a
    /// createSession, which other implementations apply too, and snapshots contain it.
    pub fn prepare_session_ending(&mut self, tree: &Tree, header: TxnHeader) -> Prepared {
        self.prepare_create_session(tree, header, ENDING_MS)
    }

    /// Whether the end of a session deletes so few ephemerals that one txn is enough.
    #[must_use]
    pub fn closes_in_one_txn(&self, tree: &Tree, session: SessionId, count_max: usize) -> bool {
        self.first_ephemerals(tree, session, count_max).is_complete
    }

    /// Prepares the deletion of some ephemerals of a session that is ending: at most this many, and at least one if
    /// there is one. The txn has the form of a multi; the header is that of a server's own txn.
    pub fn prepare_session_step(
        &mut self,
        tree: &Tree,
        header: TxnHeader,
        session: SessionId,
        count_max: usize,
    ) -> Prepared {
        let FirstEphemerals { paths, .. } = self.first_ephemerals(tree, session, count_max.max(1));
        self.delete_ephemerals(tree, header, &paths);
        let deletion = |path: &Arc<str>| Txn::Delete { path: (**path).into(), container: false };
        let txn = Txn::Multi(paths.iter().map(deletion).collect());
        Entry { header, txn, digest: self.txn_digest(tree) }
    }

    /// Prepares the end of a session: its ephemerals, in the tree and in flight, are part of the txn.
    pub fn prepare_close_session(&mut self, tree: &Tree, header: TxnHeader) -> Prepared {
        let unlimited = [usize::MAX; 2];
        let FirstEphemerals { paths, .. } = self.ephemerals_within(tree, header.session, unlimited);
        self.delete_ephemerals(tree, header, &paths);
        self.settle_close(tree, header, &paths)
    }

    fn first_ephemerals(
        &self,
        tree: &Tree,
        session: SessionId,
        count_max: usize,
    ) -> FirstEphemerals {
        let bytes_max = PATHS_BYTES_MAX.min(tree.options.txn_bytes_max / 2);
        self.ephemerals_within(tree, session, [count_max, bytes_max])
    }

    fn ephemerals_within(
        &self,
        tree: &Tree,
        session: SessionId,
        [count_max, bytes_max]: [usize; 2],
    ) -> FirstEphemerals {
        let mut first = FirstEphemerals { paths: Vec::new(), is_complete: true };
        let mut bytes = 0;
        for path in self.ephemerals(tree, session) {
            bytes += path.len();
            if first.paths.len() >= count_max || (bytes > bytes_max && !first.paths.is_empty()) {
                first.is_complete = false;
                break;
            }
            first.paths.push(Arc::clone(path));
        }
        first.paths.sort_unstable();
        first
    }

    /// Records the deletion of ephemerals. Siblings that follow each other change their parent once.
    fn delete_ephemerals(&mut self, tree: &Tree, header: TxnHeader, paths: &[Arc<str>]) {
        for siblings in paths.chunk_by(|one, other| parent_of(one) == parent_of(other)) {
            let parent_path = siblings.first().and_then(|path| parent_of(path));
            let parent = parent_path.and_then(|path| Some((path, self.get(tree, path)?)));
            if let Some((parent_path, mut parent)) = parent {
                parent.stat.pzxid = header.zxid;
                parent.children -= siblings.len();
                self.put(tree, header.zxid, parent_path, parent);
            }
            for path in siblings {
                self.delete(tree, header.zxid, path);
            }
        }
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

fn parent_of(path: &str) -> Option<&str> {
    path::split(path).map(|(parent, _)| parent)
}
