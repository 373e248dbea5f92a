//! The side that knows all passwords. Apache: `ZooKeeperSaslServer`, `SaslServerCallbackHandler` and
//! `SaslQuorumAuthServer`, around the JDK's `DigestMD5Server`.
//!
//! We differ from Apache's client port in one thing: a client that asks to act as somebody else
//! (`authzid`) is refused, as Apache's quorum ports do, where Apache's client port goes on under the
//! client's own name.

use std::sync::Arc;

use subtle::Choice;

use super::directives::{Directive, Directives, put, put_quoted, text};
use super::proof::{Bound, Charset, Proof, Proofs};
use super::{
    ALGORITHM, CHARSET, NONCE_COUNT, Nonce, QOP, RESPONSE_BYTES_MAX, Service, check_length,
};
use crate::exchange::{Accepted, AuthorizedId, ServerStep, shown};
use crate::{SaslError, Secret, Users};

/// Stands in for the password of a user that does not exist, so that the work is the same.
const NOBODYS_PASSWORD: &str = "nobody's password";

/// What a server is set up with.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// What clients log in to.
    pub service: Service,
    /// Who may.
    pub users: Arc<Users>,
}

/// One login, seen from the server.
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
    Over,
}

impl Server {
    /// Awaits a client. The nonce must be used for this login alone.
    #[must_use]
    pub fn new(settings: ServerSettings, nonce: Nonce) -> Self {
        Server { settings, nonce, state: State::AwaitingStart }
    }

    /// Takes the client's next token. The first one only asks for a challenge; what it holds is not
    /// looked at.
    pub fn step(&mut self, token: &[u8]) -> Result<ServerStep, SaslError> {
        // Whatever goes wrong below, there is no second try with the same nonce.
        let state = std::mem::replace(&mut self.state, State::Over);
        check_length(token, RESPONSE_BYTES_MAX)?;
        match state {
            State::AwaitingStart => {
                self.state = State::AwaitingResponse;
                Ok(ServerStep::Challenge(self.challenge()))
            }
            State::AwaitingResponse => self.judge(token).map(ServerStep::Accepted),
            State::Over => Err(SaslError::Over),
        }
    }

    /// The JDK's directives in the JDK's order. It leaves out `qop`, which means `auth`.
    fn challenge(&self) -> Vec<u8> {
        let mut token = Vec::new();
        put_quoted(&mut token, Directive::Realm, self.settings.service.realm().as_bytes());
        put_quoted(&mut token, Directive::Nonce, self.nonce.as_bytes());
        put(&mut token, Directive::Charset, CHARSET.as_bytes());
        put(&mut token, Directive::Algorithm, ALGORITHM.as_bytes());
        token
    }

    fn judge(&self, token: &[u8]) -> Result<Accepted, SaslError> {
        let response = Directives::parse(token)?;
        self.check_terms(&response)?;
        let user = response.required_text(Directive::Username)?;
        let authzid = response.optional(Directive::Authzid)?;
        let bound = Bound {
            // We offered UTF-8. As in the JDK, that settles it even if the client does not repeat it.
            charset: Charset::Utf8,
            user,
            realm: self.settings.service.realm(),
            nonce: self.nonce.as_bytes(),
            cnonce: response.required(Directive::Cnonce)?,
            // In the client's spelling, which may differ from ours in case.
            digest_uri: response.required(Directive::DigestUri)?,
            authzid,
        };
        let server_proof = self.check_proof(&bound, response.required(Directive::Response)?)?;
        check_identity(user, authzid)?;
        let mut token = Vec::new();
        put(&mut token, Directive::Rspauth, server_proof.as_bytes());
        Ok(Accepted { id: AuthorizedId::new(user), token })
    }

    /// Whether the client speaks of the same exchange, in the same terms.
    fn check_terms(&self, response: &Directives) -> Result<(), SaslError> {
        let service = &self.settings.service;
        expect_if_present(response, Directive::Charset, CHARSET)?;
        // A realm was offered, so a response without one is as wrong as another realm.
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

    /// The server's own proof, if the client's is right. An unknown user takes the same way as a wrong
    /// password, to the same answer.
    fn check_proof(&self, bound: &Bound<'_>, sent: &[u8]) -> Result<Proof, SaslError> {
        let password = self.settings.users.password(bound.user);
        let is_known = Choice::from(u8::from(password.is_some()));
        let decoy = Secret::new(NOBODYS_PASSWORD);
        let Proofs { of_client, of_server } = bound.proofs(password.unwrap_or(&decoy))?;
        if bool::from(of_client.is(sent) & is_known) {
            Ok(of_server)
        } else {
            Err(SaslError::WrongCredentials { user: shown(bound.user) })
        }
    }
}

/// Nobody acts for others: an identity may be named, but only the one that was proven.
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
