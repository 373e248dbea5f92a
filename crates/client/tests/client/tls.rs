//! TLS: which connections are accepted, which are rejected, and with which errors.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use herdsman_client::tls::{Protocol, StoreSettings, TlsSettings};
use herdsman_client::{
    Acl, Client, ConnectionEvent, Dial, Dialing, Error, ErrorKind, EventType, Id, Options, Perms,
};
use herdsman_config::ClientAuth;
use herdsman_testing::TestServer;
use rcgen::SanType;
use tokio::net::TcpStream;

use crate::world::{kind, next, options, within};
use herdsman_testing::Authority;

/// The initial time limit for an attempt to be rejected.
const WAIT_FIRST: Duration = Duration::from_millis(200);

fn settings(authority: &Authority, own: Option<PathBuf>) -> TlsSettings {
    TlsSettings {
        key_store: own.map(StoreSettings::new),
        trust_store: Some(StoreSettings::new(authority.trust_store())),
        ..TlsSettings::default()
    }
}

fn protected(authority: &Authority, name: &str) -> Options {
    options().tls(settings(authority, Some(authority.sign(name))))
}

fn address(server: &TestServer) -> String {
    server.secure_address().to_string()
}

/// A certificate for `zk.example.com` alone.
fn for_another_host(authority: &Authority) -> PathBuf {
    let host = SanType::DnsName("zk.example.com".try_into().unwrap());
    authority.sign_with("elsewhere", |params| params.subject_alt_names = vec![host])
}

async fn connect(authority: &Authority, name: &str, server: &TestServer) -> Client {
    within(protected(authority, name).connect(&address(server))).await.unwrap()
}

/// Returns the error text of a connection that fails.
async fn refusal(options: Options, servers: &str) -> String {
    let mut patience = WAIT_FIRST;
    loop {
        let connecting = options.clone().connect_timeout(patience).connect(servers);
        let error: Error = within(connecting).await.expect_err("it fails");
        assert!(matches!(error.kind(), ErrorKind::ConnectFailed(_)), "{error}");
        let text = error.to_string();
        if text.contains("last attempt") {
            return text;
        }
        patience *= 2;
    }
}

#[tokio::test]
async fn everything_works_through_tls() {
    let authority = Authority::new();
    let server = authority.start_server();
    let zk = connect(&authority, "ann", &server).await;
    let large = vec![7; 900_000];
    zk.create("/a", large.clone()).await.unwrap();
    let (node, watch) = zk.get("/a").watch().await.unwrap();
    assert_eq!(node.data, large);
    let other = connect(&authority, "bob", &server).await;
    other.set("/a", "new").await.unwrap();
    let event = within(watch).await.unwrap();
    assert_eq!(event.kind, EventType::NodeDataChanged);
    // Many at once, so that requests and replies overlap.
    let writes: Vec<_> = (0..500).map(|_| zk.set("/a", vec![1; 4000]).send()).collect();
    for write in writes {
        within(write).await.unwrap();
    }
    assert_eq!(zk.get("/a").await.unwrap().stat.version, 501);
    zk.close().await.unwrap();
}

#[tokio::test]
async fn older_tls_is_used_where_configured() {
    let authority = Authority::new();
    let server = authority.start_server_with(|config| config.tls.protocol = "TLSv1.2".to_owned());
    let zk = connect(&authority, "ann", &server).await;
    zk.create("/a", "").await.unwrap();
}

#[tokio::test]
async fn a_session_continues_after_a_restart() {
    let authority = Authority::new();
    let mut server = authority.start_server();
    let zk = connect(&authority, "ann", &server).await;
    let session = zk.session().id();
    let mut events = zk.events();
    zk.create("/e", "").ephemeral().await.unwrap();
    server.restart();
    assert_eq!(next(&mut events).await, ConnectionEvent::Suspended);
    assert_eq!(next(&mut events).await, ConnectionEvent::Reconnected { session });
    assert!(within(zk.exists("/e").send()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_new_certificate_is_used_for_the_next_connection() {
    let authority = Authority::new();
    let mut server = authority.start_server();
    let own = authority.sign("ann");
    let replaceable = options().tls(settings(&authority, Some(own.clone())));
    let zk = within(replaceable.connect(&address(&server))).await.unwrap();
    std::fs::copy(authority.sign("bob"), &own).unwrap();
    assert_eq!(certificate_user(&zk).await, "CN=ann");
    server.restart();
    within(zk.session().wait_for(|state| !state.is_connected())).await;
    assert_eq!(certificate_user(&zk).await, "CN=bob");
}

/// The user that the server derives from our certificate.
async fn certificate_user(zk: &Client) -> String {
    let ids = within(zk.who_am_i().send()).await.unwrap();
    ids.into_iter().find(|id| id.scheme == "x509").expect("a certificate was sent").id
}

#[tokio::test]
async fn an_acl_may_name_the_subject_of_a_certificate() {
    let authority = Authority::new();
    let server = authority.start_server();
    let ann = connect(&authority, "ann", &server).await;
    let only_ann = [Acl { perms: Perms::ALL, id: Id::new("x509", "CN=ann") }];
    ann.create("/hers", "x").acl(only_ann).await.unwrap();
    assert_eq!(ann.get("/hers").await.unwrap().data, "x");
    let bob = connect(&authority, "bob", &server).await;
    assert_eq!(kind(bob.get("/hers").await), ErrorKind::NoAuth);
    let plain = crate::world::connect(&server.connect_string()).await;
    assert_eq!(kind(plain.get("/hers").await), ErrorKind::NoAuth);
}

#[tokio::test]
async fn a_server_of_another_authority_is_rejected() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = others.start_server();
    let text = refusal(protected(&ours, "ann"), &address(&server)).await;
    assert!(text.contains("not signed by any authority in the trust store"), "{text}");
}

#[tokio::test]
async fn a_server_with_an_expired_certificate_is_rejected() {
    let authority = Authority::new();
    let expired = authority.sign_with("old", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let server = authority.start_server_with(|config| config.tls.key_store = Some(expired));
    let text = refusal(protected(&authority, "ann"), &address(&server)).await;
    assert!(text.contains("the peer's certificate has expired"), "{text}");
}

#[tokio::test]
async fn a_server_with_a_certificate_for_another_host_is_rejected() {
    let authority = Authority::new();
    let elsewhere = for_another_host(&authority);
    let server = authority.start_server_with(|config| config.tls.key_store = Some(elsewhere));
    let text = refusal(protected(&authority, "ann"), &address(&server)).await;
    assert!(text.contains("zk.example.com"), "{text}");
    let mut careless = settings(&authority, Some(authority.sign("ann")));
    careless.verify_server_host = false;
    within(options().tls(careless).connect(&address(&server))).await.unwrap();
}

/// Connects to one server whatever the name.
#[derive(Debug)]
struct Tunnel(std::net::SocketAddr);

impl Dial for Tunnel {
    fn dial<'a>(&'a self, _host: &'a str, _port: u16) -> Dialing<'a> {
        Box::pin(TcpStream::connect(self.0))
    }
}

#[tokio::test]
async fn a_certificate_is_checked_for_the_host_as_written_however_it_is_dialled() {
    let authority = Authority::new();
    let elsewhere = for_another_host(&authority);
    let server = authority.start_server_with(|config| config.tls.key_store = Some(elsewhere));
    let tunnel = || protected(&authority, "ann").dial(Arc::new(Tunnel(server.secure_address())));
    let zk = within(tunnel().connect("zk.example.com:2281")).await.unwrap();
    zk.create("/a", "").await.unwrap();
    let text = refusal(tunnel(), "zk.example.org:2281").await;
    assert!(text.contains("zk.example.com"), "{text}");
}

#[tokio::test]
async fn a_client_without_a_required_certificate_is_rejected() {
    let authority = Authority::new();
    let server = authority.start_server();
    // With TLS 1.3 a client has sent its first request when it is rejected, and may not see the reason.
    let without = TlsSettings { protocols: vec![Protocol::Tls12], ..settings(&authority, None) };
    let text = refusal(options().tls(without.clone()), &address(&server)).await;
    assert!(text.contains("requires a certificate"), "{text}");
    let lenient = authority.start_server_with(|config| config.tls.client_auth = ClientAuth::Want);
    let zk = within(options().tls(without).connect(&address(&lenient))).await.unwrap();
    zk.create("/a", "").await.unwrap();
}

#[tokio::test]
async fn plain_and_tls_do_not_work_together() {
    let authority = Authority::new();
    let server = authority.start_server();
    let text = refusal(protected(&authority, "ann"), &server.connect_string()).await;
    assert!(text.contains("is this its TLS port?"), "{text}");
    let text = refusal(options(), &address(&server)).await;
    assert!(text.contains("this port expects TLS"), "{text}");
    // The server is not affected.
    connect(&authority, "ann", &server).await;
}

#[tokio::test]
async fn unusable_files_are_named_before_connecting() {
    let authority = Authority::new();
    let missing = TlsSettings {
        key_store: Some(StoreSettings::new("/nowhere/ann.pem")),
        ..settings(&authority, None)
    };
    let without_trust = TlsSettings::default();
    for (settings, text) in
        [(missing, "cannot read /nowhere/ann.pem"), (without_trust, "no trust store")]
    {
        let error = within(options().tls(settings).connect("127.0.0.1:1")).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Tls(why) if why.contains(text)), "{error}");
    }
}
