//! Logging in with SASL, and servers that insist on a login.

use std::path::Path;

use herdsman_proto::{ErrorCode, ReadRequest, Request};
use herdsman_sasl::digest_md5::{Client as Login, ClientSettings, ClientStep, Nonce, Service};
use herdsman_sasl::{Credentials, Secret};
use herdsman_server::TestServer;
use herdsman_server::config::Config;
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

/// Logs in as far as the server lets it; the last frame.
fn log_in(client: &mut Client, user: &str, password: &str) -> Frame {
    let credentials = Credentials { username: user.to_owned(), password: Secret::new(password) };
    let settings = ClientSettings { service: Service::CLIENT_PORT, credentials };
    let mut login = Login::new(settings, Nonce::recorded("a nonce of a test"));
    let mut token = Login::OPENING.to_vec();
    loop {
        let reply = client.call(&Request::Sasl { token: &token });
        if reply.error != 0 {
            return reply;
        }
        let answer = reply.ok().buffer().unwrap().unwrap_or_default().to_vec();
        match login.step(&answer).unwrap() {
            ClientStep::Response(next) => token = next,
            ClientStep::Accepted => return reply,
        }
    }
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
        let refused = log_in(&mut client, user, password);
        assert_eq!(refused.error, code(ErrorCode::AuthFailed));
        assert!(client.is_closed());
    }
}

#[test]
fn a_failed_login_may_be_tolerated() {
    let file = jaas_file();
    let server = start(&file, |config| config.access.tolerate_failed_sasl = true);
    let mut client = Client::connect(server.address());
    let start = client.call(&Request::Sasl { token: &[] });
    assert_eq!(start.error, 0);
    let answer = client.call(&Request::Sasl { token: b"nonsense" });
    assert_eq!(answer.error, 0);
    assert_eq!(client.call(&exists()).error, 0);
}

#[test]
fn nothing_but_a_login_is_served_where_one_is_required() {
    let file = jaas_file();
    let required = Some(vec!["sasl".to_owned()]);
    let server = start(&file, |config| config.access.required_schemes = required);
    let mut stranger = Client::connect(server.address());
    let refused = stranger.call(&exists());
    assert_eq!(refused.error, code(ErrorCode::SessionClosedRequireAuth));
    assert!(stranger.is_closed());
    let mut liar = Client::connect(server.address());
    let refused = log_in(&mut liar, "bob", "a guess");
    assert_eq!(refused.error, code(ErrorCode::SessionClosedRequireAuth));
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
