//! Ensembles whose servers use TLS and log in to each other.

use std::cell::RefCell;
use std::io::{Read, Write};

use herdsman_config::Config;
use herdsman_proto::notification::Hello;
use herdsman_proto::quorum::{LearnerInfo, LearnerKind};
use herdsman_proto::{Membership, QuorumPacket, ServerId};
use herdsman_testing::TestEnsemble;
use tempfile::NamedTempFile;

use crate::certificates::{Authority, Signed};
use crate::client::{Client, open};
use crate::log;

const JAAS: &str = r#"
QuorumServer {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_member="shared secret";
};
QuorumLearner {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="member"
    password="shared secret";
};
WrongPassword {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="member"
    password="a guess";
};
"#;

fn speak_tls(config: &mut Config, authority: &Authority, own: &Signed) {
    config.quorum_security.tls = true;
    config.quorum_tls.key_store = Some(own.file.clone());
    config.quorum_tls.trust_store = Some(authority.trust_store());
}

fn log_in(config: &mut Config, file: &NamedTempFile) {
    config.sasl.login_file = Some(file.path().to_owned());
    config.quorum_security.sasl = true;
    config.quorum_security.server_requires_sasl = true;
    config.quorum_security.learner_requires_sasl = true;
}

fn jaas_file() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), JAAS).unwrap();
    file
}

/// Data that is written at one server is read at the others.
fn check_exchange(ensemble: &TestEnsemble) {
    let leader = ensemble.await_leader();
    let mut writer = Client::connect(ensemble.address(leader));
    writer.create("/a", b"said", 0).ok();
    for id in ensemble.ids() {
        ensemble.await_that("the write is everywhere", || {
            let mut reader = Client::connect(ensemble.address(id));
            reader.get("/a", false).ok().filter(|(data, _)| data == b"said")
        });
    }
}

#[test]
fn servers_speak_tls_with_each_other() {
    let authority = Authority::new("ours");
    let own = authority.sign("server");
    let ensemble = TestEnsemble::start_with("", |_, config| speak_tls(config, &authority, &own));
    check_exchange(&ensemble);
}

#[test]
fn a_server_whose_certificate_is_for_another_host_stays_out() {
    let authority = Authority::new("ours");
    let (own, odd) = (authority.sign("server"), authority.sign_for("odd", &["elsewhere.example"]));
    let ensemble = TestEnsemble::start_with("", |id, config| {
        speak_tls(config, &authority, if id == 3 { &odd } else { &own });
    });
    check_stays_out(&ensemble);
}

#[test]
fn a_server_without_tls_stays_out() {
    let authority = Authority::new("ours");
    let own = authority.sign("server");
    let ensemble = TestEnsemble::start_with("", |id, config| {
        if id != 3 {
            speak_tls(config, &authority, &own);
        }
    });
    check_stays_out(&ensemble);
}

#[test]
fn servers_log_in_to_each_other() {
    let file = jaas_file();
    let ensemble = TestEnsemble::start_with("", |_, config| log_in(config, &file));
    check_exchange(&ensemble);
}

#[test]
fn a_server_with_a_wrong_password_stays_out() {
    let file = jaas_file();
    let ensemble = TestEnsemble::start_with("", |id, config| {
        log_in(config, &file);
        if id == 3 {
            config.quorum_security.learner_login_context = "WrongPassword".to_owned();
        }
    });
    check_stays_out(&ensemble);
}

#[test]
fn a_server_that_does_not_log_in_stays_out() {
    let file = jaas_file();
    let ensemble = TestEnsemble::start_with("", |id, config| {
        if id != 3 {
            log_in(config, &file);
        }
    });
    check_stays_out(&ensemble);
}

/// Every member has its own host and certificate.
fn own_certificates(authority: &Authority) -> [Signed; 3] {
    ["one", "two", "three"].map(|name| authority.sign_for(name, &[host_of(name)]))
}

fn host_of(name: &str) -> &'static str {
    match name {
        "one" => "127.0.0.1",
        "two" => "127.0.0.2",
        _ => "127.0.0.3",
    }
}

/// Members on separate addresses, each with one of these certificates.
fn start_apart(authority: &Authority, own: [&Signed; 3]) -> (TestEnsemble, Membership) {
    let membership = RefCell::new(Membership::default());
    let ensemble = TestEnsemble::start_with("", |id, config| {
        for (member, name) in
            config.quorum.membership.members.values_mut().zip(["one", "two", "three"])
        {
            member.addresses[0].host = host_of(name).to_owned();
        }
        membership.replace(config.quorum.membership.clone());
        speak_tls(config, authority, own[id - 1]);
    });
    (ensemble, membership.into_inner())
}

#[test]
fn members_have_certificates_of_their_own() {
    let authority = Authority::new("ours");
    let [one, two, three] = own_certificates(&authority);
    let (ensemble, _) = start_apart(&authority, [&one, &two, &three]);
    check_exchange(&ensemble);
}

/// A connection to a port of server 1 with this certificate.
fn call(port: u16, authority: &Authority, own: &Signed) -> impl Read + Write + use<> {
    let socket = open(([127, 0, 0, 1], port).into());
    let name = "127.0.0.1".try_into().unwrap();
    let tls = rustls::ClientConnection::new(authority.client_config(Some(own)), name).unwrap();
    rustls::StreamOwned::new(tls, socket)
}

fn hello(id: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Hello { server: ServerId(id), addresses: "127.0.0.1:1".to_owned() }.encode(&mut bytes);
    bytes
}

fn introduction(id: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let info = LearnerInfo { server: ServerId(id), protocol_version: 0x1_0000, config_version: 0 };
    let kind = LearnerKind::Follower;
    QuorumPacket::Info { kind, accepted_epoch: 0, info: Some(info) }.encode(&mut bytes);
    bytes
}

/// On both ports of a server: the other servers are down, so only the test connects to it.
#[test]
fn a_members_certificate_is_good_for_its_own_number_only() {
    log::listen();
    let authority = Authority::new("ours");
    let [one, two, three] = own_certificates(&authority);
    let (mut ensemble, membership) = start_apart(&authority, [&one, &two, &three]);
    ensemble.await_leader();
    ensemble.stop(2);
    ensemble.stop(3);
    let ports = &membership.members[&ServerId(1)].addresses[0];
    let refused = |port: u16, words: Vec<u8>| {
        let mut stream = call(port, &authority, &two);
        stream.write_all(&words).unwrap();
        let end = stream.read(&mut [0; 1]);
        assert!(!matches!(end, Ok(1..)), "server 1 sends data to a host that is not server 3");
    };
    refused(ports.election_port, hello(3));
    refused(ports.quorum_port, introduction(3));
    let why = "it claims to be server 3 (127.0.0.3), but its certificate is for 127.0.0.2";
    ensemble.await_that("two lines", || (log::lines_with(&why).len() == 2).then_some(()));
    // Under its own id it receives the vote of server 1.
    let mut stream = call(ports.election_port, &authority, &two);
    stream.write_all(&hello(2)).unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
}

/// Servers 1 and 2 form an ensemble; both reject server 3, which never serves.
fn check_stays_out(ensemble: &TestEnsemble) {
    ensemble.await_that("two of three serve", || {
        (ensemble.serves_as(1).is_some() && ensemble.serves_as(2).is_some()).then_some(())
    });
    let mut client = Client::connect(ensemble.address(1));
    for number in 0..50 {
        client.create(&format!("/{number}"), b"", 0).ok();
    }
    assert_eq!(ensemble.serves_as(3), None);
}
