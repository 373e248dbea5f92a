//! Barriers: which members wait for which, and the effect of a lost reply or session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use herdsman_client::{Client, ErrorKind, Outcome};
use herdsman_recipes::{Barrier, CountDownLatch, DoubleBarrier, Error, Inside};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};

/// Long enough to be distinguished from "at once", short enough to wait for.
const MOMENT: Duration = Duration::from_millis(50);

fn enter(barrier: &DoubleBarrier) -> JoinHandle<Result<Inside, Error>> {
    let barrier = barrier.clone();
    tokio::spawn(async move { barrier.enter().await })
}

fn leave(inside: Inside) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(inside.leave())
}

async fn double(server: &TestServer, size: u32) -> DoubleBarrier {
    DoubleBarrier::new(&client(server).await, "/b", size).unwrap()
}

async fn children(zk: &Client, path: &str) -> Vec<String> {
    let mut names = zk.children(path).await.unwrap().names;
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_closed_barrier_holds_all_waiters_until_it_opens() {
    let server = TestServer::start();
    let gate = Barrier::new(&client(&server).await, "/app/gate");
    within(gate.wait()).await.unwrap();
    within(gate.close()).await.unwrap();
    within(gate.close()).await.unwrap();
    assert!(gate.is_closed().await.unwrap());
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let theirs = Barrier::new(&client(&server).await, "/app/gate");
        waiters.push(tokio::spawn(async move { theirs.wait().await }));
    }
    eventually(|| server.watch_count() == 3).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    within(gate.open()).await.unwrap();
    within(gate.open()).await.unwrap();
    for waiter in waiters {
        within(waiter).await.unwrap().unwrap();
    }
    assert_eq!(server.watch_count(), 0);
}

#[tokio::test]
async fn a_waiter_is_woken_once_and_reads_nothing_then() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let gate = Barrier::new(&client(&server).await, "/gate");
    gate.close().await.unwrap();
    let theirs = Barrier::new(&client_behind(&proxy).await, "/gate");
    let waiter = tokio::spawn(async move { theirs.wait().await });
    eventually(|| server.watch_count() == 1).await;
    gate.open().await.unwrap();
    within(waiter).await.unwrap().unwrap();
    assert_eq!(proxy.traffic().events(), 1);
    assert_eq!(proxy.traffic().requests(OpCode::GetData), 1);
}

#[tokio::test]
async fn a_barrier_closes_and_opens_although_replies_are_lost() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let gate = Barrier::new(&client_behind(&proxy).await, "/gate");
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let lost = proxy.once(OpCode::Create2, fault);
        within(gate.close()).await.unwrap();
        assert_eq!((lost.fired(), gate.is_closed().await.unwrap()), (1, true));
        let lost = proxy.once(OpCode::Delete, fault);
        within(gate.open()).await.unwrap();
        assert_eq!((lost.fired(), gate.is_closed().await.unwrap()), (1, false));
    }
}

#[tokio::test]
async fn waiting_for_a_barrier_survives_session_loss_and_server_restart() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let gate = Barrier::new(&zk, "/gate");
    gate.close().await.unwrap();
    let waiting = client(&server).await;
    let theirs = Barrier::new(&waiting, "/gate");
    let waiter = tokio::spawn(async move { theirs.wait().await });
    eventually(|| server.watch_count() == 1).await;
    let session = waiting.session().id();
    server.expire_session(session);
    eventually(|| waiting.session().id() != session && server.watch_count() == 1).await;
    server.restart();
    assert!(!waiter.is_finished());
    within(gate.open()).await.unwrap();
    within(waiter).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_waiter_that_times_out_leaves_no_watch() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let gate = Barrier::new(&zk, "/gate");
    gate.close().await.unwrap();
    assert_eq!(gate.wait_within(MOMENT).await, Err(Error::TimedOut));
    let latch = CountDownLatch::new(&zk, "/latch", 1).unwrap();
    assert_eq!(latch.wait_within(MOMENT).await, Err(Error::TimedOut));
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let refused = DoubleBarrier::new(&zk, "/b", 0).unwrap_err();
    assert_eq!(refused.to_string(), "a barrier needs at least one member");
    assert!(matches!(CountDownLatch::new(&zk, "/b", 0), Err(Error::InvalidArgument(_))));
    for path in ["", "b", "/b/", "/b//c", "/a/../b"] {
        let gate = Barrier::new(&zk, path);
        let kind = |error: Error| matches!(error.client_kind(), Some(ErrorKind::InvalidPath(_)));
        assert!(kind(gate.close().await.unwrap_err()), "{path}");
        assert!(kind(gate.wait().await.unwrap_err()), "{path}");
        let double = DoubleBarrier::new(&zk, path, 1).unwrap();
        assert!(kind(double.enter().await.unwrap_err()), "{path}");
        let latch = CountDownLatch::new(&zk, path, 1).unwrap();
        assert!(kind(latch.count_down().await.unwrap_err()), "{path}");
    }
    assert_eq!(children(&zk, "/").await, ["zookeeper"]);
}

#[tokio::test]
async fn members_enter_together_and_leave_together() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let (a, b, c) = (double(&server, 3).await, double(&server, 3).await, double(&server, 3).await);
    let (a, b) = (enter(&a), enter(&b));
    eventually(|| server.watch_count() == 2).await;
    assert!(!a.is_finished() && !b.is_finished());
    let c = within(c.enter()).await.unwrap();
    let (a, b) = (within(a).await.unwrap().unwrap(), within(b).await.unwrap().unwrap());
    assert!(a.is_trusted() && b.is_trusted() && c.is_trusted());
    assert_eq!(zk.get("/b").await.unwrap().data, "3");

    let (a, b) = (leave(a), leave(b));
    eventually(|| server.watch_count() == 2).await;
    assert!(!a.is_finished() && !b.is_finished());
    within(c.leave()).await.unwrap();
    within(a).await.unwrap().unwrap();
    within(b).await.unwrap().unwrap();
    assert_eq!(children(&zk, "/b").await, Vec::<String>::new());
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_member_waiting_to_enter_is_woken_once_and_reads_nothing() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let waiting = DoubleBarrier::new(&client_behind(&proxy).await, "/b", 3).unwrap();
    let waiting = enter(&waiting);
    eventually(|| server.watch_count() == 1).await;
    let before = proxy.traffic();
    let second = enter(&double(&server, 3).await);
    let third = enter(&double(&server, 3).await);
    let inside = within(waiting).await.unwrap().unwrap();
    let after = proxy.traffic();
    assert_eq!(after.events() - before.events(), 1);
    for read in [OpCode::GetData, OpCode::Exists, OpCode::GetChildren2] {
        assert_eq!(after.requests(read), before.requests(read), "{read:?}");
    }
    drop((inside, within(second).await, within(third).await));
}

#[tokio::test]
async fn one_barrier_serves_many_rounds() {
    let server = TestServer::start();
    let arrived = Arc::new(AtomicUsize::new(0));
    let mut members = Vec::new();
    for _ in 0..3 {
        let (barrier, arrived) = (double(&server, 3).await, arrived.clone());
        members.push(tokio::spawn(async move {
            for round in 1..=15 {
                arrived.fetch_add(1, Ordering::SeqCst);
                let inside = barrier.enter().await.unwrap();
                assert!(arrived.load(Ordering::SeqCst) >= 3 * round, "a member entered too early");
                inside.leave().await.unwrap();
            }
        }));
    }
    for member in members {
        within(member).await.unwrap();
    }
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_lost_reply_makes_no_second_member() {
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let zk = client(&server).await;
        let unlucky = DoubleBarrier::new(&client_behind(&proxy).await, "/b", 2).unwrap();
        let rules = [
            proxy.add_rule(Rule::new(fault).on(OpCode::CreateContainer)),
            proxy.add_rule(Rule::new(fault).on(OpCode::Create2)),
            proxy.add_rule(Rule::new(fault).on(OpCode::Multi)),
        ];
        let waiting = enter(&double(&server, 2).await);
        let inside = within(unlucky.enter()).await.unwrap();
        let other = within(waiting).await.unwrap().unwrap();
        assert_eq!(children(&zk, "/b").await.len(), 3, "two members and ready");
        let other = leave(other);
        let last = proxy.add_rule(Rule::new(fault).on(OpCode::Multi).on(OpCode::Delete));
        within(inside.leave()).await.unwrap();
        within(other).await.unwrap().unwrap();
        assert_eq!(children(&zk, "/b").await, Vec::<String>::new());
        assert!(rules[1].fired() == 1 && last.fired() == 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_session_lost_while_waiting_is_reported() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let barrier = DoubleBarrier::new(&zk, "/b", 2).unwrap();
    let waiting = enter(&barrier);
    eventually(|| server.watch_count() == 1).await;
    server.expire_session(zk.session().id());
    assert_eq!(within(waiting).await.unwrap().unwrap_err(), Error::Lost);
    let other = enter(&double(&server, 2).await);
    let again = within(barrier.enter()).await.unwrap();
    drop((again, within(other).await));
}

#[tokio::test]
async fn a_session_lost_inside_is_reported_and_delays_no_other_member() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let unlucky = enter(&DoubleBarrier::new(&zk, "/b", 2).unwrap());
    let other = within(double(&server, 2).await.enter()).await.unwrap();
    let unlucky = within(unlucky).await.unwrap().unwrap();
    let other = leave(other);
    server.expire_session(zk.session().id());
    within(unlucky.lost()).await;
    assert!(!unlucky.is_trusted());
    assert_eq!(within(unlucky.leave()).await, Err(Error::Lost));
    within(other).await.unwrap().unwrap();
}

#[tokio::test]
async fn waiting_to_enter_survives_a_restart_of_the_server() {
    let mut server = TestServer::start();
    let waiting = enter(&double(&server, 2).await);
    let last = double(&server, 2).await;
    eventually(|| server.watch_count() == 1).await;
    server.restart();
    let last = within(last.enter()).await.unwrap();
    let waiting = within(waiting).await.unwrap().unwrap();
    drop((last, waiting));
}

#[tokio::test]
async fn members_that_disagree_about_their_number_get_an_error() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let waiting = enter(&double(&server, 2).await);
    eventually(|| server.watch_count() == 1).await;
    let refused = within(double(&server, 3).await.enter()).await.unwrap_err();
    assert_eq!(
        refused,
        Error::InvalidArgument("the barrier /b is for 2 members, not for 3".to_owned())
    );
    assert_eq!(children(&zk, "/b").await.len(), 1, "nothing was left behind");
    waiting.abort();
    let _ = waiting.await;
    within(async { while !children(&zk, "/b").await.is_empty() {} }).await;
    let alone = within(double(&server, 1).await.enter()).await.unwrap();
    assert_eq!(zk.get("/b").await.unwrap().data, "1", "no member was inside to disagree");
    drop(alone);
}

#[tokio::test]
async fn a_member_that_times_out_does_not_count() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let barrier = double(&server, 2).await;
    assert_eq!(barrier.enter_within(MOMENT).await.unwrap_err(), Error::TimedOut);
    within(async { while !children(&zk, "/b").await.is_empty() {} }).await;
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_ready_that_was_left_behind_lets_no_member_in() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/b/ready", "").parents().await.unwrap();
    let first = enter(&double(&server, 2).await);
    eventually(|| server.watch_count() == 1).await;
    within(async { while children(&zk, "/b").await.iter().any(|name| name == "ready") {} }).await;
    assert!(!first.is_finished());
    let second = within(double(&server, 2).await.enter()).await.unwrap();
    drop((within(first).await.unwrap().unwrap(), second));
}

#[tokio::test]
async fn members_in_curators_layout_take_part_and_foreign_nodes_do_not() {
    let server = TestServer::start();
    let zk = client(&server).await;
    // As Curator leaves it: a container without data, members with an address in them.
    zk.create("/b", "").container().await.unwrap();
    zk.create("/b/README", "not a member").await.unwrap();
    let theirs = "/b/53345f98-9423-4e0c-a7b5-9f819e3ec2e1";
    let ours = enter(&double(&server, 3).await);
    eventually(|| server.watch_count() == 1).await;
    zk.create(theirs, "10.0.0.5").ephemeral().await.unwrap();
    let second = enter(&double(&server, 3).await);
    let (ours, second) =
        (within(ours).await.unwrap().unwrap(), within(second).await.unwrap().unwrap());
    assert!(children(&zk, "/b").await.contains(&"ready".to_owned()));
    let (ours, second) = (leave(ours), leave(second));
    zk.delete(theirs).await.unwrap();
    within(ours).await.unwrap().unwrap();
    within(second).await.unwrap().unwrap();
    assert_eq!(children(&zk, "/b").await, ["README"]);
}

#[tokio::test]
async fn a_latch_opens_with_the_last_count() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let latch = CountDownLatch::new(&zk, "/app/latch", 3).unwrap();
    let waiting = tokio::spawn({
        let theirs = CountDownLatch::new(&client(&server).await, "/app/latch", 3).unwrap();
        async move { theirs.wait().await }
    });
    eventually(|| server.watch_count() == 1).await;
    assert_eq!(within(latch.count_down()).await, Ok(2));
    zk.create("/app/latch/README", "foreign").await.unwrap();
    assert_eq!(within(latch.count_down()).await, Ok(1));
    assert!(!waiting.is_finished());
    assert_eq!(within(latch.count_down()).await, Ok(0));
    within(waiting).await.unwrap().unwrap();
    assert_eq!(within(latch.count_down()).await, Ok(0));
    within(latch.wait()).await.unwrap();
    assert_eq!(latch.left().await, Ok(0));
    let other = CountDownLatch::new(&zk, "/app/latch", 4).unwrap();
    let refused = other.count_down().await.unwrap_err();
    assert_eq!(refused.to_string(), "the latch /app/latch counts 3 things, not 4");
    within(latch.remove()).await.unwrap();
    assert_eq!(latch.left().await, Ok(3));
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_lost_reply_counts_once() {
    let mut server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client(&server).await;
    let latch = CountDownLatch::new(&client_behind(&proxy).await, "/latch", 3).unwrap();
    for (fault, left) in [(Fault::CutBeforeReply, 2), (Fault::CutBeforeRequest, 1)] {
        let lost = proxy.once(OpCode::Multi, fault);
        assert_eq!(within(latch.count_down()).await, Ok(left));
        assert_eq!((lost.fired(), latch.left().await), (1, Ok(left)));
    }
    within(async { while !children(&zk, "/latch").await.is_empty() {} }).await;
    server.restart();
    assert_eq!(within(latch.count_down()).await, Ok(0));
    zk.set("/latch", "what?").await.unwrap();
    assert!(matches!(latch.left().await, Err(Error::Codec { .. })));
}

#[tokio::test]
async fn a_count_whose_reply_was_lost_is_not_repeated_in_the_next_latch() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (unlucky, zk) = (client_behind(&proxy).await, client(&server).await);
    let ours = CountDownLatch::new(&unlucky, "/latch", 3).unwrap();
    let theirs = CountDownLatch::new(&zk, "/latch", 3).unwrap();
    assert_eq!(theirs.left().await, Ok(3));
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    proxy.refuse_connections();
    let counting = tokio::spawn(async move { ours.count_down().await });
    within(lost.until_fired()).await;
    within(async { while theirs.left().await != Ok(2) {} }).await;
    theirs.remove().await.unwrap();
    proxy.accept_connections();
    let error = within(counting).await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(theirs.left().await, Ok(3), "it was counted in the latch that was removed");
}

#[tokio::test]
async fn waiting_for_a_latch_survives_the_end_of_the_session() {
    let server = TestServer::start();
    let (zk, waiting) = (client(&server).await, client(&server).await);
    let theirs = CountDownLatch::new(&waiting, "/latch", 1).unwrap();
    let waiter = tokio::spawn(async move { theirs.wait().await });
    eventually(|| server.watch_count() == 1).await;
    let session = waiting.session().id();
    server.expire_session(session);
    eventually(|| waiting.session().id() != session && server.watch_count() == 1).await;
    let latch = CountDownLatch::new(&zk, "/latch", 1).unwrap();
    assert_eq!(within(latch.count_down()).await, Ok(0));
    within(waiter).await.unwrap().unwrap();
}
