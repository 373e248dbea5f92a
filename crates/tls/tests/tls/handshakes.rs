//! Which handshakes succeed.

use herdsman_tls::rustls::{
    AlertDescription, CertificateError, Error, HandshakeKind, ProtocolVersion, ServerConnection,
};
use herdsman_tls::{
    ClientAuth, Peer, Protocol, Side, TlsContext, TlsError, TlsWarning, describe_failure,
    subject_name,
};
use rcgen::date_time_ymd;

use crate::authority::{Authority, Parties, leaf_params};
use crate::connection::{HERE, connect};

#[test]
fn both_sides_know_each_other_with_either_protocol() {
    for (protocol, version) in
        [(Protocol::Tls12, ProtocolVersion::TLSv1_2), (Protocol::Tls13, ProtocolVersion::TLSv1_3)]
    {
        let mut parties = Parties::new();
        parties.server.protocols = vec![protocol];
        let mut link = connect(&parties.server(), &parties.client()).unwrap();
        assert_eq!(link.server.protocol_version(), Some(version));
        let certificates = link.server.peer_certificates().unwrap();
        assert_eq!(subject_name(&certificates[0]).unwrap(), "CN=client");
        link.exchange();
    }
}

#[test]
fn one_context_accepts_and_dials() {
    let parties = Parties::new();
    let context = TlsContext::load(parties.server, Side::Both).unwrap();
    connect(&context, &context).unwrap().exchange();
}

#[test]
fn an_untrusted_client_is_rejected() {
    let mut parties = Parties::new();
    let untrusted = Authority::new("untrusted").issue("client");
    parties.client =
        parties.files.settings("untrusted", &untrusted.pem(), &parties.authority.pem());
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(refusal.server, Some(CertificateError::UnknownIssuer.into()));
    assert_eq!(refusal.client_error(), "the peer does not trust the issuer of our certificate");
}

#[test]
fn an_untrusted_server_never_sees_our_certificate() {
    let mut parties = Parties::new();
    let untrusted = Authority::new("untrusted").issue("server");
    parties.server =
        parties.files.settings("untrusted", &untrusted.pem(), &parties.authority.pem());
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(
        refusal.client_error(),
        "the peer's certificate is not signed by any authority in the trust store"
    );
    assert_eq!(refusal.server, Some(Error::AlertReceived(AlertDescription::UnknownCA)));
}

#[test]
fn a_certificate_outside_its_validity_is_rejected_and_reported() {
    for (from, to, line) in [
        (2001, 2002, "the peer's certificate has expired"),
        (2901, 2902, "the peer's certificate is not valid yet"),
    ] {
        let mut parties = Parties::new();
        let mut params = leaf_params("client");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let leaf = parties.authority.sign(&params);
        parties.client = parties.files.settings("client", &leaf.pem(), &parties.authority.pem());

        let client = parties.client();
        let [TlsWarning::NotValidNow { subject, .. }] = &client.warnings()[..] else {
            panic!("{:?}", client.warnings());
        };
        assert_eq!(subject, "CN=client");
        let refusal = connect(&parties.server(), &client).err().unwrap();
        assert_eq!(refusal.server_error(), line);
    }
}

#[test]
fn a_client_without_certificate_is_rejected_if_one_is_required() {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let mut parties = Parties::new();
        parties.client.key_store = None;
        parties.server.protocols = vec![protocol];
        parties.server.client_auth = ClientAuth::Need;
        let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
        assert_eq!(
            refusal.server_error(),
            "the peer sent no certificate, but one is required (ssl.clientAuth)"
        );

        for client_auth in [ClientAuth::Want, ClientAuth::None] {
            parties.server.client_auth = client_auth;
            let mut link = connect(&parties.server(), &parties.client()).unwrap();
            assert!(link.server.peer_certificates().is_none());
            link.exchange();
        }
    }
}

#[test]
fn an_optional_certificate_must_be_valid() {
    let mut parties = Parties::new();
    parties.server.client_auth = ClientAuth::Want;
    assert!(connect(&parties.server(), &parties.client()).is_ok());
    let untrusted = Authority::new("untrusted").issue("client");
    parties.client =
        parties.files.settings("untrusted", &untrusted.pem(), &parties.authority.pem());
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(refusal.server, Some(CertificateError::UnknownIssuer.into()));
}

#[test]
fn a_certificate_that_is_not_requested_is_not_sent() {
    let mut parties = Parties::new();
    parties.server.client_auth = ClientAuth::None;
    parties.server.trust_store = None;
    let link = connect(&parties.server(), &parties.client()).unwrap();
    assert!(link.server.peer_certificates().is_none());
}

#[test]
fn incompatible_settings_are_named() {
    let mut parties = Parties::new();
    parties.server.protocols = vec![Protocol::Tls12];
    parties.client.protocols = vec![Protocol::Tls13];
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(refusal.server_error(), "no TLS version in common with the peer");
    assert_eq!(refusal.client_error(), "the peer supports no TLS version that we offer");

    parties.client.protocols = vec![];
    parties.server.protocols = vec![];
    parties.server.cipher_suites = vec!["TLS_AES_128_GCM_SHA256".to_owned()];
    parties.client.cipher_suites = vec!["TLS_AES_256_GCM_SHA384".to_owned()];
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(
        refusal.server_error(),
        "no cipher suite or signature algorithm in common with the peer"
    );
}

#[test]
fn cipher_suites_without_a_protocol_are_an_error_when_loading() {
    let mut parties = Parties::new();
    parties.server.protocols = vec![Protocol::Tls12];
    parties.server.cipher_suites = vec!["TLS_AES_128_GCM_SHA256".to_owned()];
    let error = TlsContext::load(parties.server, Side::Server).unwrap_err();
    assert!(matches!(error, TlsError::Inconsistent(_)), "{error}");
}

#[test]
fn plain_bytes_are_recognised() {
    let parties = Parties::new();
    let server = parties.server();
    for bytes in [&b"ruok\n"[..], b"GET / HTTP/1.1\r\n\r\n", &[0, 0, 0, 45, 0, 0, 0, 0, 0, 0]] {
        let config = server.server_config(&Peer::at(HERE)).unwrap();
        let mut connection = ServerConnection::new(config).unwrap();
        connection.read_tls(&mut &*bytes).unwrap();
        let error = connection.process_new_packets().unwrap_err();
        assert_eq!(describe_failure(&error), "the peer sent plain bytes, not TLS", "{bytes:?}");
    }
}

#[test]
fn every_connection_is_checked_anew() {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let mut parties = Parties::new();
        parties.server.protocols = vec![protocol];
        parties.client.verify_server_host = false;
        let (server, client) = (parties.server(), parties.client());
        for _ in 0..3 {
            let mut link = connect(&server, &client).unwrap();
            link.exchange();
            assert_eq!(link.client.handshake_kind(), Some(HandshakeKind::Full));
        }
    }
}

#[test]
fn missing_settings_are_named() {
    let parties = Parties::new();
    let check = |key: bool, trust: bool, client_auth, side, expected: &str| {
        let mut settings = parties.server.clone();
        settings.client_auth = client_auth;
        settings.key_store = settings.key_store.filter(|_| key);
        settings.trust_store = settings.trust_store.filter(|_| trust);
        let error = TlsContext::load(settings, side).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(false, true, ClientAuth::Need, Side::Server, "set ssl.keyStore.location");
    check(false, true, ClientAuth::Need, Side::Both, "set ssl.keyStore.location");
    check(true, false, ClientAuth::Need, Side::Server, "set ssl.trustStore.location");
    check(true, false, ClientAuth::Want, Side::Server, "set ssl.trustStore.location");
    check(true, false, ClientAuth::None, Side::Client, "set ssl.trustStore.location");
    check(true, false, ClientAuth::None, Side::Both, "set ssl.trustStore.location");
}
