//! Checks every request against attacks by pages of other sites, before any handler gets it.
//!
//! In: the head of a request. Out: the handler's response with security headers added, or an error. The
//! ACLs of znodes are checked later; this is only about pages of other sites that make a browser
//! inside the operator's network send requests to this port.
//!
//! - *A page of another site sends a request.* Browsers report that in `Origin` and `Sec-Fetch-Site`, and such
//!   requests are rejected, except for a link to the console's page. Requests that change something must
//!   also have a header that a plain form cannot send: `X-Herdsman: 1`, or a content type of JSON or bytes. There
//!   is no CORS, so the browser stops a page that tries to send these.
//! - *A page of another site has an image or a link that changes something,* because some of Apache's commands change
//!   something although they use GET ([`check_command`]). Without TLS browsers do not send `Sec-Fetch-Site`, so a
//!   browser must prove that its user intended the request; tools need not.
//! - *The name of another site is changed to this address* (DNS rebinding). So the REST interface and
//!   everything that changes something require a `Host` that is an address, `localhost` or a name from
//!   the settings. Other reads (Apache's commands, metrics) require that only of browsers, so that
//!   monitoring by host name works as with Apache, which checks nothing. Health checks never require it:
//!   some monitors send the same headers as browsers, and the response contains nothing worth reading.
//! - *Another site shows the console in a frame, or runs a script in it.* The headers forbid both.
//!
//! Not here: limits on bodies, which are checked where they are read (see `api::body`).

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName,
    HeaderValue, ORIGIN, REFERRER_POLICY, USER_AGENT, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;
use crate::health;
use crate::state::AdminState;

/// A header that no form and no plain link can send.
pub const INTENT_HEADER: HeaderName = HeaderName::from_static("x-herdsman");

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");
const PURPOSE: HeaderName = HeaderName::from_static("purpose");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

const CONTENT_POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The page that other sites may link to.
const CONSOLE: &str = "/";

/// Responses below this path depend on credentials.
const REST: &str = "/api/";

/// Middleware for all routes: passes a request on, or rejects it.
pub async fn guard(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    let is_rest = request.uri().path().starts_with(REST);
    let mut response = match check(&request, &state.settings.host_names) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    put_security_headers(response.headers_mut());
    if is_rest {
        // Data that was read with credentials must not be cached.
        response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

fn put_security_headers(headers: &mut HeaderMap) {
    let rows = [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in rows {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Checks the head of a request.
fn check(request: &Request, host_names: &[String]) -> Result<(), ApiError> {
    let headers = request.headers();
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    // By HTTP's rules, an authority in the target takes precedence over the header.
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = match authority {
        Some(authority) => Some(authority),
        None => headers.get(HOST).map(|host| host.to_str().unwrap_or("?")),
    };
    let path = request.uri().path();
    let is_strict =
        changes || path.starts_with(REST) || (is_browser(headers) && !health::is_check(path));
    if is_strict {
        check_host(host, host_names)?;
    }
    check_origin(headers, host)?;
    check_site(headers, !changes && path == CONSOLE)?;
    if changes { check_intent(headers) } else { Ok(()) }
}

/// Whether a browser sent this. A page cannot keep its browser from sending `Accept-Language`.
fn is_browser(headers: &HeaderMap) -> bool {
    let is_mozilla = |agent: &HeaderValue| agent.as_bytes().starts_with(b"Mozilla/");
    headers.contains_key(ACCEPT_LANGUAGE)
        || headers.contains_key(SEC_FETCH_SITE)
        || headers.contains_key(ORIGIN)
        || headers.get(USER_AGENT).is_some_and(is_mozilla)
}

/// Checks the host. A request without one is not from a browser: browsers always send it.
fn check_host(host: Option<&str>, host_names: &[String]) -> Result<(), ApiError> {
    let Some(host) = host else {
        return Ok(());
    };
    let name = host_name(host);
    let is_known = is_address(name)
        || name.eq_ignore_ascii_case("localhost")
        || host_names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_known {
        return Ok(());
    }
    Err(forbidden(
        "UnknownHost",
        "the request's Host is not a known name of this server; use its address, or \
         add the name to herdsman.admin.hostNames",
    ))
}

/// The name without a port and without the dot of the DNS root.
fn host_name(host: &str) -> &str {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn is_address(name: &str) -> bool {
    name.parse::<Ipv4Addr>().is_ok() || name.parse::<Ipv6Addr>().is_ok()
}

fn check_origin(headers: &HeaderMap, host: Option<&str>) -> Result<(), ApiError> {
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let from = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match (from, host) {
        (Some((_, from)), Some(host)) if from.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(forbidden("CrossSite", "the request comes from a page of another site")),
    }
}

/// Rejects requests from other sites, except for links to the console.
fn check_site(headers: &HeaderMap, shows_console: bool) -> Result<(), ApiError> {
    let is_from_elsewhere =
        headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site" || site == "same-site");
    let is_link = headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate");
    if is_from_elsewhere && !(is_link && shows_console) {
        return Err(forbidden("CrossSite", "the request comes from a page of another site"));
    }
    Ok(())
}

/// Rejects a command that changes something although it uses GET, if a browser sends it without evidence that its
/// user intended it: a request by a page of this server, or the header that only a script of this server can send.
/// `Sec-Fetch-Site: none` is not evidence: it stands for a typed address, but also for links in other programs.
/// Requests to preload a page are always rejected.
///
/// # Errors
/// Returns the reason for the rejection.
pub(crate) fn check_command(headers: &HeaderMap) -> Result<(), &'static str> {
    if headers.contains_key(SEC_PURPOSE) || headers.contains_key(PURPOSE) {
        return Err("this command changes something, and the browser only preloads it");
    }
    let is_own_page = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin");
    if !is_browser(headers) || is_own_page || headers.contains_key(INTENT_HEADER) {
        return Ok(());
    }
    Err("this command changes something, and a page of another site may have sent the request; \
         send the header `X-Herdsman: 1`, or use curl")
}

fn check_intent(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.contains_key(INTENT_HEADER) {
        return Ok(());
    }
    match headers.get(CONTENT_TYPE) {
        Some(kind) if is_media_type(kind, "application/json") => Ok(()),
        Some(kind) if is_media_type(kind, "application/octet-stream") => Ok(()),
        Some(_) => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "WrongContentType",
            "send the header `Content-Type: application/json`, or `X-Herdsman: 1`",
        )),
        None => Err(forbidden(
            "NoIntent",
            "requests that change something need the header `X-Herdsman: 1`, so that no page of \
             another site can send them",
        )),
    }
}

/// Whether a content type is this one, ignoring parameters.
pub(crate) fn is_media_type(value: &HeaderValue, wanted: &str) -> bool {
    let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(wanted)
}

fn forbidden(error: &str, message: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, error, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    /// Checks a request head, written as on the wire.
    fn status(head: &str) -> u16 {
        let mut lines = head.split(" | ");
        let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in lines.map(|line| line.split_once(": ").unwrap()) {
            request = request.header(name, value);
        }
        let request = request.body(Body::empty()).unwrap();
        let names = ["zk1.example.com".to_owned()];
        check(&request, &names).map_or_else(|error| error.status.as_u16(), |()| 200)
    }

    #[test]
    fn requests_are_checked_for_their_origin() {
        let rows = [
            // Tools.
            (200, "GET /commands/ruok | Host: zk7:8080"),
            (200, "GET /metrics"),
            (
                200,
                "GET /livez | Host: zk7:8080 | User-Agent: Mozilla/5.0+(compatible; UptimeRobot)",
            ),
            (200, "GET /readyz | Host: zk7:8080 | Accept-Language: en"),
            (403, "GET /livez | Host: zk7:8080 | Sec-Fetch-Site: cross-site"),
            (403, "PUT /livez | Host: zk7:8080 | X-Herdsman: 1"),
            (200, "GET /api/v1/node | Host: 10.0.0.1:8080"),
            (200, "GET /api/v1/node | Host: [::1]:8080"),
            (200, "GET /api/v1/node | Host: LOCALHOST"),
            (200, "GET /api/v1/node | Host: zk1.EXAMPLE.com.:8080"),
            (403, "GET /api/v1/node | Host: zk7:8080"),
            (403, "GET /api/v1/node | Host: zk1.example.com.evil.org"),
            (403, "GET http://evil.org/api/v1/node | Host: localhost"),
            // Changes.
            (
                200,
                "POST /commands/restore | Host: 1.2.3.4 | Content-Type: application/octet-stream",
            ),
            (200, "PUT /x | Host: localhost | Content-Type: Application/JSON; charset=utf-8"),
            (200, "DELETE /x | Host: localhost | X-Herdsman: 1"),
            (403, "DELETE /x | Host: localhost"),
            (415, "POST /x | Host: localhost | Content-Type: text/plain"),
            (415, "POST /x | Host: localhost | Content-Type: application/x-www-form-urlencoded"),
            (403, "POST /x | Host: zk7 | Content-Type: application/json"),
            // Browsers.
            (200, "GET / | Host: localhost:8080 | User-Agent: Mozilla/5.0"),
            (403, "GET /commands/mntr | Host: evil.org | User-Agent: Mozilla/5.0"),
            (403, "GET /commands/mntr | Host: evil.org | Accept-Language: en"),
            (403, "GET /commands/mntr | Host: localhost | Origin: http://evil.org"),
            (403, "GET /commands/mntr | Host: localhost | Origin: null"),
            (200, "PUT /x | Host: localhost:8080 | Origin: http://localhost:8080 | X-Herdsman: 1"),
            (403, "PUT /x | Host: localhost:8080 | Origin: http://localhost:9090 | X-Herdsman: 1"),
            (403, "PUT /x | Host: localhost | Origin: http://evil.org | X-Herdsman: 1"),
            (403, "PUT /x | Host: localhost | Sec-Fetch-Site: cross-site | X-Herdsman: 1"),
            (403, "PUT /x | Host: localhost | Sec-Fetch-Site: same-site | X-Herdsman: 1"),
            (200, "PUT /x | Host: localhost | Sec-Fetch-Site: same-origin | X-Herdsman: 1"),
            (403, "GET /commands/srst | Host: localhost | Sec-Fetch-Site: cross-site"),
            (
                200,
                "GET / | Host: localhost | Sec-Fetch-Site: cross-site | Sec-Fetch-Mode: navigate",
            ),
            (
                403,
                "GET /commands/mntr | Host: localhost | Sec-Fetch-Site: cross-site \
                 | Sec-Fetch-Mode: navigate",
            ),
            (403, "GET / | Host: localhost | Sec-Fetch-Site: cross-site | Sec-Fetch-Mode: cors"),
            (200, "GET /commands/mntr | Host: localhost | Sec-Fetch-Site: none"),
            (
                403,
                "POST / | Host: localhost | Sec-Fetch-Site: cross-site | Sec-Fetch-Mode: navigate \
                 | X-Herdsman: 1",
            ),
        ];
        for (expected, head) in rows {
            assert_eq!(status(head), expected, "{head}");
        }
    }
}
