//! The settings of the admin server, and how they follow from a server's configuration.
//!
//! In: a [`Config`]. Out: resolved addresses and limits, or one line that says why the port is not
//! opened. Apache: the `zookeeper.admin.*` properties of `JettyAdminServer`. How we
//! differ: without `admin.serverAddress` only this machine can reach the port; Apache opens it to all.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use herdsman_config::Config;
use herdsman_config::{AdminWriters, Mode, Tls};
use herdsman_server::tls_settings;
use herdsman_tls::{ClientAuth, TlsError, TlsSettings};

/// Apache's provider that opens a port for Prometheus.
const PROMETHEUS_CLASS: &str = "PrometheusMetricsProvider";
/// Its default port.
const PROMETHEUS_PORT: u16 = 7000;

/// First components of paths that the admin server uses for other routes.
const TAKEN: [&str; 5] = ["api", "console", "livez", "metrics", "readyz"];

/// Settings of the admin server. `Default` is for tests: loopback, a free port.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// The address on which it listens.
    pub address: SocketAddr,
    /// The path of Apache's commands, `/commands` by default.
    pub command_url: String,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// Most connections. Beyond that, idle ones are closed.
    pub connections_max: usize,
    /// Whether a snapshot can be fetched.
    pub snapshots: bool,
    /// Whether a snapshot can be restored.
    pub restores: bool,
    /// The shortest time between two snapshots, or two restores.
    pub rate_limit: Duration,
    /// TLS, if the port has it.
    pub tls: Option<PortTls>,
    /// Who may write through REST and the console.
    pub writers: Writers,
    /// Host names of the server for browsers, besides its addresses and `localhost`. A request
    /// for another name is rejected: it could come from a page that rebound its name to this address.
    pub host_names: Vec<String>,
}

/// TLS on a port.
#[derive(Clone, Debug)]
pub struct PortTls {
    /// Keys, certificates and rules.
    pub settings: TlsSettings,
    /// What to do with plain HTTP.
    pub plain: PlainHttp,
}

/// What to do with plain HTTP on a port with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    /// Serve it, too (`admin.portUnification`).
    Served,
    /// Reject it with a hint (`admin.forceHttps`).
    Refused,
}

/// Settings of the ports that serve only metrics. `Default` is for tests: no ports.
#[derive(Clone, Debug)]
pub struct MetricsSettings {
    /// The address for HTTP.
    pub address: Option<SocketAddr>,
    /// The port for HTTPS.
    pub secure: Option<SecureMetrics>,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// Most connections of each port. Beyond that, idle ones are closed.
    pub connections_max: usize,
}

/// A port for metrics by HTTPS.
#[derive(Clone, Debug)]
pub struct SecureMetrics {
    /// Its address.
    pub address: SocketAddr,
    /// Keys, certificates and rules.
    pub tls: TlsSettings,
}

/// Who may write through REST and the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writers {
    /// Requests with credentials or a certificate.
    #[default]
    LoggedIn,
    /// Every caller whom the ACLs allow.
    Anybody,
    /// No caller.
    Nobody,
}

/// Why the configuration of the admin server is invalid.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Client certificates are required on a port without HTTPS.
    #[error(
        "admin.needClientAuth=true needs HTTPS: set admin.forceHttps=true, or admin.portUnification=true for both, or remove the line"
    )]
    CertificatesWithoutTls,
    /// The TLS settings are invalid.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// A path that is not plain, or already in use.
    #[error("admin.commandURL={0} cannot be used; set a plain path such as /commands")]
    CommandUrl(String),
    /// A host name that cannot be resolved.
    #[error("{key}={host} cannot be resolved: {source}")]
    Host {
        /// The setting.
        key: &'static str,
        /// Its value.
        host: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl Default for AdminSettings {
    fn default() -> Self {
        AdminSettings {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            command_url: "/commands".to_owned(),
            idle_timeout: Duration::from_secs(30),
            connections_max: 256,
            snapshots: true,
            restores: true,
            rate_limit: Duration::from_secs(300),
            tls: None,
            writers: Writers::default(),
            host_names: Vec::new(),
        }
    }
}

impl AdminSettings {
    /// The settings from a server's configuration; `None` if the admin server is switched off.
    ///
    /// # Errors
    /// Fails if the configuration is invalid; then the port must not be opened.
    pub fn from_config(config: &Config) -> Result<Option<Self>, SettingsError> {
        let admin = &config.admin;
        if !admin.enabled {
            return Ok(None);
        }
        Ok(Some(AdminSettings {
            address: resolve("admin.serverAddress", &admin.address, admin.port)?,
            command_url: command_url(&admin.command_url)?,
            idle_timeout: Duration::from_millis(admin.idle_timeout_ms.into()),
            snapshots: admin.snapshots,
            restores: admin.restores,
            rate_limit: Duration::from_millis(admin.rate_limit_ms.into()),
            tls: port_tls(config)?,
            writers: match admin.writers {
                AdminWriters::LoggedIn => Writers::LoggedIn,
                AdminWriters::Anybody => Writers::Anybody,
                AdminWriters::Nobody => Writers::Nobody,
            },
            host_names: host_names(config),
            ..AdminSettings::default()
        }))
    }
}

impl Default for MetricsSettings {
    fn default() -> Self {
        MetricsSettings {
            address: None,
            secure: None,
            idle_timeout: Duration::from_secs(30),
            connections_max: 64,
        }
    }
}

impl MetricsSettings {
    /// The settings from a server's configuration; `None` if there are no ports for metrics.
    ///
    /// # Errors
    /// Fails if a host cannot be resolved, or the TLS settings are invalid.
    pub fn from_config(config: &Config) -> Result<Option<Self>, SettingsError> {
        let (address, secure) = (metrics_address(config)?, secure_metrics(config)?);
        let is_wanted = address.is_some() || secure.is_some();
        Ok(is_wanted.then(|| MetricsSettings { address, secure, ..MetricsSettings::default() }))
    }
}

/// The names in the operator's list, and those that the configuration has for this server: both are under the
/// operator's control.
fn host_names(config: &Config) -> Vec<String> {
    let mut names = config.admin.host_names.clone();
    names.push(config.admin.address.clone());
    if let Mode::Ensemble { my_id, .. } = config.mode
        && let Some(me) = config.quorum.membership.members.get(&my_id)
    {
        names.extend(me.addresses.iter().map(|address| address.host.clone()));
    }
    names
}

/// Checks the path of the commands, and removes a slash at its end. It must not be in use already.
fn command_url(url: &str) -> Result<String, SettingsError> {
    let url = url.trim_end_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    let first = url.split('/').nth(1).unwrap_or_default();
    let is_free = !first.is_empty() && !TAKEN.contains(&first);
    if is_free && url.chars().all(is_plain) && !url.contains("//") {
        Ok(url.to_owned())
    } else {
        Err(SettingsError::CommandUrl(url.to_owned()))
    }
}

/// As in Apache, the files are those of the quorum ports, and HTTPS only takes precedence over both protocols.
fn port_tls(config: &Config) -> Result<Option<PortTls>, SettingsError> {
    let admin = &config.admin;
    let plain = match (admin.https_only, admin.port_unification) {
        (true, _) => PlainHttp::Refused,
        (false, true) => PlainHttp::Served,
        (false, false) if admin.client_certificates => {
            return Err(SettingsError::CertificatesWithoutTls);
        }
        (false, false) => return Ok(None),
    };
    let client_auth = match admin.client_certificates {
        true => ClientAuth::Need,
        false => ClientAuth::None,
    };
    Ok(Some(PortTls { settings: http_tls(&config.quorum_tls, client_auth)?, plain }))
}

/// HTTP clients may have any address: their certificate identifies a user, not a host.
fn http_tls(tls: &Tls, client_auth: ClientAuth) -> Result<TlsSettings, SettingsError> {
    Ok(TlsSettings { client_auth, verify_client_host: false, ..tls_settings(tls)? })
}

fn secure_metrics(config: &Config) -> Result<Option<SecureMetrics>, SettingsError> {
    let metrics = &config.metrics;
    let Some(port) = metrics.https_port else { return Ok(None) };
    let client_auth = match (metrics.needs_certificates, metrics.wants_certificates) {
        (true, _) => ClientAuth::Need,
        (false, true) => ClientAuth::Want,
        (false, false) => ClientAuth::None,
    };
    let address = resolve("metricsProvider.httpHost", &metrics.http_host, port)?;
    Ok(Some(SecureMetrics { address, tls: http_tls(&metrics.tls(), client_auth)? }))
}

fn metrics_address(config: &Config) -> Result<Option<SocketAddr>, SettingsError> {
    let metrics = &config.metrics;
    let is_prometheus =
        metrics.provider.as_ref().is_some_and(|class| class.ends_with(PROMETHEUS_CLASS));
    // If only the HTTPS port is set, the HTTP port is not wanted.
    let usual = (is_prometheus && metrics.https_port.is_none()).then_some(PROMETHEUS_PORT);
    let port = metrics.http_port.or(usual);
    port.map(|port| resolve("metricsProvider.httpHost", &metrics.http_host, port)).transpose()
}

fn resolve(key: &'static str, host: &str, port: u16) -> Result<SocketAddr, SettingsError> {
    let bare = host.trim_matches(['[', ']']);
    let found = (bare, port).to_socket_addrs().and_then(|mut addresses| {
        addresses.next().ok_or_else(|| io::Error::other("it has no address"))
    });
    found.map_err(|source| SettingsError::Host { key, host: host.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_config::{Member, Role, ServerId, SystemProperties};

    fn config(adjust: impl FnOnce(&mut Config)) -> Config {
        let loaded = Config::standalone_default(&SystemProperties::default()).unwrap();
        let mut config = loaded.config;
        adjust(&mut config);
        config
    }

    fn settings(adjust: impl FnOnce(&mut Config)) -> AdminSettings {
        AdminSettings::from_config(&config(adjust)).unwrap().unwrap()
    }

    fn metrics(adjust: impl FnOnce(&mut Config)) -> MetricsSettings {
        MetricsSettings::from_config(&config(adjust)).unwrap().unwrap()
    }

    #[test]
    fn by_default_only_this_machine_has_access() {
        let settings = settings(|_| {});
        assert_eq!(settings.address.to_string(), "127.0.0.1:8080");
        assert_eq!(settings.command_url, "/commands");
        assert_eq!(settings.writers, Writers::LoggedIn);
        assert_eq!(settings.rate_limit, Duration::from_secs(300));
    }

    #[test]
    fn the_admin_server_can_be_switched_off() {
        let config = config(|config| config.admin.enabled = false);
        assert!(AdminSettings::from_config(&config).unwrap().is_none());
    }

    #[test]
    fn client_certificates_need_https() {
        let config = config(|config| config.admin.client_certificates = true);
        let error = AdminSettings::from_config(&config).unwrap_err().to_string();
        assert!(error.starts_with("admin.needClientAuth=true needs HTTPS"), "{error}");
    }

    #[test]
    fn https_uses_the_files_of_the_quorum() {
        let tls = |https_only, port_unification, client_certificates| {
            let adjusted = settings(|config| {
                config.admin.https_only = https_only;
                config.admin.port_unification = port_unification;
                config.admin.client_certificates = client_certificates;
                config.quorum_tls.key_store = Some("/etc/zk/key.pem".into());
            });
            let tls = adjusted.tls?;
            let key_store = tls.settings.key_store.expect("it was set");
            assert_eq!(key_store.location, std::path::Path::new("/etc/zk/key.pem"));
            assert!(!tls.settings.verify_client_host);
            Some((tls.plain, tls.settings.client_auth))
        };
        assert_eq!(tls(false, false, false), None);
        assert_eq!(tls(true, false, false), Some((PlainHttp::Refused, ClientAuth::None)));
        assert_eq!(tls(false, true, true), Some((PlainHttp::Served, ClientAuth::Need)));
        assert_eq!(tls(true, true, true), Some((PlainHttp::Refused, ClientAuth::Need)));
    }

    #[test]
    fn metrics_may_have_a_port_with_https_alone() {
        let adjusted = metrics(|config| {
            config.metrics.provider = Some(PROMETHEUS_CLASS.to_owned());
            config.metrics.https_port = Some(4443);
            config.metrics.key_store = Some("/etc/zk/metrics.p12".into());
            config.metrics.needs_certificates = false;
        });
        assert_eq!(adjusted.address, None);
        let secure = adjusted.secure.unwrap();
        assert_eq!(secure.address.to_string(), "0.0.0.0:4443");
        assert_eq!(secure.tls.client_auth, ClientAuth::Want);
        assert!(secure.tls.key_store.is_some());
    }

    #[test]
    fn host_names_come_from_the_configuration() {
        let adjusted = settings(|config| {
            config.admin.host_names = vec!["console.example.com".to_owned()];
            config.admin.address = "localhost".to_owned();
            let me = Member::parse("zk2.example.com:2888:3888").unwrap();
            let other = Member::parse("zk1.example.com:2888:3888").unwrap();
            let members = [(ServerId(1), other), (ServerId(2), me)];
            config.quorum.membership.members = members.into_iter().collect();
            config.mode = Mode::Ensemble { my_id: ServerId(2), role: Role::Participant };
        });
        assert_eq!(adjusted.host_names, ["console.example.com", "localhost", "zk2.example.com"]);
    }

    #[test]
    fn an_unresolvable_host_is_reported() {
        let config = config(|config| config.admin.address = "no such host".to_owned());
        let error = AdminSettings::from_config(&config).unwrap_err().to_string();
        assert!(error.starts_with("admin.serverAddress=no such host"), "{error}");
    }

    #[test]
    fn the_path_of_commands_must_be_free() {
        let url = |url: &str| {
            let config = config(|config| config.admin.command_url = url.to_owned());
            AdminSettings::from_config(&config).map(|settings| settings.unwrap().command_url)
        };
        assert_eq!(url("/ops/zk/").unwrap(), "/ops/zk");
        for wrong in ["/", "/api/zk", "/metrics", "/{name}", "/a//b", "/a b"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_prometheus_port_is_set_by_class_or_by_number() {
        assert!(MetricsSettings::from_config(&config(|_| {})).unwrap().is_none());
        let by_class = metrics(|config| {
            let class = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
            config.metrics.provider = Some(class.to_owned());
        });
        assert_eq!(by_class.address.unwrap().to_string(), "0.0.0.0:7000");
        let by_number = metrics(|config| {
            config.admin.enabled = false;
            config.metrics.http_port = Some(7001);
            config.metrics.http_host = "[::1]".to_owned();
        });
        assert_eq!(by_number.address.unwrap().to_string(), "[::1]:7001");
    }
}
