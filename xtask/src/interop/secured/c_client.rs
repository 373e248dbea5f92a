//! Apache's C client: through TLS with a certificate, and with a SASL login. It does not support both at
//! once (ZOOKEEPER-3482).

use std::fs;

use anyhow::{Result, ensure};

use super::stores::{PASSWORD, Stores};
use crate::interop::c;
use crate::peers;

const SECRET: &str = "secret";
const NOT_ALLOWED: &str = "rc = -102";

/// Reads what zkCli has created: `/tls` is for the certificate of `client`, `/sasl` for the user `bob`.
pub fn run(stores: &Stores, plain: &str, secure: &str) -> Result<()> {
    certificates(stores, secure)?;
    println!("ok      the C client with certificates");
    logins(stores, plain)?;
    println!("ok      the C client with SASL logins");
    Ok(())
}

fn get(flags: &[&str], address: &str, path: &str) -> Result<String> {
    c::printed_by(&peers::secure_cli(), flags, address, &format!("get {path}"))
}

fn certificates(stores: &Stores, secure: &str) -> Result<()> {
    let read_as = |store: &str| {
        let own = stores.exported(store)?.display().to_string();
        let authority = stores.path("ca.pem").display().to_string();
        get(&["--ssl", &[&authority, &own, &own, PASSWORD].join(",")], secure, "/tls")
    };
    let own = read_as("client.jks")?;
    ensure!(own.contains(SECRET), "its own znode cannot be read:\n{own}");
    let other = read_as("other.p12")?;
    ensure!(other.contains(NOT_ALLOWED), "another certificate reads it:\n{other}");
    let untrusted = read_as("untrusted.jks")?;
    let is_out = !untrusted.contains(SECRET) && !untrusted.contains(NOT_ALLOWED);
    ensure!(is_out, "an unsigned certificate was accepted:\n{untrusted}");
    let none = get(&[], secure, "/tls")?;
    let is_out = !none.contains(SECRET) && !none.contains(NOT_ALLOWED);
    ensure!(is_out, "a client without TLS was accepted:\n{none}");
    Ok(())
}

fn logins(stores: &Stores, plain: &str) -> Result<()> {
    let file = stores.path("bob.password");
    let read_with = |password: &str| {
        fs::write(&file, password)?;
        let file = file.display().to_string();
        // The server's name in this mechanism, which the client would not guess.
        let flags = ["--mechlist", "DIGEST-MD5", "--server-fqdn", "zk-sasl-md5", "--user", "bob"];
        get(&[&flags[..], &["--password-file", &file]].concat(), plain, "/sasl")
    };
    let bob = read_with("bob's secret")?;
    ensure!(bob.contains(SECRET), "his own znode cannot be read:\n{bob}");
    let anonymous = get(&[], plain, "/sasl")?;
    ensure!(anonymous.contains(NOT_ALLOWED), "a client without a login can read it:\n{anonymous}");
    let wrong_password = read_with("a guess")?;
    let is_out = !wrong_password.contains(SECRET) && !wrong_password.contains(NOT_ALLOWED);
    ensure!(is_out, "a wrong password was accepted:\n{wrong_password}");
    Ok(())
}
