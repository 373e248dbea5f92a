//! Stores of every format, valid and invalid.

use std::path::Path;

use herdsman_tls::{
    Password, Secret, Side, StoreKind, StoreSettings, TlsContext, TlsSettings, TlsWarning,
};

use crate::authority::{Authority, Files, Parties};
use crate::connection::connect;
use crate::tools::{PASSWORD, encrypt_key, keytool_stores, run};

fn given(password: &str) -> Password {
    Password::Given(Secret::new(password.to_owned()))
}

/// A server with this key store that does not ask for client certificates.
fn server_of(store: StoreSettings) -> Result<TlsContext, String> {
    let settings = TlsSettings {
        key_store: Some(store),
        client_auth: herdsman_tls::ClientAuth::None,
        ..TlsSettings::default()
    };
    TlsContext::load(settings, Side::Server).map_err(|error| error.to_string())
}

/// A client with this trust store.
fn client_of(store: StoreSettings) -> Result<TlsContext, String> {
    let settings = TlsSettings { trust_store: Some(store), ..TlsSettings::default() };
    TlsContext::load(settings, Side::Client).map_err(|error| error.to_string())
}

/// What is wrong with a key store, without the file name in front.
fn problem(path: &Path, password: Password) -> String {
    let error = server_of(StoreSettings::new(path).with_password(password)).unwrap_err();
    error.strip_prefix(&format!("{}: ", path.display())).expect("the file is named").to_owned()
}

const WRONG_PASSWORD: &str = "the password is wrong, or the file is damaged";

#[test]
fn keys_in_pem_come_in_many_forms() {
    let files = Files::new();
    let authority = Authority::new("root");
    let client = client_of(StoreSettings::new(files.put("trust.pem", authority.pem()))).unwrap();
    let leaf = authority.issue("server");
    files.put("plain", &leaf.key_pem);
    run(files.dir(), "openssl", &["ec", "-in", "plain", "-out", "sec1"]);
    let sec1 = std::fs::read_to_string(files.path("sec1")).unwrap();
    assert!(sec1.contains("BEGIN EC PRIVATE KEY"), "{sec1}");
    let mut keys = vec![leaf.key_pem.clone(), sec1];
    for options in [
        &["-v2", "aes-256-cbc"][..],
        &["-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1"],
        &["-v2", "des3"],
        &["-scrypt"],
        // The encryption that Apache's own tests use.
        &["-v1", "PBE-SHA1-3DES"],
    ] {
        keys.push(encrypt_key(&leaf.key_pem, options));
    }
    for key in keys {
        let path = files.put("server.pem", format!("some words\n{key}{}", leaf.certificate_pem));
        let store = StoreSettings::new(path.clone()).with_password(given(PASSWORD));
        let server = server_of(store).unwrap_or_else(|error| panic!("{error}\n{key}"));
        connect(&server, &client).unwrap().exchange();
        if key.contains("ENCRYPTED") {
            assert_eq!(problem(&path, given("wrong")), WRONG_PASSWORD, "{key}");
            let needed = "the private key is encrypted: set the store's password";
            assert_eq!(problem(&path, Password::None), needed);
        }
    }
}

#[test]
fn an_rsa_key_of_the_old_form_is_read() {
    let files = Files::new();
    let arguments = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "key",
        "-out",
        "certificate",
        "-days",
        "3650",
        "-subj",
        "/CN=127.0.0.1",
    ];
    run(files.dir(), "openssl", &arguments);
    run(files.dir(), "openssl", &["rsa", "-in", "key", "-out", "pkcs1", "-traditional"]);
    let read = |name: &str| std::fs::read_to_string(files.path(name)).unwrap();
    assert!(read("pkcs1").contains("BEGIN RSA PRIVATE KEY"));
    let key = files.put("server.pem", read("certificate") + &read("pkcs1"));
    let trust = files.put("trust.pem", read("certificate"));
    let client = client_of(StoreSettings::new(trust)).unwrap();
    connect(&server_of(StoreSettings::new(key)).unwrap(), &client).unwrap().exchange();

    let password = format!("pass:{PASSWORD}");
    let arguments =
        ["rsa", "-in", "key", "-aes256", "-traditional", "-out", "old", "-passout", &password];
    run(files.dir(), "openssl", &arguments);
    let path = files.put("old.pem", read("certificate") + &read("old"));
    assert_eq!(
        problem(&path, given(PASSWORD)),
        "the private key is in OpenSSL's traditional encryption: convert it with openssl pkcs8 -topk8"
    );
}

#[test]
fn jks_stores_of_keytool_are_read_and_damage_is_detected() {
    let files = Files::new();
    let (key, trust) = keytool_stores(&files, "JKS", "jks");
    let store = StoreSettings::new(key.clone()).with_password(given(PASSWORD));
    let server = server_of(store).unwrap();
    for password in [given(PASSWORD), Password::None] {
        let client = client_of(StoreSettings::new(trust.clone()).with_password(password)).unwrap();
        connect(&server, &client).unwrap().exchange();
    }
    assert_eq!(problem(&key, given("wrong")), WRONG_PASSWORD);
    assert_eq!(
        problem(&key, Password::None),
        "the private key is encrypted: set the store's password"
    );
    assert_eq!(problem(&trust, given(PASSWORD)), "no private key found");
    let error = client_of(StoreSettings::new(key.clone())).unwrap_err();
    assert!(error.ends_with("no trusted certificate found"), "{error}");

    let whole = std::fs::read(&key).unwrap();
    let damaged = files.path("damaged.jks");
    for end in 0..whole.len() {
        std::fs::write(&damaged, &whole[..end]).unwrap();
        let problem = problem(&damaged, Password::None);
        assert!(
            problem.starts_with("damaged") || problem.starts_with("neither a JKS"),
            "cut to {end}: {problem}"
        );
        let store = StoreSettings::new(&damaged).with_password(given(PASSWORD));
        assert!(server_of(store).is_err(), "cut to {end}");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(&damaged, &bytes).unwrap();
        let store = StoreSettings::new(&damaged).with_password(given(PASSWORD));
        assert!(server_of(store).is_err(), "byte {at}");
        // Without the password the digest is not checked; what matters is that this does not panic.
        assert!(server_of(StoreSettings::new(&damaged)).is_err(), "byte {at}");
    }
}

#[test]
fn pkcs12_stores_of_keytool_are_read_under_either_name() {
    let files = Files::new();
    for extension in ["p12", "jks"] {
        let (key, trust) = keytool_stores(&files, "PKCS12", extension);
        let server = server_of(StoreSettings::new(key.clone()).with_password(given(PASSWORD)));
        let trust = StoreSettings::new(trust).with_password(given(PASSWORD));
        connect(&server.unwrap(), &client_of(trust).unwrap()).unwrap().exchange();
        assert_eq!(problem(&key, given("wrong")), WRONG_PASSWORD);
        assert_eq!(problem(&key, Password::None), WRONG_PASSWORD);
    }
}

#[test]
fn pkcs12_stores_of_openssl_are_read_in_old_and_new_encryption() {
    let files = Files::new();
    let authority = Authority::new("root");
    let below = authority.subordinate("below");
    let leaf = below.issue("server");
    files.put("all.pem", leaf.pem() + &below.pem());
    files.put("root.pem", authority.pem());
    let password = format!("pass:{PASSWORD}");
    for options in [&["-certpbe", "AES-256-CBC"][..], &["-legacy"]] {
        let export = ["pkcs12", "-export", "-passout", &password];
        let key = ["-in", "all.pem", "-out", "key.pfx"];
        run(files.dir(), "openssl", &[&export[..], &key, options].concat());
        let trust = ["-in", "root.pem", "-nokeys", "-out", "trust.p12"];
        run(files.dir(), "openssl", &[&export[..], &trust, options].concat());
        let open = |name: &str| StoreSettings::new(files.path(name)).with_password(given(PASSWORD));
        let (server, client) = (server_of(open("key.pfx")), client_of(open("trust.p12")));
        // The client knows only the root, so the server has sent the authority in between.
        connect(&server.unwrap(), &client.unwrap()).unwrap().exchange();
        assert_eq!(problem(&files.path("key.pfx"), given("wrong")), WRONG_PASSWORD);
        let error = client_of(open("key.pfx")).unwrap_err();
        assert!(error.ends_with("no trusted certificate found"), "{error}");
    }

    let whole = std::fs::read(files.path("key.pfx")).unwrap();
    for end in (0..whole.len()).step_by(7) {
        let path = files.put("cut.p12", &whole[..end]);
        assert!(server_of(StoreSettings::new(path).with_password(given(PASSWORD))).is_err());
    }
}

#[test]
fn invalid_stores_are_described() {
    let files = Files::new();
    let authority = Authority::new("root");
    let (one, other) = (authority.issue("one"), authority.issue("other"));
    for (name, content, expected) in [
        ("a.jks", b"nonsense".to_vec(), "neither a JKS nor a PKCS12 store"),
        ("a.p12", vec![], "neither a JKS nor a PKCS12 store"),
        (
            "b.jks",
            vec![0xce, 0xce, 0xce, 0xce, 0],
            "JCEKS stores are not supported: convert the store with keytool -importkeystore \
             -deststoretype PKCS12",
        ),
        (
            "c.jks",
            [&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 3][..], &[0; 24]].concat(),
            "unsupported protection (version 3 of JKS): write the store again with a \
             current keytool or openssl",
        ),
        (
            "a.pem",
            b"nonsense".to_vec(),
            "no PEM block found: a PEM file has lines like -----BEGIN CERTIFICATE-----",
        ),
        (
            "b.pem",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec(),
            "damaged: a CERTIFICATE block does not hold a certificate",
        ),
        ("c.pem", one.certificate_pem.clone().into(), "no private key found"),
        ("d.pem", one.key_pem.clone().into(), "no certificate found"),
        (
            "e.pem",
            format!("{}{}", one.key_pem, other.certificate_pem).into(),
            "the private key does not match the certificate",
        ),
    ] {
        let path = files.put(name, content);
        assert_eq!(problem(&path, Password::None), expected, "{name}");
    }
    let cut = one.pem();
    let path = files.put("f.pem", &cut[..cut.len() - 40]);
    assert!(problem(&path, Password::None).starts_with("damaged: a PEM block"));
}

#[test]
fn a_store_without_extension_needs_its_kind() {
    let parties = Parties::new();
    let path = parties.files.put("store", parties.authority.issue("server").pem());
    let mut store = StoreSettings::new(path);
    let error = server_of(store.clone()).unwrap_err();
    assert!(error.contains("set its type to JKS, PEM or PKCS12"), "{error}");
    store.kind = Some(StoreKind::Pem);
    assert!(server_of(store).is_ok());
}

#[test]
fn a_weak_key_is_rejected() {
    let files = Files::new();
    let arguments = [
        "req",
        "-x509",
        "-newkey",
        "rsa:1024",
        "-nodes",
        "-keyout",
        "key",
        "-out",
        "certificate",
        "-subj",
        "/CN=weak",
    ];
    run(files.dir(), "openssl", &arguments);
    let read = |name: &str| std::fs::read_to_string(files.path(name)).unwrap();
    let path = files.put("weak.pem", read("key") + &read("certificate"));
    let problem = problem(&path, Password::None);
    assert!(problem.starts_with("unsupported private key"), "{problem}");
}

#[test]
fn of_several_keys_the_first_is_used_with_a_warning() {
    let files = Files::new();
    let authority = Authority::new("root");
    let (one, other) = (authority.issue("one"), authority.issue("other"));
    // The order of the certificates does not matter: each key is matched to its own.
    let path = files.put("server.pem", other.certificate_pem.clone() + &one.pem() + &other.key_pem);
    let server = server_of(StoreSettings::new(path.clone())).unwrap();
    assert_eq!(server.warnings(), [TlsWarning::SeveralKeys { file: path, count: 2 }]);
    let client = client_of(StoreSettings::new(files.put("trust.pem", authority.pem()))).unwrap();
    assert_eq!(connect(&server, &client).unwrap().server_certificate(), one.der.as_ref());
}
