//! Logins between us and other implementations, as recorded by `interop/sasl`: each is replayed, and our
//! side has to send the same tokens again.

use herdsman_sasl::digest_md5::{Client, ClientSettings, ClientStep, Nonce, Service};
use herdsman_sasl::{Credentials, SaslError, Secret};

use super::{challenge, response, server_with_nonce, shown, verdict};

/// The nonce that our side used in all recordings.
const OUR_NONCE: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

struct Recording {
    service: Service,
    user: &'static str,
    password: &'static str,
    challenge: &'static str,
    response: &'static str,
    last: &'static str,
}

fn recordings(file: &'static str) -> Vec<Recording> {
    // The first block is the comment that describes the recordings.
    let recordings: Vec<_> = file.split("\n\n").skip(1).map(recording).collect();
    assert!(recordings.len() >= 4, "only {} recordings", recordings.len());
    recordings
}

fn recording(block: &'static str) -> Recording {
    let [title, challenge, response, last] =
        block.lines().collect::<Vec<_>>().try_into().expect("four lines");
    let [service, user, password] =
        title.split(' ').collect::<Vec<_>>().try_into().expect("three words");
    let (protocol, host) = service.split_once('/').expect("protocol/host");
    let token = |line: &'static str, from| line.strip_prefix(from).expect("a token");
    Recording {
        service: Service::new(protocol, host),
        user,
        password,
        challenge: token(challenge, "server: "),
        response: token(response, "client: "),
        last: token(last, "server: "),
    }
}

/// Our server sends the same tokens again, and rejects another password.
fn check_clients(file: &'static str) {
    for recorded in recordings(file) {
        let known = [(recorded.user, recorded.password)];
        let mut server = server_with_nonce(&recorded.service, &known, OUR_NONCE);
        assert_eq!(shown(&challenge(&mut server)), recorded.challenge);
        let accepted = verdict(&mut server, recorded.response.as_bytes());
        let accepted = accepted.unwrap_or_else(|error| panic!("{}: {error}", recorded.response));
        assert_eq!(accepted.id.as_str(), recorded.user);
        assert_eq!(shown(&accepted.token), recorded.last);

        let known = [(recorded.user, "another password")];
        let mut server = server_with_nonce(&recorded.service, &known, OUR_NONCE);
        challenge(&mut server);
        let refusal = verdict(&mut server, recorded.response.as_bytes());
        assert_eq!(refusal, Err(SaslError::WrongCredentials { user: recorded.user.to_string() }));
    }
}

#[test]
fn the_jdks_client_was_accepted() {
    check_clients(include_str!("recordings/jdk_client.txt"));
}

#[test]
fn pure_sasls_client_was_accepted() {
    check_clients(include_str!("recordings/pure_sasl_client.txt"));
}

#[test]
fn cyruss_client_was_accepted() {
    check_clients(include_str!("recordings/cyrus_client.txt"));
}

#[test]
fn the_jdks_server_accepted_us() {
    for recorded in recordings(include_str!("recordings/jdk_server.txt")) {
        let credentials = Credentials {
            username: recorded.user.to_string(),
            password: Secret::new(recorded.password),
        };
        let settings = ClientSettings { service: recorded.service, credentials };
        let mut client = Client::new(settings, Nonce::recorded(OUR_NONCE));
        let answer = response(&mut client, recorded.challenge.as_bytes()).expect("an answer");
        assert_eq!(shown(&answer), recorded.response);
        assert_eq!(client.step(recorded.last.as_bytes()), Ok(ClientStep::Accepted));
    }
}
