//! Servers with a TLS port. Tests of other crates include this file, too.

use herdsman_server::config::Endpoint;
use herdsman_server::{Config, TestServer};

use crate::certificates::Authority;

impl Authority {
    /// A server with a TLS port, where everybody must show a certificate.
    pub fn start_server(&self) -> TestServer {
        self.start_server_with(|_| {})
    }

    /// The same with settings of its own.
    pub fn start_server_with(&self, adjust: impl FnOnce(&mut Config)) -> TestServer {
        let key_store = self.sign("server");
        TestServer::start_with(|config| {
            config.listen.secure_client =
                Some(Endpoint { host: Some("127.0.0.1".to_owned()), port: 0 });
            config.access.x509_scheme = true;
            config.tls.key_store = Some(key_store);
            config.tls.trust_store = Some(self.trust_store());
            adjust(config);
        })
    }
}
