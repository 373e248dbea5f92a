//! Keys and certificates of this server: creates TLS contexts from the settings, and a thread that reloads changed
//! files. Apache: `X509Util` and its `FileChangeWatcher`.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use herdsman_tls::{
    Password, Protocol, Reload, Revocation, Side, StoreSettings, TlsContext, TlsError, TlsSettings,
};
use parking_lot::{Condvar, Mutex};
use tracing::{info, warn};

use crate::error::StartError;
use crate::logins::Logins;
use herdsman_config::{ClientAuth, Config, Mode, Secret, Tls};
use herdsman_quorum::login::QuorumSasl;
use herdsman_quorum::security::{
    IncomingProtection, OutgoingProtection, QuorumProtection, QuorumTls,
};
use herdsman_runtime::spawn;

/// How often the files are checked.
const LOOK: Duration = Duration::from_secs(1);

/// The TLS contexts of a server.
#[derive(Default)]
pub(crate) struct Certificates {
    /// For the client port.
    pub clients: Option<Arc<TlsContext>>,
    /// For the ports between servers.
    pub servers: Option<Arc<TlsContext>>,
}

impl Certificates {
    /// Reads the files of all ports that use TLS.
    pub fn load(config: &Config) -> Result<Self, StartError> {
        let security = &config.quorum_security;
        // A single member may have no key: see `QuorumProtection::keyless`.
        let between_servers = config.mode != Mode::Standalone
            && (security.tls || security.port_unification)
            && config.quorum_tls.key_store.is_some();
        Ok(Certificates {
            clients: match config.listen.secure_client {
                Some(_) => Some(load(&config.tls, Side::Server, "with clients")?),
                None => None,
            },
            servers: match between_servers {
                true => Some(load(&config.quorum_tls, Side::Both, "between servers")?),
                false => None,
            },
        })
    }

    /// Starts watching the files, if so configured.
    pub fn watch(&self, config: &Config) -> io::Result<Option<CertificateWatch>> {
        let (clients, servers) = (self.clients.clone(), self.servers.clone());
        let clients = clients.filter(|_| config.client_tls.reload_certificates);
        let servers = servers.filter(|_| config.quorum_security.reload_certificates);
        let watched: Vec<_> = clients
            .map(|context| ("for clients", context))
            .into_iter()
            .chain(servers.map(|context| ("for servers", context)))
            .collect();
        (!watched.is_empty()).then(|| CertificateWatch::start(watched)).transpose()
    }

    /// The protection of the connections between servers.
    pub fn quorum_protection(&self, config: &Config, logins: &Logins) -> QuorumProtection {
        let security = &config.quorum_security;
        let tls = self.servers.clone().map(|context| QuorumTls {
            context,
            outgoing: if security.tls {
                OutgoingProtection::Tls
            } else {
                OutgoingProtection::Plain
            },
            incoming: if security.port_unification {
                IncomingProtection::Both
            } else {
                IncomingProtection::Tls
            },
            detection_timeout: Duration::from_millis(
                config.quorum_tls.detection_timeout_ms.max(1).into(),
            ),
        });
        let sasl = logins.servers.clone().zip(logins.own.clone()).map(|(logins, own)| QuorumSasl {
            logins,
            own,
            required_here: security.server_requires_sasl,
            done_there: security.learner_requires_sasl,
        });
        QuorumProtection { keyless: security.tls && tls.is_none(), tls, sasl }
    }
}

fn load(tls: &Tls, side: Side, purpose: &'static str) -> Result<Arc<TlsContext>, StartError> {
    let context = tls_settings(tls)
        .and_then(|settings| TlsContext::load(settings, side))
        .map_err(|source| StartError::Tls { purpose, source })?;
    for warning in context.warnings() {
        warn!("TLS {purpose}: {warning}");
    }
    Ok(Arc::new(context))
}

/// The TLS settings of one kind of ports.
///
/// # Errors
/// A protocol or a kind of store is unknown.
pub fn tls_settings(tls: &Tls) -> Result<TlsSettings, TlsError> {
    Ok(TlsSettings {
        key_store: store(
            tls.key_store.as_deref(),
            tls.key_store_password.as_ref(),
            tls.key_store_password_file.as_deref(),
            tls.key_store_kind.as_deref(),
        )?,
        trust_store: store(
            tls.trust_store.as_deref(),
            tls.trust_store_password.as_ref(),
            tls.trust_store_password_file.as_deref(),
            tls.trust_store_kind.as_deref(),
        )?,
        protocols: protocols(tls)?,
        cipher_suites: tls.cipher_suites.clone(),
        client_auth: match tls.client_auth {
            ClientAuth::None => herdsman_tls::ClientAuth::None,
            ClientAuth::Want => herdsman_tls::ClientAuth::Want,
            ClientAuth::Need => herdsman_tls::ClientAuth::Need,
        },
        verify_server_host: tls.verify_hosts,
        verify_client_host: tls.verify_hosts && tls.verify_client_hosts,
        allow_reverse_dns: false,
        revocation: match tls.revocation {
            true => Revocation::Checked { crl_file: tls.revocation_lists.clone() },
            false => Revocation::NotChecked,
        },
    })
}

fn store(
    location: Option<&Path>,
    password: Option<&Secret>,
    password_file: Option<&Path>,
    kind: Option<&str>,
) -> Result<Option<StoreSettings>, TlsError> {
    let Some(location) = location else { return Ok(None) };
    // If both are set, the file is used, as in Apache.
    let password = match (password_file, password) {
        (Some(path), _) => Password::InFile(path.to_owned()),
        (None, Some(secret)) => Password::Given(secret.clone()),
        (None, None) => Password::None,
    };
    let kind = kind.map(str::parse).transpose()?;
    Ok(Some(StoreSettings { location: location.to_owned(), password, kind }))
}

/// `protocol` is the newest version, as in Java; `protocols` names all of them.
fn protocols(tls: &Tls) -> Result<Vec<Protocol>, TlsError> {
    if !tls.protocols.is_empty() {
        return tls.protocols.iter().map(|name| name.parse()).collect();
    }
    Ok(match tls.protocol.parse()? {
        Protocol::Tls12 => vec![Protocol::Tls12],
        Protocol::Tls13 => vec![Protocol::Tls12, Protocol::Tls13],
    })
}

/// The thread that watches the files.
pub(crate) struct CertificateWatch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    handle: JoinHandle<()>,
}

impl CertificateWatch {
    /// Watches the files of these contexts, each with a description of its use.
    fn start(contexts: Vec<(&'static str, Arc<TlsContext>)>) -> io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let watch = move || {
            let (flag, signal) = &*stopped;
            let mut stopping = flag.lock();
            while !*stopping {
                for (purpose, context) in &contexts {
                    look(purpose, context);
                }
                signal.wait_for(&mut stopping, LOOK);
            }
        };
        let handle = spawn("certificates", watch)?;
        Ok(CertificateWatch { stop, handle })
    }

    pub fn stop(self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_one();
        _ = self.handle.join();
    }
}

/// Reloads changed files.
fn look(purpose: &str, context: &TlsContext) {
    match context.reload_if_changed() {
        Ok(Reload::Unchanged) => {}
        Ok(Reload::Reloaded) => {
            info!("reloaded the certificates {purpose}; new connections use them");
            for warning in context.warnings() {
                warn!("TLS {purpose}: {warning}");
            }
        }
        Err(error) => warn!(
            "cannot load the changed certificates {purpose}, still using the old ones: {error}"
        ),
    }
}
