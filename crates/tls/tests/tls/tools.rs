//! Runs `openssl` and `keytool`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::authority::Files;

/// The password of all stores in these tests.
pub const PASSWORD: &str = "secret tulip";

/// Runs a program in a directory and checks that it succeeds.
pub fn run(dir: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(dir).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed here: {error}"));
    let output_bytes = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output_bytes));
}

/// Encrypts a key in PKCS8 with [`PASSWORD`], by `openssl pkcs8 -topk8` with these options.
pub fn encrypt_key(key_pem: &str, options: &[&str]) -> String {
    let files = Files::new();
    files.put("key", key_pem);
    let password = format!("pass:{PASSWORD}");
    let fixed = ["pkcs8", "-topk8", "-in", "key", "-out", "sealed", "-passout", &password];
    run(files.dir(), "openssl", &[&fixed[..], options].concat());
    std::fs::read_to_string(files.path("sealed")).unwrap()
}

/// Makes a key store with one self-signed RSA certificate for 127.0.0.1 and a trust store with that
/// certificate, both of one `keytool` type.
pub fn keytool_stores(files: &Files, kind: &str, extension: &str) -> (PathBuf, PathBuf) {
    let (key, trust) = (format!("key.{extension}"), format!("trust.{extension}"));
    let protection = ["-storepass", PASSWORD, "-storetype", kind, "-noprompt"];
    let keytool = |arguments: &[&str]| {
        run(files.dir(), "keytool", &[arguments, &protection[..]].concat());
    };
    keytool(&[
        "-genkeypair",
        "-alias",
        "server",
        "-keyalg",
        "RSA",
        "-keysize",
        "2048",
        "-dname",
        "CN=store",
        "-ext",
        "san=ip:127.0.0.1",
        "-validity",
        "3650",
        "-keystore",
        &key,
    ]);
    keytool(&["-exportcert", "-alias", "server", "-file", "certificate", "-keystore", &key]);
    keytool(&["-importcert", "-alias", "peer", "-file", "certificate", "-keystore", &trust]);
    (files.path(&key), files.path(&trust))
}
