//! `GET /api/v1/recipes[?path=/]`: the recipes in use, read from the tree.
//!
//! In: the tree with the caller's permissions. Out: locks with their holders and waiters, elections, barriers,
//! queues, services, groups, and deadlocks between locks. Nothing is updated in the background: a request
//! walks the tree, in steps between which writes proceed. The walk ends after a number of znodes, only one
//! walk runs at a time, and the same request within a second gets the same response.
//!
//! * [`node`]: znodes as values.
//! * [`classify`]: which recipe uses one directory, pure.
//! * [`assemble`]: recipes with several directories, pure.
//! * [`deadlocks`]: the wait-for graph, pure.
//! * [`walk`]: reads directories from the tree.

pub mod assemble;
pub mod classify;
pub mod deadlocks;
pub mod model;
pub mod node;
mod walk;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use herdsman_proto::{Id, path};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::rendered::Rendered;
use crate::error::ApiError;
use crate::identity::Identity;
use crate::large_answers::counted;
use crate::state::AdminState;

/// How long a response is cached.
const CACHE_TIME: Duration = Duration::from_secs(1);
/// Most cached responses; the oldest are dropped.
const CACHED_MAX: usize = 16;

/// Recent responses, by caller and request. The walking thread holds the lock to its end, even if its client
/// has left.
#[derive(Debug, Default)]
pub struct RecipesCache(Arc<Mutex<Vec<Answer>>>);

#[derive(Debug)]
struct Answer {
    ids: Arc<[Id]>,
    path: String,
    at: Instant,
    recipes: Rendered,
}

/// The query parameters.
#[derive(Debug, Deserialize)]
pub struct RecipesQuery {
    /// The path at which to begin.
    path: Option<String>,
}

/// The recipes below a path.
///
/// # Errors
/// Fails if the path does not exist, or may not be read.
pub async fn recipes(
    State(state): State<AdminState>,
    identity: Identity,
    Query(asked): Query<RecipesQuery>,
) -> Result<Response, ApiError> {
    let top = asked.path.unwrap_or_else(|| path::ROOT.to_owned());
    if !path::is_valid(&top) {
        return Err(ApiError::bad_request(format!("{top:?} is not a valid path of a znode")));
    }
    // Before the lock, so that requests that wait for it are counted, too.
    let permit = state.limits.blocking(identity.peer.ip())?;
    let mut kept = Arc::clone(&state.views.recipes.0).lock_owned().await;
    kept.retain(|answer| answer.at.elapsed() < CACHE_TIME);
    let known = kept.iter().find(|known| known.ids == identity.ids && known.path == top);
    if let Some(known) = known {
        return Ok(known.recipes.clone().into_response());
    }
    let look = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let found = walk::read_recipes(&state.server, &identity.ids, &top);
        let recipes = Rendered::of(&found.map_err(|code| ApiError::refused(code, &top))?)?;
        if kept.len() == CACHED_MAX {
            kept.remove(0);
        }
        let (ids, at) = (identity.ids, Instant::now());
        kept.push(Answer { ids, path: top, at, recipes: recipes.clone() });
        counted(&state.limits, identity.peer.ip(), recipes.into_response())
    });
    look.await.unwrap_or_else(|_| {
        let message = "the tree could not be walked";
        Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Failed", message))
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::mpsc;

    use axum::http::HeaderMap;
    use herdsman_testing::TestServer;

    use super::*;
    use crate::settings::AdminSettings;

    /// The next walk used to begin as soon as the client of this one had left.
    #[test]
    fn a_walk_whose_client_has_left_is_the_only_one_until_it_ends() {
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        runtime.block_on(async {
            let blocked = tokio::task::spawn_blocking(move || ended.recv());
            let peer = SocketAddr::from(([10, 0, 0, 1], 1));
            let identity =
                Identity::prove(state.server.schemes(), &HeaderMap::new(), peer, None).unwrap();
            let asked = Query(RecipesQuery { path: None });
            let mut asking = Box::pin(recipes(State(state.clone()), identity, asked));
            assert!(futures_util::poll!(&mut asking).is_pending());
            drop(asking);
            let kept = || state.views.recipes.0.try_lock();
            assert!(kept().is_err());
            drop(end);
            _ = blocked.await;
            // The only blocking thread works in order, so the walk has ended after this.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert_eq!(kept().unwrap().len(), 1);
        });
    }
}
