//! TLS and SASL of the tools, where the process matters: passwords from the environment, and a server
//! with HTTPS.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use herdsman_testing::TestServer;

use crate::process::{Process, config, herdsman};
use herdsman_testing::Authority;

const JAAS: &str = r#"Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="tulip";
};
"#;

/// Runs a tool with one more variable in its environment.
pub fn run(arguments: &[&str], variable: Option<(&str, &str)>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
    let settable = ["TLS_PASSWORD", "SASL_PASSWORD", "AUTH", "SERVERS"];
    for name in settable {
        command.env_remove(format!("HERDSMAN_{name}"));
    }
    command.args(arguments).envs(variable).output().expect("the binary runs")
}

pub fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", errors(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

/// The same key and certificate under a password.
pub fn locked(pem: &Path, password: &str) -> PathBuf {
    let file = pem.with_extension("p12");
    let made = Command::new("openssl")
        .args(["pkcs12", "-export", "-passout", &format!("pass:{password}"), "-in", text(pem)])
        .args(["-out", text(&file)])
        .status();
    assert!(made.expect("openssl runs").success());
    file
}

#[test]
fn the_password_of_a_key_store_comes_from_the_environment() {
    let authority = Authority::new();
    let server = authority.start_server();
    let (address, trust) = (server.secure_address().to_string(), authority.trust_store());
    let own = locked(&authority.sign("ann"), "tulip");
    let flags =
        ["--servers", &address, "--tls-trust-store", text(&trust), "--tls-key-store", text(&own)];
    let shell = [&["shell"], &flags[..], &["whoami"]].concat();
    let right = run(&shell, Some(("HERDSMAN_TLS_PASSWORD", "tulip")));
    assert!(out(&right).contains("x509: CN=ann"), "{}", out(&right));
    let wrong = run(&shell, Some(("HERDSMAN_TLS_PASSWORD", "daisy")));
    assert_eq!(wrong.status.code(), Some(1));
    assert!(errors(&wrong).contains("ann.p12: the password is wrong"), "{}", errors(&wrong));
    assert!(!errors(&wrong).contains("daisy"));
    let recipe = [&["recipe", "locks", "/"], &flags[..]].concat();
    out(&run(&recipe, Some(("HERDSMAN_TLS_PASSWORD", "tulip"))));
}

#[test]
fn the_password_of_a_login_comes_from_the_environment() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let jaas = directory.path().join("jaas.conf");
    std::fs::write(&jaas, JAAS).expect("written");
    let server = TestServer::start_with(|config| {
        config.sasl.login_file = Some(jaas);
        config.access.sasl_scheme = true;
    });
    let address = server.connect_string();
    let shell = ["shell", "--servers", &address, "--sasl-user", "ann", "whoami"];
    assert!(out(&run(&shell, Some(("HERDSMAN_SASL_PASSWORD", "tulip")))).contains("sasl: ann"));
    let without = run(&shell, None);
    assert_eq!(without.status.code(), Some(2));
    assert!(
        errors(&without).contains("the variable HERDSMAN_SASL_PASSWORD"),
        "{}",
        errors(&without)
    );
}

#[test]
fn a_server_has_its_console_by_https() {
    let authority = Authority::new();
    let lines = format!(
        "admin.forceHttps=true\nssl.quorum.keyStore.location={}\n",
        text(&authority.sign("server"))
    );
    let directory = config(&lines);
    let mut server = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let line = server.line_with("console and admin commands on ").expect("it starts");
    let url = line.trim_end().split(" on ").last().expect("an address");
    assert!(url.starts_with("https://127.0.0.1:"), "{line}");
    let trust = authority.trust_store();
    let health = ["health", "--admin", url, "--tls-trust-store", text(&trust)];
    assert!(out(&run(&health, None)).contains("ok"));
    let blind = run(&health[..3], None);
    assert_eq!(blind.status.code(), Some(1));
    assert!(errors(&blind).contains("needs --tls-trust-store"), "{}", errors(&blind));
    let stranger = Authority::new();
    let other = stranger.trust_store();
    let refused = run(&[&health[..4], &[text(&other)]].concat(), None);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("not signed by any authority"), "{}", errors(&refused));
}

#[test]
fn credentials_come_from_the_environment_or_a_file() {
    let server = TestServer::start();
    let servers = server.connect_string();
    let variable = Some(("HERDSMAN_AUTH", "digest:ann:tulip"));
    let shell = |more: &[&str], variable| {
        run(&[&["shell", "--servers", &servers], more, &["whoami"]].concat(), variable)
    };
    assert!(out(&shell(&[], variable)).contains("digest: ann"));
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "digest:bob:tulip\ndigest:cat:tulip\n").expect("written");
    let of_file = out(&shell(&["--auth-file", text(file.path())], variable));
    assert!(of_file.contains("digest: bob") && of_file.contains("digest: cat"), "{of_file}");
    assert!(!of_file.contains("ann"), "the flag counts: {of_file}");
    let wrong = shell(&[], Some(("HERDSMAN_AUTH", "tulip")));
    assert_eq!(wrong.status.code(), Some(2));
    let said = errors(&wrong);
    assert!(said.starts_with("HERDSMAN_AUTH: credentials are"), "{said}");
    assert!(!said.contains("tulip"), "{said}");
    let locks = ["recipe", "--servers", &servers, "--auth-file", text(file.path()), "locks"];
    out(&run(&locks, None));
}

#[test]
fn a_console_whose_certificate_is_missing_stays_closed_and_the_server_runs() {
    let directory =
        config("admin.forceHttps=true\nssl.quorum.keyStore.location=/nowhere/key.pem\n");
    let mut server = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let line = server.line_with("the admin server cannot use TLS").expect("it says so");
    assert!(line.contains("/nowhere/key.pem"), "{line}");
    server.port();
}

#[test]
fn a_backup_is_taken_and_restored_by_https() {
    let authority = Authority::new();
    let lines = format!(
        "admin.forceHttps=true\nadmin.needClientAuth=true\nadmin.restore.enabled=true\n\
         ssl.quorum.keyStore.location={key}\nssl.quorum.trustStore.location={trust}\n\
         authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n\
         X509AuthenticationProvider.superUser=CN=root\n",
        key = text(&authority.sign("server")),
        trust = text(&authority.trust_store()),
    );
    let directory = config(&lines);
    let mut server = Process::start(herdsman(directory.path(), &["zoo.cfg"]));
    let line = server.line_with("console and admin commands on ").expect("it starts");
    let url = line.trim_end().split(" on ").last().expect("an address").to_owned();
    let address = format!("127.0.0.1:{}", server.port());
    let only_root = ["setAcl", "/", "x509:CN=root:cdrwa"];
    out(&run(&[&["shell", "--servers", &address][..], &only_root].concat(), None));
    let (trust, file) = (authority.trust_store(), directory.path().join("backup.snapshot"));
    let asked = |name: &str, command: &[&str]| {
        let own = authority.sign(name);
        let flags =
            ["--server", &url, "--tls-trust-store", text(&trust), "--tls-key-store", text(&own)];
        run(&[command, &flags[..]].concat(), None)
    };
    let backup = ["backup", "-o", text(&file)];
    let refused = asked("ann", &backup);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("answered 40"), "{}", errors(&refused));
    out(&asked("root", &backup));
    out(&asked("root", &["restore", "--yes", text(&file)]));
    let blind = run(&["backup", "--force", "-o", text(&file), "--server", &url], None);
    assert!(errors(&blind).contains("needs --tls-trust-store"), "{}", errors(&blind));
}
