//! Who may read and who may write, as arguments of handlers: taken before anything else of a request
//! is read, so that a refusal costs nothing.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;

/// Who asks for something, while the server serves. The ACLs decide what is shown.
pub(super) struct Reader(pub(super) Identity);

/// Who asks for a change, and may ask for changes at all. The ACLs decide what is done.
pub(super) struct Writer(pub(super) Identity);

impl FromRequestParts<AdminState> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        let identity = Identity::from_request_parts(parts, state).await?;
        check_serving(state)?;
        Ok(Reader(identity))
    }
}

impl FromRequestParts<AdminState> for Writer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        let identity = Identity::from_request_parts(parts, state).await?;
        identity.check_writer(state.settings.writers)?;
        check_serving(state)?;
        Ok(Writer(identity))
    }
}

fn check_serving(state: &AdminState) -> Result<(), ApiError> {
    if state.server.is_serving() { Ok(()) } else { Err(ApiError::not_serving()) }
}
