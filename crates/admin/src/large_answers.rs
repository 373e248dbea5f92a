//! Limits the memory of large responses: each counts from when it is made until its last byte is passed to the system.
//!
//! A thread that makes a large response counts it ([`counted`]) before it ends and the next may begin, so that none
//! waits uncounted for the thread that serves all requests; other large responses are counted there ([`count`]).
//!
//! A client that requests much and reads slowly keeps the whole response in memory. The total for all clients, and for
//! each network, is limited (`api::limits`); beyond the limit requests get 429. Only reads are counted: an error says
//! that nothing was done, but a write has been applied by the time there is a response.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::api::limits::{Limits, Permit};
use crate::error::ApiError;

/// Larger responses are counted, and made on a blocking thread.
pub(crate) const LARGE_BYTES: usize = 64 << 10;

/// Middleware for routes with large responses: counts the response, or rejects it.
pub(crate) async fn count(
    State(limits): State<Arc<Limits>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let is_read = *request.method() == Method::GET;
    let response = next.run(request).await;
    match peer {
        Some(peer) if is_read => {
            counted(&limits, peer.ip(), response).unwrap_or_else(IntoResponse::into_response)
        }
        _ => response,
    }
}

/// Counts a response if it is large and not counted yet.
///
/// # Errors
/// Fails if too many bytes are still unread, by this address or by all.
pub(crate) fn counted(
    limits: &Limits,
    address: IpAddr,
    response: Response,
) -> Result<Response, ApiError> {
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let is_counted = response.extensions().get::<IsCounted>().is_some();
    let Some(bytes) = bytes.filter(|bytes| *bytes > LARGE_BYTES && !is_counted) else {
        return Ok(response);
    };
    let permit = Arc::new(limits.answer(address, bytes)?);
    let mut response = response.map(|body| Body::new(CountedBody { body, permit }));
    response.extensions_mut().insert(IsCounted);
    Ok(response)
}

/// Marks a response whose body is counted.
#[derive(Clone, Copy)]
struct IsCounted;

/// A counted body.
struct CountedBody {
    body: Body,
    permit: Arc<Permit>,
}

/// A piece of the body, which is still counted while it waits to be written after the body was dropped.
struct CountedPiece {
    piece: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for CountedPiece {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let permit = Arc::clone(&self.permit);
        let counted =
            |piece| Bytes::from_owner(CountedPiece { piece, _permit: Arc::clone(&permit) });
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use futures_util::StreamExt;
    use tower_service::Service;

    /// A slow reader used to keep any number of responses in memory.
    #[tokio::test]
    async fn large_answers_count_until_they_are_written() {
        let large = || async { vec![b'x'; 4 << 20] };
        let mut routes: Router = Router::new()
            .route("/large", get(large).put(large))
            .route("/small", get(|| async { vec![b'x'; LARGE_BYTES] }))
            .layer(from_fn_with_state(Arc::default(), count));
        let mut ask = async |method: Method, path: &str, host: u8| {
            let request = Request::builder().method(method).uri(path);
            let peer = SocketAddr::from(([10, 0, 0, host], 1));
            let request = request.extension(ConnectInfo(peer)).body(Body::empty()).unwrap();
            routes.call(request).await.unwrap()
        };
        let mut pieces = Vec::new();
        for _ in 0..4 {
            let answer = ask(Method::GET, "/large", 1).await;
            assert_eq!(answer.status(), 200);
            // This drops the body; only the piece still waits to be written.
            pieces.push(answer.into_body().into_data_stream().next().await.unwrap().unwrap());
        }
        assert_eq!(ask(Method::GET, "/large", 1).await.status(), 429);
        assert_eq!(ask(Method::GET, "/small", 1).await.status(), 200);
        assert_eq!(ask(Method::GET, "/large", 2).await.status(), 200);
        assert_eq!(ask(Method::PUT, "/large", 1).await.status(), 200, "the write has been applied");
        drop(pieces.pop());
        assert_eq!(ask(Method::GET, "/large", 1).await.status(), 200);
    }
}
