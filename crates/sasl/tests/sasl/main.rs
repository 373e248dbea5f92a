//! Tests of logins and configuration files through the public API: the RFC's own example, our two sides
//! against each other, recordings of other programs, and files as the JDK reads them.

mod hostile;
mod jaas;
mod login;
mod logins;
mod recordings;
mod refusals;

use std::sync::Arc;

use herdsman_sasl::digest_md5::{
    Accepted, Client, ClientSettings, ClientStep, Nonce, Server, ServerSettings, ServerStep,
    Service,
};
use herdsman_sasl::{AuthorizedId, Credentials, SaslError, Secret, Users};

const NONCE: &str = "OA6MG9tEQGm2hh";
const CNONCE: &str = "OA6MHXh6VqTrRk";

fn users(known: &[(&str, &str)]) -> Arc<Users> {
    Arc::new(known.iter().map(|&(name, password)| (name, Secret::new(password))).collect())
}

fn server(service: &Service, known: &[(&str, &str)]) -> Server {
    server_with_nonce(service, known, NONCE)
}

fn server_with_nonce(service: &Service, known: &[(&str, &str)], nonce: &str) -> Server {
    let settings = ServerSettings { service: service.clone(), users: users(known) };
    Server::new(settings, Nonce::recorded(nonce))
}

fn client(service: &Service, username: &str, password: &str) -> Client {
    let credentials =
        Credentials { username: username.to_string(), password: Secret::new(password) };
    let settings = ClientSettings { service: service.clone(), credentials };
    Client::new(settings, Nonce::recorded(CNONCE))
}

/// Returns the server's challenge.
fn challenge(server: &mut Server) -> Vec<u8> {
    match server.step(Client::OPENING).expect("a first token is always answered") {
        ServerStep::Challenge(token) => token,
        ServerStep::Accepted(accepted) => panic!("accepted too early: {accepted:?}"),
    }
}

/// Returns the client's response to a challenge.
fn response(client: &mut Client, challenge: &[u8]) -> Result<Vec<u8>, SaslError> {
    match client.step(challenge)? {
        ClientStep::Response(token) => Ok(token),
        ClientStep::Accepted => panic!("the server has proven nothing yet"),
    }
}

/// Returns the server's result for a response.
fn verdict(server: &mut Server, response: &[u8]) -> Result<Accepted, SaslError> {
    match server.step(response)? {
        ServerStep::Accepted(accepted) => Ok(accepted),
        ServerStep::Challenge(token) => panic!("a second challenge: {token:?}"),
    }
}

/// Runs a whole login.
fn log_in(mut server: Server, mut client: Client) -> Result<AuthorizedId, SaslError> {
    let response = response(&mut client, &challenge(&mut server))?;
    let accepted = verdict(&mut server, &response)?;
    assert_eq!(client.step(&accepted.token)?, ClientStep::Accepted);
    Ok(accepted.id)
}

/// Formats bytes readably.
fn shown(token: &[u8]) -> String {
    String::from_utf8_lossy(token).into_owned()
}
