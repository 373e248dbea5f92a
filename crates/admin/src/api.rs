//! REST for znodes, under `/api/v1`.
//!
//! Reads are answered from the tree of this server, as it knows it at this moment, judged by the ids
//! that the request proves ([`crate::identity`]). Writes go through a session of the client port in
//! the name of who asks (`crate::stand_ins`). So nothing is open here that the client port would
//! refuse, and an answer means the same as there. A read after a write of the same server sees it.
//!
//! Whatever may take long (wide znodes, searches, exports) goes in steps, each of which holds the tree
//! for a moment only; other requests and all clients get in between.
//!
//! The code map: `callers` are who may read and write, `query` and `body` what a request says, `shapes`
//! what the answers look like, `limits` what may go on at once, `steps` long looks at the tree; the
//! rest has a file for each family of routes.

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

/// The routes of this room.
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
    let message = format!("there is no {} here", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "NoSuchRoute", message)
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not know the method {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "WrongMethod", message)
}
