//! Progress whose node shows whether its reporter is alive: absence is distinguished from completion.

use std::time::Duration;

use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::messaging::{LiveProgress, LiveProgressReporter, Progress, ProgressFeed};
use herdsman_testing::proxy::OpCode;
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};
use crate::lock_loss::sweep;

const PATH: &str = "/job/progress";
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

fn at(percent: u8) -> Progress {
    Progress::new(percent, "working")
}

fn start(zk: &Client) -> LiveProgressReporter {
    LiveProgressReporter::start_with_interval(zk, PATH, Duration::from_millis(1)).unwrap()
}

async fn report(reporter: &LiveProgressReporter, percent: u8) {
    reporter.report(at(percent));
    within(reporter.flush()).await.unwrap();
}

async fn feed(zk: &Client) -> ProgressFeed<LiveProgress> {
    ProgressFeed::open_live(zk, PATH).await.unwrap()
}

/// Reads until this value arrives.
async fn seen(feed: &mut ProgressFeed<LiveProgress>, wanted: LiveProgress) {
    while within(feed.next()).await != Some(Ok(wanted.clone())) {}
}

#[tokio::test]
async fn a_reader_distinguishes_absent_from_finished() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut feed = feed(&zk).await;
    assert_eq!(within(feed.next()).await, Some(Ok(LiveProgress::Absent)), "no reporter has begun");
    let reporter = start(&other);
    report(&reporter, 10).await;
    seen(&mut feed, LiveProgress::Reported(at(10))).await;
    drop(reporter);
    seen(&mut feed, LiveProgress::Absent).await;
    let reporter = start(&other);
    report(&reporter, 20).await;
    seen(&mut feed, LiveProgress::Reported(at(20))).await;
    within(reporter.finish(at(100))).await.unwrap();
    assert_eq!(within(feed.next()).await, Some(Ok(LiveProgress::Finished(at(100)))));
    within(other.close()).await.unwrap();
    let mut late = ProgressFeed::open_live(&zk, PATH).await.unwrap();
    assert_eq!(within(late.next()).await, Some(Ok(LiveProgress::Finished(at(100)))));
    let mut plain = ProgressFeed::open(&zk, PATH).await.unwrap();
    assert_eq!(within(plain.next()).await, Some(Ok(at(100))));
    drop((feed, late, plain));
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn the_end_of_the_session_is_noticed_and_the_next_one_reports_again() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client(&server).await, client_behind(&proxy).await);
    let mut feed = feed(&zk).await;
    let reporter = start(&other);
    report(&reporter, 10).await;
    seen(&mut feed, LiveProgress::Reported(at(10))).await;
    proxy.partition();
    server.expire_session(other.session().id());
    seen(&mut feed, LiveProgress::Absent).await;
    reporter.report(at(20));
    proxy.heal();
    seen(&mut feed, LiveProgress::Reported(at(20))).await;
    server.expire_session(other.session().id());
    within(reporter.finish(at(100))).await.unwrap();
    seen(&mut feed, LiveProgress::Finished(at(100))).await;
}

#[tokio::test]
async fn a_cut_at_any_request_finishes_once_and_no_reader_sees_a_gap() {
    sweep(async |run| {
        let other = client(run.server).await;
        let interval = Duration::from_millis(1);
        let start = LiveProgressReporter::start_with_interval(&run.zk, &run.path, interval);
        let reporter = start.unwrap();
        report(&reporter, 10).await;
        let mut feed = ProgressFeed::open_live(&other, &run.path).await.unwrap();
        assert_eq!(feed.next().await, Some(Ok(LiveProgress::Reported(at(10)))));
        reporter.finish(at(100)).await.unwrap();
        assert_eq!(feed.next().await, Some(Ok(LiveProgress::Finished(at(100)))));
        assert_eq!(other.get(&run.path).await.unwrap().stat.ephemeral_owner, 0);
    })
    .await;
}

#[tokio::test]
async fn a_leftover_node_is_replaced_and_a_live_reporter_is_waited_for() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    within(start(&zk).finish(at(100))).await.unwrap();
    let first = start(&zk);
    report(&first, 10).await;
    let (second, third) = (start(&other), start(&client(&server).await));
    second.report(at(20));
    eventually(|| server.watch_count() == 3).await;
    assert_eq!(zk.get(PATH).await.unwrap().data, r#"{"percent":10,"text":"working"}"#);
    let refused = within(third.finish(at(99))).await.unwrap_err();
    assert_eq!(refused.client_kind(), Some(&ErrorKind::NodeExists));
    drop(first);
    within(second.flush()).await.unwrap();
    assert_eq!(zk.get(PATH).await.unwrap().stat.ephemeral_owner, other.session().id().0);
}

#[tokio::test]
async fn a_disconnected_reporter_does_not_replace_its_successors_result() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, cut) = (client(&server).await, client_behind(&proxy).await);
    let former = start(&cut);
    report(&former, 10).await;
    proxy.partition();
    let session = cut.session();
    server.expire_session(session.id());
    let next = start(&zk);
    report(&next, 20).await;
    within(next.finish(at(100))).await.unwrap();
    eventually(|| server.watch_count() == 0).await;
    proxy.heal();
    within(session.ended()).await;
    // The former reporter has found the node, and waits.
    eventually(|| server.watch_count() == 1).await;
    let mut feed = feed(&zk).await;
    assert_eq!(within(feed.next()).await, Some(Ok(LiveProgress::Finished(at(100)))));
    drop(former);
}

#[tokio::test]
async fn reports_are_limited_but_the_end_is_not() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let reporter = LiveProgressReporter::start_with_interval(&zk, PATH, LONG).unwrap();
    within(reporter.flush()).await.unwrap();
    for percent in 1..100 {
        reporter.report(at(percent));
        zk.sync("/").await.unwrap();
    }
    // The node was created with the first one.
    assert_eq!(proxy.traffic().requests(OpCode::SetData), 0);
    within(reporter.finish(at(100))).await.unwrap();
    assert_eq!(proxy.traffic().requests(OpCode::SetData), 0);
}

#[tokio::test]
async fn a_report_is_a_write_and_a_look_at_the_node() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let reporter = start(&client_behind(&proxy).await);
    report(&reporter, 1).await;
    let before = proxy.traffic();
    report(&reporter, 2).await;
    let after = proxy.traffic();
    assert_eq!(after.requests(OpCode::SetData) - before.requests(OpCode::SetData), 1);
    assert_eq!(after.requests(OpCode::Exists) - before.requests(OpCode::Exists), 1);
    assert_eq!(after.requests_in_all() - before.requests_in_all(), 2);
}

#[tokio::test]
async fn a_reporter_that_is_dropped_outside_of_a_runtime_leaves_nothing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let reporter = start(&zk);
    report(&reporter, 10).await;
    std::thread::spawn(move || drop(reporter)).join().unwrap();
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

#[tokio::test]
async fn a_closed_client_is_reported() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let reporter = start(&zk);
    report(&reporter, 10).await;
    zk.close().await.unwrap();
    let error = within(reporter.finish(at(100))).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::Closed));
    assert!(LiveProgressReporter::start(&zk, "progress").is_err());
}
