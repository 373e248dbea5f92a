//! The SASL login: the first request on a connection after the handshake.
//!
//! In: the credentials, and the open connection. Out: both sides are authenticated, or an error. The rules of the
//! mechanisms are in `herdsman-sasl`; this module transports their tokens. Apache: `ZooKeeperSaslClient`. How we
//! differ: Apache's client trusts a server that accepts the login without a proof, and continues without a
//! login if the server does not support SASL; this client gives up.

use std::io;
use std::net::IpAddr;

use bytes::BytesMut;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{ErrorCode, JuteReader, Request, Xid};
use herdsman_sasl::digest_md5::{self, CHALLENGE_BYTES_MAX, ClientSettings, Nonce, Service};
use herdsman_sasl::gssapi::{self, GssapiError, Initiator};
use herdsman_sasl::{ClientLogin, ClientStep, SaslError};

use super::attach::{AttachError, read_frame};
use super::transport::Transport;
use crate::connect_string::HostPort;
use crate::request_queue;
use crate::sasl::SaslLogin;

/// The xid of login requests. Other requests are numbered from 1.
const LOGIN_XID: Xid = Xid(0);
/// The size of what precedes the token in a reply: a header and a length.
const REPLY_HEAD_BYTES: usize = ReplyHeader::BYTES + 4;

/// Why a login failed. All of these are final: the next server would reply the same.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginFailure {
    #[error("the server rejected the SASL login of {username:?}: {reason}")]
    Refused { username: String, reason: String },
    #[error("the server rejected the Kerberos login: {reason}")]
    KerberosRefused { reason: String },
    #[error(
        "the server does not accept SASL logins: it needs a JAAS file with a section for clients"
    )]
    NotOffered,
    #[error("the SASL login failed: {0}")]
    Exchange(SaslError),
    #[error("cannot get random bytes for a SASL login: {0}")]
    NoRandomness(#[from] getrandom::Error),
}

/// A realm whose servers do not respond now may respond later; everything else is final.
impl From<SaslError> for AttachError {
    fn from(error: SaslError) -> Self {
        match error {
            SaslError::Gssapi(error @ GssapiError::KdcUnreachable { .. }) => {
                io::Error::new(io::ErrorKind::TimedOut, error.to_string()).into()
            }
            error => LoginFailure::Exchange(error).into(),
        }
    }
}

/// Logs in.
pub(super) async fn log_in(
    settings: &SaslLogin,
    host: &HostPort,
    transport: &mut Transport,
    received: &mut BytesMut,
) -> Result<(), AttachError> {
    let (mut login, opening) = begin(settings, host, transport.peer).await?;
    let mut token = ask(transport, received, &opening, settings).await?;
    if token.is_empty() {
        return Err(LoginFailure::NotOffered.into());
    }
    loop {
        let step;
        (login, step) = advance(login, move |login| login.step(&token)).await?;
        match step {
            ClientStep::Response(response) => {
                token = ask(transport, received, &response, settings).await?;
            }
            ClientStep::Accepted => return Ok(()),
        }
    }
}

/// Starts a login; returns it and the first token to send.
async fn begin(
    settings: &SaslLogin,
    host: &HostPort,
    address: Option<IpAddr>,
) -> Result<(ClientLogin, Vec<u8>), AttachError> {
    match settings {
        SaslLogin::Password(credentials) => {
            let (service, credentials) = (Service::CLIENT_PORT, credentials.clone());
            let settings = ClientSettings { service, credentials };
            let login = ClientLogin::Digest(digest_md5::Client::new(settings, nonce()?));
            advance(login, ClientLogin::open).await
        }
        SaslLogin::Kerberos(settings) => {
            let (settings, host) = (settings.clone(), host.host().to_owned());
            may_wait(move || {
                let service = settings.servers.of(&host, address);
                let initiator = Initiator::new(&settings.keys, &service);
                let initiator = initiator.map_err(SaslError::from)?;
                let mut login = ClientLogin::Gssapi(gssapi::Client::new(initiator));
                let opening = login.open()?;
                Ok((login, opening))
            })
            .await
        }
    }
}

/// Runs a step of a login, for Kerberos on a blocking thread: it reads files and contacts servers of the realm.
async fn advance<T: Send + 'static>(
    mut login: ClientLogin,
    act: impl FnOnce(&mut ClientLogin) -> Result<T, SaslError> + Send + 'static,
) -> Result<(ClientLogin, T), AttachError> {
    match login {
        ClientLogin::Digest(_) => {
            let result = act(&mut login)?;
            Ok((login, result))
        }
        ClientLogin::Gssapi(_) => {
            may_wait(move || {
                let result = act(&mut login)?;
                Ok((login, result))
            })
            .await
        }
    }
}

/// Runs `act` on a thread that may block. After a timeout of the attempt it continues there; its maximum duration is
/// set in `krb5.conf`.
async fn may_wait<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, SaslError> + Send + 'static,
) -> Result<T, AttachError> {
    let result = tokio::task::spawn_blocking(act).await;
    Ok(result.map_err(io::Error::other)??)
}

fn nonce() -> Result<Nonce, LoginFailure> {
    let mut random = [0; Nonce::RANDOM_BYTES];
    getrandom::fill(&mut random)?;
    Ok(Nonce::from_random(random))
}

/// Sends a token and returns the server's next one, which is empty if the reply has none.
async fn ask(
    transport: &mut Transport,
    received: &mut BytesMut,
    token: &[u8],
    settings: &SaslLogin,
) -> Result<Vec<u8>, AttachError> {
    let mut bytes = Vec::new();
    request_queue::encode(&mut bytes, LOGIN_XID, &Request::Sasl { token }, usize::MAX)
        .map_err(io::Error::other)?;
    transport.send(&bytes).await?;
    let token_bytes_max = match settings {
        SaslLogin::Password(_) => CHALLENGE_BYTES_MAX,
        SaslLogin::Kerberos(_) => gssapi::TOKEN_BYTES_MAX,
    };
    let frame = read_frame(transport, received, REPLY_HEAD_BYTES + token_bytes_max).await?;
    let mut reader = JuteReader::new(&frame);
    let (xid, _, error) = ReplyHeader::decode(&mut reader)?;
    if xid != LOGIN_XID {
        let text = format!("reply to request {} instead of the login", xid.0);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
    }
    match error {
        0 => Ok(reader.buffer()?.unwrap_or_default().to_vec()),
        code => Err(refused(settings, code).into()),
    }
}

fn refused(settings: &SaslLogin, code: i32) -> LoginFailure {
    use ErrorCode::{AuthFailed, SessionClosedRequireAuth};
    let is_usual =
        matches!(ErrorCode::from_code(code), Some(AuthFailed | SessionClosedRequireAuth));
    let reason = |usual: &str| if is_usual { usual.to_owned() } else { format!("error {code}") };
    match settings {
        SaslLogin::Password(credentials) => LoginFailure::Refused {
            username: credentials.username.clone(),
            reason: reason("the user name or the password is wrong"),
        },
        SaslLogin::Kerberos(_) => LoginFailure::KerberosRefused { reason: reason("see its log") },
    }
}
