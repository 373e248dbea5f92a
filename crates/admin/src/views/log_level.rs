//! `GET` and `PUT /api/v1/log-level`: how much the process logs, `{"level":"info"}`.
//!
//! Changing it takes what a snapshot takes: credentials with all permissions on the root. A level can
//! make a server write so much that it has no room for anything else, so this is not for everybody.

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

/// No directive that anybody writes is longer.
const LEVEL_BYTES_MAX: usize = 1024;

/// A level.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    level: String,
}

/// The level of the moment.
pub async fn show(State(state): State<AdminState>) -> Json<Level> {
    Json(Level { level: state.server.log_level().get() })
}

/// Another level, from the next line on.
///
/// # Errors
/// Who asks may not, the process does not let it be changed, or it is no level; nothing is changed then.
pub(crate) async fn change(
    State(state): State<AdminState>,
    identity: Identity,
    JsonBody(Level { level }): JsonBody<Level>,
) -> Result<Json<Level>, ApiError> {
    check_access(&state, &identity)?;
    if level.len() > LEVEL_BYTES_MAX {
        let text = format!("a level is no longer than {LEVEL_BYTES_MAX} bytes");
        return Err(ApiError::bad_request(text));
    }
    let log_level = state.server.log_level();
    let before = log_level.get();
    log_level.set(&level).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let (level, who) = (log_level.get(), identity.user.as_deref().unwrap_or("?"));
    info!("the log level is {level:?} now, {before:?} before; {who} at {} asked", identity.peer);
    Ok(Json(Level { level }))
}

fn check_access(state: &AdminState, identity: &Identity) -> Result<(), ApiError> {
    if !identity.logged_in {
        let message = "log in to change the log level";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "LoginRequired", message));
    }
    access::authorize(&state.server, &identity.ids).map_err(|(status, _)| {
        let message = "this takes all permissions on the root znode";
        ApiError::new(status, "NoAuth", message)
    })
}
