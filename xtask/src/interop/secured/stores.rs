//! Key stores, trust stores and a JAAS file, created with the JDK's own keytool, as by an operator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::run;

/// The password of every store and key.
pub const PASSWORD: &str = "correct horse";
/// The hosts of every certificate.
const HOSTS: &str = "san=dns:localhost,ip:127.0.0.1";

/// Files in a folder.
pub struct Stores {
    folder: PathBuf,
}

impl Stores {
    /// Creates an authority, a server's and a client's key in JKS and PKCS12, a trust store, and a
    /// self-signed certificate that is not trusted.
    pub fn make(folder: &Path) -> Result<Stores> {
        fs::create_dir_all(folder)?;
        let stores = Stores { folder: folder.to_path_buf() };
        stores.generate("ca.p12", "PKCS12", "ca", "CN=Authority", &["bc:c"])?;
        stores.keytool(&["-exportcert", "-rfc", "-alias", "ca", "-file", "ca.pem"], "ca.p12")?;
        for (file, kind, owner) in [
            ("server.jks", "JKS", "CN=server,O=Herd"),
            ("client.jks", "JKS", "CN=client"),
            ("other.p12", "PKCS12", "CN=other"),
        ] {
            stores.generate(file, kind, "own", owner, &[HOSTS])?;
            stores.sign(file)?;
        }
        stores.import("trust.jks", "JKS", "ca")?;
        stores.generate("untrusted.jks", "JKS", "own", "CN=client", &[HOSTS])?;
        fs::write(stores.path("jaas.conf"), JAAS)?;
        Ok(stores)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The settings of a kind of port, each starting with the prefix.
    pub fn settings(&self, prefix: &str, key_store: &str) -> Vec<(String, String)> {
        [
            ("keyStore.location", self.path(key_store).display().to_string()),
            ("keyStore.password", PASSWORD.to_owned()),
            ("trustStore.location", self.path("trust.jks").display().to_string()),
            ("trustStore.password", PASSWORD.to_owned()),
        ]
        .map(|(name, value)| (format!("{prefix}{name}"), value))
        .to_vec()
    }

    /// The key and the certificate of a store in one PEM file, as programs without Java need them.
    pub fn exported(&self, store: &str) -> Result<PathBuf> {
        let (whole, pem) = (format!("{store}.all.p12"), self.path(&format!("{store}.pem")));
        let to = ["-deststorepass", PASSWORD, "-deststoretype", "PKCS12"];
        let from =
            ["-importkeystore", "-noprompt", "-srckeystore", store, "-srcstorepass", PASSWORD];
        let mut keytool = Command::new("keytool");
        keytool.current_dir(&self.folder).args(from).args(to).args(["-destkeystore", &whole]);
        run::output(&mut keytool)?;
        let mut openssl = Command::new("openssl");
        openssl.current_dir(&self.folder).args(["pkcs12", "-clcerts", "-in", &whole, "-out"]);
        let password = format!("pass:{PASSWORD}");
        run::output(openssl.arg(&pem).args(["-passin", &password, "-passout", &password]))?;
        Ok(pem)
    }

    fn generate(
        &self,
        file: &str,
        kind: &str,
        alias: &str,
        owner: &str,
        more: &[&str],
    ) -> Result<()> {
        let mut arguments =
            vec!["-genkeypair", "-alias", alias, "-keyalg", "EC", "-groupname", "secp256r1"];
        arguments.extend(["-storetype", kind, "-keypass", PASSWORD, "-dname", owner]);
        arguments.extend(["-validity", "30"]);
        for extension in more {
            arguments.extend(["-ext", extension]);
        }
        self.keytool(&arguments, file)
    }

    /// Signs the key in a store with the authority.
    fn sign(&self, file: &str) -> Result<()> {
        self.keytool(
            &["-certreq", "-alias", "own", "-keypass", PASSWORD, "-file", "request"],
            file,
        )?;
        self.keytool(
            &[
                "-gencert", "-alias", "ca", "-ext", HOSTS, "-infile", "request", "-outfile",
                "signed",
            ],
            "ca.p12",
        )?;
        self.import(file, "JKS", "ca")?;
        let signed = ["-importcert", "-noprompt", "-alias", "own", "-file", "signed"];
        self.keytool(&[&signed[..], &["-keypass", PASSWORD]].concat(), file)
    }

    fn import(&self, file: &str, kind: &str, alias: &str) -> Result<()> {
        let arguments = ["-importcert", "-noprompt", "-alias", alias, "-file", "ca.pem"];
        self.keytool(&[&arguments[..], &["-storetype", kind]].concat(), file)
    }

    fn keytool(&self, arguments: &[&str], store: &str) -> Result<()> {
        let mut keytool = Command::new("keytool");
        keytool.current_dir(&self.folder).args(arguments);
        keytool.args(["-keystore", store, "-storepass", PASSWORD]);
        run::output(&mut keytool).map(drop)
    }
}

const JAAS: &str = r#"
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="admin secret"
    user_bob="bob's secret";
};
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="bob"
    password="bob's secret";
};
WrongClient {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="bob"
    password="a guess";
};
QuorumServer {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_member="shared secret";
};
QuorumLearner {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="member"
    password="shared secret";
};
WrongLearner {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="member"
    password="a guess";
};
"#;
