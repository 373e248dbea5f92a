//! The typed settings of an ensemble.

use std::num::{NonZeroU16, NonZeroU32};

use super::{Membership, Role, ServerId};

/// How the server runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Standalone.
    #[default]
    Standalone,
    /// As a member of an ensemble.
    Ensemble {
        /// The id in the `myid` file.
        my_id: ServerId,
        /// Its role in the list of servers.
        role: Role,
    },
}

/// Membership and settings of an ensemble.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quorum {
    /// The members that the files name; may be empty or a single one on a standalone server.
    pub membership: Membership,
    /// Whether one server alone runs without the protocol of an ensemble.
    pub standalone_enabled: bool,
    /// Whether clients may change the membership.
    pub reconfig_enabled: bool,
    /// A new membership could not be written next to zoo.cfg, so this server proposes no change.
    pub membership_is_fixed: bool,
    /// Ticks for a learner to connect and catch up.
    pub init_limit_ticks: u32,
    /// Ticks for a learner to answer.
    pub sync_limit_ticks: u32,
    /// Ticks to connect to the leader; 0 means `init_limit_ticks`.
    pub connect_limit_ticks: u32,
    /// Whether quorum and election ports listen on all addresses.
    pub listen_on_all_addresses: bool,
    /// The port on which a follower serves observers.
    pub observer_master_port: Option<NonZeroU16>,
    /// Whether an observer keeps a log and snapshots.
    pub observer_sync: bool,
    /// Whether sessions are local to a server at first.
    pub local_sessions: bool,
    /// Whether a local session becomes global when it needs to.
    pub local_sessions_upgrade: bool,
    /// Whether a server may have several addresses.
    pub multi_address: bool,
    /// How long an address is tried before the next one.
    pub multi_address_timeout_ms: u32,
    /// Whether addresses are tried before one is used.
    pub multi_address_check: bool,
    /// The file that lets one of two servers continue alone.
    pub oracle_path: Option<String>,
}

/// TLS and SASL between servers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuorumSecurity {
    /// Whether servers use TLS with each other.
    pub tls: bool,
    /// Whether the quorum and election ports accept both TLS and plain connections.
    pub port_unification: bool,
    /// Whether changed certificate files are reloaded.
    pub reload_certificates: bool,
    /// Whether SASL may be used between servers.
    pub sasl: bool,
    /// Whether a server rejects servers that do not log in.
    pub server_requires_sasl: bool,
    /// Whether a learner joins only with SASL.
    pub learner_requires_sasl: bool,
    /// JAAS section of a learner.
    pub learner_login_context: String,
    /// JAAS section of a server.
    pub server_login_context: String,
    /// Kerberos principal of the servers.
    pub kerberos_principal: String,
}

/// Times and sizes of an ensemble.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuorumTuning {
    /// Whether the leader accepts clients.
    pub leader_serves: bool,
    /// Time to connect to a peer for an election.
    pub connect_timeout_ms: u32,
    /// Read timeout of election connections; `None` means `sync_limit_ticks`.
    pub read_timeout_ms: Option<u32>,
    /// Attempts to bind the election port; `None` retries forever.
    pub bind_tries_max: Option<NonZeroU32>,
    /// The shortest time between two notifications.
    pub notification_min_ms: u32,
    /// The longest time between two notifications.
    pub notification_max_ms: u32,
    /// How long a leader waits for its followers' epochs; `None` means `init_limit_ticks`.
    pub epoch_wait_ms: Option<u32>,
    /// Learners that receive a snapshot at the same time.
    pub snapshot_syncs_max: u32,
    /// Learners that receive log entries at the same time.
    pub diff_syncs_max: u32,
    /// Delay between tries to connect to the leader.
    pub leader_retry_ms: u32,
    /// Delay before an observer connects again.
    pub observer_retry_ms: u32,
    /// Delay before an observer looks for a leader.
    pub observer_election_ms: u32,
    /// Bytes of recent proposals that a follower keeps for observers.
    pub observer_master_bytes_max: u32,
    /// Committed transactions kept in memory for learners, at least 500.
    pub commit_log_txns: u32,
    /// The most log that is sent instead of a snapshot, as a fraction of its size; `None` never sends log files.
    pub log_sync_factor: Option<f64>,
    /// Whether sockets between servers get keep-alive probes.
    pub tcp_keep_alive: bool,
    /// Whether a leader disables Nagle's algorithm.
    pub leader_no_delay: bool,
    /// Whether a follower disables Nagle's algorithm.
    pub follower_no_delay: bool,
}
