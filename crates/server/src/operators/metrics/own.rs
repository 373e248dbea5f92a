//! Metrics without an Apache name: histograms of latencies, the audit log, and the metrics that
//! Prometheus expects of every process.

use std::borrow::Cow;

use herdsman_proto::Zxid;

use super::family::{Family, Kind, Number, Reading, Sample};
use crate::clients::io_threads::ServerContext;
use crate::operators::stats::{Counter, ReadPauseCounters};
use crate::operators::words::process::{self, Usage};

/// Adds all of them.
pub(super) fn add(families: &mut Vec<Family>, shared: &ServerContext) {
    add_histograms(families, shared);
    add_counters(families, shared);
    add_limits(families, shared);
    add_archive(families, shared);
    if let Some(usage) = process::usage() {
        add_process(families, &usage);
    }
    families.push(build_info());
}

fn add_histograms(families: &mut Vec<Family>, shared: &ServerContext) {
    let stats = &shared.core.stats;
    let durations = &stats.durations;
    let commit = match shared.core.peers() {
        None => &durations.commit,
        Some(_) => &stats.ensemble.commit,
    };
    for (name, help, histogram) in [
        ("herdsman_read_latency_seconds", "Time to answer a read.", &durations.read),
        (
            "herdsman_write_latency_seconds",
            "Time from the arrival of a write to its answer.",
            &durations.write,
        ),
        ("herdsman_fsync_latency_seconds", "Time to make a batch durable.", &durations.fsync),
        (
            "herdsman_commit_latency_seconds",
            "Time from a txn's proposal, or its arrival at a learner, to its commit.",
            commit,
        ),
        (
            "herdsman_watch_delivery_latency_seconds",
            "Time from a change until its event is written to the watcher's socket.",
            &durations.watch,
        ),
    ] {
        families.push(Family::histogram(name, help, histogram.read()));
    }
}

fn add_counters(families: &mut Vec<Family>, shared: &ServerContext) {
    families.push(Family::counter(
        "herdsman_slow_requests_total",
        "Requests that took longer than `herdsman.slowRequestMs`.",
        shared.core.stats.slow_requests.get(),
    ));
    if let Some(audit) = shared.core.audit() {
        families.push(Family::counter(
            "herdsman_audit_lines_total",
            "Lines of the audit log.",
            audit.lines(),
        ));
        families.push(Family::counter(
            "herdsman_audit_lines_lost_total",
            "Audit lines lost because the buffer was full.",
            audit.lost(),
        ));
    }
}

/// Metrics of limits that Apache does not have, or does not count.
fn add_limits(families: &mut Vec<Family>, shared: &ServerContext) {
    let stats = &shared.core.stats;
    families.push(Family::gauge(
        "herdsman_request_bytes",
        "Bytes of requests in flight and of long frames being received.",
        Number::Whole(shared.request_bytes.held().cast_signed()),
    ));
    for (name, help, counter) in [
        (
            "herdsman_frames_refused_total",
            "Connections closed because of an oversized or malformed frame.",
            &stats.frames_refused,
        ),
        (
            "herdsman_slow_readers_closed_total",
            "Connections closed because their client does not read, or lost events of a very large transaction.",
            &stats.slow_readers_closed,
        ),
        (
            "herdsman_replies_refused_total",
            "Reads rejected by `herdsman.replyBytesMax`.",
            &stats.replies_refused,
        ),
        (
            "herdsman_watches_refused_total",
            "Requests rejected by `herdsman.watchesPerSessionMax`.",
            &stats.watches_refused,
        ),
    ] {
        families.push(Family::counter(name, help, counter.get()));
    }
    families.push(read_pauses(&stats.read_pauses));
}

/// Metrics of the archive, if there is one.
fn add_archive(families: &mut Vec<Family>, shared: &ServerContext) {
    let Some(archive) = shared.snapshots.archive() else { return };
    let (last, archived) = (shared.core.tree().last_zxid(), archive.archived());
    let behind_txns = txns_between(archived, last);
    let behind_seconds = if behind_txns > 0 { archive.behind_for().as_secs_f64() } else { 0.0 };
    let whole = |value: u64| Number::Whole(value.cast_signed());
    for (name, help, value) in [
        (
            "herdsman_archive_last_zxid",
            "The last txn that is in the archive, with all before it.",
            Number::Whole(archived.0),
        ),
        (
            "herdsman_archive_behind_txns",
            "Txns that are not in the archive yet; at least this many if they are of several epochs.",
            whole(behind_txns),
        ),
        (
            "herdsman_archive_behind_seconds",
            "Age of the oldest txn that is not archived yet, in seconds; 0 if all are.",
            Number::Fraction(behind_seconds),
        ),
    ] {
        families.push(Family::gauge(name, help, value));
    }
    for (name, help, counter) in [
        ("herdsman_archive_files_total", "Files copied to the archive.", &archive.files),
        ("herdsman_archive_bytes_total", "Bytes copied to the archive.", &archive.bytes),
        (
            "herdsman_archive_failures_total",
            "Failed attempts to read or write the archive.",
            &archive.failures,
        ),
        (
            "herdsman_archive_damaged_files_total",
            "Damaged files that were not copied to the archive.",
            &archive.damaged,
        ),
    ] {
        families.push(Family::counter(name, help, counter.get()));
    }
}

/// Txns after `archived` up to `last`; those of earlier epochs than the last one's are not counted.
fn txns_between(archived: Zxid, last: Zxid) -> u64 {
    if last <= archived {
        return 0;
    }
    let same_epoch = archived.epoch() == last.epoch();
    let before = if same_epoch { archived.counter() } else { 0 };
    u64::from(last.counter() - before).max(1)
}

fn read_pauses(counters: &ReadPauseCounters) -> Family {
    let sample = |limit: &'static str, counter: &Counter| Sample {
        labels: vec![("limit", Cow::Borrowed(limit))],
        reading: Reading::Number(Number::Whole(counter.get().cast_signed())),
    };
    Family {
        name: "herdsman_held_back_total",
        help: "How often reading from a connection was paused, by the limit that was reached.",
        kind: Kind::Counter,
        samples: vec![
            sample("requestsPerConnectionMax", &counters.own_requests),
            sample("requestBytesPerConnectionMax", &counters.own_bytes),
            sample("globalOutstandingLimit", &counters.all_requests),
            sample("requestBytesMax", &counters.all_bytes),
            sample("unread", &counters.unread),
        ],
    }
}

fn add_process(families: &mut Vec<Family>, usage: &Usage) {
    let whole = |value: u64| Number::Whole(value.cast_signed());
    families.push(Family {
        kind: Kind::Counter,
        ..Family::gauge(
            "process_cpu_seconds_total",
            "Processor time that this process has used, in seconds.",
            Number::Fraction(usage.cpu_seconds),
        )
    });
    for (name, help, value) in [
        (
            "process_start_time_seconds",
            "Start time of this process, in seconds since 1970.",
            Number::Fraction(usage.started_seconds),
        ),
        ("process_open_fds", "Open file descriptors.", Number::Whole(process::open_files())),
        (
            "process_max_fds",
            "Limit of open file descriptors.",
            Number::Whole(process::open_files_max()),
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory of this process.",
            whole(usage.resident_bytes),
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory size of this process.",
            whole(usage.virtual_bytes),
        ),
    ] {
        families.push(Family::gauge(name, help, value));
    }
}

/// Always 1; the labels have the information.
fn build_info() -> Family {
    let labels = vec![("version", Cow::Borrowed(env!("CARGO_PKG_VERSION")))];
    let reading = Reading::Number(Number::Whole(1));
    Family {
        name: "herdsman_build_info",
        help: "The version of Herdsman.",
        kind: Kind::Gauge,
        samples: vec![Sample { labels, reading }],
    }
}
