//! Rules that involve several settings: defaults derived from other values, bounds to which Apache
//! clamps a value, and combinations that it rejects. Apache: the end of
//! `QuorumPeerConfig.parseProperties`, and the static blocks of the classes that read properties.

pub(super) mod access;
mod classes;

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};

use super::Endpoint;
use super::draft::Host;
use super::error::ConfigError;
use super::field::Field;
use super::load::Loading;
use super::types::{Compression, Purge, Scrub};

type Checked = Result<(), ConfigError>;

/// Completes the draft's configuration from its raw values.
pub(super) fn finish(loading: &mut Loading) -> Checked {
    directories(loading)?;
    storage(loading)?;
    listen(loading)?;
    sessions(loading)?;
    limits(loading);
    connection_weights(loading);
    access::finish(loading)?;
    four_letter_words(loading);
    admin(loading)?;
    classes::check(loading)?;
    quorum(loading)
}

fn directories(loading: &mut Loading) -> Checked {
    let raw = &mut loading.draft.raw;
    let data_dir = raw.data_dir.take();
    let log_dir = raw.data_log_dir.take();
    let Some(data_dir) = data_dir else {
        let problem = "dataDir is not set; add a line dataDir=<directory>";
        return Err(loading.broken("dataDir", problem));
    };
    for (key, path) in [("dataDir", Some(&data_dir)), ("dataLogDir", log_dir.as_ref())] {
        if path.is_some_and(|path| !path.starts_with(['/', '.'])) {
            let text = format!(
                "{key} is relative to where the server is started; begin it with ./ if you mean it"
            );
            loading.warn(loading.place(key), text);
        }
    }
    let storage = &mut loading.draft.config.storage;
    storage.log_dir = log_dir.unwrap_or_else(|| data_dir.clone()).into();
    storage.data_dir = data_dir.into();
    Ok(())
}

fn storage(loading: &mut Loading) -> Result<(), ConfigError> {
    const KIB: u64 = 1024;
    let raw = &loading.draft.raw;
    let storage = &mut loading.draft.config.storage;
    storage.preallocate_bytes = raw.preallocate_kib.saturating_mul(KIB);
    storage.snapshot_log_bytes = NonZeroU64::new(raw.snapshot_log_kib.saturating_mul(KIB));
    storage.log_file_bytes_max = NonZeroU64::new(raw.log_file_kib.saturating_mul(KIB));
    let word = raw.compression.to_ascii_lowercase();
    storage.compression = match word.as_str() {
        "gz" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        _ => Compression::None,
    };
    if storage.compression == Compression::None && !word.is_empty() {
        let text = format!(
            "snapshot.compression.method={word} is neither gz nor snappy; snapshots are not compressed"
        );
        loading.warn(loading.place("snapshot.compression.method"), text);
    }
    warn_of_small_logs(loading);
    let raw = &loading.draft.raw;
    let (txns, kept, interval_ms) = (raw.snapshot_txns, raw.snapshots_kept, raw.purge_interval.ms);
    let snapshot_txns = at_least(loading, "snapCount", txns, 2);
    let snapshots_kept = at_least(loading, "autopurge.snapRetainCount", kept, 3);
    let is_default = !loading.is_set("autopurge.purgeInterval");
    let scrub = scrub(loading);
    let snapshots_follow_tree = !loading.is_set("snapCount");
    let storage = &mut loading.draft.config.storage;
    storage.snapshot_txns = snapshot_txns;
    storage.snapshots_follow_tree = snapshots_follow_tree;
    storage.purge = (interval_ms > 0).then_some(Purge { interval_ms, snapshots_kept, is_default });
    storage.scrub = scrub;
    let accepted = accept_loss_after(loading)?;
    loading.draft.config.storage.accept_loss_after = accepted;
    Ok(())
}

fn scrub(loading: &mut Loading) -> Option<Scrub> {
    const HOUR_MS: u64 = 3_600_000;
    let raw = &loading.draft.raw;
    let bytes_per_second = NonZeroU64::new(raw.scrub_bytes_per_second)?;
    let hours = at_least(loading, "herdsman.scrubEveryHours", raw.scrub_every_hours, 1);
    Some(Scrub { bytes_per_second, pause_ms: u64::from(hours) * HOUR_MS })
}

/// Apache compares the size of the file, which includes preallocated space.
fn warn_of_small_logs(loading: &mut Loading) {
    let raw = &loading.draft.raw;
    let (limit, ahead) = (raw.log_file_kib, raw.preallocate_kib);
    if limit > 0 && limit < ahead {
        let text = format!(
            "txnLogSizeLimitInKb={limit} is less than preAllocSize={ahead}: Apache's server begins a new log file with \
             every sync then; this one counts what is written"
        );
        loading.warn(loading.place("txnLogSizeLimitInKb"), text);
    }
}

fn accept_loss_after(loading: &Loading) -> Result<Option<i64>, ConfigError> {
    const KEY: &str = "herdsman.acceptLossAfter";
    let text = &loading.draft.raw.accept_loss_after;
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    i64::from_str_radix(digits, 16).map(Some).map_err(|_| ConfigError::Value {
        place: loading.place(KEY),
        key: KEY.to_owned(),
        value: text.clone(),
        expected: "a zxid such as 0x1a2b, as the refused start printed it".to_owned(),
    })
}

/// Raises a value to its lower bound, as Apache does, with a warning.
fn at_least(loading: &mut Loading, key: &str, value: i64, bound: u32) -> u32 {
    let taken = u32::take(value).max(bound);
    if value < i64::from(bound) {
        loading.warn(
            loading.place(key),
            format!("{key}={value} is less than {bound}; {bound} is used"),
        );
    }
    taken
}

fn listen(loading: &mut Loading) -> Checked {
    let raw = &mut loading.draft.raw;
    let plain = (raw.client_port, raw.client_port_address.take());
    let secure = (raw.secure_client_port, raw.secure_client_port_address.take());
    loading.draft.config.listen.client = endpoint(loading, "clientPort", plain)?;
    loading.draft.config.listen.secure_client = endpoint(loading, "secureClientPort", secure)?;
    let backlog = loading.draft.raw.backlog;
    loading.draft.config.listen.backlog = Field::take(backlog);
    loading.draft.config.as_written.backlog = backlog;
    Ok(())
}

fn endpoint(
    loading: &Loading,
    key: &str,
    (port, host): (Option<u16>, Option<Host>),
) -> Result<Option<Endpoint>, ConfigError> {
    match (port, host) {
        (Some(port), host) => {
            let host = host.map(|host| host.0);
            Ok(Some(Endpoint { host: host.filter(|host| host != "0.0.0.0"), port }))
        }
        (None, None) => Ok(None),
        (None, Some(_)) => {
            let address = format!("{key}Address");
            Err(loading.broken(&address, format!("{address} is set but {key} is not")))
        }
    }
}

fn sessions(loading: &mut Loading) -> Checked {
    const UNSET: i64 = -1;
    let raw = &loading.draft.raw;
    if raw.tick_ms <= 0 {
        return Err(
            loading.broken("tickTime", format!("tickTime={} must be 1 or more", raw.tick_ms))
        );
    }
    let or_ticks = |key: &str, value: i64, ticks: i64| match value {
        UNSET => raw.tick_ms * ticks,
        _ if !loading.is_set(key) => raw.tick_ms * ticks,
        value => value,
    };
    let min = or_ticks("minSessionTimeout", raw.timeout_min_ms, 2);
    let max = or_ticks("maxSessionTimeout", raw.timeout_max_ms, 20);
    if min > max {
        let key = if loading.is_set("maxSessionTimeout") {
            "maxSessionTimeout"
        } else {
            "minSessionTimeout"
        };
        let problem =
            format!("minSessionTimeout ({min} ms) is larger than maxSessionTimeout ({max} ms)");
        return Err(loading.broken(key, problem));
    }
    let tick_ms = raw.tick_ms;
    let written = &mut loading.draft.config.as_written;
    (written.timeout_min_ms, written.timeout_max_ms) = (min, max);
    let sessions = &mut loading.draft.config.sessions;
    sessions.tick_ms = u32::take(tick_ms);
    sessions.timeout_min_ms = u32::take(min);
    sessions.timeout_max_ms = u32::take(max);
    Ok(())
}

fn limits(loading: &mut Loading) {
    const LARGE_REQUESTS_BYTES: u32 = 100 << 20;
    let raw = &loading.draft.raw;
    let (extra, total, large) =
        (raw.frame_extra_bytes, raw.large_requests_bytes, raw.large_request_bytes);
    if total <= 0 {
        let text =
            format!("largeRequestMaxBytes={total} is not positive; {LARGE_REQUESTS_BYTES} is used");
        loading.warn(loading.place("largeRequestMaxBytes"), text);
    }
    if large == 0 || large < -1 {
        let text = format!("largeRequestThreshold={large} is neither -1 nor positive; it is off");
        loading.warn(loading.place("largeRequestThreshold"), text);
    }
    let per_address = loading.draft.raw.connections_per_address_max;
    loading.draft.config.as_written.connections_per_address_max = per_address;
    let limits = &mut loading.draft.config.limits;
    limits.connections_per_address_max = Field::take(per_address);
    limits.frame_extra_bytes_max = extra.map_or(limits.frame_bytes_max, u32::take).max(1024);
    limits.large_requests_bytes_max =
        if total > 0 { u32::take(total) } else { LARGE_REQUESTS_BYTES };
    limits.large_request_bytes_min = Field::take(large);
}

/// Weights of sessions: positive, and none below that of a local session. The configured sizes are
/// for global sessions, so with weights on they are multiplied.
fn connection_weights(loading: &mut Loading) {
    let raw = &loading.draft.raw;
    let local = (raw.local_session_weight, "connection_throttle_local_session_weight", 1);
    let renew = (raw.renew_session_weight, "connection_throttle_renew_session_weight", 2);
    let global = (raw.global_session_weight, "connection_throttle_global_session_weight", 3);
    let mut weigh = |(weight, key, initial): (i64, &str, u32), floor: i64| {
        let taken = if weight <= 0 { initial } else { u32::take(weight.max(floor)) };
        if i64::from(taken) != weight {
            loading
                .warn(loading.place(key), format!("{key}={weight} is too small; {taken} is used"));
        }
        taken
    };
    let (local, renew, global) = (weigh(local, 1), weigh(renew, local.0), weigh(global, local.0));
    let throttle = &mut loading.draft.config.connection_throttle;
    throttle.local_session_weight = local;
    throttle.renew_session_weight = renew;
    throttle.global_session_weight = global;
    throttle.fill_ms = throttle.fill_ms.max(1);
    if throttle.weights {
        let tokens = throttle.tokens_max.map_or(0, NonZeroU32::get);
        throttle.tokens_max = NonZeroU32::new(tokens.saturating_mul(global));
        throttle.fill_tokens = throttle.fill_tokens.saturating_mul(global);
    }
}

fn four_letter_words(loading: &mut Loading) {
    let config = &mut loading.draft.config;
    config.read_only_mode = loading.draft.raw.read_only_mode;
    let words = &mut config.four_letter_words;
    for word in loading.draft.raw.four_letter_words.split(',').map(str::trim) {
        match word {
            "*" => words.all = true,
            "" => {}
            word => _ = words.listed.insert(word.to_owned()),
        }
    }
    words.listed.insert("srvr".to_owned());
    if config.read_only_mode {
        words.listed.insert("isro".to_owned());
    }
}

fn admin(loading: &mut Loading) -> Checked {
    let port = loading.draft.raw.admin_port;
    let Ok(port) = u16::try_from(port) else {
        let problem = format!("admin.serverPort={port} is not a port from 0 to 65535");
        return Err(loading.broken("admin.serverPort", problem));
    };
    let admin = &mut loading.draft.config.admin;
    admin.port = port;
    if admin.command_url.starts_with('/') {
        return Ok(());
    }
    let problem = format!("admin.commandURL={} does not begin with /", admin.command_url);
    Err(loading.broken("admin.commandURL", problem))
}

fn quorum(loading: &mut Loading) -> Checked {
    const COMMIT_LOG_TXNS: u32 = 500;
    let raw = &loading.draft.raw;
    if raw.election_alg != 3 {
        let problem = format!("electionAlg={} is no longer supported; only 3 is", raw.election_alg);
        return Err(loading.broken("electionAlg", problem));
    }
    let (port, txns) = (raw.observer_master_port, raw.commit_log_txns);
    let (factor, observer_sync) = (raw.snapshot_size_factor, raw.observer_sync_override);
    let Ok(port) = u16::try_from(port.max(0)) else {
        let problem = format!("observerMasterPort={port} is not a port up to 65535");
        return Err(loading.broken("observerMasterPort", problem));
    };
    let commit_log_txns = at_least(loading, "commitLogCount", txns, COMMIT_LOG_TXNS);
    if factor > 1.0 {
        let text = format!("snapshotSizeFactor={factor} is more than 1; 0.33 is used");
        loading.warn(loading.place("snapshotSizeFactor"), text);
    }
    let raw = &loading.draft.raw;
    let (init, sync) = (u32::take(raw.init_limit_ticks), u32::take(raw.sync_limit_ticks));
    let config = &mut loading.draft.config;
    (config.quorum.init_limit_ticks, config.quorum.sync_limit_ticks) = (init, sync);
    config.quorum.observer_master_port = NonZeroU16::new(port);
    config.quorum.observer_sync = observer_sync.unwrap_or(config.quorum.observer_sync);
    config.quorum_tuning.commit_log_txns = commit_log_txns;
    config.quorum_tuning.log_sync_factor =
        (factor >= 0.0).then_some(if factor > 1.0 { 0.33 } else { factor });
    Ok(())
}
