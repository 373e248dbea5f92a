//! The side with a ticket. Apache: `SecurityUtils.createSaslClient`, around the JDK's `GssKrb5Client`.

use herdsman_gssapi::{Progress, SecurityContext};

use super::{check_length, layer};
use crate::SaslError;
use crate::exchange::ClientStep;

/// One login, seen from the client.
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
    /// All is said; the server has yet to say whether it lets us in.
    AwaitingVerdict,
    Over,
}

impl<Context: SecurityContext> Client<Context> {
    /// Has said nothing yet. The context must not have been stepped.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Client { context, state: State::AwaitingStart }
    }

    /// What is sent first.
    pub fn open(&mut self) -> Result<Vec<u8>, SaslError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::AwaitingStart => self.proceed(&[]),
            _ => Err(SaslError::Over),
        }
    }

    /// Takes the server's next token, or the empty one that comes with its verdict.
    pub fn step(&mut self, token: &[u8]) -> Result<ClientStep, SaslError> {
        check_length(token)?;
        match std::mem::replace(&mut self.state, State::Over) {
            State::AwaitingToken => self.proceed(token).map(ClientStep::Response),
            State::AwaitingOffer => {
                layer::check_offer(&self.context.unwrap(token)?)?;
                self.state = State::AwaitingVerdict;
                Ok(ClientStep::Response(self.context.wrap(&layer::CHOICE)?))
            }
            State::AwaitingVerdict => Ok(ClientStep::Accepted),
            State::AwaitingStart | State::Over => Err(SaslError::Over),
        }
    }

    /// A step of the context. Where it has nothing more to say, the server gets an empty token.
    fn proceed(&mut self, token: &[u8]) -> Result<Vec<u8>, SaslError> {
        let (token, next) = match self.context.step(token)? {
            Progress::Continue(token) => (token, State::AwaitingToken),
            Progress::Established(token) => (token.unwrap_or_default(), State::AwaitingOffer),
        };
        self.state = next;
        Ok(token)
    }
}
