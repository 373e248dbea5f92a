//! The typed configuration, by area. Plain data: the table in [`settings`](super::settings) fills
//! it, `rules` checks it. Units and bounds are in the names; an `Option` whose
//! setting has an "off" value is `None` when it is off.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use herdsman_proto::limits::SizeLimits;
use herdsman_secret::Secret;

use super::Endpoint;
use super::error::Location;

/// The client ports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listen {
    /// The plain client port, if any.
    pub client: Option<Endpoint>,
    /// The TLS client port, if any.
    pub secure_client: Option<Endpoint>,
    /// How many connections may wait to be accepted; `None` leaves it to the system.
    pub backlog: Option<u32>,
    /// Whether client sockets get keep-alive probes.
    pub tcp_keep_alive: bool,
    /// How long a connection may stay without a session.
    pub sessionless_timeout_ms: u32,
}

/// Whether connecting clients must present a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// No certificate is requested.
    None,
    /// A certificate is requested, but optional.
    Want,
    /// A certificate is required.
    #[default]
    Need,
}

/// TLS settings of one kind of ports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tls {
    /// The newest supported protocol.
    pub protocol: String,
    /// Accepted protocols; empty means `protocol` and older ones.
    pub protocols: Vec<String>,
    /// Accepted cipher suites; empty means all supported ones.
    pub cipher_suites: Vec<String>,
    /// The file of the server's key and certificate.
    pub key_store: Option<PathBuf>,
    /// Its password.
    pub key_store_password: Option<Secret>,
    /// File that holds its password.
    pub key_store_password_file: Option<PathBuf>,
    /// Its format; by its extension if not set.
    pub key_store_kind: Option<String>,
    /// The file of trusted certificates.
    pub trust_store: Option<PathBuf>,
    /// Its password.
    pub trust_store_password: Option<Secret>,
    /// File that holds its password.
    pub trust_store_password_file: Option<PathBuf>,
    /// Its format; by its extension if not set.
    pub trust_store_kind: Option<String>,
    /// Whether a certificate must name its host, on both sides.
    pub verify_hosts: bool,
    /// Whether that also applies to incoming connections.
    pub verify_client_hosts: bool,
    /// Whether revocation lists are consulted.
    pub revocation: bool,
    /// File of revocation lists, beside those in the trust store.
    pub revocation_lists: Option<PathBuf>,
    /// Whether connecting peers must present a certificate.
    pub client_auth: ClientAuth,
    /// How long a port for both TLS and plain connections waits for the first byte.
    pub detection_timeout_ms: u32,
}

/// TLS settings that only the client port has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClientTls {
    /// Whether the TLS client port also accepts plain connections.
    pub port_unification: bool,
    /// Whether changed certificate files are reloaded.
    pub reload_certificates: bool,
    /// The limit for concurrent handshakes.
    pub handshakes_max: Option<NonZeroU32>,
    /// Whether connections are dropped before the handshake while there is no leader.
    pub drop_while_not_serving: bool,
}

/// The compression of new snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// None, with a checksum.
    #[default]
    None,
    /// gzip, `.gz`.
    Gzip,
    /// snappy, `.snappy`.
    Snappy,
}

/// When old snapshots and logs are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purge {
    /// Time from one purge to the next.
    pub interval_ms: u64,
    /// Snapshots to keep, with the logs they need; at least 3.
    pub snapshots_kept: u32,
    /// Whether the interval is a default; Apache would keep all files.
    pub is_default: bool,
}

impl Purge {
    /// Time from one purge to the next, and from the start to the first.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}

/// Settings of the scrubber, which reads logs and snapshots in the background to find damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scrub {
    /// Bytes that are read per second at most.
    pub bytes_per_second: NonZeroU64,
    /// Time from the end of one pass to the start of the next.
    pub pause_ms: u64,
}

impl Scrub {
    /// Time from the end of one pass to the start of the next.
    #[must_use]
    pub fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }
}

/// The server's directories and files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Storage {
    /// Snapshots and `myid`; the files are in its `version-2` folder.
    pub data_dir: PathBuf,
    /// Transaction logs; the same as `data_dir` unless set.
    pub log_dir: PathBuf,
    /// Whether missing directories are created at start.
    pub create_directories: bool,
    /// Whether an empty directory counts as a valid empty tree.
    pub create_database: bool,
    /// Whether a damaged member of an ensemble repairs itself at the start.
    pub self_repair: bool,
    /// The preallocation step of log files; 0 turns preallocation off.
    pub preallocate_bytes: u64,
    /// Transactions between two snapshots, at least 2; the actual point is random in its upper half.
    pub snapshot_txns: u32,
    /// Whether a large tree raises this number; false if `snapCount` is set.
    pub snapshots_follow_tree: bool,
    /// Log bytes between two snapshots.
    pub snapshot_log_bytes: Option<NonZeroU64>,
    /// The size at which a new log file is started.
    pub log_file_bytes_max: Option<NonZeroU64>,
    /// Whether changes are synced to disk before they are answered.
    pub force_sync: bool,
    /// A sync that takes longer is reported.
    pub sync_warning_ms: u64,
    /// How long a batch may wait for more requests; 0 does not wait.
    pub flush_delay_ms: u64,
    /// How many requests one sync covers at most.
    pub batch_requests_max: Option<NonZeroU32>,
    /// Compression of new snapshots.
    pub compression: Compression,
    /// Whether logs without any snapshot are accepted.
    pub trust_empty_snapshot: bool,
    /// Whether the digest of the tree is kept, logged and checked.
    pub digest: bool,
    /// Whether snapshots end with the last zxid that they contain.
    pub last_zxid_in_snapshots: bool,
    /// The operator accepts the loss of everything in a damaged log after this zxid.
    pub accept_loss_after: Option<i64>,
    /// The purge of old files; `None` keeps all of them.
    pub purge: Option<Purge>,
    /// Settings of the scrubber; `None` disables it.
    pub scrub: Option<Scrub>,
}

/// The archive of finished logs and snapshots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Archive {
    /// Its root directory; `None` disables it.
    pub dir: Option<PathBuf>,
    /// How often the log file is ended so that it can be archived; 0 disables that.
    pub every_seconds: u32,
    /// Bytes that are copied per second at most.
    pub bytes_per_second_max: Option<NonZeroU64>,
    /// Days for which every point can be restored; `None` keeps all files.
    pub keep_days: Option<NonZeroU32>,
}

/// Sessions and their time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sessions {
    /// The unit of time to which session expiry is rounded.
    pub tick_ms: u32,
    /// The shortest timeout a client gets.
    pub timeout_min_ms: u32,
    /// The longest timeout a client gets.
    pub timeout_max_ms: u32,
    /// Whether the transaction that ends a session lists its ephemerals.
    pub close_lists_ephemerals: bool,
    /// File of the key that passwords of sessions are made with; without one they are Apache's.
    pub key_file: Option<PathBuf>,
    /// Which passwords are issued and accepted, if configured.
    pub passwords: Option<SessionPasswordUse>,
}

/// The steps of an ensemble's migration from Apache's session passwords to keyed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPasswordUse {
    /// Apache's are issued; both are accepted.
    AcceptKeyed,
    /// Keyed ones are issued; both are accepted.
    IssueKeyed,
    /// Keyed ones are issued and accepted.
    KeyedOnly,
}

/// Limits for clients.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Connections from one address.
    pub connections_per_address_max: Option<NonZeroU32>,
    /// Connections in all.
    pub connections_max: Option<NonZeroU32>,
    /// Requests in flight before connections with requests of their own are no longer read.
    pub outstanding_max: u32,
    /// Size of a request; also of the data of a znode.
    pub frame_bytes_max: u32,
    /// Bytes by which a record from disk or from a peer may exceed `frame_bytes_max`.
    pub frame_extra_bytes_max: u32,
    /// Sum of all large requests in flight.
    pub large_requests_bytes_max: u32,
    /// Size from which a request is large; `None` means that none is.
    pub large_request_bytes_min: Option<NonZeroU32>,
    /// Requests of one connection in flight before it is no longer read.
    pub requests_per_connection_max: Option<NonZeroU32>,
    /// Bytes of requests of one connection in flight before it is no longer read.
    pub request_bytes_per_connection_max: Option<NonZeroU64>,
    /// Bytes of requests of all connections, in flight or long and arriving.
    pub request_bytes_max: Option<NonZeroU64>,
    /// Bytes of the largest reply to a read.
    pub reply_bytes_max: Option<NonZeroU64>,
    /// Bytes that may wait for a client that does not read them.
    pub unread_bytes_per_connection_max: Option<NonZeroU64>,
    /// Bytes that may wait for all clients together.
    pub unread_bytes_max: Option<NonZeroU64>,
    /// Watches of one session.
    pub watches_per_session_max: Option<NonZeroU32>,
}

impl Limits {
    /// Returns the limits for frames, records and packets.
    #[must_use]
    pub fn sizes(&self) -> SizeLimits {
        SizeLimits::new(self.frame_bytes_max, self.frame_extra_bytes_max)
    }
}

/// The throttling of requests when too many are in flight.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestThrottle {
    /// Requests in flight before new ones wait.
    pub requests_max: Option<NonZeroU32>,
    /// Requests that waited longer get `ThrottledOp`.
    pub op_wait_ms_max: Option<NonZeroU32>,
}

/// The token bucket for new connections. With weights enabled, tokens and fill are already multiplied by the weight
/// of a global session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConnectionThrottle {
    /// Size of the bucket; `None` admits all connections.
    pub tokens_max: Option<NonZeroU32>,
    /// Time in which `fill_tokens` are added; at least 1.
    pub fill_ms: u32,
    /// Tokens added each `fill_ms`.
    pub fill_tokens: u32,
    /// Time between changes of the drop probability; `None` turns dropping at random off.
    pub freeze_ms: Option<u32>,
    /// Added to the drop probability when the bucket is empty.
    pub drop_increase: f64,
    /// Subtracted from the drop probability when the bucket is full enough.
    pub drop_decrease: f64,
    /// The fraction of the bucket that must be full for that.
    pub decrease_ratio: f64,
    /// Whether kinds of sessions cost differently.
    pub weights: bool,
    /// Tokens a new global session costs.
    pub global_session_weight: u32,
    /// Tokens a renewed session costs.
    pub renew_session_weight: u32,
    /// Tokens a new local session costs.
    pub local_session_weight: u32,
}

/// The hash in `digest` ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// SHA-1, which every other server expects.
    #[default]
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// Access control.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Access {
    /// Whether ACLs are not checked at all.
    pub skip_acl: bool,
    /// Whether the `digest` scheme exists.
    pub digest_scheme: bool,
    /// The hash of the `digest` scheme.
    pub digest_algorithm: DigestAlgorithm,
    /// `super:<digest>` of the user that may do everything.
    pub super_digest: Option<Secret>,
    /// Subject of the client certificate that may do everything.
    pub x509_super_user: Option<String>,
    /// Whether ACLs may name subjects of client certificates.
    pub x509_scheme: bool,
    /// Whether ACLs may name SASL users.
    pub sasl_scheme: bool,
    /// Whether clients may name the ensemble that they expect.
    pub ensemble_scheme: bool,
    /// The names of this one; an empty list matches all.
    pub ensemble_names: Vec<String>,
    /// SASL users who may do everything.
    pub sasl_super_users: Vec<String>,
    /// The name in an ACL that matches every SASL user.
    pub any_sasl_user: Option<String>,
    /// Whether a client whose SASL login failed may continue without one.
    pub tolerate_failed_sasl: bool,
    /// The schemes of which a client must use one before anything else; `None` requires none.
    pub required_schemes: Option<Vec<String>>,
}

/// SASL settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sasl {
    /// The JAAS file.
    pub login_file: Option<PathBuf>,
    /// The section for clients.
    pub login_context: String,
    /// Password of the user `super`, which has precedence over the JAAS file's.
    pub super_password: Option<Secret>,
    /// Whether the host is removed from a Kerberos principal.
    pub remove_host: bool,
    /// Whether the realm is removed from a Kerberos principal.
    pub remove_realm: bool,
    /// Rules that derive short names from Kerberos principals.
    pub name_rules: String,
    /// Whether `krb5.conf` must name a default realm.
    pub kerberos_config_required: bool,
    /// Whether host names of servers are made canonical for Kerberos.
    pub canonical_hosts: bool,
}

/// Kinds of znodes beyond the plain ones, and quotas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Znodes {
    /// Whether TTL znodes may be created.
    pub ttl: bool,
    /// Whether TTL znodes written by 3.5.3 are understood.
    pub ttl_of_353: bool,
    /// Whether hard quotas reject writes.
    pub enforce_quota: bool,
    /// Time between two sweeps for empty containers and expired TTL znodes.
    pub sweep_interval_ms: u32,
    /// Removals per minute.
    pub sweep_per_minute_max: u32,
    /// Age at which a container that never had a child is removed.
    pub never_used_ms_max: Option<NonZeroU64>,
}

/// Numbers as they were written. Apache shows negative ones unchanged, where the typed setting has only "no limit"
/// or 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AsWritten {
    pub(super) connections_per_address_max: i64,
    pub(super) backlog: i64,
    pub(super) timeout_min_ms: i64,
    pub(super) timeout_max_ms: i64,
}

/// The enabled four-letter words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FourLetterWords {
    /// Whether all are enabled.
    pub all: bool,
    /// The enabled ones; always contains `srvr`.
    pub listed: std::collections::BTreeSet<String>,
}

impl FourLetterWords {
    /// Whether a word is enabled.
    #[must_use]
    pub fn allows(&self, word: &str) -> bool {
        self.all || self.listed.contains(word)
    }
}

/// Who may write through the admin server's REST interface and console.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdminWriters {
    /// Authenticated requests.
    #[default]
    LoggedIn,
    /// Any request that the ACLs permit.
    Anybody,
    /// No request.
    Nobody,
}

/// The admin server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Admin {
    /// Whether it is enabled.
    pub enabled: bool,
    /// The address or host name on which it listens.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// How long one of its connections may be idle.
    pub idle_timeout_ms: u32,
    /// The path prefix of Apache's commands.
    pub command_url: String,
    /// Whether its port accepts both HTTP and HTTPS.
    pub port_unification: bool,
    /// Whether its port accepts HTTPS only.
    pub https_only: bool,
    /// Whether it requests a client certificate.
    pub client_certificates: bool,
    /// Whether a snapshot can be fetched.
    pub snapshots: bool,
    /// Whether a snapshot can be restored.
    pub restores: bool,
    /// The shortest time between two snapshots, or two restores.
    pub rate_limit_ms: u32,
    /// Who may write.
    pub writers: AdminWriters,
    /// Host names that browsers may use for it.
    pub host_names: Vec<String>,
}

/// The metrics port.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// Apache's Java class that publishes the metrics, if one is named.
    pub provider: Option<String>,
    /// Address or name of the port.
    pub http_host: String,
    /// The port, if one is set.
    pub http_port: Option<u16>,
    /// The port with HTTPS, if one is set.
    pub https_port: Option<u16>,
    /// File of its key and certificate.
    pub key_store: Option<PathBuf>,
    /// Its password.
    pub key_store_password: Option<Secret>,
    /// Its format; by its extension if not set.
    pub key_store_kind: Option<String>,
    /// The file of trusted certificates.
    pub trust_store: Option<PathBuf>,
    /// Its password.
    pub trust_store_password: Option<Secret>,
    /// Its format; by its extension if not set.
    pub trust_store_kind: Option<String>,
    /// Accepted protocols; empty means all supported ones.
    pub protocols: Vec<String>,
    /// Accepted cipher suites; empty means all supported ones.
    pub cipher_suites: Vec<String>,
    /// Whether clients must present a certificate.
    pub needs_certificates: bool,
    /// Whether clients are asked for one.
    pub wants_certificates: bool,
}

impl Metrics {
    /// The TLS settings of the HTTPS port.
    #[must_use]
    pub fn tls(&self) -> Tls {
        Tls {
            protocol: "TLSv1.3".to_owned(),
            protocols: self.protocols.clone(),
            cipher_suites: self.cipher_suites.clone(),
            key_store: self.key_store.clone(),
            key_store_password: self.key_store_password.clone(),
            key_store_kind: self.key_store_kind.clone(),
            trust_store: self.trust_store.clone(),
            trust_store_password: self.trust_store_password.clone(),
            trust_store_kind: self.trust_store_kind.clone(),
            ..Tls::default()
        }
    }
}

/// The audit log and the log of slow requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Logging {
    /// Whether changes are logged with their clients.
    pub audit: bool,
    /// The file of the audit log; the server's log if not set.
    pub audit_file: Option<PathBuf>,
    /// Requests that take longer are logged; `None` disables that.
    pub slow_request_ms: Option<NonZeroU32>,
}

/// A setting that was given but is not part of the typed configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Its name in zoo.cfg.
    pub key: String,
    /// Its text; not logged because it can be a password.
    pub value: Secret,
    /// Where it was given.
    pub place: Location,
}
