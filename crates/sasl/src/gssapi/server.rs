//! The side with the service's keys. Apache: `SecurityUtils.createSaslServer`, `SaslServerCallbackHandler`
//! and `SaslQuorumServerCallbackHandler`, around the JDK's `GssKrb5Server`.

use std::collections::BTreeSet;
use std::sync::Arc;

use herdsman_gssapi::{AcceptingContext, Progress};

use super::{check_length, layer};
use crate::SaslError;
use crate::exchange::{Accepted, AuthorizedId, ServerStep, shown};
use crate::kerberos::{ClientNames, PrincipalName};

/// Who of those with a ticket for the service is let in, and under which name.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Clients: everybody for whom there is a rule, under the name that it makes. Whom a client wants to
    /// be is not looked at, for clients send all kinds of things there.
    ///
    /// We differ from Apache where no rule applies: it lets the client in under the name that it wants to
    /// have; we do not let it in.
    Clients(Arc<ClientNames>),
    /// Servers of an ensemble: `name/host@REALM` with one of these hosts, under just that name. A name
    /// without a host is no server's (CVE-2023-44981). Hosts are compared without regard to case.
    Servers {
        /// In lower case.
        hosts: BTreeSet<String>,
    },
}

impl Admission {
    /// Servers of these hosts.
    pub fn servers<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Self {
        Admission::Servers { hosts: hosts.into_iter().map(str::to_ascii_lowercase).collect() }
    }

    /// The name under which somebody is let in who has proven to be `principal`.
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

/// One login, seen from the server.
#[derive(Debug)]
pub struct Server<Context> {
    context: Context,
    admission: Admission,
    state: State,
}

#[derive(Debug)]
enum State {
    AwaitingToken,
    /// The context stands and its last token is with the client, which has to ask for the rest.
    AwaitingAsking,
    AwaitingChoice,
    Over,
}

impl<Context: AcceptingContext> Server<Context> {
    /// Awaits a client. The context must not have been stepped.
    #[must_use]
    pub fn new(context: Context, admission: Admission) -> Self {
        Server { context, admission, state: State::AwaitingToken }
    }

    /// Takes the client's next token.
    pub fn step(&mut self, token: &[u8]) -> Result<ServerStep, SaslError> {
        // Whatever goes wrong below, there is no second try.
        let state = std::mem::replace(&mut self.state, State::Over);
        check_length(token)?;
        match state {
            State::AwaitingToken if token.is_empty() => Err(SaslError::NoTicket),
            State::AwaitingToken => match self.context.step(token)? {
                Progress::Continue(token) => Ok(self.challenge(token, State::AwaitingToken)),
                Progress::Established(Some(token)) => {
                    Ok(self.challenge(token, State::AwaitingAsking))
                }
                Progress::Established(None) => self.offer(),
            },
            State::AwaitingAsking => self.offer(),
            State::AwaitingChoice => self.judge(token).map(ServerStep::Accepted),
            State::Over => Err(SaslError::Over),
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

    fn judge(&mut self, token: &[u8]) -> Result<Accepted, SaslError> {
        let choice = self.context.unwrap(token)?;
        let wanted = layer::read_choice(&choice)?;
        let principal = self.context.initiator()?;
        Ok(Accepted { id: self.admission.admit(&principal, wanted)?, token: Vec::new() })
    }
}
