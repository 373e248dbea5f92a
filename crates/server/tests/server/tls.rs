//! The TLS client port: which clients are accepted, and what is logged.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::sync::Arc;

use herdsman_config::{ClientAuth, Config, Endpoint};
use herdsman_proto::{ConnectResponse, SessionId};
use herdsman_testing::TestServer;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::certificates::{Authority, Signed, write_at_once};
use crate::client::{connect_request, open};
use crate::words::{ask_bytes, wait_for};

fn secure(config: &mut Config, authority: &Authority, server: &Signed) {
    config.listen.secure_client = Some(Endpoint { host: Some("127.0.0.1".to_owned()), port: 0 });
    config.access.x509_scheme = true;
    config.tls.key_store = Some(server.file.clone());
    config.tls.trust_store = Some(authority.trust_store());
}

/// A server with a TLS port.
pub fn start(authority: &Authority, adjust: impl FnOnce(&mut Config)) -> TestServer {
    let server = authority.sign("server");
    TestServer::start_with(|config| {
        secure(config, authority, &server);
        adjust(config);
    })
}

/// A connection whose first write does the handshake.
pub type TlsStream = StreamOwned<ClientConnection, TcpStream>;

pub fn open_tls(address: SocketAddr, config: Arc<ClientConfig>) -> TlsStream {
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), open(address))
}

/// Opens a session through TLS, or returns the error.
fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<SessionId> {
    let mut stream = open_tls(address, config);
    let mut hello = Vec::new();
    connect_request(SessionId::NONE, &[0; 16]).encode_frame(&mut hello);
    stream.write_all(&hello)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut payload = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut payload)?;
    Ok(ConnectResponse::decode(&payload).unwrap().session)
}

#[test]
fn a_client_with_a_good_certificate_gets_a_session() {
    let authority = Authority::new("ours");
    let server = start(&authority, |_| {});
    let client = authority.sign("client");
    let session = connect(server.secure_address(), authority.client_config(Some(&client)));
    assert_ne!(session.unwrap(), SessionId::NONE);
}

#[test]
fn others_do_not() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = start(&ours, |_| {});
    let (stranger, expired) = (theirs.sign("client"), ours.sign_expired("client"));
    for own in [None, Some(&stranger), Some(&expired)] {
        assert!(connect(server.secure_address(), ours.client_config(own)).is_err());
    }
    let mut plain = open(server.secure_address());
    plain.write_all(b"ruok").unwrap();
    let mut answer = Vec::new();
    _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"imok"));
    // Other clients are still served.
    let client = ours.sign("client");
    connect(server.secure_address(), ours.client_config(Some(&client))).unwrap();
}

#[test]
fn a_certificate_is_asked_for_as_it_is_set() {
    let authority = Authority::new("ours");
    for (client_auth, lets_in) in
        [(ClientAuth::Need, false), (ClientAuth::Want, true), (ClientAuth::None, true)]
    {
        let server = start(&authority, |config| config.tls.client_auth = client_auth);
        let session = connect(server.secure_address(), authority.client_config(None));
        assert_eq!(session.is_ok(), lets_in, "{client_auth:?}");
    }
}

#[test]
fn a_port_for_both_takes_both() {
    let authority = Authority::new("ours");
    let server = start(&authority, |config| config.client_tls.port_unification = true);
    let client = authority.sign("client");
    connect(server.secure_address(), authority.client_config(Some(&client))).unwrap();
    let mut plain = open(server.secure_address());
    plain.write_all(b"ruok").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "imok");
}

#[test]
fn handshakes_under_way_are_limited_and_stalled_ones_end() {
    let authority = Authority::new("ours");
    let server = start(&authority, |config| {
        config.client_tls.handshakes_max = NonZeroU32::new(2);
        config.listen.sessionless_timeout_ms = 3000;
    });
    let under_way = |wanted: usize| {
        let text = format!("zk_outstanding_tls_handshake\t{wanted}");
        wait_for(&text, || ask_bytes(server.address(), b"mntr").contains(&text));
    };
    // They send nothing, and keep their connections.
    let mut stalled = [open(server.secure_address()), open(server.secure_address())];
    under_way(2);
    let client = authority.sign("client");
    let config = authority.client_config(Some(&client));
    assert!(connect(server.secure_address(), Arc::clone(&config)).is_err());
    let metrics = ask_bytes(server.address(), b"mntr");
    assert!(metrics.contains("zk_tls_handshake_exceeded\t1"), "{metrics}");
    // Plain clients do not notice.
    crate::client::Client::connect(server.address());
    for stream in &mut stalled {
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0, "a stalled handshake is ended");
    }
    under_way(0);
    connect(server.secure_address(), config).unwrap();
}

/// A silent connection may stay for ten minutes here, but does not delay the end of the server.
#[test]
fn a_stop_does_not_wait_for_stalled_handshakes() {
    let authority = Authority::new("ours");
    let server = start(&authority, |config| config.listen.sessionless_timeout_ms = 600_000);
    let mut stalled = open(server.secure_address());
    wait_for("the handshake", || {
        ask_bytes(server.address(), b"mntr").contains("zk_outstanding_tls_handshake\t1")
    });
    drop(server);
    assert_eq!(stalled.read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn changed_files_are_read_again() {
    let (authority, next) = (Authority::new("ours"), Authority::new("next"));
    let own = authority.sign("server");
    let server = TestServer::start_with(|config| {
        secure(config, &authority, &own);
        config.client_tls.reload_certificates = true;
    });
    let (client, newcomer) = (authority.sign("client"), next.sign("client"));
    connect(server.secure_address(), authority.client_config(Some(&client))).unwrap();
    assert!(connect(server.secure_address(), next.client_config(Some(&newcomer))).is_err());
    // Unusable files change nothing.
    write_at_once(&own.file, "not a key");
    connect(server.secure_address(), authority.client_config(Some(&client))).unwrap();
    let renewed = next.sign("server");
    write_at_once(&own.file, &std::fs::read_to_string(renewed.file).unwrap());
    write_at_once(&authority.trust_store(), &std::fs::read_to_string(next.trust_store()).unwrap());
    wait_for("new certificates", || {
        connect(server.secure_address(), next.client_config(Some(&newcomer))).is_ok()
    });
    assert!(connect(server.secure_address(), authority.client_config(Some(&client))).is_err());
}

#[test]
fn a_key_that_cannot_be_used_keeps_the_server_from_starting() {
    let authority = Authority::new("ours");
    let own = authority.sign("server");
    let mut server = TestServer::start();
    server.stop();
    server.configure(|config| secure(config, &authority, &own));
    std::fs::write(&own.file, "not a key").unwrap();
    let refusal = server.try_start().expect_err("there is no key").to_string();
    assert!(refusal.contains("server.pem"), "{refusal}");
}
