//! TLS and SASL: the flags, the files, and the errors if they are wrong.

use std::path::Path;

use herdsman_testing::TestServer;
use tempfile::TempDir;

use crate::world::shell;
use herdsman_testing::Authority;

const JAAS: &str = r#"Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="tulip";
};
"#;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

#[test]
fn the_flags_open_a_protected_port() {
    let authority = Authority::new();
    let server = authority.start_server();
    let (address, trust, own) =
        (server.secure_address().to_string(), authority.trust_store(), authority.sign("ann"));
    let flags = [
        "--server",
        address.as_str(),
        "--tls-trust-store",
        text(&trust),
        "--tls-key-store",
        text(&own),
    ];
    let run = |words: &[&str]| shell(&[&flags[..], words].concat(), "");
    assert_eq!(run(&["create", "/a", "x"]).ok(), "Created /a\n");
    assert_eq!(run(&["get", "/a"]).ok(), "x\n");
    assert!(run(&["whoami"]).ok().contains("x509: CN=ann"));
}

#[test]
fn a_file_of_zkcli_opens_a_protected_port() {
    let authority = Authority::new();
    let server = authority.start_server();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("client.properties");
    let lines = format!(
        "zookeeper.client.secure=true\n\
         zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n\
         zookeeper.ssl.keyStore.location={}\nzookeeper.ssl.trustStore.location={}\n",
        text(&authority.sign("ann")),
        text(&authority.trust_store()),
    );
    std::fs::write(&file, lines).unwrap();
    let address = server.secure_address().to_string();
    let ran = shell(&["-server", &address, "-client-configuration", text(&file), "ls", "/"], "");
    assert_eq!(ran.ok(), "[zookeeper]\n");
}

#[test]
fn an_untrusted_server_is_reported() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = others.start_server();
    let (address, trust) = (server.secure_address().to_string(), ours.trust_store());
    let flags = ["--server", &address, "--tls-trust-store", text(&trust)];
    let failed =
        shell(&[&flags[..], &["--connect-timeout", "2", "ls", "/"]].concat(), "").failed(1);
    assert!(failed.contains("not signed by any authority in the trust store"), "{failed}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let flags = ["--server", "127.0.0.1:1", "--tls-trust-store"];
    let run = |words: &[&str]| shell(&[&flags[..], words].concat(), "");
    let missing = run(&["/nowhere/ca.pem", "ls", "/"]).failed(1);
    assert!(missing.contains("cannot read /nowhere/ca.pem"), "{missing}");
    let strange = run(&["/nowhere/ca.zip", "ls", "/"]).failed(1);
    assert!(strange.contains("/nowhere/ca.zip"), "{strange}");
}

#[test]
fn a_user_logs_in_with_a_password_from_a_file() {
    let directory = TempDir::new().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let jaas = file("jaas.conf", JAAS);
    let server = TestServer::start_with(|config| {
        config.sasl.login_file = Some(jaas);
        config.access.sasl_scheme = true;
    });
    let address = server.connect_string();
    let run = |password: &Path, words: &[&str]| {
        let flags = ["--sasl-user", "ann", "--sasl-password-file", text(password)];
        shell(&[&["--server", address.as_str()], &flags[..], words].concat(), "")
    };
    let right = file("right", "tulip\n");
    assert!(run(&right, &["whoami"]).ok().contains("sasl: ann"));
    let wrong = run(&file("wrong", "rose"), &["whoami"]).failed(1);
    assert!(wrong.contains("the user name or the password is wrong"), "{wrong}");
    assert!(!wrong.contains("rose"), "{wrong}");
    let nobody =
        shell(&["--server", &address, "--sasl-password-file", text(&right), "ls", "/"], "");
    assert_eq!(nobody.failed(2), "--sasl-password-file needs --sasl-user");
}

#[test]
fn a_user_logs_in_by_a_jaas_file() {
    let directory = TempDir::new().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let class = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let client = format!("Client {{ {class} required username=ann password=tulip; }};");
    let jaas = file("jaas.conf", &format!("{JAAS}{client}"));
    let server = TestServer::start_with(|config| {
        config.sasl.login_file = Some(jaas.clone());
        config.access.sasl_scheme = true;
    });
    let address = server.connect_string();
    let run = |words: &[&str]| shell(&[&["--server", address.as_str()], words].concat(), "");
    assert!(run(&["--sasl-jaas-file", text(&jaas), "whoami"]).ok().contains("sasl: ann"));
    let lines = format!("java.security.auth.login.config={}\n", text(&jaas));
    let configuration = file("client.properties", &lines);
    let ids = run(&["-client-configuration", text(&configuration), "whoami"]).ok();
    assert!(ids.contains("sasl: ann"), "{ids}");
    let other = file("other.properties", &format!("{lines}zookeeper.sasl.clientconfig=Other\n"));
    let refused = run(&["-client-configuration", text(&other), "whoami"]).failed(2);
    assert!(refused.contains("no section `Other` with a login module"), "{refused}");
}

#[test]
fn without_kerberos_support_the_error_says_how_to_build_it() {
    let server = TestServer::start();
    let address = server.connect_string();
    let failed = shell(&["--server", &address, "--sasl-kerberos", "ls", "/"], "").failed(1);
    assert!(failed.contains("build it with `cargo build --features kerberos`"), "{failed}");
}
