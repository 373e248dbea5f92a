//! Tokens of DIGEST-MD5, from untrusted clients to a server and from a malicious server to a client.

use std::sync::Arc;

use herdsman_sasl::digest_md5::{
    Client, ClientSettings, Nonce, RESPONSE_BYTES_MAX, Server, ServerSettings, Service,
};
use herdsman_sasl::{ClientStep, Credentials, Secret, ServerStep, Users};

/// The only user, whose name and password the seeds know.
pub const USER: &str = "bob";
/// The user's password.
pub const PASSWORD: &str = "secret";

/// One login at the server; the nonce is always the same here.
#[must_use]
pub fn server() -> Server {
    let users: Users = [(USER, Secret::new(PASSWORD))].into_iter().collect();
    let settings = ServerSettings { service: Service::CLIENT_PORT, users: Arc::new(users) };
    Server::new(settings, Nonce::recorded("the server's nonce"))
}

/// One login of the client.
#[must_use]
pub fn client() -> Client {
    let credentials = Credentials { username: USER.to_owned(), password: Secret::new(PASSWORD) };
    let settings = ClientSettings { service: Service::CLIENT_PORT, credentials };
    Client::new(settings, Nonce::recorded("the client's nonce"))
}

/// In: a token.
pub fn run(token: &[u8]) {
    let mut server = server();
    let challenge = server.step(&[]).expect("the first token only asks for a challenge");
    assert!(matches!(challenge, ServerStep::Challenge(_)));
    match server.step(token) {
        Ok(ServerStep::Accepted(accepted)) => assert_eq!(accepted.id.as_str(), USER),
        Ok(ServerStep::Challenge(_)) => panic!("there is one challenge"),
        Err(_) => assert!(server.step(token).is_err(), "there is no second try"),
    }
    let mut client = client();
    if let Ok(ClientStep::Response(response)) = client.step(token) {
        assert!(response.len() <= RESPONSE_BYTES_MAX, "a server takes no longer one");
        assert!(!contains(&response, PASSWORD.as_bytes()), "the password does not go out");
    }
    assert!(client.step(token).is_err(), "a token does not authenticate the server");
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
