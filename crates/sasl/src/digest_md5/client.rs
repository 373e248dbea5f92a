//! The client, which knows one password. Apache: `ZooKeeperSaslClient` and `SaslQuorumAuthLearner`, around
//! the JDK's `DigestMD5Client`.
//!
//! Unlike Apache's client it sends neither `authzid` (which would only repeat the user name) nor `maxbuf`
//! (which has no meaning with qop `auth`).

use std::fmt;

use super::directives::{Directive, Directives, put, put_quoted, text};
use super::proof::{Charset, Proof, ProofInput, Proofs};
use super::{
    ALGORITHM, CHALLENGE_BYTES_MAX, CHARSET, NONCE_COUNT, Nonce, QOP, RESPONSE_BYTES_MAX, Service,
    check_length,
};
use crate::exchange::ClientStep;
use crate::{Credentials, SaslError};

/// Configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The service to log in to.
    pub service: Service,
    /// The user name and password.
    pub credentials: Credentials,
}

/// The client's side of one login.
#[derive(Debug)]
pub struct Client {
    settings: ClientSettings,
    cnonce: Nonce,
    state: State,
}

enum State {
    AwaitingChallenge,
    AwaitingProof { of_server: Proof },
    Finished,
}

impl Client {
    /// The client's first token. In this mechanism the server sends the first real token, but in
    /// ZooKeeper's protocols the client has to ask for it.
    pub const OPENING: &'static [u8] = &[];

    /// Waits for the server's challenge. The nonce must not be used for another login.
    #[must_use]
    pub fn new(settings: ClientSettings, cnonce: Nonce) -> Self {
        Client { settings, cnonce, state: State::AwaitingChallenge }
    }

    /// Processes the server's next token.
    pub fn step(&mut self, token: &[u8]) -> Result<ClientStep, SaslError> {
        let state = std::mem::replace(&mut self.state, State::Finished);
        check_length(token, CHALLENGE_BYTES_MAX)?;
        match state {
            State::AwaitingChallenge => self.answer(token).map(ClientStep::Response),
            State::AwaitingProof { of_server } => {
                let last = Directives::parse(token)?;
                if bool::from(of_server.matches(last.required(Directive::Rspauth)?)) {
                    Ok(ClientStep::Accepted)
                } else {
                    Err(SaslError::UnprovenServer)
                }
            }
            State::Finished => Err(SaslError::Finished),
        }
    }

    fn answer(&mut self, token: &[u8]) -> Result<Vec<u8>, SaslError> {
        let challenge = Directives::parse(token)?;
        let charset = check_terms(&challenge)?;
        let realm = chosen_realm(&challenge, charset)?;
        let digest_uri = self.settings.service.digest_uri();
        let input = ProofInput {
            charset,
            user: &self.settings.credentials.username,
            realm: &realm,
            nonce: challenge.required(Directive::Nonce)?,
            cnonce: self.cnonce.as_bytes(),
            digest_uri: digest_uri.as_bytes(),
            authzid: None,
        };
        let Proofs { of_client, of_server } = input.proofs(&self.settings.credentials.password)?;
        let response = write_response(&input, &of_client)?;
        check_length(&response, RESPONSE_BYTES_MAX)?;
        self.state = State::AwaitingProof { of_server };
        Ok(response)
    }
}

/// Checks that the server's terms are supported, and returns the charset.
fn check_terms(challenge: &Directives) -> Result<Charset, SaslError> {
    let charset = match challenge.optional(Directive::Charset)? {
        None => Charset::Latin1,
        Some(charset) if charset == CHARSET.as_bytes() => Charset::Utf8,
        Some(_) => return Err(Directive::Charset.must_be(CHARSET)),
    };
    if challenge.required(Directive::Algorithm)? != ALGORITHM.as_bytes() {
        return Err(Directive::Algorithm.must_be(ALGORITHM));
    }
    let offered = challenge.optional(Directive::Qop)?.unwrap_or(QOP.as_bytes());
    if !offered.split(|&byte| byte == b',').any(|qop| qop.trim_ascii() == QOP.as_bytes()) {
        return Err(SaslError::Protection);
    }
    Ok(charset)
}

/// Returns the first realm that the server offers; an empty one if it offers none.
fn chosen_realm(challenge: &Directives, charset: Charset) -> Result<String, SaslError> {
    let Some(realm) = challenge.all(Directive::Realm).next() else {
        return Ok(String::new());
    };
    match charset {
        Charset::Utf8 => text(Directive::Realm, realm).map(Into::into),
        Charset::Latin1 => Ok(realm.iter().copied().map(char::from).collect()),
    }
}

/// Writes the JDK's directives in the JDK's order.
fn write_response(input: &ProofInput<'_>, proof: &Proof) -> Result<Vec<u8>, SaslError> {
    let mut token = Vec::new();
    if input.charset == Charset::Utf8 {
        put(&mut token, Directive::Charset, CHARSET.as_bytes());
    }
    put_quoted(&mut token, Directive::Username, &input.charset.encode(input.user)?);
    if !input.realm.is_empty() {
        put_quoted(&mut token, Directive::Realm, &input.charset.encode(input.realm)?);
    }
    put_quoted(&mut token, Directive::Nonce, input.nonce);
    put(&mut token, Directive::NonceCount, NONCE_COUNT.as_bytes());
    put_quoted(&mut token, Directive::Cnonce, input.cnonce);
    put_quoted(&mut token, Directive::DigestUri, input.digest_uri);
    put(&mut token, Directive::Response, proof.as_bytes());
    put(&mut token, Directive::Qop, QOP.as_bytes());
    Ok(token)
}

/// Shows the state only: the expected proof must not be visible before the server sends it.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::AwaitingChallenge => "AwaitingChallenge",
            State::AwaitingProof { .. } => "AwaitingProof",
            State::Finished => "Finished",
        })
    }
}
