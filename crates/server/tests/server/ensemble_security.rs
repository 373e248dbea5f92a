//! Ensembles whose servers speak TLS and log in to each other.

use herdsman_server::TestEnsemble;
use herdsman_server::config::Config;
use tempfile::NamedTempFile;

use crate::certificates::{Authority, Signed};
use crate::client::Client;

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
Impostor {
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

/// What is written at one server is read at the others.
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
            config.quorum_security.learner_login_context = "Impostor".to_owned();
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

/// Servers 1 and 2 form an ensemble; 3 is refused by both and never serves.
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
