//! TLS on the admin port and the metrics ports: both protocols, certificates, and which clients are
//! rejected.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use herdsman_admin::settings::{PlainHttp, PortTls, SecureMetrics};
use herdsman_admin::{Admin, AdminError, AdminSettings, MetricsPorts, MetricsSettings};
use herdsman_client::{Acl, Id, Perms};
use herdsman_testing::TestServer;
use herdsman_tls::rustls::{ClientConnection, StreamOwned};
use herdsman_tls::{ClientAuth, Peer, Side, StoreSettings, TlsContext, TlsSettings, subject_name};

use super::{get, settings, with_client};
use herdsman_testing::Authority;

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn server_tls(authority: &Authority, client_auth: ClientAuth) -> TlsSettings {
    TlsSettings {
        key_store: Some(StoreSettings::new(authority.sign("admin"))),
        trust_store: Some(StoreSettings::new(authority.trust_store())),
        client_auth,
        ..TlsSettings::default()
    }
}

fn start(server: &TestServer, settings: TlsSettings, plain: PlainHttp) -> Admin {
    let tls = Some(PortTls { settings, plain });
    let settings = AdminSettings { tls, ..super::settings() };
    Admin::start(server.handle(), settings).expect("the admin server starts")
}

/// Returns a connection after its handshake.
fn handshake(
    authority: &Authority,
    own: Option<PathBuf>,
    address: SocketAddr,
) -> io::Result<Stream> {
    let settings = TlsSettings {
        key_store: own.map(StoreSettings::new),
        trust_store: Some(StoreSettings::new(authority.trust_store())),
        ..TlsSettings::default()
    };
    let context = TlsContext::load(settings, Side::Client).unwrap();
    let peer = Peer::dialled("localhost", address.ip());
    let session =
        ClientConnection::new(context.client_config(&peer).unwrap(), peer.server_name()).unwrap();
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut stream = StreamOwned::new(session, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

fn ask(stream: Stream, path: &str) -> io::Result<String> {
    send(stream, &format!("GET {path}"), "")
}

/// Returns the whole response to one request.
fn send(mut stream: Stream, method_and_path: &str, body: &str) -> io::Result<String> {
    let request = format!(
        "{method_and_path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn get_securely(authority: &Authority, own: Option<PathBuf>, admin: &Admin, path: &str) -> String {
    let stream = handshake(authority, own, admin.address()).unwrap();
    ask(stream, path).unwrap()
}

#[test]
fn a_port_for_both_protocols_accepts_both() {
    let (authority, server) = (Authority::new(), TestServer::start());
    let admin = start(&server, server_tls(&authority, ClientAuth::None), PlainHttp::Served);
    assert_eq!(get(&admin, "/livez").status, 200);
    let answer = get_securely(&authority, None, &admin, "/livez");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("strict-transport-security: max-age=86400"), "{answer}");
    assert_eq!(get(&admin, "/livez").header("strict-transport-security"), None);
    assert!(admin.url().starts_with("http://"));
}

#[test]
fn a_port_for_https_only_explains_that() {
    let (authority, server) = (Authority::new(), TestServer::start());
    let admin = start(&server, server_tls(&authority, ClientAuth::None), PlainHttp::Refused);
    let refused = get(&admin, "/api/v1/whoami");
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("use https://"), "{}", refused.text());
    let answer = get_securely(&authority, None, &admin, "/api/v1/whoami");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(admin.url().starts_with("https://"));
}

#[test]
fn a_required_certificate_identifies_its_client() {
    let authority = Authority::new();
    let server = TestServer::start_with(|config| config.access.x509_scheme = true);
    let admin = start(&server, server_tls(&authority, ClientAuth::Need), PlainHttp::Refused);
    let ann = get_securely(&authority, Some(authority.sign("ann")), &admin, "/api/v1/whoami");
    assert!(ann.contains("\"x509\"") && ann.contains("CN=ann"), "{ann}");
    with_client(&server, async |client| {
        let only_ann = [Acl { perms: Perms::ALL, id: Id::new("x509", "CN=ann") }];
        client.create("/hers", "x").acl(only_ann).await.unwrap();
    });
    let read = |name: &str| {
        let own = Some(authority.sign(name));
        get_securely(&authority, own, &admin, "/api/v1/node?path=/hers")
    };
    assert!(read("ann").starts_with("HTTP/1.1 200"));
    assert!(read("bob").starts_with("HTTP/1.1 403"));
}

#[test]
fn a_client_with_a_certificate_may_write() {
    let authority = Authority::new();
    let server = TestServer::start_with(|config| config.access.x509_scheme = true);
    let admin = start(&server, server_tls(&authority, ClientAuth::Want), PlainHttp::Refused);
    let write = |own: Option<&str>, request: &str| {
        let own = own.map(|name| authority.sign(name));
        let stream = handshake(&authority, own, admin.address()).unwrap();
        send(stream, request, r#"{"data": "x"}"#).unwrap()
    };
    with_client(&server, async |client| {
        let only_ann = [Acl { perms: Perms::ALL, id: Id::new("x509", "CN=ann") }];
        client.create("/hers", "").acl(only_ann).await.unwrap();
    });
    let set = "PUT /api/v1/node?path=/hers";
    assert!(write(Some("bob"), set).starts_with("HTTP/1.1 403"));
    assert!(write(Some("ann"), set).starts_with("HTTP/1.1 200"));
    // The session on bob's behalf is not ann's, although both have the same address.
    assert!(write(Some("bob"), set).starts_with("HTTP/1.1 403"));
    let create = "POST /api/v1/node?path=/new";
    assert!(write(None, create).starts_with("HTTP/1.1 401"), "not logged in");
    assert!(write(Some("bob"), create).starts_with("HTTP/1.1 201"));
}

#[test]
fn clients_without_a_trusted_certificate_are_rejected() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = TestServer::start();
    let admin = start(&server, server_tls(&ours, ClientAuth::Need), PlainHttp::Refused);
    // With TLS 1.3 the result comes after the client's part of the handshake.
    let outcome = |own: Option<PathBuf>| {
        handshake(&ours, own, admin.address()).and_then(|stream| ask(stream, "/livez"))
    };
    assert!(outcome(None).is_err());
    assert!(outcome(Some(others.sign("eve"))).is_err());
    assert!(outcome(Some(ours.sign("ann"))).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn a_new_certificate_is_used_for_the_next_connection() {
    let (authority, server) = (Authority::new(), TestServer::start());
    let tls = server_tls(&authority, ClientAuth::None);
    let file = tls.key_store.as_ref().unwrap().location.clone();
    let admin = start(&server, tls, PlainHttp::Served);
    let shown = || {
        let stream = handshake(&authority, None, admin.address()).unwrap();
        subject_name(&stream.conn.peer_certificates().unwrap()[0]).unwrap()
    };
    assert_eq!(shown(), "CN=admin");
    std::fs::copy(authority.sign("newer"), &file).unwrap();
    assert_eq!(shown(), "CN=newer");
    std::fs::write(&file, "not a certificate").unwrap();
    assert_eq!(shown(), "CN=newer", "an invalid file changes nothing");
}

#[test]
fn stalled_handshakes_do_not_block_others() {
    let (authority, server) = (Authority::new(), TestServer::start());
    let admin = start(&server, server_tls(&authority, ClientAuth::None), PlainHttp::Served);
    let stalled: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(admin.address()).unwrap();
            stream.write_all(&[22, 3]).unwrap();
            stream
        })
        .collect();
    let answer = get_securely(&authority, None, &admin, "/livez");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(admin);
    for mut stream in stalled {
        assert!(
            matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)),
            "the stop does not wait for it"
        );
    }
}

#[test]
fn unusable_files_are_named() {
    let server = TestServer::start();
    let tls = TlsSettings {
        key_store: Some(StoreSettings::new("/nowhere/admin.pem")),
        client_auth: ClientAuth::None,
        ..TlsSettings::default()
    };
    let tls = Some(PortTls { settings: tls, plain: PlainHttp::Refused });
    let refused = Admin::start(server.handle(), AdminSettings { tls, ..settings() }).unwrap_err();
    assert!(matches!(refused, AdminError::Tls(_)));
    assert!(refused.to_string().contains("/nowhere/admin.pem"), "{refused}");
}

#[test]
fn metrics_have_a_port_with_https() {
    let (authority, server) = (Authority::new(), TestServer::start());
    let secure = Some(SecureMetrics {
        address: "127.0.0.1:0".parse().unwrap(),
        tls: server_tls(&authority, ClientAuth::Need),
    });
    let settings = MetricsSettings { secure, ..MetricsSettings::default() };
    let ports = MetricsPorts::start(&server.handle(), settings).unwrap();
    assert_eq!(ports.address(), None);
    let address = ports.secure_address().unwrap();
    let own = Some(authority.sign("prometheus"));
    let stream = handshake(&authority, own.clone(), address).unwrap();
    let answer = ask(stream, "/metrics").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("# TYPE"), "{answer}");
    let elsewhere = ask(handshake(&authority, own, address).unwrap(), "/livez").unwrap();
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
}
