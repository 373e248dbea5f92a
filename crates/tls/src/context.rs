//! The files of one kind of port, loaded, and the configurations made from them.
//!
//! In: [`TlsSettings`]. Out: a configuration for each connection. The context is shared by all
//! connections and is replaced inside when the files change; a connection keeps the configuration that it
//! began with. Nobody is called back and nothing is watched: whoever wants changes to count calls
//! [`TlsContext::reload_if_changed`] now and then, from wherever it may read files.
//!
//! Apache: `X509Util` with `FileChangeWatcher`.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};

use crate::error::{TlsError, TlsWarning};
use crate::file::FileStamp;
use crate::load::{Loaded, load};
use crate::peer::Peer;
use crate::settings::{ClientAuth, Side, TlsSettings};
use crate::suites;
use crate::verifier::{ClientVerifier, ServerVerifier, WithoutCertificate};

/// TLS for one kind of port: the files as they were last read, and the settings that say how to use
/// them. Share it in an `Arc`.
///
/// ```no_run
/// use herdsman_tls::rustls::ClientConnection;
/// use herdsman_tls::{Peer, Side, StoreSettings, TlsContext, TlsSettings};
///
/// let settings = TlsSettings {
///     key_store: Some(StoreSettings::new("/etc/zookeeper/client.pem")),
///     trust_store: Some(StoreSettings::new("/etc/zookeeper/authority.pem")),
///     ..TlsSettings::default()
/// };
/// let context = TlsContext::load(settings, Side::Client)?;
/// let peer = Peer::dialled("zk1.example.com", [192, 0, 2, 1].into());
/// let connection = ClientConnection::new(context.client_config(&peer)?, peer.server_name())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TlsContext {
    settings: TlsSettings,
    side: Side,
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    skipped_suites: Vec<String>,
    current: RwLock<Arc<Current>>,
    /// Held during a reload, so that two do not run at once.
    watch: Mutex<Watch>,
}

/// What came of a look at the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reload {
    /// There is nothing new, or only what was reported before.
    Unchanged,
    /// New connections get what the files say now.
    Reloaded,
}

/// What connections are given, until the next reload.
struct Current {
    loaded: Loaded,
    /// For all clients, where their hosts are not checked.
    server: Option<Arc<ServerConfig>>,
    /// For all servers, where their hosts are not checked.
    client: Option<Arc<ClientConfig>>,
}

/// What is known about the files.
struct Watch {
    stamps: Vec<FileStamp>,
    /// What the last attempt to read them failed with.
    failure: Option<String>,
}

impl TlsContext {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or is not what it should be, or something is missing for this side of a
    /// connection; the error names the file, or the setting.
    pub fn load(settings: TlsSettings, side: Side) -> Result<Self, TlsError> {
        let (provider, skipped_suites) = suites::provider_with(&settings.cipher_suites)?;
        let versions = suites::versions(&settings.protocols);
        let stamps = stamps(&settings);
        let provider = Arc::new(provider);
        let maker = Maker { settings: &settings, provider: &provider, versions: &versions };
        let current = maker.load(side)?;
        Ok(Self {
            provider,
            versions,
            skipped_suites,
            side,
            current: RwLock::new(Arc::new(current)),
            watch: Mutex::new(Watch { stamps, failure: None }),
            settings,
        })
    }

    /// Reads the files again if one of them has changed. If that fails, what was read before stays in
    /// use. The same failure is reported once, however often this is called.
    ///
    /// # Errors
    /// The files have changed and cannot be used; the error says which and why.
    pub fn reload_if_changed(&self) -> Result<Reload, TlsError> {
        let mut watch = self.watch.lock();
        // Looked at before reading, so that a change while we read is seen the next time.
        let stamps = stamps(&self.settings);
        if stamps == watch.stamps && watch.failure.is_none() {
            return Ok(Reload::Unchanged);
        }
        match self.maker().load(self.side) {
            Ok(current) => {
                *self.current.write() = Arc::new(current);
                *watch = Watch { stamps, failure: None };
                Ok(Reload::Reloaded)
            }
            Err(error) => {
                // It is tried again each time, because it may be something that passes.
                let failure = Some(error.to_string());
                let is_known = watch.failure == failure && watch.stamps == stamps;
                *watch = Watch { stamps, failure };
                if is_known { Ok(Reload::Unchanged) } else { Err(error) }
            }
        }
    }

    /// What an operator should know about the files as they were last read, and about the settings.
    #[must_use]
    pub fn warnings(&self) -> Vec<TlsWarning> {
        let mut warnings = self.current().loaded.warnings.clone();
        if !self.skipped_suites.is_empty() {
            let names = self.skipped_suites.clone();
            warnings.push(TlsWarning::SkippedCipherSuites { names });
        }
        warnings
    }

    /// The configuration with which a connection from this peer is accepted.
    ///
    /// # Errors
    /// The context was loaded to dial only, and has no key store or no trust store.
    pub fn server_config(&self, peer: &Peer) -> Result<Arc<ServerConfig>, TlsError> {
        let current = self.current();
        match &current.server {
            Some(shared) if !self.settings.checks_client_host() => Ok(Arc::clone(shared)),
            _ => self.maker().server_config(&current.loaded, Some(peer)).map(Arc::new),
        }
    }

    /// The configuration with which this peer is dialled. It does the check of the host by itself, so the
    /// name that goes to `rustls::ClientConnection` is [`Peer::server_name`].
    ///
    /// # Errors
    /// The context was loaded to accept only, and has no trust store.
    pub fn client_config(&self, peer: &Peer) -> Result<Arc<ClientConfig>, TlsError> {
        let current = self.current();
        match &current.client {
            Some(shared) if !self.settings.verify_server_host => Ok(Arc::clone(shared)),
            _ => self.maker().client_config(&current.loaded, Some(peer)).map(Arc::new),
        }
    }

    /// Whether the certificates of those who connect must be for their hosts.
    #[must_use]
    pub fn checks_client_host(&self) -> bool {
        self.settings.checks_client_host()
    }

    /// Whether the certificates of those who are dialled must be for their hosts.
    #[must_use]
    pub fn checks_server_host(&self) -> bool {
        self.settings.verify_server_host
    }

    /// Whether to give this peer a name by [`reverse_lookup`](crate::reverse_lookup), which waits for the
    /// DNS, before asking for a configuration: the settings allow it, hosts are checked, and nothing but
    /// an address is known.
    #[must_use]
    pub fn wants_reverse_lookup(&self, peer: &Peer) -> bool {
        let checks = (self.side.accepts() && self.settings.checks_client_host())
            || (self.side.dials() && self.settings.verify_server_host);
        checks && self.settings.allow_reverse_dns && !peer.has_host_name()
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read())
    }

    fn maker(&self) -> Maker<'_> {
        Maker { settings: &self.settings, provider: &self.provider, versions: &self.versions }
    }
}

impl fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsContext")
            .field("settings", &self.settings)
            .field("side", &self.side)
            .finish_non_exhaustive()
    }
}

fn stamps(settings: &TlsSettings) -> Vec<FileStamp> {
    settings.files().into_iter().map(FileStamp::of).collect()
}

/// Makes configurations.
struct Maker<'a> {
    settings: &'a TlsSettings,
    provider: &'a Arc<CryptoProvider>,
    versions: &'a [&'static SupportedProtocolVersion],
}

impl Maker<'_> {
    /// Also makes the shared configurations, so that whatever can be wrong is wrong now and not with the
    /// first connection.
    fn load(&self, side: Side) -> Result<Current, TlsError> {
        let loaded = load(self.settings, side, self.provider.signature_verification_algorithms)?;
        let server = side.accepts().then(|| self.server_config(&loaded, None)).transpose()?;
        let client = side.dials().then(|| self.client_config(&loaded, None)).transpose()?;
        Ok(Current { loaded, server: server.map(Arc::new), client: client.map(Arc::new) })
    }

    fn server_config(
        &self,
        loaded: &Loaded,
        peer: Option<&Peer>,
    ) -> Result<ServerConfig, TlsError> {
        let identity = loaded.identity.clone().ok_or(TlsError::NoKeyStore)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(self.provider))
            .with_protocol_versions(self.versions)
            .map_err(TlsError::Inconsistent)?;
        let without_certificate = match self.settings.client_auth {
            ClientAuth::None => None,
            ClientAuth::Want => Some(WithoutCertificate::Welcome),
            ClientAuth::Need => Some(WithoutCertificate::Refused),
        };
        let builder = match without_certificate {
            None => builder.with_no_client_auth(),
            Some(without_certificate) => {
                let trust = loaded.trust.clone().ok_or(TlsError::NoTrustStore)?;
                let host = peer.filter(|_| self.settings.verify_client_host).cloned();
                let verifier = ClientVerifier { trust, host, without_certificate };
                builder.with_client_cert_verifier(Arc::new(verifier))
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    fn client_config(
        &self,
        loaded: &Loaded,
        peer: Option<&Peer>,
    ) -> Result<ClientConfig, TlsError> {
        let trust = loaded.trust.clone().ok_or(TlsError::NoTrustStore)?;
        let host = peer.filter(|_| self.settings.verify_server_host).cloned();
        let builder = ClientConfig::builder_with_provider(Arc::clone(self.provider))
            .with_protocol_versions(self.versions)
            .map_err(TlsError::Inconsistent)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ServerVerifier { trust, host }));
        let mut config = match loaded.identity.clone() {
            Some(identity) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}
