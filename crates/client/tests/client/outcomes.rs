//! The outcome that an error reports, deadlines, and retries.

use std::time::Duration;

use herdsman_client::{Client, ErrorKind, Outcome, RetryPolicy};
use herdsman_proto::OpCode;
use herdsman_testing::proxy::{Fault, Rule};

use crate::world::{World, children, eventually, kind, options, within};

const INSTANT: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_write_whose_reply_is_lost_may_have_been_applied() {
    let World { zk, proxy, other, server: _server } = World::start().await;
    let lost = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    let error = within(zk.create("/a", "").send()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ConnectionLoss, Outcome::Unknown));
    assert!(error.is_retriable());
    assert!(error.to_string().ends_with("(it may have been applied)"), "{error}");
    assert_eq!(lost.fired(), 1);
    assert!(other.exists("/a").await.unwrap().is_some());
    let creates = proxy.traffic().requests(OpCode::Create2);
    assert_eq!(creates, 1, "it was not retried");
}

#[tokio::test]
async fn a_write_that_never_arrived_is_unknown_too() {
    let World { zk, proxy, other, server: _server } = World::start().await;
    proxy.once(OpCode::Create2, Fault::CutBeforeRequest);
    let error = within(zk.create("/a", "").send()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ConnectionLoss, Outcome::Unknown));
    assert_eq!(other.exists("/a").await.unwrap(), None);
}

#[tokio::test]
async fn writes_of_every_kind_are_unknown_and_reads_are_not() {
    let World { zk, proxy, other: _other, server: _server } =
        World::start_with(options().retry(RetryPolicy::never())).await;
    zk.create("/a", "").await.unwrap();
    let cut = |op| proxy.once(op, Fault::CutBeforeReply);
    let mut outcomes = Vec::new();
    cut(OpCode::SetData);
    outcomes.push(within(zk.set("/a", "").send()).await.unwrap_err().outcome());
    cut(OpCode::Multi);
    outcomes.push(within(zk.transaction([]).send()).await.unwrap_err().outcome());
    cut(OpCode::Delete);
    outcomes.push(within(zk.delete("/a").send()).await.unwrap_err().outcome());
    assert_eq!(outcomes, [Outcome::Unknown; 3]);
    outcomes.clear();
    cut(OpCode::GetData);
    outcomes.push(within(zk.get("/a").send()).await.unwrap_err().outcome());
    cut(OpCode::Sync);
    outcomes.push(within(zk.sync("/a").send()).await.unwrap_err().outcome());
    cut(OpCode::AddWatch);
    outcomes.push(within(zk.watch("/a").send()).await.unwrap_err().outcome());
    assert_eq!(outcomes, [Outcome::NotApplied; 3]);
}

#[tokio::test]
async fn reads_are_retried_until_they_succeed() {
    let World { zk, proxy, server, other: _other } = World::start().await;
    zk.create("/a", "x").await.unwrap();
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let rule = proxy.add_rule(Rule::new(fault).on(OpCode::GetData).times(3));
        let (node, watch) = within(zk.get("/a").watch().send()).await.unwrap();
        assert_eq!((&node.data[..], rule.fired()), (&b"x"[..], 3));
        assert_eq!(server.watch_count(), 1);
        drop(watch);
        eventually("the watch is removed", || server.watch_count() == 0).await;
    }
}

#[tokio::test]
async fn a_read_gives_up_as_its_policy_requires() {
    let World { zk, proxy, other: _other, server: _server } = World::start().await;
    let rule = proxy.add_rule(Rule::new(Fault::CutBeforeReply).on(OpCode::Exists).always());
    let impatient = zk.with_retry(RetryPolicy::n_times(2, Duration::ZERO));
    let error = within(impatient.exists("/a").send()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ConnectionLoss, Outcome::NotApplied));
    assert_eq!(rule.fired(), 3);
}

#[tokio::test]
async fn calls_without_a_connection_wait_for_one() {
    let World { zk, proxy, other, server: _server } = World::start().await;
    let session = zk.session();
    proxy.refuse_connections();
    proxy.cut();
    within(session.wait_for(|state| !state.is_connected())).await;
    let created = zk.create("/a", "").send();
    let read = zk.get("/a").send();
    assert_eq!(other.exists("/a").await.unwrap(), None);
    proxy.accept_connections();
    within(created).await.unwrap();
    within(read).await.unwrap();
}

#[tokio::test]
async fn unsent_requests_were_not_applied() {
    let World { zk, proxy, other, server: _server } =
        World::start_with(options().retry(RetryPolicy::never())).await;
    let session = zk.session();
    proxy.refuse_connections();
    proxy.cut();
    within(session.wait_for(|state| !state.is_connected())).await;
    let queued = zk.create("/a", "").send();
    let close = tokio::spawn({
        let zk = zk.clone();
        async move { zk.close().await }
    });
    let error = within(queued).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Closed, Outcome::NotApplied));
    let unconfirmed = within(close).await.unwrap().unwrap_err();
    assert_eq!(*unconfirmed.kind(), ErrorKind::Closed);
    assert_eq!(other.exists("/a").await.unwrap(), None);
}

#[tokio::test]
async fn a_deadline_ends_a_call_and_nothing_else() {
    let World { zk, proxy, other: _other, server: _server } = World::start().await;
    zk.create("/a", "0").await.unwrap();
    let held = proxy.add_rule(Rule::new(Fault::HoldReply).on(OpCode::SetData));
    let late = within(zk.set("/a", "1").deadline(INSTANT).send()).await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (&ErrorKind::DeadlineExceeded, Outcome::Unknown));
    let late = within(zk.get("/a").deadline(INSTANT).send()).await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (&ErrorKind::DeadlineExceeded, Outcome::NotApplied));
    let default = zk.with_deadline(INSTANT);
    assert_eq!(kind(within(default.get("/a").send()).await), ErrorKind::DeadlineExceeded);
    held.release();
    assert_eq!(within(zk.get("/a").send()).await.unwrap().data, "1");
    assert_eq!(proxy.traffic().connections_accepted(), 1);
}

#[tokio::test]
async fn a_write_without_a_permit_before_its_deadline_was_not_applied() {
    let World { zk, proxy, other: _other, server: _server } =
        World::start_with(options().in_flight_max(1)).await;
    let held = proxy.add_rule(Rule::new(Fault::HoldReply).on(OpCode::Exists));
    let first = zk.exists("/a").send();
    let late = within(zk.create("/a", "").deadline(INSTANT).send()).await.unwrap_err();
    assert_eq!((late.kind(), late.outcome()), (&ErrorKind::DeadlineExceeded, Outcome::NotApplied));
    held.release();
    assert_eq!(within(first).await.unwrap(), None);
    assert_eq!(zk.exists("/a").await.unwrap(), None);
}

#[tokio::test]
async fn a_deadline_covers_all_requests_of_a_call() {
    let World { zk, proxy, server, other: _other } = World::start().await;
    let held = proxy.add_rule(Rule::new(Fault::HoldReply).on(OpCode::Create2));
    for call in [zk.create("/a/b", "").parents(), zk.create("/c", "").protected()] {
        let late = within(call.deadline(INSTANT).send()).await.unwrap_err();
        assert_eq!((late.kind(), late.outcome()), (&ErrorKind::DeadlineExceeded, Outcome::Unknown));
    }
    held.release();
    zk.sync("/").await.unwrap();
    eventually_only_zookeeper(&zk).await;
    zk.create("/t/u", "").parents().await.unwrap();
    let held = proxy.add_rule(Rule::new(Fault::HoldReply).on(OpCode::Delete));
    let late = zk.delete("/t").recursive().deadline(INSTANT).send();
    assert_eq!(kind(within(late).await), ErrorKind::DeadlineExceeded);
    held.release();
    assert_eq!(server.watch_count(), 0);
}

async fn eventually_only_zookeeper(zk: &Client) {
    within(async { while children(zk, "/").await != ["zookeeper"] {} }).await;
}

#[tokio::test]
async fn a_deletion_in_the_background_survives_an_outage() {
    let World { zk, proxy, other, server: _server } = World::start().await;
    zk.create("/a", "").await.unwrap();
    zk.create("/t/u/v", "").parents().await.unwrap();
    let rule = Rule::new(Fault::CutBeforeRequest).on(OpCode::Delete).times(2);
    let cut = proxy.add_rule(rule);
    let (_, deleted) = other.exists("/a").watch().await.unwrap();
    zk.delete("/a").in_background();
    within(deleted).await.unwrap();
    assert_eq!(cut.fired(), 2);
    proxy.refuse_connections();
    proxy.cut();
    let (_, deleted) = other.exists("/t").watch().await.unwrap();
    zk.delete("/t").recursive().in_background();
    proxy.accept_connections();
    within(deleted).await.unwrap();
}

#[tokio::test]
async fn a_deletion_in_the_background_may_be_started_anywhere() {
    let World { zk, other, proxy: _proxy, server: _server } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let (_, deleted) = other.exists("/a").watch().await.unwrap();
    // A plain thread has no runtime.
    std::thread::spawn(move || zk.delete("/a").in_background()).join().unwrap();
    within(deleted).await.unwrap();
}

#[tokio::test]
async fn a_recursive_deletion_continues_after_a_cut() {
    let World { zk, proxy, other: _other, server: _server } = World::start().await;
    for step in 0..8 {
        zk.create("/t/a/b", "").parents().await.unwrap();
        zk.create("/t/c", "").await.unwrap();
        let fault = if step % 2 == 0 { Fault::CutBeforeReply } else { Fault::CutBeforeRequest };
        let rule = proxy.add_rule(Rule::new(fault).skip(step));
        within(zk.delete("/t").recursive().send()).await.unwrap();
        rule.remove();
        assert_eq!(within(zk.exists("/t").send()).await.unwrap(), None);
    }
}
