//! Apache's zkCli, through TLS with a certificate and with SASL: its ids, and what it may read.

use std::path::Path;

use anyhow::{Result, ensure};

use super::c_client;
use super::stores::Stores;
use crate::ports;
use crate::run;
use crate::server::{self, Program, Server, Spec};

/// Without a comma, which zkCli treats as the end of an ACL.
const CLIENT: &str = "CN=client";
const NOT_ALLOWED: &str = "Insufficient permission";

/// Starts a server with a TLS port and logins, and runs the clients.
pub fn run(program: Program, work: &Path, stores: &Stores) -> Result<()> {
    let secure_port = ports::free_ports(1)?;
    let server = start(program, work, stores, secure_port)?;
    let secure = format!("127.0.0.1:{secure_port}");
    certificates(stores, &secure)?;
    println!("ok      zkCli with client certificates");
    logins(stores, &server)?;
    println!("ok      zkCli with SASL logins");
    c_client::run(stores, &server.address, &secure)?;
    server.stop()
}

fn start(program: Program, work: &Path, stores: &Stores, secure_port: u16) -> Result<Server> {
    let mut spec = Spec::new(program, &work.join("clients"));
    spec.settings = vec![
        format!("secureClientPort={secure_port}"),
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider".to_owned(),
    ];
    for (name, value) in stores.settings("ssl.", "server.jks") {
        spec.settings.push(format!("{name}={value}"));
    }
    let jaas = stores.path("jaas.conf").display().to_string();
    spec.property("java.security.auth.login.config", &jaas).start()
}

/// Returns what zkCli printed.
fn zkcli(address: &str, properties: &[(String, String)], commands: &str) -> Result<String> {
    let mut java = server::java(Program::Apache);
    java.args(properties.iter().map(|(name, value)| format!("-D{name}={value}")));
    java.args(["org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-timeout", "8000"]);
    java.args(["-server", address]);
    Ok(run::all_output(&mut java, commands)?.printed)
}

fn through_tls(stores: &Stores, key_store: &str) -> Vec<(String, String)> {
    let mut properties = stores.settings("zookeeper.ssl.", key_store);
    let fixed = [
        ("zookeeper.client.secure", "true"),
        ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
    ];
    properties.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    properties
}

fn certificates(stores: &Stores, secure: &str) -> Result<()> {
    let made = format!("whoami\ncreate /tls secret x509:{CLIENT}:cdrwa\nget /tls\nquit\n");
    let own = zkcli(secure, &through_tls(stores, "client.jks"), &made)?;
    ensure!(own.contains(&format!("x509: {CLIENT}")), "whoami does not know the subject:\n{own}");
    ensure!(own.contains("\nsecret"), "its own znode cannot be read:\n{own}");
    let other = zkcli(secure, &through_tls(stores, "other.p12"), "get /tls\nquit\n")?;
    ensure!(other.contains(NOT_ALLOWED), "another certificate reads it:\n{other}");
    let untrusted = zkcli(secure, &through_tls(stores, "untrusted.jks"), "ls /\nquit\n")?;
    ensure!(!untrusted.contains("[tls"), "an unsigned certificate was accepted:\n{untrusted}");
    Ok(())
}

fn with_login(stores: &Stores, section: &str) -> Vec<(String, String)> {
    [
        ("java.security.auth.login.config", stores.path("jaas.conf").display().to_string()),
        ("zookeeper.sasl.clientconfig", section.to_owned()),
        // Apache's client does not support DIGEST-MD5 otherwise.
        ("zookeeper.fips-mode", "false".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn logins(stores: &Stores, server: &Server) -> Result<()> {
    let made = "whoami\ncreate /sasl secret sasl:bob:cdrwa\nget /sasl\nquit\n";
    let bob = zkcli(&server.address, &with_login(stores, "Client"), made)?;
    ensure!(bob.contains("sasl: bob"), "whoami does not know the user:\n{bob}");
    ensure!(bob.contains("\nsecret"), "his own znode cannot be read:\n{bob}");
    let anonymous = zkcli(&server.address, &[], "get /sasl\nquit\n")?;
    ensure!(anonymous.contains(NOT_ALLOWED), "a client without a login can read it:\n{anonymous}");
    let wrong_password =
        zkcli(&server.address, &with_login(stores, "WrongClient"), "get /sasl\nquit\n")?;
    ensure!(
        !wrong_password.contains("\nsecret"),
        "a wrong password was accepted:\n{wrong_password}"
    );
    Ok(())
}
