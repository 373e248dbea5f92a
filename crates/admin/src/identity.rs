//! Authentication: the ids that a request proves.
//!
//! In: the `Authorization` header, the address of the peer, and the subject of the certificate that it
//! presented, if any. Out: an [`Identity`], which any handler can take as an argument. The ids are
//! those that a connection of the client port would have from the same address after `addauth`: the
//! address always, the certificate's subject, and what the credentials prove.
//!
//! Two forms are accepted: `Basic base64(user:password)`, which every HTTP tool can send and which means
//! the scheme `digest` here, and Apache's `<scheme> <auth>` (`AdminServer`: `digest user:password`).
//! Apache's `x509` scheme, with the certificate as its proof, is accepted but adds nothing here.
//! Nothing is stored between requests, so there are no cookies that another site could use; a browser
//! presents its certificate on its own, and the `guard` keeps other sites from using that.
//! Credentials are never logged and never part of an error.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use herdsman_proto::Id;
use herdsman_tree::auth::{DIGEST, IP, SUPER, Schemes, X509, ip_id};

use crate::error::ApiError;
use crate::settings::Writers;
use crate::state::AdminState;

/// The identity of a caller.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The proven ids, always including the address.
    pub ids: Arc<[Id]>,
    /// Whether the request proves more than its address.
    pub logged_in: bool,
    /// The address of the peer. IPv4-mapped addresses are IPv4 here.
    pub peer: SocketAddr,
    /// The name of the user who has logged in.
    pub user: Option<String>,
    /// The subject of the certificate that the peer presented.
    pub certificate: Option<CertificateSubject>,
    credentials: Option<Credentials>,
}

/// The subject of the certificate that the peer presented, in the form of ACLs. Every request of the
/// connection has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateSubject(pub Arc<str>);

/// The credentials of a request, to be presented to the client port too.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Credentials {
    pub(crate) scheme: String,
    pub(crate) secret: Bytes,
}

/// Keeps the secret out of logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl Identity {
    /// Determines the identity from a request's headers and its connection.
    ///
    /// # Errors
    /// Fails if no scheme of this server accepts the form of the credentials.
    pub fn prove(
        schemes: &Schemes,
        headers: &HeaderMap,
        peer: SocketAddr,
        certificate: Option<&CertificateSubject>,
    ) -> Result<Self, ApiError> {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let credentials = read_credentials(headers)?;
        let mut ids = vec![ip_id(peer.ip())];
        if let Some(CertificateSubject(subject)) = certificate {
            ids.extend(schemes.of_certificate(subject));
        }
        let credentials = credentials.filter(|credentials| credentials.scheme != X509);
        if let Some(credentials) = &credentials {
            ids.extend(authenticate(schemes, credentials, peer.ip())?);
        }
        let proven = ids.iter().find(|id| schemes.is_authenticated(id));
        Ok(Identity {
            user: proven.map(|id| schemes.user_name(id).to_owned()),
            logged_in: ids.iter().any(|id| id.scheme == SUPER || schemes.is_authenticated(id)),
            ids: ids.into(),
            peer,
            certificate: certificate.cloned(),
            credentials,
        })
    }

    /// Whether the caller may write at all; the ACLs decide about each znode.
    #[must_use]
    pub fn can_write(&self, writers: Writers) -> bool {
        match writers {
            Writers::Anybody => true,
            Writers::LoggedIn => self.logged_in,
            Writers::Nobody => false,
        }
    }

    /// Fails if the caller may not write at all.
    ///
    /// # Errors
    /// 401 if logging in would help, otherwise 403.
    pub fn check_writer(&self, writers: Writers) -> Result<(), ApiError> {
        if self.can_write(writers) {
            return Ok(());
        }
        Err(match writers {
            Writers::Nobody => ApiError::new(
                StatusCode::FORBIDDEN,
                "ReadOnly",
                "this admin server does not accept writes; see herdsman.admin.writers",
            ),
            Writers::LoggedIn | Writers::Anybody => ApiError::new(
                StatusCode::UNAUTHORIZED,
                "LoginRequired",
                "log in to write: send `Authorization: Basic …` or `digest user:password`",
            ),
        })
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }
}

impl FromRequestParts<AdminState> for Identity {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &AdminState,
    ) -> Result<Self, Self::Rejection> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        let peer = peer.ok_or_else(|| {
            let message = "the address of the client is not known";
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "NoPeer", message)
        })?;
        let certificate = parts.extensions.get::<CertificateSubject>();
        Identity::prove(state.server.schemes(), &parts.headers, peer, certificate)
    }
}

fn read_credentials(headers: &HeaderMap) -> Result<Option<Credentials>, ApiError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(ApiError::bad_request("there is more than one Authorization header"));
    }
    let wrong =
        || ApiError::bad_request("the Authorization header is not `<scheme> <credentials>`");
    let space = value.as_bytes().iter().position(|&byte| byte == b' ').ok_or_else(wrong)?;
    let (scheme, rest) = value.as_bytes().split_at(space);
    let scheme = std::str::from_utf8(scheme).map_err(|_| wrong())?.to_ascii_lowercase();
    let rest = rest.trim_ascii();
    let credentials = if scheme == "basic" {
        let secret = STANDARD.decode(rest).map_err(|_| {
            ApiError::bad_request("the Authorization header is Basic, but not base64")
        })?;
        Credentials { scheme: DIGEST.to_owned(), secret: secret.into() }
    } else {
        Credentials { scheme, secret: Bytes::copy_from_slice(rest) }
    };
    if credentials.scheme == DIGEST && !credentials.secret.contains(&b':') {
        return Err(ApiError::bad_request("the credentials are not user:password"));
    }
    Ok(Some(credentials))
}

fn authenticate(
    schemes: &Schemes,
    credentials: &Credentials,
    peer: IpAddr,
) -> Result<Vec<Id>, ApiError> {
    // Every connection proves its address.
    if credentials.scheme == IP {
        return Ok(Vec::new());
    }
    schemes.authenticate(&credentials.scheme, Some(&credentials.secret), peer).map_err(|_| {
        ApiError::bad_request(
            "this server does not support that scheme; send `Authorization: Basic …` or \
             `Authorization: digest user:password`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use herdsman_config::Secret;
    use herdsman_tree::auth::{DigestAlgorithm, X509Scheme, digest_id};

    fn prove(authorization: Option<&str>) -> Result<Identity, ApiError> {
        let super_digest = Some(Secret::new(digest_id("root:pw", DigestAlgorithm::Sha1)));
        let schemes = Schemes { super_digest, ..Schemes::default() };
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        Identity::prove(&schemes, &headers, "[::ffff:192.0.2.1]:7".parse().unwrap(), None)
    }

    #[test]
    fn a_certificate_is_a_login() {
        let schemes = Schemes { x509: Some(X509Scheme::default()), ..Schemes::default() };
        let ann = CertificateSubject("CN=ann".into());
        let peer = "192.0.2.1:7".parse().unwrap();
        let mut headers = HeaderMap::new();
        let silent = Identity::prove(&schemes, &headers, peer, Some(&ann)).unwrap();
        assert_eq!(*silent.ids, [Id::new("ip", "192.0.2.1"), Id::new("x509", "CN=ann")]);
        assert_eq!((silent.logged_in, silent.user.as_deref()), (true, Some("CN=ann")));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("x509 CN=eve"));
        let presented = Identity::prove(&schemes, &headers, peer, Some(&ann)).unwrap();
        assert_eq!((presented.ids, presented.credentials), (silent.ids, None));
        let anonymous = Identity::prove(&schemes, &headers, peer, None).unwrap();
        assert!(!anonymous.logged_in, "a name in a header proves nothing");
    }

    fn schemes_of(identity: &Identity) -> Vec<&str> {
        identity.ids.iter().map(|id| id.scheme.as_str()).collect()
    }

    #[test]
    fn the_address_is_always_proven() {
        let anonymous = prove(None).unwrap();
        assert_eq!(*anonymous.ids, [Id::new("ip", "192.0.2.1")]);
        assert!(!anonymous.logged_in && anonymous.user.is_none());
        assert_eq!(anonymous.peer.to_string(), "192.0.2.1:7");
        assert!(!prove(Some("ip x")).unwrap().logged_in);
    }

    #[test]
    fn both_forms_prove_the_same() {
        let apache = prove(Some("digest alice:s3:cret")).unwrap();
        let basic = format!("Basic {}", STANDARD.encode("alice:s3:cret"));
        let basic = prove(Some(&basic)).unwrap();
        assert_eq!(apache.ids, basic.ids);
        assert_eq!(apache.ids[1].id, digest_id("alice:s3:cret", DigestAlgorithm::Sha1));
        assert_eq!((basic.logged_in, basic.user.as_deref()), (true, Some("alice")));
        assert_eq!(apache.credentials(), basic.credentials());
    }

    #[test]
    fn the_super_user_is_known() {
        let root = prove(Some("digest root:pw")).unwrap();
        assert_eq!(schemes_of(&root), ["ip", "super", "digest"]);
        assert_eq!((root.logged_in, root.user.as_deref()), (true, Some("root")));
    }

    #[test]
    fn wrong_forms_are_rejected_without_repeating_them() {
        for wrong in
            ["digest", "digest secret", "Basic !secret", "Basic c2VjcmV0", "Bearer secret", ""]
        {
            let error = prove(Some(wrong)).unwrap_err();
            assert_eq!(error.status, StatusCode::BAD_REQUEST, "{wrong}");
            assert!(!error.message.contains("secret"), "{}", error.message);
        }
    }

    #[test]
    fn the_secret_is_not_shown() {
        let shown = format!("{:?}", prove(Some("digest alice:hidden")).unwrap());
        assert!(!shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn rejected_writers_learn_what_would_help() {
        let (anonymous, alice) = (prove(None).unwrap(), prove(Some("digest alice:x")).unwrap());
        let status = |identity: &Identity, writers| {
            identity.check_writer(writers).err().map(|error| error.status.as_u16())
        };
        assert_eq!(status(&anonymous, Writers::LoggedIn), Some(401));
        assert_eq!(status(&anonymous, Writers::Anybody), None);
        assert_eq!(status(&alice, Writers::LoggedIn), None);
        assert_eq!(status(&alice, Writers::Nobody), Some(403));
    }
}
