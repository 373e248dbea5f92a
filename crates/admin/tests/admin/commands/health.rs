//! Health checks of healthy and of failing servers, and metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{get, open};
use herdsman_admin::{MetricsPorts, MetricsSettings};
use herdsman_client::Client;
use herdsman_config::Config;
use herdsman_config::{Endpoint, SystemProperties};
use herdsman_node::{Node, StorageState};
use herdsman_server::Server;
use herdsman_store::{Disk, MemoryDisk};
use herdsman_testing::TestServer;
use serde_json::json;

fn server_on(memory: &MemoryDisk) -> Server {
    let loaded = Config::standalone_default(&SystemProperties::default()).unwrap();
    let mut config = loaded.config;
    config.listen.client = Some(Endpoint { host: Some("127.0.0.1".to_owned()), port: 0 });
    config.storage.data_dir = "/data".into();
    config.storage.log_dir = "/data".into();
    config.storage.preallocate_bytes = 0;
    Server::start_on(config, &(Arc::new(memory.clone()) as Arc<dyn Disk>)).unwrap()
}

fn await_storage(server: &Server, state: StorageState) {
    let handle = server.handle().unwrap();
    while handle.core().with_node(Node::storage) != state {
        std::thread::yield_now();
    }
}

/// Connects, lets the disk fail, and writes. A write that the disk cannot store is never answered, so it is
/// only started, and so is closing the session.
fn write_after(server: &Server, befall: impl FnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&server.address().unwrap().to_string()).await.unwrap();
        befall();
        let write = client.create("/more", vec![0; 100_000]);
        _ = tokio::time::timeout(Duration::from_millis(100), write).await;
    });
}

#[test]
fn a_healthy_server_is_live_and_ready() {
    let server = TestServer::start();
    let admin = open(server.handle());
    assert_eq!(get(&admin, "/livez").json(), json!({ "status": "ok" }));
    assert_eq!(get(&admin, "/readyz").json(), json!({ "status": "ok" }));
    let verbose = get(&admin, "/readyz?verbose").json();
    let names: Vec<_> =
        verbose["passed"].as_array().unwrap().iter().map(|c| c["check"].clone()).collect();
    assert_eq!(names, ["core", "log", "storage", "running", "leader", "clients", "writes"]);
}

#[test]
fn a_full_disk_means_live_but_not_ready() {
    let memory = MemoryDisk::new();
    let server = server_on(&memory);
    let admin = open(server.handle().unwrap());
    assert_eq!(get(&admin, "/readyz").status, 200);
    write_after(&server, || memory.set_capacity(Some(1)));
    await_storage(&server, StorageState::Full);
    let ready = get(&admin, "/readyz");
    assert_eq!((ready.status, &ready.json()["failed"][0]["check"]), (503, &json!("writes")));
    assert_eq!(get(&admin, "/livez").status, 200);
    memory.set_capacity(None);
    await_storage(&server, StorageState::Writable);
    assert_eq!(get(&admin, "/readyz").status, 200);
}

#[test]
fn a_failed_disk_means_neither() {
    let memory = MemoryDisk::new();
    let server = server_on(&memory);
    let admin = open(server.handle().unwrap());
    write_after(&server, || memory.fail_sync(0));
    await_storage(&server, StorageState::Failed);
    for path in ["/livez", "/readyz"] {
        let answer = get(&admin, path);
        assert_eq!(
            (answer.status, &answer.json()["failed"][0]["check"]),
            (503, &json!("storage")),
            "{path}"
        );
    }
}

#[test]
fn a_stopped_server_is_not_ready() {
    let server = TestServer::start();
    let admin = open(server.handle());
    drop(server);
    let answer = get(&admin, "/readyz");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["failed"][0]["check"], "running");
}

fn open_metrics(server: &TestServer, address: &str) -> MetricsPorts {
    let address = Some(address.parse().unwrap());
    let settings = MetricsSettings { address, ..MetricsSettings::default() };
    MetricsPorts::start(&server.handle(), settings).unwrap()
}

fn get_at(address: SocketAddr, path: &str) -> super::Answer {
    super::Answer::of(super::agent().get(format!("http://{address}{path}")).call())
}

#[test]
fn metrics_are_on_both_ports() {
    let server = TestServer::start();
    let admin = open(server.handle());
    let metrics = open_metrics(&server, "127.0.0.1:0");
    let own = metrics.address().unwrap();
    for answer in [get(&admin, "/metrics"), get_at(own, "/metrics")] {
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        assert!(answer.text().contains("\nznode_count 5"), "{}", answer.text());
    }
    assert_eq!(get_at(own, "/commands/ruok").status, 404);
}

#[test]
fn metrics_have_a_port_without_an_admin_server() {
    let server = TestServer::start();
    let metrics = open_metrics(&server, "127.0.0.1:0");
    assert_eq!(get_at(metrics.address().unwrap(), "/metrics").status, 200);
    // A port that is in use is only logged, and everything else works.
    let taken = metrics.address().unwrap().to_string();
    assert_eq!(open_metrics(&server, &taken).address(), None);
}
