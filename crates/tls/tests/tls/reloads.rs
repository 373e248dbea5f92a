//! Files that change under a running server.

use herdsman_tls::{Password, Reload, Secret, Side, TlsContext};

use crate::authority::{Authority, Parties};
use crate::connection::connect;
use crate::tools::{PASSWORD, encrypt_key};

#[test]
fn a_new_certificate_is_shown_to_new_connections_while_old_ones_live_on() {
    let parties = Parties::new();
    let (server, client) = (parties.server(), parties.client());
    let mut old = connect(&server, &client).unwrap();
    assert_eq!(server.reload_if_changed().unwrap(), Reload::Unchanged);

    let renewed = parties.authority.issue("renewed");
    parties.files.put("server-key.pem", renewed.pem());
    assert_eq!(server.reload_if_changed().unwrap(), Reload::Reloaded);
    assert_eq!(server.reload_if_changed().unwrap(), Reload::Unchanged);

    let mut new = connect(&server, &client).unwrap();
    assert_eq!(new.server_certificate(), renewed.der.as_ref());
    new.exchange();
    assert_ne!(old.server_certificate(), renewed.der.as_ref());
    old.exchange();
}

#[test]
fn a_peer_that_is_no_longer_trusted_gets_no_new_connection() {
    let parties = Parties::new();
    let (server, client) = (parties.server(), parties.client());
    let mut old = connect(&server, &client).unwrap();
    parties.files.put("server-trust.pem", Authority::new("another").pem());
    assert_eq!(server.reload_if_changed().unwrap(), Reload::Reloaded);
    let refusal = connect(&server, &client).err().unwrap();
    assert_eq!(
        refusal.server_error(),
        "the peer's certificate is not signed by any authority in the trust store"
    );
    old.exchange();
}

#[test]
fn a_broken_file_is_reported_once_and_the_old_one_stays_in_use() {
    let parties = Parties::new();
    let (server, client) = (parties.server(), parties.client());
    let before = connect(&server, &client).unwrap().server_certificate();

    let path = parties.files.put("server-key.pem", "nonsense");
    let error = server.reload_if_changed().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: no PEM block", path.display())), "{error}");
    assert_eq!(server.reload_if_changed().unwrap(), Reload::Unchanged);
    assert_eq!(connect(&server, &client).unwrap().server_certificate(), before);

    // A different failure is reported again.
    std::fs::remove_file(&path).unwrap();
    let error = server.reload_if_changed().unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot read {}", path.display())), "{error}");
    assert_eq!(server.reload_if_changed().unwrap(), Reload::Unchanged);
    assert_eq!(connect(&server, &client).unwrap().server_certificate(), before);

    let mended = parties.authority.issue("mended");
    parties.files.put("server-key.pem", mended.pem());
    assert_eq!(server.reload_if_changed().unwrap(), Reload::Reloaded);
    assert_eq!(connect(&server, &client).unwrap().server_certificate(), mended.der.as_ref());
}

#[test]
fn a_key_without_its_certificate_is_half_an_update() {
    let parties = Parties::new();
    let (server, client) = (parties.server(), parties.client());
    let (one, other) = (parties.authority.issue("one"), parties.authority.issue("other"));
    let half = format!("{}{}", one.key_pem, other.certificate_pem);
    let path = parties.files.put("server-key.pem", half);
    assert_eq!(
        server.reload_if_changed().unwrap_err().to_string(),
        format!("{}: the private key does not match the certificate", path.display())
    );
    connect(&server, &client).unwrap().exchange();
}

#[test]
fn a_password_in_a_file_is_read_again() {
    let mut parties = Parties::new();
    let leaf = parties.authority.issue("server");
    let sealed = encrypt_key(&leaf.key_pem, &["-v2", "aes-256-cbc"]);
    parties.files.put("server-key.pem", sealed + &leaf.certificate_pem);
    let password = parties.files.put("password", "wrong\n");
    let store = parties.server.key_store.take().unwrap();
    parties.server.key_store = Some(store.with_password(Password::InFile(password)));
    let error = TlsContext::load(parties.server.clone(), Side::Server).unwrap_err().to_string();
    assert!(error.ends_with("the password is wrong, or the file is damaged"), "{error}");

    parties.files.put("password", format!("{PASSWORD}\n"));
    let server = parties.server();
    connect(&server, &parties.client()).unwrap().exchange();

    parties.files.put("password", "wrong\n");
    assert!(server.reload_if_changed().is_err());
    parties.files.put("password", PASSWORD);
    assert_eq!(server.reload_if_changed().unwrap(), Reload::Reloaded);
}

#[test]
fn errors_and_debug_output_contain_no_password() {
    let mut parties = Parties::new();
    let leaf = parties.authority.issue("server");
    let sealed = encrypt_key(&leaf.key_pem, &["-v2", "aes-256-cbc"]);
    parties.files.put("server-key.pem", sealed + &leaf.certificate_pem);
    let store = parties.server.key_store.take().unwrap();
    let secret = |text: &str| Password::Given(Secret::new(text.to_owned()));
    parties.server.key_store = Some(store.clone().with_password(secret(PASSWORD)));
    let server = parties.server();
    assert!(!format!("{server:?} {:?}", parties.server).contains(PASSWORD));

    parties.server.key_store = Some(store.with_password(secret("wrong tulip")));
    let error = TlsContext::load(parties.server.clone(), Side::Server).unwrap_err();
    assert!(!format!("{error} {error:?} {:?}", parties.server).contains("tulip"));
}
