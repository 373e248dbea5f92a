//! The client, which has a ticket. Apache: `SecurityUtils.createSaslClient`, around the JDK's
//! `GssKrb5Client`.

use herdsman_gssapi::{Progress, SecurityContext};

use super::{check_length, layer};
use crate::SaslError;
use crate::exchange::ClientStep;

/// The client's side of one login.
#[derive(Debug)]
pub struct Client<Context> {
    context: Context,
    state: State,
}

#[derive(Debug)]
enum State {
    AwaitingStart,
    AwaitingToken,
    AwaitingOffer,
    /// All messages are exchanged; the server has yet to report whether the login succeeded.
    AwaitingResult,
    Finished,
}

impl<Context: SecurityContext> Client<Context> {
    /// Starts a login. The context must not have been stepped.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Client { context, state: State::AwaitingStart }
    }

    /// Returns the first token to send.
    pub fn open(&mut self) -> Result<Vec<u8>, SaslError> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::AwaitingStart => self.proceed(&[]),
            _ => Err(SaslError::Finished),
        }
    }

    /// Processes the server's next token, or the empty one that accompanies its result.
    pub fn step(&mut self, token: &[u8]) -> Result<ClientStep, SaslError> {
        check_length(token)?;
        match std::mem::replace(&mut self.state, State::Finished) {
            State::AwaitingToken => self.proceed(token).map(ClientStep::Response),
            State::AwaitingOffer => {
                layer::check_offer(&self.context.unwrap(token)?)?;
                self.state = State::AwaitingResult;
                Ok(ClientStep::Response(self.context.wrap(&layer::CHOICE)?))
            }
            State::AwaitingResult => Ok(ClientStep::Accepted),
            State::AwaitingStart | State::Finished => Err(SaslError::Finished),
        }
    }

    /// Steps the context. When the context has no token, an empty one is sent.
    fn proceed(&mut self, token: &[u8]) -> Result<Vec<u8>, SaslError> {
        let (token, next) = match self.context.step(token)? {
            Progress::Continue(token) => (token, State::AwaitingToken),
            Progress::Established(token) => (token.unwrap_or_default(), State::AwaitingOffer),
        };
        self.state = next;
        Ok(token)
    }
}
