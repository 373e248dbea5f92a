//! The server, which has the service's keys. Apache: `SecurityUtils.createSaslServer`,
//! `SaslServerCallbackHandler` and `SaslQuorumServerCallbackHandler`, around the JDK's `GssKrb5Server`.

use std::collections::BTreeSet;
use std::sync::Arc;

use herdsman_gssapi::{AcceptingContext, Progress};

use super::{check_length, layer};
use crate::SaslError;
use crate::exchange::{Accepted, AuthorizedId, ServerStep, shown};
use crate::kerberos::{ClientNames, PrincipalName};

/// Which owners of a ticket for the service are accepted, and under which names.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Clients: everyone to whom a rule applies, under the name that the rule gives. The identity that a
    /// client requests is ignored, because clients send all kinds of values there.
    ///
    /// Apache differs where no rule applies: it accepts the client under the name that it requests; we
    /// reject it.
    Clients(Arc<ClientNames>),
    /// Servers of an ensemble: `name/host@REALM` with one of these hosts, under exactly that name. A name
    /// without a host never belongs to a server (CVE-2023-44981). Hosts are compared without regard to
    /// case.
    Servers {
        /// In lower case.
        hosts: BTreeSet<String>,
    },
}

impl Admission {
    /// Accepts servers on these hosts.
    pub fn servers<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Self {
        Admission::Servers { hosts: hosts.into_iter().map(str::to_ascii_lowercase).collect() }
    }

    /// Returns the name under which `principal`, once authenticated, is accepted.
    pub fn admit(&self, principal: &str, wanted: Option<&str>) -> Result<AuthorizedId, SaslError> {
        let name = PrincipalName::parse(principal)?;
        match self {
            Admission::Clients(names) => Ok(AuthorizedId::new(names.name_of(&name)?)),
            Admission::Servers { .. } if wanted.is_some_and(|wanted| wanted != principal) => {
                Err(SaslError::OtherIdentity { user: shown(principal) })
            }
            Admission::Servers { hosts } => match (name.host(), name.realm()) {
                (Some(host), Some(_)) if hosts.contains(&host.to_ascii_lowercase()) => {
                    Ok(AuthorizedId::new(principal))
                }
                _ => Err(SaslError::NoMember { principal: shown(principal) }),
            },
        }
    }
}

/// The server's side of one login.
#[derive(Debug)]
pub struct Server<Context> {
    context: Context,
    admission: Admission,
    state: State,
}

#[derive(Debug)]
enum State {
    AwaitingToken,
    /// The context is established and its last token sent; the client has to ask for the rest.
    AwaitingOfferRequest,
    AwaitingChoice,
    Finished,
}

impl<Context: AcceptingContext> Server<Context> {
    /// Waits for a client. The context must not have been stepped.
    #[must_use]
    pub fn new(context: Context, admission: Admission) -> Self {
        Server { context, admission, state: State::AwaitingToken }
    }

    /// Processes the client's next token.
    pub fn step(&mut self, token: &[u8]) -> Result<ServerStep, SaslError> {
        // Any failure below is final.
        let state = std::mem::replace(&mut self.state, State::Finished);
        check_length(token)?;
        match state {
            State::AwaitingToken if token.is_empty() => Err(SaslError::NoTicket),
            State::AwaitingToken => match self.context.step(token)? {
                Progress::Continue(token) => Ok(self.challenge(token, State::AwaitingToken)),
                Progress::Established(Some(token)) => {
                    Ok(self.challenge(token, State::AwaitingOfferRequest))
                }
                Progress::Established(None) => self.offer(),
            },
            State::AwaitingOfferRequest => self.offer(),
            State::AwaitingChoice => self.verify(token).map(ServerStep::Accepted),
            State::Finished => Err(SaslError::Finished),
        }
    }

    fn challenge(&mut self, token: Vec<u8>, next: State) -> ServerStep {
        self.state = next;
        ServerStep::Challenge(token)
    }

    fn offer(&mut self) -> Result<ServerStep, SaslError> {
        let offer = self.context.wrap(&layer::OFFER)?;
        Ok(self.challenge(offer, State::AwaitingChoice))
    }

    fn verify(&mut self, token: &[u8]) -> Result<Accepted, SaslError> {
        let choice = self.context.unwrap(token)?;
        let wanted = layer::read_choice(&choice)?;
        let principal = self.context.initiator()?;
        Ok(Accepted { id: self.admission.admit(&principal, wanted)?, token: Vec::new() })
    }
}
