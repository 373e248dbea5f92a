//! The SASL login: the first words on a connection whose session stands.
//!
//! In: who we are, and the open connection. Out: both sides are who they say, or why not. Only DIGEST-MD5
//! is spoken here; its rules are in `herdsman-sasl`, this is how its tokens travel. Apache:
//! `ZooKeeperSaslClient`. How we differ: Apache's client takes a server that accepts the login without
//! a proof, and goes on without one if the server knows no SASL; we end.

use bytes::BytesMut;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{ErrorCode, Reader, Request, Xid};
use herdsman_sasl::SaslError;
use herdsman_sasl::digest_md5::{CHALLENGE_BYTES_MAX, Client, ClientSettings, ClientStep, Nonce};

use super::attach::{AttachError, read_frame};
use super::transport::Transport;
use crate::outgoing;

/// Requests are numbered from 1, so that this is nobody else's.
const LOGIN_XID: Xid = Xid(0);
/// The longest answer: a header, a length, and a token.
const ANSWER_BYTES_MAX: usize = ReplyHeader::BYTES + 4 + CHALLENGE_BYTES_MAX;

/// Why there is no login. All of these are final: the next server would say the same.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginFailure {
    #[error("the server refuses the SASL login of {username:?}: {answer}")]
    Refused { username: String, answer: String },
    #[error("the server takes no SASL logins; it needs a JAAS file with a section for its clients")]
    NotOffered,
    #[error("the SASL login failed: {0}")]
    Exchange(#[from] SaslError),
    #[error("there is no randomness for a SASL login: {0}")]
    NoRandomness(#[from] getrandom::Error),
}

/// Logs in, or says why not.
pub(super) async fn log_in(
    settings: &ClientSettings,
    transport: &mut Transport,
    received: &mut BytesMut,
) -> Result<(), AttachError> {
    let mut login = Client::new(settings.clone(), nonce()?);
    let username = &settings.credentials.username;
    let challenge = ask(transport, received, Client::OPENING, username).await?;
    if challenge.is_empty() {
        return Err(LoginFailure::NotOffered.into());
    }
    let mut token = challenge;
    loop {
        match login.step(&token).map_err(LoginFailure::from)? {
            ClientStep::Response(response) => {
                token = ask(transport, received, &response, username).await?;
            }
            ClientStep::Accepted => return Ok(()),
        }
    }
}

fn nonce() -> Result<Nonce, LoginFailure> {
    let mut random = [0; Nonce::RANDOM_BYTES];
    getrandom::fill(&mut random)?;
    Ok(Nonce::from_random(random))
}

/// Sends a token; the server's next one is the answer. No token is an empty one.
async fn ask(
    transport: &mut Transport,
    received: &mut BytesMut,
    token: &[u8],
    username: &str,
) -> Result<Vec<u8>, AttachError> {
    let mut bytes = Vec::new();
    outgoing::encode(&mut bytes, LOGIN_XID, &Request::Sasl { token }, usize::MAX)
        .map_err(std::io::Error::other)?;
    transport.send(&bytes).await?;
    let frame = read_frame(transport, received, ANSWER_BYTES_MAX).await?;
    let mut reader = Reader::new(&frame);
    let (xid, _, error) = ReplyHeader::decode(&mut reader)?;
    if xid != LOGIN_XID {
        let text = format!("the answer to request {} comes before that to the login", xid.0);
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, text).into());
    }
    match error {
        0 => Ok(reader.buffer()?.unwrap_or_default().to_vec()),
        code => {
            let answer = answer_text(code);
            Err(LoginFailure::Refused { username: username.to_owned(), answer }.into())
        }
    }
}

fn answer_text(code: i32) -> String {
    match ErrorCode::from_code(code) {
        Some(ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireAuth) => {
            "the user name or the password is wrong".to_owned()
        }
        _ => format!("error {code}"),
    }
}
