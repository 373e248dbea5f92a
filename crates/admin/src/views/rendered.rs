//! JSON that is rendered once and may be sent to several callers.

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
    /// Renders a value.
    ///
    /// # Errors
    /// Fails if the value has no form in JSON, which does not happen in this crate.
    pub fn of(value: &impl Serialize) -> Result<Self, ApiError> {
        let text = serde_json::to_vec(value).map_err(|error| {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Failed", error.to_string())
        })?;
        Ok(Rendered(text.into()))
    }

    /// Makes a value and its text on a blocking thread, so that other requests, above all health checks,
    /// are answered meanwhile. The thread's permit is held until the response is counted.
    ///
    /// # Errors
    /// Fails if too many requests of this address are in progress or unread, or if `make` fails.
    pub(crate) async fn on_thread<T: Serialize>(
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

    /// The same for a value of about this size; a small one is made on this thread.
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
            true => Rendered::on_thread(state, address, || Ok(make())).await,
            false => Rendered::of(&make()).map(IntoResponse::into_response),
        }
    }
}

impl IntoResponse for Rendered {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}
