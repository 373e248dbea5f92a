//! `GET /api/v1/recipes[?path=/]`: the recipes in use, read from the tree.
//!
//! In: the tree as the asker may see it. Out: locks with their holders and waiters, elections, barriers,
//! queues, services, groups, and deadlocks between locks. Nothing is kept up to date in the background:
//! a look costs a walk of the tree, in steps that let writes in between. It ends after so many znodes,
//! one goes on at a time, and who asks the same within a second gets the same answer.
//!
//! * [`node`]: znodes as values.
//! * [`classify`]: what one directory is, pure.
//! * [`assemble`]: what directories are together, pure.
//! * [`deadlocks`]: who waits for whom, pure.
//! * [`walk`]: how directories come from the tree.

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
use herdsman_proto::{Id, path};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::rendered::Rendered;
use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;

/// How long an answer is good.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Answers that are kept; the oldest make room.
const KEPT_MAX: usize = 16;

/// Answers of the last moment, by who asked for what. Whoever holds it is the one who walks.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Vec<Answer>>);

#[derive(Debug)]
struct Answer {
    ids: Arc<[Id]>,
    path: String,
    at: Instant,
    recipes: Rendered,
}

/// What is asked for.
#[derive(Debug, Deserialize)]
pub struct Asked {
    /// Where to begin.
    path: Option<String>,
}

/// The recipes below a path.
///
/// # Errors
/// There is no such path, or it may not be read.
pub async fn recipes(
    State(state): State<AdminState>,
    identity: Identity,
    Query(asked): Query<Asked>,
) -> Result<Rendered, ApiError> {
    let top = asked.path.unwrap_or_else(|| path::ROOT.to_owned());
    if !path::is_valid(&top) {
        return Err(ApiError::bad_request(format!("{top:?} is not a path of a znode")));
    }
    // Before the lock, so that those who wait for it are counted, too.
    let permit = state.limits.blocking(identity.peer.ip())?;
    let mut kept = state.views.recipes.0.lock().await;
    kept.retain(|answer| answer.at.elapsed() < FRESH_FOR);
    let known = kept.iter().find(|known| known.ids == identity.ids && known.path == top);
    if let Some(known) = known {
        return Ok(known.recipes.clone());
    }
    let (server, ids, from) = (state.server.clone(), Arc::clone(&identity.ids), top.clone());
    let look = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let found = walk::look(&server, &ids, &from);
        Rendered::of(&found.map_err(|code| ApiError::refused(code, &from))?)
    });
    let found = look.await.map_err(|_| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Failed", "the tree could not be walked")
    })?;
    let recipes = found?;
    if kept.len() == KEPT_MAX {
        kept.remove(0);
    }
    let (ids, at) = (identity.ids, Instant::now());
    kept.push(Answer { ids, path: top, at, recipes: recipes.clone() });
    Ok(recipes)
}
