//! Converts the configuration into the settings of each part of the server. Nothing below `server` sees a [`Config`].

use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use herdsman_node::sessions::SessionScope;
use herdsman_node::sweeper::SweepSettings;
use herdsman_node::{LeaderServes, LocalSessions, NodeSettings, SessionPasswords};
use herdsman_proto::Zxid;
use herdsman_proto::membership::Role;
use herdsman_store::snapshot::LastZxid;
use herdsman_store::{
    Compression, Dirs, Disk, EmptyDirs, LogOptions, OnDigestMismatch, RecoverOptions, Recovered,
    ServerKind, SyncMode,
};
use herdsman_tree::TreeOptions;
use herdsman_tree::auth::{DigestAlgorithm, SaslScheme, Schemes, X509Scheme};
use herdsman_tree::owner::OwnerRules;
use herdsman_zab::ZabSettings;
use herdsman_zab::history::HistoryLimits;
use herdsman_zab::log::LogStorage;
use herdsman_zab::settings::{ObserverMasters, Reconfig};

use crate::clients::ConnLimits;
use crate::clients::io_threads::ConnSettings;
use crate::ensemble::peers::{LogFiles, PeerSettings};
use crate::log::commit::CommitSettings;
use crate::log::disk_keeper::DiskKeeper;
use crate::log::scrubber::{DamagedSnapshots, ScrubSettings};
use crate::log::snapshots::{SnapshotPolicy, SnapshotRequests, SnapshotSettings, SnapshotTxns};
use crate::start::repair::FilesState;
use crate::start::startup;
use herdsman_config::{Config, Limits, Mode};

/// A standalone server's id, in the first byte of its session ids.
const STANDALONE_ID: u8 = 1;
/// The shortest time without a leader after which reads are served.
const READ_ONLY_AFTER_MS_MIN: u64 = 2000;
/// Txns in one sync, when the configuration sets no limit.
const BATCH_TXNS_MAX: usize = 1000;
/// How long to wait for better votes once a quorum agrees and some voter has not answered yet. A few
/// round trips in a data centre; Apache waits 200 ms.
const FINALIZE_WAIT_MS: u64 = 30;
/// Txns of one epoch: a million less than the counter can hold, so that it never overflows.
const EPOCH_TXNS_MAX: u32 = u32::MAX - (1 << 20);
/// Ephemerals that one txn deletes at the end of their session: applying it takes a few milliseconds.
const EPHEMERALS_PER_TXN_MAX: usize = 1024;
/// The minimum number of txns that a leader keeps for learners, as in Apache.
const HISTORY_TXNS_MIN: usize = 500;
/// The maximum size of these txns.
const HISTORY_BYTES_MAX: usize = 32 << 20;
/// Bytes of packets that may be queued while a learner's disk is busy.
const PARKED_PACKET_BYTES_MAX: usize = 256 << 20;
/// The trace mask that `gtmk` returns by default.
pub(crate) const TRACE_MASK_DEFAULT: u64 = 306;

/// A seed that clients cannot predict.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// One thread per core, up to a limit beyond which more threads do not help.
pub(crate) fn io_threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 16)
}

fn schemes(config: &Config) -> Schemes {
    Schemes {
        digest: config.access.digest_scheme,
        digest_algorithm: match config.access.digest_algorithm {
            herdsman_config::DigestAlgorithm::Sha1 => DigestAlgorithm::Sha1,
            herdsman_config::DigestAlgorithm::Sha256 => DigestAlgorithm::Sha256,
            herdsman_config::DigestAlgorithm::Sha384 => DigestAlgorithm::Sha384,
            herdsman_config::DigestAlgorithm::Sha512 => DigestAlgorithm::Sha512,
        },
        super_digest: config.access.super_digest.clone(),
        x509: config
            .access
            .x509_scheme
            .then(|| X509Scheme { super_user: config.access.x509_super_user.clone() }),
        sasl: config
            .access
            .sasl_scheme
            .then(|| SaslScheme { anybody: config.access.any_sasl_user.clone() }),
        sasl_super_users: config.access.sasl_super_users.clone(),
    }
}

pub(crate) fn tree_options(config: &Config, hash_seed: u64) -> TreeOptions {
    TreeOptions {
        hash_seed,
        digest: config.storage.digest,
        owner_rules: OwnerRules {
            extended_types: config.znodes.ttl,
            emulate_353_ttl: config.znodes.ttl_of_353,
        },
        skip_acl: config.access.skip_acl,
        enforce_quota: config.znodes.enforce_quota,
        close_session_lists_ephemerals: config.sessions.close_lists_ephemerals,
        schemes: schemes(config),
        txn_bytes_max: config.limits.sizes().record_bytes_max(),
        reconfig_enabled: config.quorum.reconfig_enabled && !config.quorum.membership_is_fixed,
        watches_per_watcher_max: config.limits.watches_per_session_max,
        reply_bytes_max: reply_bytes_max(config),
    }
}

/// The limit for replies to reads.
pub(crate) fn reply_bytes_max(config: &Config) -> usize {
    const MOST: usize = 1 << 30;
    let wanted = config.limits.reply_bytes_max;
    wanted.map_or(MOST, |max| usize::try_from(max.get()).unwrap_or(MOST).min(MOST))
}

pub(crate) fn node_settings(
    config: &Config,
    files: FilesState,
    passwords: SessionPasswords,
    hash_seed: u64,
) -> NodeSettings {
    let sessions = &config.sessions;
    let timeout = |ms: u32| i32::try_from(ms).unwrap_or(i32::MAX);
    let server_id = match config.mode {
        Mode::Standalone => STANDALONE_ID,
        // Apache shifts the whole number, of which the last byte remains.
        Mode::Ensemble { my_id, .. } => my_id.0 as u8,
    };
    NodeSettings {
        server_id,
        tick_ms: u64::from(sessions.tick_ms.max(1)),
        session_timeout_ms_min: timeout(sessions.timeout_min_ms),
        session_timeout_ms_max: timeout(sessions.timeout_max_ms),
        touch_step_ms: u64::from(sessions.tick_ms / 16),
        sweep: SweepSettings {
            interval_ms: u64::from(config.znodes.sweep_interval_ms),
            per_minute_max: u64::from(config.znodes.sweep_per_minute_max),
            never_used_ms_max: config.znodes.never_used_ms_max.map(|ms| ms.get().cast_signed()),
        },
        leader_serves: if config.quorum_tuning.leader_serves {
            LeaderServes::Clients
        } else {
            LeaderServes::ServersOnly
        },
        local_sessions: local_sessions(config),
        // There is nothing to read before a leader's tree was received.
        read_only_after_ms: (config.read_only_mode && files == FilesState::Whole)
            .then(|| read_only_after_ms(config)),
        epoch_txns_max: EPOCH_TXNS_MAX,
        passwords,
        voters_min: if config.quorum.standalone_enabled { 2 } else { 1 },
        ephemerals_per_txn_max: EPHEMERALS_PER_TXN_MAX,
        hash_seed,
    }
}

fn local_sessions(config: &Config) -> LocalSessions {
    match (config.quorum.local_sessions, config.quorum.local_sessions_upgrade) {
        (false, _) => LocalSessions::Off,
        (true, false) => LocalSessions::Kept,
        (true, true) => LocalSessions::Upgraded,
    }
}

/// The kind of new sessions; a standalone server has no local ones.
pub(crate) fn new_session_scope(config: &Config) -> SessionScope {
    match (config.mode, local_sessions(config)) {
        (Mode::Standalone, _) | (_, LocalSessions::Off) => SessionScope::Global,
        (Mode::Ensemble { .. }, LocalSessions::Kept | LocalSessions::Upgraded) => {
            SessionScope::Local
        }
    }
}

/// Apache's grace period: a server that looks for a leader for this long is cut off from the ensemble.
fn read_only_after_ms(config: &Config) -> u64 {
    READ_ONLY_AFTER_MS_MIN.max(u64::from(config.sessions.tick_ms))
}

/// `None` on a standalone server.
pub(crate) fn zab_settings(config: &Config) -> Option<ZabSettings> {
    let Mode::Ensemble { my_id, role } = config.mode else { return None };
    let (quorum, tuning) = (&config.quorum, &config.quorum_tuning);
    let keeps_log = role == Role::Participant || quorum.observer_sync;
    Some(ZabSettings {
        me: my_id,
        tick_ms: u64::from(config.sessions.tick_ms.max(1)),
        init_limit_ticks: u64::from(quorum.init_limit_ticks),
        sync_limit_ticks: u64::from(quorum.sync_limit_ticks),
        finalize_wait_ms: FINALIZE_WAIT_MS,
        notification_min_ms: u64::from(tuning.notification_min_ms),
        notification_max_ms: u64::from(tuning.notification_max_ms),
        log_storage: if keeps_log { LogStorage::OnDisk } else { LogStorage::InMemory },
        history: history_limits(config),
        parked_bytes_max: PARKED_PACKET_BYTES_MAX,
        reconfig: if quorum.reconfig_enabled {
            Reconfig::Enabled(herdsman_node::membership_in)
        } else {
            Reconfig::Disabled
        },
        observer_masters: match quorum.observer_master_port {
            Some(_) => ObserverMasters::On { seed: random_seed() },
            None => ObserverMasters::Off,
        },
        mistake: None,
    })
}

fn history_limits(config: &Config) -> HistoryLimits {
    let txns_max = (config.quorum_tuning.commit_log_txns as usize).max(HISTORY_TXNS_MIN);
    HistoryLimits { txns_max, bytes_max: HISTORY_BYTES_MAX }
}

pub(crate) fn peer_settings(
    config: &Config,
    zab: &ZabSettings,
    keeper: &DiskKeeper,
    recovered: &Recovered,
) -> PeerSettings {
    PeerSettings {
        me: zab.me,
        log_storage: zab.log_storage,
        sync_limit_ms: zab.sync_limit_ms(),
        tree: keeper.recover.tree.clone(),
        field_bytes_max: config.limits.sizes().record_bytes_max(),
        log_files: LogFiles {
            disk: Arc::clone(&keeper.disk),
            dirs: keeper.dirs.clone(),
            floor: startup::history_floor(recovered),
            size_factor: config.quorum_tuning.log_sync_factor,
            measuring_max: Duration::from_millis(zab.init_limit_ms() / 4),
        },
    }
}

pub(crate) fn recover_options(config: &Config, tree: TreeOptions) -> RecoverOptions {
    let storage = &config.storage;
    RecoverOptions {
        tree,
        trust_empty: storage.trust_empty_snapshot,
        accept_loss_after: storage.accept_loss_after.map(Zxid),
        on_mismatch: OnDigestMismatch::Refuse,
        serves: match (&config.mode, storage.create_database) {
            (Mode::Standalone, _) => ServerKind::Alone,
            (Mode::Ensemble { .. }, true) => ServerKind::InEnsemble { empty: EmptyDirs::New },
            (Mode::Ensemble { .. }, false) => ServerKind::InEnsemble { empty: EmptyDirs::Lost },
        },
    }
}

pub(crate) fn conn_limits(config: &Config) -> ConnLimits {
    let count = |max: Option<NonZeroU32>| max.map(|max| max.get() as usize);
    ConnLimits {
        per_address_max: count(config.limits.connections_per_address_max),
        total_max: count(config.limits.connections_max),
        outbox_bytes_max: config
            .limits
            .unread_bytes_per_connection_max
            .map_or(usize::MAX, |max| usize::try_from(max.get()).unwrap_or(usize::MAX)),
        unread_bytes_max: config.limits.unread_bytes_max.map_or(u64::MAX, NonZeroU64::get),
    }
}

/// The limit for bytes of requests of all connections.
pub(crate) fn request_bytes_max(limits: &Limits) -> u64 {
    limits.request_bytes_max.map_or(u64::MAX, NonZeroU64::get)
}

pub(crate) fn conn_settings(config: &Config, touch_step_ms: u64) -> ConnSettings {
    let limits = &config.limits;
    let throttle = &config.request_throttle;
    let outstanding_max = u64::from(limits.outstanding_max)
        .min(throttle.requests_max.map_or(u64::MAX, |max| u64::from(max.get())));
    ConnSettings {
        sizes: limits.sizes(),
        outstanding_max,
        in_flight_max: limits
            .requests_per_connection_max
            .map_or(usize::MAX, |max| max.get() as usize),
        request_bytes_max: limits
            .request_bytes_per_connection_max
            .map_or(u64::MAX, NonZeroU64::get),
        op_wait_ms_max: throttle.op_wait_ms_max.map(|max| u64::from(max.get())),
        large_request_bytes_min: limits.large_request_bytes_min.map(|min| u64::from(min.get())),
        large_requests_bytes_max: u64::from(limits.large_requests_bytes_max),
        sessionless_timeout_ms: u64::from(config.listen.sessionless_timeout_ms),
        role_wait_ms_max: u64::from(config.sessions.tick_ms),
        touch_step_ms,
        tcp_keep_alive: config.listen.tcp_keep_alive,
        schemes: schemes(config),
        required_schemes: config.access.required_schemes.clone(),
        ensemble_names: config.access.ensemble_scheme.then(|| config.access.ensemble_names.clone()),
        tolerate_failed_sasl: config.access.tolerate_failed_sasl,
    }
}

pub(crate) fn log_options(config: &Config) -> LogOptions {
    LogOptions {
        pre_alloc_bytes: config.storage.preallocate_bytes,
        persist_table: true,
        file_bytes_max: config.storage.log_file_bytes_max.map(NonZeroU64::get),
        payload_bytes_max: config.limits.sizes().record_bytes_max(),
    }
}

pub(crate) fn commit_settings(config: &Config) -> CommitSettings {
    let storage = &config.storage;
    CommitSettings {
        sync: if storage.force_sync { SyncMode::Sync } else { SyncMode::NoSync },
        delay: Duration::from_millis(storage.flush_delay_ms),
        batch_txns_max: storage.batch_requests_max.map_or(BATCH_TXNS_MAX, |max| max.get() as usize),
        sync_warning_ms: storage.sync_warning_ms,
    }
}

pub(crate) fn snapshot_policy(
    config: &Config,
    txns_replayed: u64,
    requests: Arc<SnapshotRequests>,
) -> SnapshotPolicy {
    let storage = &config.storage;
    let log_bytes_max = storage.snapshot_log_bytes.map(NonZeroU64::get);
    let txns_max = SnapshotTxns {
        small_tree_max: u64::from(storage.snapshot_txns),
        follow_tree: storage.snapshots_follow_tree,
    };
    SnapshotPolicy::new(txns_max, log_bytes_max, txns_replayed, requests)
}

/// `None` if scrubbing is disabled.
pub(crate) fn scrub_settings(config: &Config, keeper: &DiskKeeper) -> Option<ScrubSettings> {
    Some(ScrubSettings {
        config: config.storage.scrub?,
        files: keeper.snapshots.clone(),
        progress: Arc::clone(&keeper.progress),
        requests: Arc::clone(&keeper.requests),
    })
}

pub(crate) fn snapshot_settings(
    config: &Config,
    disk: &Arc<dyn Disk>,
    dirs: &Dirs,
) -> SnapshotSettings {
    let storage = &config.storage;
    SnapshotSettings {
        disk: Arc::clone(disk),
        dirs: dirs.clone(),
        compression: match storage.compression {
            herdsman_config::Compression::None => Compression::None,
            herdsman_config::Compression::Gzip => Compression::Gzip,
            herdsman_config::Compression::Snappy => Compression::Snappy,
        },
        last_zxid: if storage.last_zxid_in_snapshots { LastZxid::Write } else { LastZxid::Omit },
        purge: storage.purge,
        archive: config.archive.dir.as_ref().map(|_| Arc::default()),
        damaged: DamagedSnapshots::default(),
    }
}
