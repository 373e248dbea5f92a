//! The body of a request: JSON, of limited size, within limited time.
//!
//! Invalid JSON is rejected with the position of the error, and so is an unknown field. A body that is too
//! large is rejected before it is read if its length is given, and at the limit if not; nothing of it is
//! used. The total size of large bodies is limited (`limits`). Data is text, or base64 if it is not text.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{ConnectInfo, FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::limits::Permit;
use crate::error::ApiError;
use crate::guard::is_media_type;
use crate::state::AdminState;

/// How long a body may take to arrive.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(30);
/// Room for everything except data.
const EXTRA_BYTES_MAX: usize = 64 << 10;

/// The body of a request.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AdminState> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AdminState) -> Result<Self, ApiError> {
        let is_json = |kind| is_media_type(kind, "application/json");
        if !request.headers().get(CONTENT_TYPE).is_none_or(is_json) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "WrongContentType",
                "the body must be JSON: send the header `Content-Type: application/json`",
            ));
        }
        // Base64 takes 4/3 of the data, text with many line ends and quotes nearly twice.
        let frame_bytes_max = state.server.config().limits.frame_bytes_max as usize;
        let bytes_max = frame_bytes_max.saturating_mul(2).saturating_add(EXTRA_BYTES_MAX);
        let _room = reserve_room(&request, state, bytes_max)?;
        let bytes = read(request.into_body(), bytes_max).await?;
        parse(&bytes).map(JsonBody)
    }
}

/// Counts a large body among those in memory. A body without a length counts as the largest.
fn reserve_room(
    request: &Request,
    state: &AdminState,
    bytes_max: usize,
) -> Result<Option<Permit>, ApiError> {
    let declared = request.body().size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = declared.unwrap_or(bytes_max).min(bytes_max);
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    match peer {
        Some(ConnectInfo(peer)) if bytes > EXTRA_BYTES_MAX => {
            state.limits.body(peer.ip(), bytes).map(Some)
        }
        _ => Ok(None),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes.trim_ascii_start() };
    // serde would also accept a list of the fields' values, and an empty one as all defaults.
    if !bytes.starts_with(b"{") {
        return Err(ApiError::bad_request("the body is not a JSON object"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("the body is not valid: {error}")))
}

async fn read(body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let late = |_| {
        let message = "the body did not arrive in time";
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "TooSlow", message)
    };
    tokio::time::timeout(ARRIVAL_TIME_MAX, read_to_end(body, bytes_max)).await.map_err(late)?
}

async fn read_to_end(body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut pieces = body.into_data_stream();
    let mut bytes = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| ApiError::bad_request("the body ended too early"))?;
        if bytes.len() + piece.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

fn too_large(bytes_max: usize) -> ApiError {
    let message = format!("the body is larger than {bytes_max} bytes; see jute.maxbuffer");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", message)
}

/// The data of a body: from text, from base64, or `None`.
pub(super) fn data_of(
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Bytes>, ApiError> {
    match (text, base64) {
        (Some(_), Some(_)) => {
            Err(ApiError::bad_request("the body has both data and data_base64; send one of them"))
        }
        (Some(text), None) => Ok(Some(Bytes::from(text))),
        (None, Some(coded)) => match STANDARD.decode(coded) {
            Ok(data) => Ok(Some(Bytes::from(data))),
            Err(error) => Err(ApiError::bad_request(format!("data_base64: {error}"))),
        },
        (None, None) => Ok(None),
    }
}
