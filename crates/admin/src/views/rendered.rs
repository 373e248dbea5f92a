//! JSON that is made once and sent to whoever asks within the next moment.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use crate::error::ApiError;

/// JSON as text. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rendered(Bytes);

impl Rendered {
    /// Of some value.
    ///
    /// # Errors
    /// It has no form in JSON, which nothing in this crate should come to.
    pub fn of(value: &impl Serialize) -> Result<Self, ApiError> {
        let text = serde_json::to_vec(value).map_err(|error| {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Failed", error.to_string())
        })?;
        Ok(Rendered(text.into()))
    }
}

impl IntoResponse for Rendered {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}
