//! Machines that publish their status, and monitors that watch them.

use std::time::Duration;

use herdsman_recipes::Error;
use herdsman_recipes::monitor::{Monitor, MonitorEvent, Reporter};
use herdsman_testing::{TestProxy, TestServer};
use serde::{Deserialize, Serialize};

use crate::common::{client, client_behind, client_of, eventually, run_elsewhere, within};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Load {
    cpu: u32,
}

const LONG: Duration = Duration::from_secs(3600);

/// The next event in short: `+m1 3`, `~m1 4`, `?m1 4` (stale), `-m1 4`.
async fn next(monitor: &mut Monitor<Load>) -> String {
    let (sign, machine) = match within(monitor.next()).await.expect("the stream continues") {
        MonitorEvent::Joined(machine) => ('+', machine),
        MonitorEvent::Updated(machine) => ('~', machine),
        MonitorEvent::Stale(machine) => ('?', machine),
        MonitorEvent::Left(machine) => ('-', machine),
        other => panic!("{other:?}"),
    };
    match &machine.report {
        Ok(report) => format!("{sign}{} {}", machine.id, report.status.cpu),
        Err(_) => format!("{sign}{} unreadable", machine.id),
    }
}

#[tokio::test]
async fn a_monitor_sees_joins_updates_and_leaves() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let one = within(Reporter::start(&zk, "/m", "m1", &Load { cpu: 1 })).await.unwrap();
    let mut monitor = Monitor::open(&zk, "/m", LONG).await.unwrap();
    assert_eq!(next(&mut monitor).await, "+m1 1");
    let _two = within(Reporter::start(&other, "/m", "m2", &Load { cpu: 2 })).await.unwrap();
    assert_eq!(next(&mut monitor).await, "+m2 2");
    within(one.publish(&Load { cpu: 3 })).await.unwrap();
    assert_eq!(next(&mut monitor).await, "~m1 3");
    within(one.close()).await.unwrap();
    assert_eq!(next(&mut monitor).await, "-m1 3");
    other.close().await.unwrap();
    assert_eq!(next(&mut monitor).await, "-m2 2");
    assert!(monitor.machines().is_empty());
    drop(monitor);
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_silent_machine_is_stale_until_its_next_report() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let one = within(Reporter::start(&zk, "/m", "m1", &Load { cpu: 1 })).await.unwrap();
    let mut monitor = Monitor::open(&zk, "/m", Duration::from_millis(100)).await.unwrap();
    assert_eq!(next(&mut monitor).await, "+m1 1");
    assert_eq!(next(&mut monitor).await, "?m1 1");
    assert!(monitor.is_stale("m1"));
    within(one.beat()).await.unwrap();
    assert_eq!(next(&mut monitor).await, "~m1 1");
    assert!(!monitor.is_stale("m1"));
    assert_eq!(next(&mut monitor).await, "?m1 1");
    within(one.close()).await.unwrap();
    assert_eq!(next(&mut monitor).await, "-m1 1");
}

#[tokio::test]
async fn a_disconnected_monitor_reports_no_machine_as_stale() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, watching) = (client(&server).await, client_behind(&proxy).await);
    let one = within(Reporter::start(&zk, "/m", "m1", &Load { cpu: 1 })).await.unwrap();
    let mut monitor = Monitor::open(&watching, "/m", Duration::from_millis(300)).await.unwrap();
    assert_eq!(next(&mut monitor).await, "+m1 1");
    proxy.refuse_connections();
    proxy.cut();
    eventually(|| !watching.state().is_connected()).await;
    // Far longer than the limit: if it counted, the machine would be reported.
    let event = tokio::time::timeout(Duration::from_secs(1), monitor.next()).await;
    assert!(event.is_err(), "{event:?}");
    within(one.publish(&Load { cpu: 2 })).await.unwrap();
    proxy.accept_connections();
    assert_eq!(next(&mut monitor).await, "~m1 2");
}

/// The reports of the time in which this process was paused have arrived, but were not read yet.
#[tokio::test]
async fn a_monitor_that_was_paused_reports_no_healthy_machine_as_stale() {
    const STALE_AFTER: Duration = Duration::from_secs(1);
    let server = TestServer::start();
    let zk = client(&server).await;
    let servers = server.connect_string();
    let beats = run_elsewhere(async move {
        let zk = client_of(&servers).await;
        let reporter = Reporter::start(&zk, "/m", "m1", &Load { cpu: 1 }).await.unwrap();
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            reporter.beat().await.unwrap();
        }
    });
    let mut monitor = Monitor::open(&zk, "/m", STALE_AFTER).await.unwrap();
    assert_eq!(next(&mut monitor).await, "+m1 1");
    for _ in 0..3 {
        std::thread::sleep(STALE_AFTER * 5 / 4);
        for _ in 0..5 {
            assert_eq!(next(&mut monitor).await, "~m1 1");
        }
    }
    beats.stop();
}

#[tokio::test]
async fn a_machine_joins_again_after_the_end_of_its_session() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let _one = within(Reporter::start(&other, "/m", "m1", &Load { cpu: 1 })).await.unwrap();
    let mut monitor = Monitor::open(&zk, "/m", LONG).await.unwrap();
    assert_eq!(next(&mut monitor).await, "+m1 1");
    server.expire_session(other.session().id());
    let event = next(&mut monitor).await;
    if event == "-m1 1" {
        assert_eq!(next(&mut monitor).await, "+m1 1");
    } else {
        assert_eq!(event, "~m1 1");
    }
}

#[tokio::test]
async fn unreadable_data_is_reported_and_the_stream_continues() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/m/broken", "{not json").parents().await.unwrap();
    let mut monitor = Monitor::open(&zk, "/m", LONG).await.unwrap();
    assert_eq!(next(&mut monitor).await, "+broken unreadable");
    let report = &monitor.machines()["broken"].report;
    assert!(matches!(report, Err(Error::Codec { path, .. }) if path == "/m/broken"), "{report:?}");
    let _one = within(Reporter::start(&zk, "/m", "m1", &Load { cpu: 1 })).await.unwrap();
    assert_eq!(next(&mut monitor).await, "+m1 1");
}

#[tokio::test]
async fn bad_input_is_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let error = Monitor::<Load>::open(&zk, "/m", Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)));
    Monitor::<Load>::open(&zk, "m", LONG).await.unwrap_err();
    Monitor::<Load>::open(&zk, "", LONG).await.unwrap_err();
    within(Reporter::start(&zk, "", "m1", &Load { cpu: 1 })).await.unwrap_err();
    within(Reporter::start(&zk, "/m", "a/b", &Load { cpu: 1 })).await.unwrap_err();
    assert!(zk.exists("/m").await.unwrap().is_none());
}
