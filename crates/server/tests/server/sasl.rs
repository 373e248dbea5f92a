//! SASL logins, and servers that require a login.

use std::path::Path;

use herdsman_config::Config;
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ErrorCode, JuteWrite, OpCode, ReadRequest, Request, Xid, Zxid, reply};
use herdsman_sasl::digest_md5::{Client as Login, ClientSettings, ClientStep, Nonce, Service};
use herdsman_sasl::{Credentials, Secret};
use herdsman_testing::TestServer;
use tempfile::NamedTempFile;

use crate::client::{Client, Frame, code};

const JAAS: &str = r#"
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_bob="secret"
    user_super="changed by a setting";
};
"#;

fn jaas_file() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), JAAS).unwrap();
    file
}

fn with_logins(config: &mut Config, file: &Path) {
    config.sasl.login_file = Some(file.to_owned());
    config.access.sasl_scheme = true;
}

fn start(file: &NamedTempFile, adjust: impl FnOnce(&mut Config)) -> TestServer {
    TestServer::start_with(|config| {
        with_logins(config, file.path());
        adjust(config);
    })
}

/// One login of a client, which answers challenges.
struct Exchange<'a> {
    client: &'a mut Client,
    challenge: Vec<u8>,
}

impl<'a> Exchange<'a> {
    fn new(client: &'a mut Client) -> Self {
        Exchange { client, challenge: Vec::new() }
    }

    /// The answer to a token. Its challenge, if any, is stored for [`Exchange::respond`].
    fn send(&mut self, token: &[u8]) -> Frame {
        let reply = self.client.call(&Request::Sasl { token });
        if reply.error == 0 {
            self.challenge = reply.ok().buffer().unwrap().unwrap_or_default().to_vec();
        }
        reply
    }

    /// The answer to the right response for this user and password.
    fn respond(&mut self, user: &str, password: &str) -> Frame {
        let (username, password) = (user.to_owned(), Secret::new(password));
        let credentials = Credentials { username, password };
        let settings = ClientSettings { service: Service::CLIENT_PORT, credentials };
        let mut login = Login::new(settings, Nonce::recorded("a nonce of a test"));
        match login.step(&self.challenge).unwrap() {
            ClientStep::Response(response) => self.send(&response),
            ClientStep::Accepted => panic!("a challenge is not a proof"),
        }
    }
}

/// Logs in as far as the server permits; returns the last frame.
fn log_in(client: &mut Client, user: &str, password: &str) -> Frame {
    let mut exchange = Exchange::new(client);
    assert_eq!(exchange.send(Login::OPENING).error, 0);
    exchange.respond(user, password)
}

/// A token of length -1.
const NULL_TOKEN: [u8; 4] = [0xff; 4];

#[track_caller]
fn assert_refused(frame: &Frame, with: ErrorCode) {
    assert_eq!((frame.zxid, frame.error), (Zxid::ZERO, code(with)));
    assert_eq!(frame.body, NULL_TOKEN, "Apache's clients read a token in front of the error");
}

#[track_caller]
fn assert_tolerated(frame: &Frame) {
    assert_eq!((frame.zxid, frame.error), (Zxid::ZERO, 0));
    assert_eq!(frame.body, NULL_TOKEN);
}

fn exists() -> Request<'static> {
    Request::Read(ReadRequest::Exists { path: "/".into(), watch: false })
}

#[test]
fn who_knows_the_password_is_that_user() {
    let file = jaas_file();
    let server = start(&file, |_| {});
    let mut client = Client::connect(server.address());
    assert_eq!(log_in(&mut client, "bob", "secret").error, 0);
    let me = client.call(&Request::Read(ReadRequest::WhoAmI));
    assert!(String::from_utf8_lossy(&me.body).contains("bob"), "{me:?}");
}

#[test]
fn who_does_not_is_told_so_and_sent_away() {
    let file = jaas_file();
    let server = start(&file, |_| {});
    for (user, password) in [("bob", "a guess"), ("nobody", "secret")] {
        let mut client = Client::connect(server.address());
        assert_refused(&log_in(&mut client, user, password), ErrorCode::AuthFailed);
        assert!(client.is_closed());
    }
}

#[test]
fn every_refused_token_is_answered_with_a_null_token_and_the_connection_closes() {
    let file = jaas_file();
    let required = Some(vec!["sasl".to_owned()]);
    let free = start(&file, |_| {});
    let strict = start(&file, |config| config.access.required_schemes = required);
    let servers = [(free, ErrorCode::AuthFailed), (strict, ErrorCode::SessionClosedRequireAuth)];
    for (server, refusal) in &servers {
        for second in [&b"nonsense"[..], b"", &[b'x'; 5000]] {
            let mut client = Client::connect(server.address());
            let mut exchange = Exchange::new(&mut client);
            // The contents of the first token do not matter.
            assert_eq!(exchange.send(b"nonsense").error, 0);
            assert_refused(&exchange.send(second), *refusal);
            assert!(client.is_closed());
        }
    }
}

#[test]
fn a_connection_logs_in_only_once() {
    let file = jaas_file();
    let server = start(&file, |_| {});
    let mut client = Client::connect(server.address());
    assert_eq!(log_in(&mut client, "bob", "secret").error, 0);
    assert_refused(&Exchange::new(&mut client).send(Login::OPENING), ErrorCode::AuthFailed);
    assert!(client.is_closed());
}

#[test]
fn a_null_token_closes_the_connection_without_an_answer() {
    let file = jaas_file();
    let server = start(&file, |_| {});
    let mut client = Client::connect(server.address());
    let mut frame = Vec::new();
    reply::frame(&mut frame, |out| {
        RequestHeader { xid: Xid(1), op: OpCode::Sasl.code() }.encode(out);
        out.put_buffer(None);
    });
    client.send_raw(&frame);
    assert!(client.is_closed());
}

#[test]
fn where_nobody_can_log_in_every_token_gets_a_null_token() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    for token in [&b""[..], b"nonsense", b""] {
        assert_tolerated(&Exchange::new(&mut client).send(token));
    }
    assert_eq!(client.call(&exists()).error, 0);
}

#[test]
fn a_failed_login_may_be_tolerated_but_not_repeated() {
    let file = jaas_file();
    let server = start(&file, |config| config.access.tolerate_failed_sasl = true);
    let mut client = Client::connect(server.address());
    assert_tolerated(&log_in(&mut client, "bob", "a guess"));
    assert_eq!(client.call(&exists()).error, 0);
    assert_tolerated(&Exchange::new(&mut client).send(Login::OPENING));
    let me = client.call(&Request::Read(ReadRequest::WhoAmI));
    assert!(!String::from_utf8_lossy(&me.body).contains("bob"), "{me:?}");
}

#[test]
fn nothing_but_a_login_is_served_where_one_is_required() {
    let file = jaas_file();
    let required = Some(vec!["sasl".to_owned()]);
    let server = start(&file, |config| config.access.required_schemes = required);
    let mut stranger = Client::connect(server.address());
    let refused = stranger.call(&exists());
    assert_eq!(refused.error, code(ErrorCode::SessionClosedRequireAuth));
    assert!(refused.body.is_empty(), "{refused:?}");
    assert!(stranger.is_closed());
    let mut liar = Client::connect(server.address());
    assert_refused(&log_in(&mut liar, "bob", "a guess"), ErrorCode::SessionClosedRequireAuth);
    let mut bob = Client::connect(server.address());
    assert_eq!(log_in(&mut bob, "bob", "secret").error, 0);
    assert_eq!(bob.call(&exists()).error, 0);
}

#[test]
fn the_super_users_password_may_come_from_a_setting() {
    let file = jaas_file();
    let server = start(&file, |config| {
        config.sasl.super_password = Some(Secret::new("set"));
    });
    let mut client = Client::connect(server.address());
    assert_eq!(log_in(&mut client, "super", "set").error, 0);
    let mut old = Client::connect(server.address());
    assert_ne!(log_in(&mut old, "super", "changed by a setting").error, 0);
}
