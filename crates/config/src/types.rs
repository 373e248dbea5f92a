//! The typed configuration, by area. Plain data: the table in [`settings`](super::settings) fills
//! it, `rules` checks it. Units and bounds are in the names; an `Option` whose
//! setting has an "off" value is `None` when it is off.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use herdsman_proto::limits::SizeLimits;
use herdsman_secret::Secret;

use super::Endpoint;
use super::error::Place;

/// Where clients connect.
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

/// Whether those who connect must show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    None,
    /// They are asked, and may decline.
    Want,
    /// They must.
    #[default]
    Need,
}

/// TLS of one kind of ports, as it is set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tls {
    /// The newest protocol that is spoken.
    pub protocol: String,
    /// Protocols that are spoken; empty means `protocol` and those before it.
    pub protocols: Vec<String>,
    /// Cipher suites that are spoken; empty means all that are known.
    pub cipher_suites: Vec<String>,
    /// File of the own key and certificate.
    pub key_store: Option<PathBuf>,
    /// Its password.
    pub key_store_password: Option<Secret>,
    /// File that holds its password.
    pub key_store_password_file: Option<PathBuf>,
    /// Its format; by its extension if not set.
    pub key_store_kind: Option<String>,
    /// File of the certificates that are trusted.
    pub trust_store: Option<PathBuf>,
    /// Its password.
    pub trust_store_password: Option<Secret>,
    /// File that holds its password.
    pub trust_store_password_file: Option<PathBuf>,
    /// Its format; by its extension if not set.
    pub trust_store_kind: Option<String>,
    /// Whether a certificate must name its host, on both sides.
    pub verify_hosts: bool,
    /// Whether that holds for those who connect to us, too.
    pub verify_client_hosts: bool,
    /// Whether revocation lists are consulted.
    pub revocation: bool,
    /// File of revocation lists, beside those in the trust store.
    pub revocation_lists: Option<PathBuf>,
    /// Whether those who connect must show a certificate.
    pub client_auth: ClientAuth,
    /// How long a port for both TLS and plain waits to see which it is.
    pub detection_timeout_ms: u32,
}

/// TLS on the client port, beyond what both kinds of ports have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClientTls {
    /// Whether the TLS client port takes plain connections, too.
    pub port_unification: bool,
    /// Whether changed certificate files are read again.
    pub reload_certificates: bool,
    /// Handshakes under way at the same time.
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
    /// Nobody has set an interval; Apache would keep all files.
    pub is_default: bool,
}

impl Purge {
    /// Time from one purge to the next, and from the start to the first.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}

/// How logs and snapshots are read in the background, to find damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scrub {
    /// The most that is read in a second.
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

/// Files of the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Storage {
    /// Snapshots and `myid`; the files are in its `version-2` folder.
    pub data_dir: PathBuf,
    /// Transaction logs; the same as `data_dir` unless set.
    pub log_dir: PathBuf,
    /// Whether missing directories are made at start.
    pub create_directories: bool,
    /// Whether an empty directory counts as a valid empty tree.
    pub create_database: bool,
    /// Whether a damaged member of an ensemble repairs itself at the start.
    pub self_repair: bool,
    /// How much a log file grows at once; 0 never grows it ahead.
    pub preallocate_bytes: u64,
    /// Transactions between two snapshots, at least 2; the actual point is random in its upper half.
    pub snapshot_txns: u32,
    /// Whether a large tree raises this number; false if `snapCount` is set.
    pub snapshots_follow_tree: bool,
    /// Log bytes between two snapshots.
    pub snapshot_log_bytes: Option<NonZeroU64>,
    /// Size at which a new log file is begun.
    pub log_file_bytes_max: Option<NonZeroU64>,
    /// Whether nothing is answered before the disk has it.
    pub force_sync: bool,
    /// A sync that takes longer is reported.
    pub sync_warning_ms: u64,
    /// How long a batch may wait for company; 0 does not wait.
    pub flush_delay_ms: u64,
    /// How many requests one sync covers at most.
    pub batch_requests_max: Option<NonZeroU32>,
    /// Compression of new snapshots.
    pub compression: Compression,
    /// Whether logs without any snapshot are accepted.
    pub trust_empty_snapshot: bool,
    /// Whether the digest of the tree is kept, logged and checked.
    pub digest: bool,
    /// Whether snapshots end with the last zxid they hold.
    pub last_zxid_in_snapshots: bool,
    /// The operator gives up what a damaged log holds after this zxid.
    pub accept_loss_after: Option<i64>,
    /// Removal of old files; `None` keeps them all.
    pub purge: Option<Purge>,
    /// Reading of all files in the background; `None` turns it off.
    pub scrub: Option<Scrub>,
}

/// The archive of finished logs and snapshots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Archive {
    /// Its root; `None` archives nothing.
    pub dir: Option<PathBuf>,
    /// How often the log file is ended so that it can be archived; 0 never ends one for that.
    pub every_seconds: u32,
    /// Bytes that are copied in a second at most.
    pub bytes_per_second_max: Option<NonZeroU64>,
    /// Days for which every point can be restored; `None` keeps all files.
    pub keep_days: Option<NonZeroU32>,
}

/// Sessions and their time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sessions {
    /// The unit of time that session expiry is rounded to.
    pub tick_ms: u32,
    /// The shortest timeout a client gets.
    pub timeout_min_ms: u32,
    /// The longest timeout a client gets.
    pub timeout_max_ms: u32,
    /// Whether the transaction that ends a session lists its ephemerals.
    pub close_lists_ephemerals: bool,
    /// File of the key that passwords of sessions are made with; without one they are Apache's.
    pub key_file: Option<PathBuf>,
    /// Which passwords are given and accepted, if that was set.
    pub passwords: Option<SessionPasswordUse>,
}

/// How far an ensemble is on its way from Apache's passwords of sessions to those that are made with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPasswordUse {
    /// Sessions get Apache's; both are accepted.
    AcceptKeyed,
    /// Sessions get keyed ones; both are accepted.
    IssueKeyed,
    /// Keyed ones only.
    KeyedOnly,
}

/// Bounds on what clients may take.
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
    /// What a record read from disk or a peer may have on top of `frame_bytes_max`.
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
    /// How long frames, records and packets may be.
    #[must_use]
    pub fn sizes(&self) -> SizeLimits {
        SizeLimits::new(self.frame_bytes_max, self.frame_extra_bytes_max)
    }
}

/// Holding back requests when too many are in flight.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestThrottle {
    /// Requests in flight before new ones wait.
    pub requests_max: Option<NonZeroU32>,
    /// Requests that waited longer get `ThrottledOp`.
    pub op_wait_ms_max: Option<NonZeroU32>,
}

/// The token bucket for new connections. Tokens and fill are already multiplied by the weight of a
/// global session where weights are on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConnectionThrottle {
    /// Size of the bucket; `None` lets every connection in.
    pub tokens_max: Option<NonZeroU32>,
    /// Time in which `fill_tokens` are added; at least 1.
    pub fill_ms: u32,
    /// Tokens added each `fill_ms`.
    pub fill_tokens: u32,
    /// Time between changes of the drop probability; `None` turns dropping at random off.
    pub freeze_ms: Option<u32>,
    /// Added to the drop probability when the bucket is empty.
    pub drop_increase: f64,
    /// Taken from the drop probability when the bucket is full enough.
    pub drop_decrease: f64,
    /// What part of the bucket must be full for that.
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
    /// SHA-1, what every other server expects.
    #[default]
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// Who may do what.
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
    /// Whether clients may say which ensemble they look for.
    pub ensemble_scheme: bool,
    /// The names of this one; none fits all.
    pub ensemble_names: Vec<String>,
    /// SASL users who may do everything.
    pub sasl_super_users: Vec<String>,
    /// The name in an ACL that stands for every SASL user.
    pub any_sasl_user: Option<String>,
    /// Whether a client whose SASL login failed may go on without.
    pub tolerate_failed_sasl: bool,
    /// The schemes of which a client must use one before anything else; `None` asks for none.
    pub required_schemes: Option<Vec<String>>,
}

/// Logging in with SASL.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sasl {
    /// The JAAS file.
    pub login_file: Option<PathBuf>,
    /// Its section for clients.
    pub login_context: String,
    /// Password of the user `super` that counts before the JAAS file's.
    pub super_password: Option<Secret>,
    /// Whether the host is cut from a Kerberos principal.
    pub remove_host: bool,
    /// Whether the realm is cut from a Kerberos principal.
    pub remove_realm: bool,
    /// Rules that make short names of Kerberos principals.
    pub name_rules: String,
    /// Whether `krb5.conf` has to name a default realm.
    pub kerberos_config_required: bool,
    /// Whether hosts of servers are called what the name service calls them, in Kerberos.
    pub canonical_hosts: bool,
}

/// Kinds of znodes beyond the plain ones, and quotas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Znodes {
    /// Whether TTL znodes may be created.
    pub ttl: bool,
    /// Whether TTL znodes written by 3.5.3 are understood.
    pub ttl_of_353: bool,
    /// Whether hard quotas refuse writes.
    pub enforce_quota: bool,
    /// Time between two sweeps for empty containers and expired TTL znodes.
    pub sweep_interval_ms: u32,
    /// Removals per minute.
    pub sweep_per_minute_max: u32,
    /// Age at which a container that never had a child is removed.
    pub never_used_ms_max: Option<NonZeroU64>,
}

/// Numbers as they were written. Below zero, where the typed setting only says "no limit" or 0, Apache shows
/// them as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AsWritten {
    pub(super) connections_per_address_max: i64,
    pub(super) backlog: i64,
    pub(super) timeout_min_ms: i64,
    pub(super) timeout_max_ms: i64,
}

/// Which four-letter words are answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FourLetterWords {
    /// Whether all are.
    pub all: bool,
    /// Those that are; always has `srvr`.
    pub listed: std::collections::BTreeSet<String>,
}

impl FourLetterWords {
    /// Whether a word is answered.
    #[must_use]
    pub fn allows(&self, word: &str) -> bool {
        self.all || self.listed.contains(word)
    }
}

/// Who may write through the admin server's REST interface and console.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdminWriters {
    /// Requests that prove who they are.
    #[default]
    LoggedIn,
    /// Everybody whom the ACLs let.
    Anybody,
    /// Nobody.
    Nobody,
}

/// The admin server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Admin {
    /// Whether it runs.
    pub enabled: bool,
    /// Address or name it listens on.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// How long one of its connections may be idle.
    pub idle_timeout_ms: u32,
    /// Path under which Apache's commands are.
    pub command_url: String,
    /// Whether its port is to take both HTTP and HTTPS.
    pub port_unification: bool,
    /// Whether it is to take HTTPS only.
    pub https_only: bool,
    /// Whether it is to ask for a client certificate.
    pub client_certificates: bool,
    /// Whether a snapshot can be fetched.
    pub snapshots: bool,
    /// Whether a snapshot can be restored.
    pub restores: bool,
    /// The shortest time between two snapshots, or two restores.
    pub rate_limit_ms: u32,
    /// Who may write.
    pub writers: AdminWriters,
    /// Names by which browsers may call it.
    pub host_names: Vec<String>,
}

/// Metrics on a port of their own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// Apache's Java class that publishes them, if one is named.
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
    /// File of the certificates that are trusted.
    pub trust_store: Option<PathBuf>,
    /// Its password.
    pub trust_store_password: Option<Secret>,
    /// Its format; by its extension if not set.
    pub trust_store_kind: Option<String>,
    /// Protocols that are spoken; empty means all that are known.
    pub protocols: Vec<String>,
    /// Cipher suites that are spoken; empty means all that are known.
    pub cipher_suites: Vec<String>,
    /// Whether those who connect must show a certificate.
    pub needs_certificates: bool,
    /// Whether they are asked for one.
    pub wants_certificates: bool,
}

impl Metrics {
    /// TLS of the port with HTTPS.
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

/// What is written down beside the data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Logging {
    /// Whether changes are written down with those who asked for them.
    pub audit: bool,
    /// Where; in the server's log if not set.
    pub audit_file: Option<PathBuf>,
    /// A request that takes longer is logged; `None` logs none.
    pub slow_request_ms: Option<NonZeroU32>,
}

/// A setting that was given but is not part of the typed configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Its name in zoo.cfg.
    pub key: String,
    /// Its text; hidden from logs because it can be a password.
    pub value: Secret,
    /// Where it was given.
    pub place: Place,
}
