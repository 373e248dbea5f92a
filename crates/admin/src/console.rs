//! Serves the console's files.
//!
//! In: `crates/admin/console`, embedded in the binary by the build. Out: `GET /` and `GET /console/…`.
//! Nothing is read from disk and nothing is generated at run time. File names have no version, so
//! browsers check each time whether their copy is current, and mostly get `304`.
//!
//! The data of the pages comes from `/api/v1`; this module knows nothing about the server.

mod assets;

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use self::assets::{ASSETS, Asset};
use crate::error::ApiError;
use crate::state::AdminState;

/// The routes of the console.
pub fn routes() -> Router<AdminState> {
    Router::new()
        .route("/", get(|headers: HeaderMap| async move { file("index.html", &headers) }))
        .route("/console/{*path}", get(one))
}

async fn one(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&path, &headers)
}

fn file(path: &str, headers: &HeaderMap) -> Response {
    let Some(at) = ASSETS.iter().position(|asset| asset.path == path) else {
        let message = format!("the console has no file `{path}`");
        return ApiError::new(StatusCode::NOT_FOUND, "NoFile", message).into_response();
    };
    let (asset, tag) = (&ASSETS[at], TAGS[at].as_str());
    let cache = [(ETAG, tag), (CACHE_CONTROL, "no-cache")];
    if is_known(headers, tag) {
        return (StatusCode::NOT_MODIFIED, cache).into_response();
    }
    (cache, [(CONTENT_TYPE, asset.content_type())], asset.bytes).into_response()
}

/// Whether the browser already has this version.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    known.is_some_and(|list| list.split(',').any(|one| one.trim().trim_start_matches("W/") == tag))
}

/// One tag for each asset, in the same order.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| ASSETS.iter().map(tag).collect());

fn tag(asset: &Asset) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(asset.bytes);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(known: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(known) = known {
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
        }
        headers
    }

    #[test]
    fn a_file_is_sent_once_and_then_cached() {
        let first = file("index.html", &headers(None));
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(first.headers()[CACHE_CONTROL], "no-cache");
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        let list = format!("\"other\", W/{tag}");
        assert_eq!(file("index.html", &headers(Some(&tag))).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(file("index.html", &headers(Some(&list))).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(file("js/main.js", &headers(Some(&tag))).status(), StatusCode::OK);
    }

    #[test]
    fn missing_files_are_not_found() {
        for path in ["", "js", "js/other.js", "../Cargo.toml", "js/../index.html"] {
            assert_eq!(file(path, &headers(None)).status(), StatusCode::NOT_FOUND, "{path}");
        }
    }
}
