//! The query string of a request.
//!
//! An unknown parameter is rejected: `verison=3` must not become a write without a version.

use axum::extract::{FromRequestParts, Query};
use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use axum::http::request::Parts;
use herdsman_proto::path;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, de::DeserializeOwned};

use crate::error::ApiError;

/// The parameters of a request.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Query(parameters) = Query::try_from_uri(&parts.uri).map_err(|rejection| {
            let text = rejection.body_text();
            let reason = text.split_once(": ").map_or(text.as_str(), |(_, reason)| reason);
            ApiError::bad_request(format!("the query is not valid: {reason}"))
        })?;
        Ok(Parameters(parameters))
    }
}

/// A valid path of a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZnodePath(String);

impl ZnodePath {
    pub(super) fn root() -> Self {
        ZnodePath(path::ROOT.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ZnodePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if path::is_valid(&text) {
            return Ok(ZnodePath(text));
        }
        Err(Error::custom(format!(
            "{text:?} is not a valid path of a znode: it must begin with /, not end with one, and have no \
             empty, . or .. part and no control characters"
        )))
    }
}

/// The parameters of a request for one znode.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfNode {
    pub(super) path: ZnodePath,
}

/// Matches any version.
pub(super) const ANY_VERSION: i32 = -1;

/// The version that a change expects: from the query, or from the header `If-Match`.
pub(super) fn expected_version(
    parameter: Option<i32>,
    headers: &HeaderMap,
) -> Result<i32, ApiError> {
    let Some(header) = headers.get(IF_MATCH) else {
        return Ok(parameter.unwrap_or(ANY_VERSION));
    };
    let text = header.to_str().unwrap_or_default().trim();
    let version = if text == "*" { Ok(ANY_VERSION) } else { text.trim_matches('"').parse() };
    match (version, parameter) {
        (Ok(version), None) => Ok(version),
        (Ok(version), Some(parameter)) if version == parameter => Ok(version),
        (Ok(_), Some(_)) => {
            Err(ApiError::bad_request("If-Match and the parameter version are different"))
        }
        (Err(_), _) => Err(ApiError::bad_request("If-Match is not a version, as in: If-Match: 3")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Uri;

    fn parse(query: &'static str) -> Result<String, String> {
        let uri = Uri::from_static(query);
        let parsed = Query::<OfNode>::try_from_uri(&uri);
        parsed.map(|query| query.0.path.0).map_err(|rejection| rejection.body_text())
    }

    #[test]
    fn paths_are_checked_and_unknown_parameters_rejected() {
        assert_eq!(parse("/?path=%2Fa%20b").unwrap(), "/a b");
        for wrong in ["/", "/?path=", "/?path=a", "/?path=/a/", "/?path=/a&pth=/b", "/?path=/a%00"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_version_may_come_from_the_header() {
        let version = |parameter, header: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            header.map(|header| headers.insert(IF_MATCH, header.parse().unwrap()));
            expected_version(parameter, &headers).ok()
        };
        assert_eq!(version(None, None), Some(-1));
        assert_eq!(version(Some(3), None), Some(3));
        assert_eq!(version(None, Some("\"3\"")), Some(3));
        assert_eq!(version(None, Some("*")), Some(-1));
        assert_eq!(version(Some(3), Some("3")), Some(3));
        assert_eq!(version(Some(3), Some("4")), None);
        assert_eq!(version(None, Some("three")), None);
    }
}
