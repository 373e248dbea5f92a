//! Session passwords: Apache's, keyed ones, and the migration.

use std::io::Write;

use herdsman_config::{Config, SessionPasswordUse};
use herdsman_proto::{Request, SessionId};
use herdsman_server::{Server, StartError};
use herdsman_testing::{TestEnsemble, TestServer};
use tempfile::NamedTempFile;

use crate::client::{Client, connect_request};
use crate::log;

const EPHEMERAL: i32 = 1;

fn key_file(secret: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(secret.repeat(32).as_bytes()).unwrap();
    file
}

fn keyed_by(file: &NamedTempFile) -> impl Fn(usize, &mut Config) {
    |_, config| config.sessions.key_file = Some(file.path().to_owned())
}

/// Resumes a session, with retries while servers restart.
fn take_up(ensemble: &TestEnsemble, id: usize, session: SessionId, password: [u8; 16]) -> Client {
    ensemble.await_that("the session", || {
        Client::connect_as(ensemble.address(id), &connect_request(session, &password))
    })
}

/// Waits for a log line about a session.
fn await_line(ensemble: &TestEnsemble, session: SessionId, text: &str) {
    ensemble.await_that(text, || {
        let lines = log::lines_with(&format!("session {session}"));
        lines.iter().any(|line| line.contains(text)).then_some(())
    });
}

#[test]
fn without_a_key_passwords_are_apaches() {
    let server = TestServer::start();
    let client = Client::connect(server.address());
    assert_eq!(client.password, client.session.apache_password());
}

#[test]
fn with_one_key_a_session_goes_on_at_every_server() {
    let key = key_file("k");
    let ensemble = TestEnsemble::start_with("", keyed_by(&key));
    ensemble.await_leader();
    let mut client = Client::connect(ensemble.address(1));
    let (session, password) = (client.session, client.password);
    assert_ne!(password, session.apache_password());
    client.create("/e", b"x", EPHEMERAL).ok();
    for id in [2, 3, 1] {
        client = take_up(&ensemble, id, session, password);
        assert_eq!((client.session, client.password), (session, password));
    }
    client.call(&Request::Sync { path: "/e".into() }).ok();
    client.set("/e", b"y").ok();
}

/// At servers that decide about sessions and at those that forward. The owner of the session does not notice.
#[test]
fn who_knows_only_the_id_does_not_take_a_session_over() {
    log::listen();
    let key = key_file("k");
    let ensemble = TestEnsemble::start_with("", keyed_by(&key));
    for id in [ensemble.await_leader(), ensemble.follower()] {
        let address = ensemble.address(id);
        let mut client = Client::connect(address);
        assert!(Client::reattach(address, client.session).is_none(), "taken over at {id}");
        let wrong = connect_request(client.session, &[7; 16]);
        assert!(Client::connect_as(address, &wrong).is_none());
        client.create(&format!("/{id}"), b"", EPHEMERAL).ok();
        for why in ["is Apache's, and only those made with the key", "wrong password for session"] {
            await_line(&ensemble, client.session, why);
        }
    }
}

#[test]
fn sessions_outlive_the_switch_to_keyed_passwords() {
    let key = key_file("k");
    let mut ensemble = TestEnsemble::start();
    ensemble.await_leader();
    let mut client = Client::connect(ensemble.address(1));
    let session = client.session;
    client.create("/e", b"x", EPHEMERAL).ok();
    let steps = [
        SessionPasswordUse::AcceptKeyed,
        SessionPasswordUse::IssueKeyed,
        SessionPasswordUse::KeyedOnly,
    ];
    for step in steps {
        for id in ensemble.ids() {
            ensemble.stop(id);
            ensemble.configure(id, |config| {
                config.sessions.key_file = Some(key.path().to_owned());
                config.sessions.passwords = Some(step);
            });
            ensemble.start_again(id);
            ensemble.await_leader();
            for at in ensemble.ids() {
                client = take_up(&ensemble, at, session, client.password);
            }
        }
        // Clients keep the last password that they got, which is from a server that was restarted.
        client = take_up(&ensemble, 1, session, client.password);
    }
    assert_ne!(client.password, session.apache_password());
    assert!(Client::reattach(ensemble.address(2), session).is_none());
    assert_eq!(client.get("/e", false).unwrap().0, b"x");
}

#[test]
fn servers_with_different_keys_say_so() {
    log::listen();
    let keys = ["a", "b"].map(key_file);
    let ensemble = TestEnsemble::start_with("", |id, config| {
        config.sessions.key_file = Some(keys[id % 2].path().to_owned());
    });
    ensemble.await_leader();
    let client = Client::connect(ensemble.address(1));
    let request = connect_request(client.session, &client.password);
    assert!(Client::connect_as(ensemble.address(2), &request).is_none());
    await_line(&ensemble, client.session, "herdsman.sessionKeyFile");
}

#[test]
fn a_key_that_cannot_be_used_is_found_before_the_start() {
    let key = NamedTempFile::new().unwrap();
    let mut config = Config::default();
    config.sessions.key_file = Some(key.path().to_owned());
    let error = Server::check(&config).unwrap_err();
    assert!(matches!(error, StartError::SessionKey(_)), "{error}");
}
