//! Who gets through, and who does not.

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
        link.talk();
    }
}

#[test]
fn one_context_accepts_and_dials() {
    let parties = Parties::new();
    let context = TlsContext::load(parties.server, Side::Both).unwrap();
    connect(&context, &context).unwrap().talk();
}

#[test]
fn a_stranger_is_refused() {
    let mut parties = Parties::new();
    let stranger = Authority::new("stranger").issue("client");
    parties.client = parties.files.settings("stranger", &stranger.pem(), &parties.authority.pem());
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(refusal.server, Some(CertificateError::UnknownIssuer.into()));
    assert_eq!(refusal.client_says(), "the peer does not trust the issuer of our certificate");
}

#[test]
fn a_strange_server_is_refused_before_it_learns_who_we_are() {
    let mut parties = Parties::new();
    let stranger = Authority::new("stranger").issue("server");
    parties.server = parties.files.settings("stranger", &stranger.pem(), &parties.authority.pem());
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(
        refusal.client_says(),
        "the peer's certificate is signed by nobody in the trust store"
    );
    assert_eq!(refusal.server, Some(Error::AlertReceived(AlertDescription::UnknownCA)));
}

#[test]
fn a_certificate_out_of_its_time_is_refused_and_warned_of() {
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
        assert_eq!(refusal.server_says(), line);
    }
}

#[test]
fn a_client_without_certificate_is_refused_if_one_is_needed() {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let mut parties = Parties::new();
        parties.client.key_store = None;
        parties.server.protocols = vec![protocol];
        parties.server.client_auth = ClientAuth::Need;
        let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
        assert_eq!(
            refusal.server_says(),
            "the peer shows no certificate, and one is needed (ssl.clientAuth)"
        );

        for client_auth in [ClientAuth::Want, ClientAuth::None] {
            parties.server.client_auth = client_auth;
            let mut link = connect(&parties.server(), &parties.client()).unwrap();
            assert!(link.server.peer_certificates().is_none());
            link.talk();
        }
    }
}

#[test]
fn a_wanted_certificate_must_be_a_good_one() {
    let mut parties = Parties::new();
    parties.server.client_auth = ClientAuth::Want;
    assert!(connect(&parties.server(), &parties.client()).is_ok());
    let stranger = Authority::new("stranger").issue("client");
    parties.client = parties.files.settings("stranger", &stranger.pem(), &parties.authority.pem());
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(refusal.server, Some(CertificateError::UnknownIssuer.into()));
}

#[test]
fn a_certificate_that_is_not_asked_for_is_not_shown() {
    let mut parties = Parties::new();
    parties.server.client_auth = ClientAuth::None;
    parties.server.trust_store = None;
    let link = connect(&parties.server(), &parties.client()).unwrap();
    assert!(link.server.peer_certificates().is_none());
}

#[test]
fn nothing_in_common_is_said_so() {
    let mut parties = Parties::new();
    parties.server.protocols = vec![Protocol::Tls12];
    parties.client.protocols = vec![Protocol::Tls13];
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(refusal.server_says(), "the peer and we have no version of TLS in common");
    assert_eq!(refusal.client_says(), "the peer speaks no version of TLS that we offer");

    parties.client.protocols = vec![];
    parties.server.protocols = vec![];
    parties.server.cipher_suites = vec!["TLS_AES_128_GCM_SHA256".to_owned()];
    parties.client.cipher_suites = vec!["TLS_AES_256_GCM_SHA384".to_owned()];
    let refusal = connect(&parties.server(), &parties.client()).err().unwrap();
    assert_eq!(
        refusal.server_says(),
        "the peer and we have no cipher suite or signature algorithm in common"
    );
}

#[test]
fn cipher_suites_that_go_with_no_protocol_are_an_error_at_once() {
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
        assert_eq!(
            describe_failure(&error),
            "the peer does not speak TLS: it sends plain bytes",
            "{bytes:?}"
        );
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
            link.talk();
            assert_eq!(link.client.handshake_kind(), Some(HandshakeKind::Full));
        }
    }
}

#[test]
fn what_is_missing_is_named() {
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
