//! Loads the files for one kind of port and builds the TLS configurations from them.
//!
//! In: [`TlsSettings`]. Out: a configuration for each connection. All connections share the context, whose
//! content is replaced when the files change; an open connection keeps the configuration it started with.
//! There are no callbacks and no file watcher: the owner calls [`TlsContext::reload_if_changed`]
//! periodically, from a thread that may read files.
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

/// TLS for one kind of port: the files as last read, and the settings that say how to use them. Share it in
/// an `Arc`.
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
    /// Held during a reload, so that reloads do not overlap.
    watch: Mutex<WatchState>,
}

/// Result of [`TlsContext::reload_if_changed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reload {
    /// Nothing has changed, or the failure was already reported.
    Unchanged,
    /// New connections use the new files.
    Reloaded,
}

/// What connections use until the next reload.
struct Current {
    loaded: Loaded,
    /// Shared by all clients if their hosts are not checked.
    server: Option<Arc<ServerConfig>>,
    /// Shared by all servers if their hosts are not checked.
    client: Option<Arc<ClientConfig>>,
}

/// State of the files at the last reload.
struct WatchState {
    stamps: Vec<FileStamp>,
    /// The error of the last attempt to read them.
    failure: Option<String>,
}

impl TlsContext {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or has the wrong content, or a file that this side of a connection needs is
    /// not set. The error names the file or the setting.
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
            watch: Mutex::new(WatchState { stamps, failure: None }),
            settings,
        })
    }

    /// Reads the files again if one of them has changed. If that fails, the old content stays in use. The
    /// same failure is returned only once, however often this is called.
    ///
    /// # Errors
    /// The files have changed and cannot be used.
    pub fn reload_if_changed(&self) -> Result<Reload, TlsError> {
        let mut watch = self.watch.lock();
        // Taken before reading, so that a change during the read is noticed next time.
        let stamps = stamps(&self.settings);
        if stamps == watch.stamps && watch.failure.is_none() {
            return Ok(Reload::Unchanged);
        }
        match self.maker().load(self.side) {
            Ok(current) => {
                *self.current.write() = Arc::new(current);
                *watch = WatchState { stamps, failure: None };
                Ok(Reload::Reloaded)
            }
            Err(error) => {
                // Tried again on each call, because the failure may be temporary.
                let failure = Some(error.to_string());
                let is_known = watch.failure == failure && watch.stamps == stamps;
                *watch = WatchState { stamps, failure };
                if is_known { Ok(Reload::Unchanged) } else { Err(error) }
            }
        }
    }

    /// Returns warnings about the files and the settings, for the operator.
    #[must_use]
    pub fn warnings(&self) -> Vec<TlsWarning> {
        let mut warnings = self.current().loaded.warnings.clone();
        if !self.skipped_suites.is_empty() {
            let names = self.skipped_suites.clone();
            warnings.push(TlsWarning::SkippedCipherSuites { names });
        }
        warnings
    }

    /// Returns the configuration for accepting a connection from this peer.
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

    /// Returns the configuration for connecting to this peer. It checks the host itself, so the name to
    /// pass to `rustls::ClientConnection` is [`Peer::server_name`].
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

    /// Whether a client's certificate must match its host.
    #[must_use]
    pub fn checks_client_host(&self) -> bool {
        self.settings.checks_client_host()
    }

    /// Whether a server's certificate must match its host.
    #[must_use]
    pub fn checks_server_host(&self) -> bool {
        self.settings.verify_server_host
    }

    /// Whether the caller should find this peer's name with [`reverse_lookup`](crate::reverse_lookup),
    /// which waits for the DNS, before it asks for a configuration: the settings allow it, hosts are
    /// checked, and only an address is known.
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

/// Builds configurations.
struct Maker<'a> {
    settings: &'a TlsSettings,
    provider: &'a Arc<CryptoProvider>,
    versions: &'a [&'static SupportedProtocolVersion],
}

impl Maker<'_> {
    /// Also builds the shared configurations, so that every error shows up now and not at the first
    /// connection.
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
            ClientAuth::Want => Some(WithoutCertificate::Allowed),
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
