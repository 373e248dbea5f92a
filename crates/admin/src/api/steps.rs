//! Long looks at the tree, a step at a time: each step holds the tree for a moment, and between two of
//! them other requests have their turn.

use std::sync::Arc;

use axum::http::StatusCode;
use herdsman_proto::Id;
use herdsman_server::ServerHandle;
use herdsman_tree::{StepLimit, Tree, TreeWalk, VisibleTree, VisitedZnode, WalkAction};

use crate::error::ApiError;

/// What is looked at while the tree is held.
pub(super) const STEP: StepLimit = StepLimit { znodes: 1000, bytes: 1 << 20 };

/// The tree of a server as somebody may see it, as long as it is the same tree.
#[derive(Clone, Debug)]
pub(super) struct Looker {
    server: ServerHandle,
    ids: Arc<[Id]>,
    generation: u64,
}

impl Looker {
    pub(super) fn new(server: &ServerHandle, ids: &Arc<[Id]>) -> Self {
        let _tree = server.core().tree();
        Looker {
            server: server.clone(),
            ids: Arc::clone(ids),
            generation: server.core().tree_generation(),
        }
    }

    /// Looks at the tree for a moment.
    ///
    /// # Errors
    /// The server has put another tree in its place, because it came back to an ensemble that had
    /// gone on, or because a backup was restored.
    pub(super) fn look<T>(&self, look: impl FnOnce(VisibleTree<'_>) -> T) -> Result<T, ApiError> {
        let tree = self.server.core().tree();
        if self.server.core().tree_generation() != self.generation {
            let message = "the server has taken over another tree meanwhile; ask again";
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "TreeReplaced", message));
        }
        let tree: &Tree = &tree;
        Ok(look(tree.visible_to(&self.ids)))
    }

    /// Lets others have their turn.
    pub(super) async fn pause(&self) {
        tokio::task::yield_now().await;
    }
}

/// A walk of a subtree as somebody may see it.
#[derive(Debug)]
pub(super) struct SteppedWalk {
    looker: Looker,
    walk: TreeWalk,
}

impl SteppedWalk {
    pub(super) fn start(
        server: &ServerHandle,
        ids: &Arc<[Id]>,
        path: &str,
    ) -> Result<Self, ApiError> {
        let looker = Looker::new(server, ids);
        let walk = looker.look(|sight| TreeWalk::start(sight, path))?;
        let walk = walk.map_err(|code| ApiError::refused(code, path))?;
        Ok(SteppedWalk { looker, walk })
    }

    /// Visits some znodes. False when there are no more.
    pub(super) async fn step(
        &mut self,
        visit: impl FnMut(VisitedZnode<'_>) -> WalkAction,
    ) -> Result<bool, ApiError> {
        self.step_by(STEP, visit).await
    }

    /// Visits znodes up to a limit. False when there are no more.
    pub(super) async fn step_by(
        &mut self,
        limit: StepLimit,
        mut visit: impl FnMut(VisitedZnode<'_>) -> WalkAction,
    ) -> Result<bool, ApiError> {
        self.looker.pause().await;
        self.walk.settle();
        let walk = &mut self.walk;
        self.looker.look(|sight| walk.step(sight, limit, &mut visit))
    }
}
