//! Metrics of real servers, as Prometheus reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

use herdsman_proto::Request;
use herdsman_server::ServerHandle;
use herdsman_server::operators::metrics::{self, Kind};
use herdsman_testing::{TestEnsemble, TestServer};

use crate::client::{Client, open};

/// Every series with its value, after a strict check of the format.
pub fn scrape(handle: &ServerHandle) -> BTreeMap<String, f64> {
    let text = metrics::prometheus_text(&metrics::collect(handle));
    assert!(text.ends_with('\n') && !text.contains("\n\n"));
    let mut series = BTreeMap::new();
    let mut families = BTreeSet::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a name and its help");
            assert!(!help.is_empty() && families.insert(name.to_owned()), "{line}");
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and its type");
            assert_eq!(name, family);
            assert!(["gauge", "counter", "summary", "histogram"].contains(&kind), "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a series and its value");
            assert!(name.starts_with(&family), "{line} below {family}");
            let value = value.parse().expect("a number");
            assert!(series.insert(name.to_owned(), value).is_none(), "{line} comes twice");
        }
    }
    series
}

#[test]
fn dashboards_made_for_apache_find_their_series() {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let mut client = Client::connect(ensemble.address(leader));
    client.create("/a", b"", 0).ok();
    let series = scrape(&ensemble.handle(leader));
    for name in "znode_count watch_count ephemerals_count approximate_data_size \
                 num_alive_connections outstanding_requests avg_latency max_latency min_latency \
                 packets_received packets_sent open_file_descriptor_count max_file_descriptor_count \
                 uptime global_sessions local_sessions quorum_size learners synced_followers \
                 synced_observers pending_syncs leader_uptime commit_count proposal_count diff_count \
                 snap_count looking_count bytes_received_count connection_request_count \
                 connection_drop_count connection_rejected stale_sessions_expired response_bytes \
                 digest_mismatches_count unrecoverable_error_count prep_processor_request_queued \
                 response_packet_cache_hits request_throttle_wait_count \
                 fsynctime_count fsynctime_sum snapshottime_count election_time_sum \
                 readlatency_count updatelatency_sum propagation_latency_count \
                 quorum_ack_latency_count prep_process_time_sum sync_processor_queue_size_count \
                 node_changed_watch_count_sum startup_txns_loaded_sum process_open_fds process_max_fds \
                 process_resident_memory_bytes process_virtual_memory_bytes \
                 process_cpu_seconds_total process_start_time_seconds"
        .split_whitespace()
    {
        assert!(series.contains_key(name), "{name}");
    }
    for quantile in ["0.5", "0.9", "0.99"] {
        for name in ["readlatency", "updatelatency", "propagation_latency", "quorum_ack_latency"] {
            let name = format!("{name}{{quantile=\"{quantile}\"}}");
            assert!(series.contains_key(&name), "{name}");
        }
    }
    for name in ["fsynctime", "election_time", "snapshottime", "follower_sync_time"] {
        assert!(series.contains_key(&format!("{name}{{quantile=\"0.5\"}}")), "{name}");
    }
    assert!(series["quorum_size"] > 2.5 && series["election_time_count"] > 0.5);
    let build = format!("herdsman_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert!(series[&build] > 0.5);
    assert!(series["herdsman_commit_latency_seconds_count"] > 0.5);
}

#[test]
fn histograms_count_what_clients_wait_for() {
    let server = TestServer::start();
    let mut watcher = Client::connect(server.address());
    let mut client = Client::connect(server.address());
    client.create("/a", b"", 0).ok();
    for _ in 0..3 {
        watcher.get("/a", true).unwrap();
        client.set("/a", b"x").ok();
        watcher.ping();
    }
    client.call(&Request::Sync { path: "/".into() }).ok();
    assert_eq!(watcher.events.len(), 3);
    // An event is counted just after the system has accepted its bytes.
    let delivered = "herdsman_watch_delivery_latency_seconds_count";
    let mut series = scrape(&server.handle());
    while series[delivered] < 2.5 {
        std::thread::yield_now();
        series = scrape(&server.handle());
    }
    let count = |of: &str| series[&format!("herdsman_{of}_latency_seconds_count")] as u64;
    assert_eq!(count("write"), 4);
    // Three reads, three pings and a sync.
    assert_eq!(count("read"), 7);
    assert_eq!(count("watch_delivery"), 3);
    // Sessions are txns, too.
    assert_eq!(count("commit"), 6);
    assert!((1..=6).contains(&count("fsync")));
    for of in ["write", "read", "commit", "fsync", "watch_delivery"] {
        let bucket = format!("herdsman_{of}_latency_seconds_bucket{{le=\"");
        let mut buckets: Vec<_> =
            series.iter().filter(|(name, _)| name.starts_with(&bucket)).collect();
        let bound = |name: &str| {
            let bound = name[bucket.len()..].trim_end_matches("\"}");
            bound.parse::<f64>().expect("a number of seconds, or +Inf")
        };
        buckets.sort_by(|(one, _), (other, _)| bound(one).total_cmp(&bound(other)));
        assert!(buckets.is_sorted_by(|(_, one), (_, other)| one <= other), "{buckets:?}");
        let (last, value) = buckets.last().expect("there are buckets");
        assert_eq!((bound(last), **value as u64), (f64::INFINITY, count(of)));
        assert!(series[&format!("herdsman_{of}_latency_seconds_sum")] >= 0.0);
    }
}

#[test]
fn quotas_are_labelled_by_their_namespace() {
    let server = TestServer::start();
    let mut client = Client::connect(server.address());
    for path in ["/app", "/zookeeper/quota/app"] {
        client.create(path, b"", 0).ok();
    }
    client.create("/zookeeper/quota/app/zookeeper_limits", b"count=10,bytes=-1", 0).ok();
    client.create("/zookeeper/quota/app/zookeeper_stats", b"count=1,bytes=0", 0).ok();
    client.create("/app/x", b"12345", 0).ok();
    let series = scrape(&server.handle());
    let value = |name: &str| series[&format!("quota_{name}_per_namespace{{key=\"app\"}}")] as i64;
    assert_eq!([value("count_limit"), value("bytes_limit")], [10, -1]);
    assert_eq!([value("count_usage"), value("bytes_usage")], [2, 5]);
}

#[test]
fn the_word_and_the_handle_tell_the_same_names() {
    let server = TestServer::start();
    let mut stream = open(server.address());
    stream.write_all(b"mntr").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let told: Vec<_> = text.lines().filter_map(|line| line.split('\t').next()).collect();
    let families = metrics::collect_apache(&server.handle());
    let names: Vec<_> =
        metrics::flat(&families).into_iter().map(|(name, _)| format!("zk_{name}")).collect();
    assert_eq!(told[..2], ["zk_version", "zk_server_state"]);
    assert_eq!(told[2..], names);
    assert!(families.iter().all(|family| family.kind != Kind::Histogram));
}

#[test]
fn slow_requests_are_counted() {
    let server = TestServer::start_with(|config| {
        // Every write waits this long for more writes.
        config.storage.flush_delay_ms = 20;
        config.logging.slow_request_ms = std::num::NonZeroU32::new(10);
    });
    let mut client = Client::connect(server.address());
    client.create("/a", b"", 0).ok();
    client.set("/a", &[b'x'; 10_000]).ok();
    let series = scrape(&server.handle());
    assert!(series["herdsman_slow_requests_total"] > 1.5);
}

#[test]
fn nothing_is_slow_when_nobody_wants_to_know() {
    let server = TestServer::start_with(|config| {
        config.storage.flush_delay_ms = 20;
        config.logging.slow_request_ms = None;
    });
    let mut client = Client::connect(server.address());
    client.create("/a", b"", 0).ok();
    assert!(scrape(&server.handle())["herdsman_slow_requests_total"] < 0.5);
}
