//! JSON that is made once and sent to whoever asks within the next moment.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use crate::error::ApiError;
use crate::large_answers::{LARGE_BYTES, counted};
use crate::state::AdminState;

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

    /// Makes a value and its text on a thread for work that blocks, so that other requests, health checks above all,
    /// are answered meanwhile. The thread counts until the answer does.
    ///
    /// # Errors
    /// Too much is made for this address or waits to be read by it, or there is no such value.
    pub(crate) async fn aside<T: Serialize>(
        state: &AdminState,
        address: IpAddr,
        make: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let permit = state.limits.blocking(address)?;
        let limits = Arc::clone(&state.limits);
        let making = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let text = Rendered::of(&make()?)?;
            counted(&limits, address, text.into_response())
        });
        making.await.unwrap_or_else(|_| {
            let message = "the answer could not be made";
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Failed", message))
        })
    }

    /// The same for a value that takes about this many bytes; a small one is made at once.
    ///
    /// # Errors
    /// As above.
    pub(crate) async fn by_size<T: Serialize>(
        state: &AdminState,
        address: IpAddr,
        bytes: usize,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Response, ApiError> {
        match bytes > LARGE_BYTES {
            true => Rendered::aside(state, address, || Ok(make())).await,
            false => Rendered::of(&make()).map(IntoResponse::into_response),
        }
    }
}

impl IntoResponse for Rendered {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}
