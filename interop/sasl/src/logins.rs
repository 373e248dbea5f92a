//! Logins between our side and a peer's, with right and wrong passwords, for both services.

use std::sync::Arc;

use anyhow::{Result, ensure};
use herdsman_sasl::digest_md5::{
    Client, ClientSettings, ClientStep, Nonce, Server, ServerSettings, ServerStep, Service,
};
use herdsman_sasl::{Credentials, Secret, Users};

use crate::peer::{Peer, TheirStep};

/// User names and passwords.
pub type Names = &'static [(&'static str, &'static str)];

/// Names that every peer that follows the RFC must accept.
pub const NAMES: Names = &[
    ("bob", "secret"),
    ("super", "admin secret, with = and ;"),
    ("quo\"te", "back\\slash\""),
    ("tab\there", "\u{7}\u{7f}"),
    ("jürgen", "pässwörd"),
    ("миша", "пароль"),
    ("zoë", "€uro"),
    ("🐑", "\u{1f411} herd"),
    ("empty", ""),
];

/// pure-sasl hashes names and passwords in UTF-8 even where the RFC requires ISO 8859-1, so it cannot log
/// in to Apache's server with names such as `jürgen` either.
pub const NAMES_FOR_PURE_SASL: Names =
    &[("bob", "secret"), ("quo\"te", "back\\slash\""), ("миша", "пароль"), ("🐑", "€uro")];

/// Both services, as passed to a peer.
const SERVICES: [(Service, &str, &str); 2] = [
    (Service::CLIENT_PORT, "zookeeper", "zk-sasl-md5"),
    (Service::QUORUM, "zookeeper-quorum", "zk-quorum-sasl-md5"),
];
/// Our random bytes are the same in every run, so that recordings differ only where peers do.
const RANDOM: [u8; Nonce::RANDOM_BYTES] = [0x5a; Nonce::RANDOM_BYTES];

/// Whether tokens are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transcript {
    /// No.
    Hidden,
    /// Yes.
    Shown,
}

impl Transcript {
    fn token(self, from: &str, token: &[u8]) {
        if self == Transcript::Shown {
            println!("    {from}: {}", String::from_utf8_lossy(token));
        }
    }
}

/// Their client logs in to our server.
pub fn check_their_client(peer: &mut Peer, names: Names, transcript: Transcript) -> Result<()> {
    for (service, protocol, host) in SERVICES {
        for (user, password) in names {
            for (tried, is_right) in [(*password, true), ("a guess", false)] {
                println!("{} logs in to us: {user:?} at {protocol}, right: {is_right}", peer.name);
                let arguments = [user, tried, protocol, host].map(str::as_bytes);
                ensure!(peer.ask("client", &arguments)? == "ok", "no client of {}", peer.name);
                let users = [(*user, Secret::new(*password))].into_iter().collect::<Users>();
                let settings = ServerSettings { service: service.clone(), users: Arc::new(users) };
                let server = Server::new(settings, Nonce::from_random(RANDOM));
                let id = serve(peer, server, transcript)?;
                ensure!(id.as_deref() == is_right.then_some(*user), "our server says {id:?}");
            }
        }
    }
    Ok(())
}

/// Returns the user who logged in to our server, if any.
fn serve(peer: &mut Peer, mut server: Server, transcript: Transcript) -> Result<Option<String>> {
    let mut token = Vec::new();
    loop {
        transcript.token("client", &token);
        match server.step(&token) {
            Err(error) => {
                println!("    refused: {error}");
                return Ok(None);
            }
            Ok(ServerStep::Challenge(challenge)) => {
                transcript.token("server", &challenge);
                match peer.step(&challenge)? {
                    TheirStep::Continue(response) => token = response,
                    other => anyhow::bail!("{} answered a challenge with {other:?}", peer.name),
                }
            }
            Ok(ServerStep::Accepted(accepted)) => {
                transcript.token("server", &accepted.token);
                let last = peer.step(&accepted.token)?;
                let believes = last == TheirStep::Done(Vec::new(), String::new());
                ensure!(believes, "{} did not accept our server's proof: {last:?}", peer.name);
                return Ok(Some(accepted.id.into_string()));
            }
        }
    }
}

/// Our client logs in to their server.
pub fn check_their_server(peer: &mut Peer, names: Names, transcript: Transcript) -> Result<()> {
    for (service, protocol, host) in SERVICES {
        for (user, password) in names {
            for (tried, is_right) in [(*password, true), ("a guess", false)] {
                println!("we log in to {}: {user:?} at {protocol}, right: {is_right}", peer.name);
                let arguments = [user, *password, protocol, host].map(str::as_bytes);
                ensure!(peer.ask("server", &arguments)? == "ok", "no server of {}", peer.name);
                let (username, password) = ((*user).to_string(), Secret::new(tried));
                let credentials = Credentials { username, password };
                let settings = ClientSettings { service: service.clone(), credentials };
                let client = Client::new(settings, Nonce::from_random(RANDOM));
                let id = log_in(peer, client, transcript)?;
                ensure!(id.as_deref() == is_right.then_some(*user), "{} says {id:?}", peer.name);
            }
        }
    }
    Ok(())
}

/// The user as whom their server accepted us, if it did.
fn log_in(peer: &mut Peer, mut client: Client, transcript: Transcript) -> Result<Option<String>> {
    let mut token = Client::OPENING.to_vec();
    loop {
        transcript.token("client", &token);
        match peer.step(&token)? {
            TheirStep::Refused => return Ok(None),
            TheirStep::Continue(challenge) => {
                transcript.token("server", &challenge);
                match client.step(&challenge)? {
                    ClientStep::Response(response) => token = response,
                    ClientStep::Accepted => anyhow::bail!("our client accepted too early"),
                }
            }
            TheirStep::Done(last, id) => {
                transcript.token("server", &last);
                ensure!(client.step(&last)? == ClientStep::Accepted, "no proof from the server");
                return Ok(Some(id));
            }
        }
    }
}
