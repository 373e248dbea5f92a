//! `GET` and `PUT /api/v1/log-level`: the log level of the process, `{"level":"info"}`.
//!
//! Changing it needs the same permissions as a snapshot: credentials with all permissions on the root. Some
//! levels make a server log so much that the disk fills up, so not every user may set them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::api::body::JsonBody;
use crate::commands::access;
use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;

/// Most bytes of a level; real directives are shorter.
const LEVEL_BYTES_MAX: usize = 1024;

/// A level.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    level: String,
}

/// Shows the present level.
pub async fn show(State(state): State<AdminState>) -> Json<Level> {
    Json(Level { level: state.server.log_level().get() })
}

/// Changes the level, from the next line on.
///
/// # Errors
/// Fails, without a change, if the caller may not change it, the level is fixed, or it is not a valid level.
pub(crate) async fn change(
    State(state): State<AdminState>,
    identity: Identity,
    JsonBody(Level { level }): JsonBody<Level>,
) -> Result<Json<Level>, ApiError> {
    check_access(&state, &identity)?;
    if level.len() > LEVEL_BYTES_MAX {
        let text = format!("a level has at most {LEVEL_BYTES_MAX} bytes");
        return Err(ApiError::bad_request(text));
    }
    let log_level = state.server.log_level();
    let before = log_level.get();
    log_level.set(&level).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let (level, who) = (log_level.get(), identity.user.as_deref().unwrap_or("?"));
    info!("log level changed from {before:?} to {level:?} by {who} at {}", identity.peer);
    Ok(Json(Level { level }))
}

fn check_access(state: &AdminState, identity: &Identity) -> Result<(), ApiError> {
    if !identity.logged_in {
        let message = "log in to change the log level";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "LoginRequired", message));
    }
    access::authorize(&state.server, &identity.ids).map_err(|(status, _)| {
        let message = "this needs all permissions on the root znode";
        ApiError::new(status, "NoAuth", message)
    })
}
