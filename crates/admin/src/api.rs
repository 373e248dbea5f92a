//! REST for znodes, under `/api/v1`.
//!
//! Reads are answered from this server's tree in its present state, with the permissions of the ids that
//! the request proves ([`crate::identity`]). Writes go through a session of the client port on behalf of
//! the caller (`crate::caller_sessions`). So nothing is allowed here that the client port would reject, and a
//! response means the same as there. A read after a write on the same server sees that write.
//!
//! Operations that may take long (znodes with many children, searches, exports) run in steps, each of
//! which locks the tree only briefly; other requests and all clients are served in between.
//!
//! The code map: `callers` checks who may read and write, `query` and `body` parse requests, `shapes`
//! are the forms of responses, `limits` bounds what runs concurrently, `steps` reads the tree in steps;
//! each other file has one group of routes.

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::get;

use crate::error::ApiError;
use crate::state::AdminState;

mod acl;
pub(crate) mod body;
mod callers;
mod children;
mod export;
pub(crate) mod limits;
mod multi;
mod needle;
mod node;
mod query;
mod recursive;
mod search;
mod shapes;
mod steps;
mod watch;
mod write;

/// The REST routes.
pub fn routes() -> Router<AdminState> {
    Router::new()
        .route("/whoami", get(node::who_am_i))
        .route("/node", get(node::show).post(write::create).put(write::set).delete(write::delete))
        .route("/children", get(children::list))
        .route("/acl", get(acl::show).put(acl::set))
        .route("/multi", axum::routing::post(multi::commit))
        .route("/search", get(search::search))
        .route("/watch", get(watch::watch))
        .route("/export", get(export::export))
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_such_route)
}

async fn no_such_route(uri: Uri) -> ApiError {
    let message = format!("there is no resource {} on this server", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "NoSuchRoute", message)
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not support the method {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "WrongMethod", message)
}
