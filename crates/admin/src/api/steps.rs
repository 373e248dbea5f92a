//! Reads the tree in steps: each step locks the tree only briefly, and between two steps other requests
//! are served.

use std::sync::Arc;

use axum::http::StatusCode;
use herdsman_proto::Id;
use herdsman_server::ServerHandle;
use herdsman_tree::{StepLimit, Tree, TreeWalk, VisibleTree, VisitedZnode, WalkAction};

use crate::error::ApiError;

/// The size of a step.
pub(super) const STEP: StepLimit = StepLimit { znodes: 1000, bytes: 1 << 20 };

/// Reads the tree with a caller's ids, while the server has the same tree.
#[derive(Clone, Debug)]
pub(super) struct TreeReader {
    server: ServerHandle,
    ids: Arc<[Id]>,
    generation: u64,
}

impl TreeReader {
    pub(super) fn new(server: &ServerHandle, ids: &Arc<[Id]>) -> Self {
        let _tree = server.core().tree();
        TreeReader {
            server: server.clone(),
            ids: Arc::clone(ids),
            generation: server.core().tree_generation(),
        }
    }

    /// Locks the tree and reads it.
    ///
    /// # Errors
    /// Fails if the server has replaced its tree, because it rejoined an ensemble that had
    /// continued without it, or because a backup was restored.
    pub(super) fn read<T>(&self, read: impl FnOnce(VisibleTree<'_>) -> T) -> Result<T, ApiError> {
        let tree = self.server.core().tree();
        if self.server.core().tree_generation() != self.generation {
            let message = "the server has replaced its tree meanwhile; send the request again";
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "TreeReplaced", message));
        }
        let tree: &Tree = &tree;
        Ok(read(tree.visible_to(&self.ids)))
    }

    /// Yields to other requests.
    pub(super) async fn pause(&self) {
        tokio::task::yield_now().await;
    }
}

/// A walk of a subtree with a caller's ids.
#[derive(Debug)]
pub(super) struct SteppedWalk {
    reader: TreeReader,
    walk: TreeWalk,
}

impl SteppedWalk {
    pub(super) fn start(
        server: &ServerHandle,
        ids: &Arc<[Id]>,
        path: &str,
    ) -> Result<Self, ApiError> {
        let reader = TreeReader::new(server, ids);
        let walk = reader.read(|visible| TreeWalk::start(visible, path))?;
        let walk = walk.map_err(|code| ApiError::refused(code, path))?;
        Ok(SteppedWalk { reader, walk })
    }

    /// Visits some znodes. Returns false when there are no more.
    pub(super) async fn step(
        &mut self,
        visit: impl FnMut(VisitedZnode<'_>) -> WalkAction,
    ) -> Result<bool, ApiError> {
        self.step_by(STEP, visit).await
    }

    /// Visits znodes up to a limit. Returns false when there are no more.
    pub(super) async fn step_by(
        &mut self,
        limit: StepLimit,
        mut visit: impl FnMut(VisitedZnode<'_>) -> WalkAction,
    ) -> Result<bool, ApiError> {
        self.reader.pause().await;
        self.walk.settle();
        let walk = &mut self.walk;
        self.reader.read(|visible| walk.step(visible, limit, &mut visit))
    }
}
