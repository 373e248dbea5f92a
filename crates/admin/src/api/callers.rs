//! Checks who may read and who may write, as arguments of handlers: before anything else of a request is
//! read, so that a rejection costs nothing.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;

/// A caller who reads, while the server is serving. The ACLs decide what is shown.
pub(super) struct ReadAccess(pub(super) Identity);

/// A caller who may write at all. The ACLs decide about each znode.
pub(super) struct WriteAccess(pub(super) Identity);

impl FromRequestParts<AdminState> for ReadAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        let identity = Identity::from_request_parts(parts, state).await?;
        check_serving(state)?;
        Ok(ReadAccess(identity))
    }
}

impl FromRequestParts<AdminState> for WriteAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        let identity = Identity::from_request_parts(parts, state).await?;
        identity.check_writer(state.settings.writers)?;
        check_serving(state)?;
        Ok(WriteAccess(identity))
    }
}

fn check_serving(state: &AdminState) -> Result<(), ApiError> {
    if state.server.is_serving() { Ok(()) } else { Err(ApiError::not_serving()) }
}
