//! The server, which knows all passwords. Apache: `ZooKeeperSaslServer`, `SaslServerCallbackHandler` and
//! `SaslQuorumAuthServer`, around the JDK's `DigestMD5Server`.
//!
//! One difference from Apache's client port: a client that asks to act as another user (`authzid`) is
//! rejected, as on Apache's quorum ports; Apache's client port continues under the client's own name.

use std::sync::Arc;

use subtle::Choice;

use super::directives::{Directive, Directives, put, put_quoted, text};
use super::proof::{Charset, Proof, ProofInput, Proofs};
use super::{
    ALGORITHM, CHARSET, NONCE_COUNT, Nonce, QOP, RESPONSE_BYTES_MAX, Service, check_length,
};
use crate::exchange::{Accepted, AuthorizedId, ServerStep, shown};
use crate::{SaslError, Secret, Users};

/// Used in place of an unknown user's password, so that the server does the same work.
const DECOY_PASSWORD: &str = "decoy password";

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The service that clients log in to.
    pub service: Service,
    /// The users that may log in.
    pub users: Arc<Users>,
}

/// The server's side of one login.
#[derive(Debug)]
pub struct Server {
    settings: ServerSettings,
    nonce: Nonce,
    state: State,
}

#[derive(Debug)]
enum State {
    AwaitingStart,
    AwaitingResponse,
    Finished,
}

impl Server {
    /// Waits for a client. The nonce must not be used for another login.
    #[must_use]
    pub fn new(settings: ServerSettings, nonce: Nonce) -> Self {
        Server { settings, nonce, state: State::AwaitingStart }
    }

    /// Processes the client's next token. The first one only asks for a challenge; its content is ignored.
    pub fn step(&mut self, token: &[u8]) -> Result<ServerStep, SaslError> {
        // Any failure below is final: the nonce is not used for a second attempt.
        let state = std::mem::replace(&mut self.state, State::Finished);
        check_length(token, RESPONSE_BYTES_MAX)?;
        match state {
            State::AwaitingStart => {
                self.state = State::AwaitingResponse;
                Ok(ServerStep::Challenge(self.challenge()))
            }
            State::AwaitingResponse => self.verify(token).map(ServerStep::Accepted),
            State::Finished => Err(SaslError::Finished),
        }
    }

    /// Writes the JDK's directives in the JDK's order. It omits `qop`, whose default is `auth`.
    fn challenge(&self) -> Vec<u8> {
        let mut token = Vec::new();
        put_quoted(&mut token, Directive::Realm, self.settings.service.realm().as_bytes());
        put_quoted(&mut token, Directive::Nonce, self.nonce.as_bytes());
        put(&mut token, Directive::Charset, CHARSET.as_bytes());
        put(&mut token, Directive::Algorithm, ALGORITHM.as_bytes());
        token
    }

    fn verify(&self, token: &[u8]) -> Result<Accepted, SaslError> {
        let response = Directives::parse(token)?;
        self.check_terms(&response)?;
        let user = response.required_text(Directive::Username)?;
        let authzid = response.optional(Directive::Authzid)?;
        let input = ProofInput {
            // We offered UTF-8. As in the JDK, that decides it even if the client does not repeat it.
            charset: Charset::Utf8,
            user,
            realm: self.settings.service.realm(),
            nonce: self.nonce.as_bytes(),
            cnonce: response.required(Directive::Cnonce)?,
            // In the client's spelling, whose case may differ from ours.
            digest_uri: response.required(Directive::DigestUri)?,
            authzid,
        };
        let server_proof = self.check_proof(&input, response.required(Directive::Response)?)?;
        check_identity(user, authzid)?;
        let mut token = Vec::new();
        put(&mut token, Directive::Rspauth, server_proof.as_bytes());
        Ok(Accepted { id: AuthorizedId::new(user), token })
    }

    /// Checks that the response belongs to this exchange and uses its terms.
    fn check_terms(&self, response: &Directives) -> Result<(), SaslError> {
        let service = &self.settings.service;
        expect_if_present(response, Directive::Charset, CHARSET)?;
        // A realm was offered, so a response without one is as wrong as one with another realm.
        if response.optional(Directive::Realm)? != Some(service.realm().as_bytes()) {
            return Err(Directive::Realm.must_be(service.realm()));
        }
        if response.required(Directive::Nonce)? != self.nonce.as_bytes() {
            return Err(SaslError::OtherNonce);
        }
        expect_if_present(response, Directive::NonceCount, NONCE_COUNT)?;
        if response.optional(Directive::Qop)?.is_some_and(|qop| qop != QOP.as_bytes()) {
            return Err(SaslError::Protection);
        }
        let digest_uri = service.digest_uri();
        if !response.required(Directive::DigestUri)?.eq_ignore_ascii_case(digest_uri.as_bytes()) {
            return Err(Directive::DigestUri.must_be(&digest_uri));
        }
        Ok(())
    }

    /// Returns the server's own proof if the client's is right. An unknown user takes the same path as a
    /// wrong password and gets the same error.
    fn check_proof(&self, input: &ProofInput<'_>, sent: &[u8]) -> Result<Proof, SaslError> {
        let password = self.settings.users.password(input.user);
        let is_known = Choice::from(u8::from(password.is_some()));
        let decoy = Secret::new(DECOY_PASSWORD);
        let Proofs { of_client, of_server } = input.proofs(password.unwrap_or(&decoy))?;
        if bool::from(of_client.matches(sent) & is_known) {
            Ok(of_server)
        } else {
            Err(SaslError::WrongCredentials { user: shown(input.user) })
        }
    }
}

/// Checks that an identity, if one is given, is the proven one: acting for other users is not supported.
fn check_identity(user: &str, authzid: Option<&[u8]>) -> Result<(), SaslError> {
    let Some(authzid) = authzid else {
        return Ok(());
    };
    match text(Directive::Authzid, authzid)? {
        "" => Ok(()),
        asked if asked == user => Ok(()),
        _ => Err(SaslError::OtherIdentity { user: shown(user) }),
    }
}

fn expect_if_present(
    response: &Directives,
    directive: Directive,
    expected: &str,
) -> Result<(), SaslError> {
    match response.optional(directive)? {
        Some(value) if value != expected.as_bytes() => Err(directive.must_be(expected)),
        _ => Ok(()),
    }
}
