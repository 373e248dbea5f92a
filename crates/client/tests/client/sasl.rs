//! Logins with SASL: accepted, rejected, and repeated on every connection.

use std::io::Write as _;

use herdsman_client::{Acl, Client, ConnectionState, Error, ErrorKind, Id, Options, Perms};
use herdsman_config::Config;
use herdsman_proto::OpCode;
use herdsman_testing::{TestProxy, TestServer};
use tempfile::NamedTempFile;

use crate::world::{kind, next, options, within};
use herdsman_testing::Authority;

const JAAS: &str = r#"
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_ann="tulip"
    user_bob="rose";
};
"#;

fn jaas_file() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(JAAS.as_bytes()).unwrap();
    file
}

fn accept_logins(config: &mut Config, jaas: &NamedTempFile) {
    config.sasl.login_file = Some(jaas.path().to_owned());
    config.access.sasl_scheme = true;
}

fn start_server(jaas: &NamedTempFile) -> TestServer {
    TestServer::start_with(|config| accept_logins(config, jaas))
}

fn ann() -> Options {
    options().sasl("ann", "tulip")
}

async fn try_connect(options: Options, servers: &str) -> Result<Client, Error> {
    within(options.connect(servers)).await
}

async fn sasl_users(zk: &Client) -> Vec<String> {
    let ids = within(zk.who_am_i().send()).await.unwrap();
    ids.into_iter().filter(|id| id.scheme == "sasl").map(|id| id.id).collect()
}

#[tokio::test]
async fn a_login_grants_the_permissions_of_its_user() {
    let jaas = jaas_file();
    let server = start_server(&jaas);
    let zk = try_connect(ann(), &server.connect_string()).await.unwrap();
    assert_eq!(sasl_users(&zk).await, ["ann"]);
    let only_ann = [Acl { perms: Perms::ALL, id: Id::new("sasl", "ann") }];
    zk.create("/hers", "x").acl(only_ann).await.unwrap();
    let bob = try_connect(options().sasl("bob", "rose"), &server.connect_string()).await.unwrap();
    assert_eq!(kind(bob.get("/hers").await), ErrorKind::NoAuth);
    assert_eq!(zk.get("/hers").await.unwrap().data, "x");
}

#[tokio::test]
async fn every_connection_and_every_session_logs_in_first() {
    let jaas = jaas_file();
    let server = start_server(&jaas);
    let proxy = TestProxy::start(server.address());
    let both = ann().credentials("digest", "ann:pass");
    let zk = try_connect(both, &proxy.connect_string()).await.unwrap();
    let mut events = zk.events();
    proxy.cut();
    next(&mut events).await;
    next(&mut events).await;
    assert_eq!(sasl_users(&zk).await, ["ann"]);
    // The empty token and the response to the challenge, on two connections.
    assert_eq!(proxy.traffic().requests(OpCode::Sasl), 4);
    server.expire_session(zk.session().id());
    assert_eq!(sasl_users(&zk).await, ["ann"]);
}

#[tokio::test]
async fn a_rejected_login_is_final() {
    let jaas = jaas_file();
    let server = start_server(&jaas);
    for (user, password) in [("ann", "rose"), ("eve", "tulip"), ("ann", "")] {
        let wrong = options().sasl(user, password);
        let error = try_connect(wrong, &server.connect_string()).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::AuthFailed);
        let text = error.to_string();
        assert!(text.contains("the user name or the password is wrong"), "{text}");
        assert!(!text.contains("tulip") && !text.contains("rose"), "{text}");
    }
}

#[tokio::test]
async fn a_changed_password_ends_the_client_at_its_next_connection() {
    let jaas = jaas_file();
    let mut server = start_server(&jaas);
    let zk = within(ann().connect(&server.connect_string())).await.unwrap();
    let session = zk.session();
    std::fs::write(jaas.path(), JAAS.replace("tulip", "daisy")).unwrap();
    server.restart();
    assert_eq!(within(session.ended()).await, ConnectionState::AuthFailed);
    assert_eq!(kind(zk.get("/").await), ErrorKind::AuthFailed);
}

#[tokio::test]
async fn a_server_without_sasl_is_an_error() {
    let server = TestServer::start();
    let error = within(ann().connect(&server.connect_string())).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::AuthFailed);
    assert!(error.to_string().contains("does not accept SASL logins"), "{error}");
}

#[tokio::test]
async fn a_server_that_tolerates_failed_logins_is_not_trusted() {
    let jaas = jaas_file();
    let server = TestServer::start_with(|config| {
        accept_logins(config, &jaas);
        config.access.tolerate_failed_sasl = true;
    });
    let wrong = options().sasl("ann", "rose");
    let error = try_connect(wrong, &server.connect_string()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::AuthFailed);
    assert!(error.to_string().contains("rspauth"), "{error}");
}

#[tokio::test]
async fn a_login_works_through_tls() {
    let (authority, jaas) = (Authority::new(), jaas_file());
    let server = authority.start_server_with(|config| accept_logins(config, &jaas));
    let tls = herdsman_client::tls::TlsSettings {
        key_store: Some(herdsman_client::tls::StoreSettings::new(authority.sign("ann"))),
        trust_store: Some(herdsman_client::tls::StoreSettings::new(authority.trust_store())),
        ..Default::default()
    };
    let zk = within(ann().tls(tls).connect(&server.secure_address().to_string())).await.unwrap();
    assert_eq!(sasl_users(&zk).await, ["ann"]);
}
