//! Authorization of the commands that copy or replace everything: the caller needs all permissions on the root.
//! Apache: `Commands.handleAuthentication`, `handleAuthorization`.
//!
//! In: `Authorization: <scheme> <auth>` (`digest user:password`, or `ip` or `x509` alone), or HTTP's own
//! `Basic`, which stands for `digest`; without the header, the certificate that the client presented. Out:
//! success, or a status and Apache's message. Each permission is checked separately: an ACL that grants one
//! of them must not allow the operation (CVE-2025-58457).

use std::net::{IpAddr, SocketAddr};

use axum::extract::rejection::ExtensionRejection;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use herdsman_proto::{Id, Perms};
use herdsman_server::ServerHandle;
use herdsman_tree::acl_list::ProvenIds;
use herdsman_tree::auth::{DIGEST, X509};

use crate::identity::CertificateSubject;

/// A status and a message.
pub(crate) type Refusal = (StatusCode, &'static str);

const NOT_AUTHENTICATED: Refusal = (StatusCode::UNAUTHORIZED, "Not authenticated");

const EACH_PERMISSION: [Perms; 5] =
    [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];

/// The caller: the headers of the request, and what its connection has proven.
pub(super) struct Caller {
    headers: HeaderMap,
    peer: SocketAddr,
    certificate: Option<CertificateSubject>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let ConnectInfo(peer) = ConnectInfo::from_request_parts(parts, state).await?;
        let certificate = parts.extensions.get().cloned();
        Ok(Caller { headers: parts.headers.clone(), peer, certificate })
    }
}

impl Caller {
    pub(super) fn address(&self) -> IpAddr {
        self.peer.ip()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The ids that the certificate proves.
    fn certified(&self, server: &ServerHandle) -> Option<Vec<Id>> {
        let CertificateSubject(subject) = self.certificate.as_ref()?;
        Some(server.schemes().of_certificate(subject))
    }
}

/// Fails unless the caller has all permissions on the root.
pub(super) fn check(server: &ServerHandle, caller: &Caller) -> Result<(), Refusal> {
    let missing = (StatusCode::UNAUTHORIZED, "Auth info is missing for the command");
    let ids = match caller.headers.get(AUTHORIZATION) {
        None => caller.certified(server).ok_or(missing)?,
        Some(header) => {
            let header = header.to_str().map_err(|_| NOT_AUTHENTICATED)?;
            authenticate(server, header, caller).ok_or(NOT_AUTHENTICATED)?
        }
    };
    authorize(server, &ids)
}

fn authenticate(server: &ServerHandle, header: &str, caller: &Caller) -> Option<Vec<Id>> {
    let mut parts = header.split(' ');
    let (scheme, auth) = (parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    if scheme.eq_ignore_ascii_case(X509) {
        // The name in the header is ignored; the certificate counts.
        return caller.certified(server).filter(|ids| !ids.is_empty());
    }
    let credentials = auth.map(|auth| auth.as_bytes().to_vec());
    let (scheme, credentials) = if scheme.eq_ignore_ascii_case("basic") {
        (DIGEST, Some(STANDARD.decode(credentials?).ok()?))
    } else {
        (scheme, credentials)
    };
    let ids =
        server.schemes().authenticate(scheme, credentials.as_deref(), caller.peer.ip()).ok()?;
    (!ids.is_empty()).then_some(ids)
}

/// Fails unless these ids have all permissions on the root.
pub(crate) fn authorize(server: &ServerHandle, ids: &[Id]) -> Result<(), Refusal> {
    let tree = server.core().tree();
    let acl = tree.root_acl();
    let ids = ProvenIds::new(ids);
    let is_allowed = |&perm: &Perms| tree.check_acl(acl, perm, &ids).is_ok();
    if EACH_PERMISSION.iter().all(is_allowed) {
        Ok(())
    } else {
        Err((StatusCode::FORBIDDEN, "Not authorized"))
    }
}
