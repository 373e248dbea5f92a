//! Reports of calls that have ended: to the program's hook and to its log. Spans are in `spans.rs`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use herdsman_client::{ErrorKind, Op, Options, Outcome};
use herdsman_proto::OpCode;
use herdsman_testing::TestServer;
use herdsman_testing::proxy::Fault;
use tracing::Level;

use crate::world::{Log, World, connect, eventually, options, within};

/// Operation, path, kind of the error, attempts.
type Row = (&'static str, Option<String>, Option<ErrorKind>, u32);

/// Keeps the reports.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<(Row, Duration)>>>);

impl Reports {
    fn observe(&self, options: Options) -> Options {
        let reports = self.clone();
        options.on_call(move |call| {
            let error = call.result.err().map(|error| error.kind().clone());
            let row = (call.op, call.path.map(str::to_owned), error, call.attempts);
            reports.0.lock().unwrap().push((row, call.elapsed));
        })
    }

    fn take(&self) -> Vec<Row> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_iter().map(|(row, _)| row).collect()
    }
}

fn row(op: &'static str, path: &str, error: Option<ErrorKind>, attempts: u32) -> Row {
    (op, Some(path.to_owned()), error, attempts)
}

#[tokio::test]
async fn the_hook_gets_every_call() {
    let server = TestServer::start();
    let reports = Reports::default();
    connect(&server.connect_string()).await.create("/app", "").await.unwrap();
    let servers = format!("{}/app", server.connect_string());
    let zk = reports.observe(options()).connect(&servers).await.unwrap();
    assert_eq!(reports.take(), [], "connecting is not a call");

    zk.create("/a", "").await.unwrap();
    zk.get("/b").await.unwrap_err();
    zk.transaction([Op::create("/t", ""), Op::set("/a", "x")]).await.unwrap();
    zk.who_am_i().await.unwrap();
    let expected = [
        row("create2", "/a", None, 1),
        row("getData", "/b", Some(ErrorKind::NoNode), 1),
        row("multi", "/t", None, 1),
        ("whoAmI", None, None, 1),
    ];
    assert_eq!(reports.take(), expected);

    zk.create("/p/q", "").parents().await.unwrap();
    let parts: Vec<_> = reports.take().into_iter().map(|(op, path, ..)| (op, path)).collect();
    let at = |op, path: &str| (op, Some(path.to_owned()));
    let expected =
        [at("create2", "/p/q"), at("exists", "/p"), at("create2", "/p"), at("create2", "/p/q")];
    assert_eq!(parts, expected, "each request of a call with several");

    drop(zk.get("/a").send());
    zk.sync("/").await.unwrap();
    assert_eq!(reports.take(), [row("sync", "/", None, 1)], "dropped calls are not reported");
}

#[tokio::test]
async fn derived_clients_and_later_sessions_are_reported_too() {
    let server = TestServer::start();
    let reports = Reports::default();
    let zk = reports.observe(options()).connect(&server.connect_string()).await.unwrap();
    let session = zk.session();
    zk.fenced_by("/zookeeper").create("/a", "").await.unwrap();
    session.client().get("/a").await.unwrap();
    assert_eq!(
        reports.take(),
        [row("multi", "/zookeeper", None, 1), row("getData", "/a", None, 1)]
    );
    server.expire_session(session.id());
    within(session.ended()).await;
    within(zk.connected_session()).await.unwrap();
    zk.get("/a").await.unwrap();
    assert_eq!(reports.take(), [row("getData", "/a", None, 1)]);
}

#[tokio::test]
async fn a_report_counts_attempts_and_time() {
    let reports = Reports::default();
    let one_at_a_time = reports.observe(options()).in_flight_max(1);
    let World { zk, proxy, server: _server, other: _other } =
        World::start_with(one_at_a_time).await;
    proxy.once(OpCode::GetData, Fault::CutBeforeReply);
    within(zk.get("/zookeeper").send()).await.unwrap();
    assert_eq!(reports.take(), [row("getData", "/zookeeper", None, 2)], "retried");

    let invalid = zk.get("zookeeper").await.unwrap_err();
    assert_eq!(reports.take(), [row("getData", "zookeeper", Some(invalid.kind().clone()), 0)]);

    let held = proxy.once(OpCode::SetData, Fault::HoldReply);
    let limit = Duration::from_millis(30);
    let late = zk.set("/zookeeper", "").deadline(limit).await.unwrap_err();
    assert_eq!(late.outcome(), Outcome::Unknown);
    let elapsed = reports.0.lock().unwrap()[0].1;
    assert!(elapsed >= limit, "{elapsed:?}");
    let expected = row("setData", "/zookeeper", Some(ErrorKind::DeadlineExceeded), 1);
    assert_eq!(reports.take(), [expected]);

    assert!(zk.get("/").try_send().is_err());
    assert_eq!(reports.take(), [row("getData", "/", Some(ErrorKind::Busy), 0)]);
    held.release();
}

#[tokio::test]
async fn a_hook_that_panics_affects_no_call() {
    let panicking = options().on_call(|call| panic!("the hook fails on {}", call.op));
    let World { zk, proxy, server, other: _other } = World::start_with(panicking).await;
    zk.create("/a", "").ephemeral().await.unwrap();
    assert!(zk.get("/b").await.unwrap_err().is_no_node());
    // A deletion in the background that has to be retried continues after its first report.
    let lost = proxy.once(OpCode::Delete, Fault::CutBeforeRequest);
    zk.delete("/a").in_background();
    within(lost.until_fired()).await;
    let session = zk.session().id();
    eventually("the node is deleted", || server.ephemerals(session).is_empty()).await;
}

// One thread, so that all of the client's work is done where its log is captured.
#[tokio::test(flavor = "current_thread")]
async fn each_call_is_one_line_of_the_log() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    let log = Log::default();
    let guard = log.keep(Level::DEBUG);
    zk.create("/a", "").await.unwrap();
    zk.get("/b").await.unwrap_err();
    drop(guard);
    let log = log.text();
    let lines: Vec<_> =
        log.lines().filter(|line| line.contains("DEBUG herdsman_client::call:")).collect();
    let expected: [&[&str]; 2] = [
        &["op=\"create2\" path=\"/a\" elapsed=", "attempts=1 outcome=\"ok\""],
        &[
            "op=\"getData\" path=\"/b\" elapsed=",
            "attempts=1 outcome=NotApplied error=the znode does not exist",
        ],
    ];
    assert_eq!(lines.len(), expected.len(), "{log}");
    for (line, parts) in lines.iter().zip(expected) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
}
