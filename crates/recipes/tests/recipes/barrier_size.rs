//! Members of a double barrier that read its size from the node.

use std::time::Duration;

use herdsman_client::Client;
use herdsman_recipes::{DoubleBarrier, Error, Inside};
use herdsman_testing::proxy::{Fault, OpCode};
use herdsman_testing::{TestProxy, TestServer};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};
use crate::lock_loss::sweep;

const MOMENT: Duration = Duration::from_millis(50);

fn enter(barrier: DoubleBarrier) -> JoinHandle<Result<Inside, Error>> {
    tokio::spawn(async move { barrier.enter().await })
}

async fn joining(server: &TestServer) -> DoubleBarrier {
    DoubleBarrier::with_published_size(&client(server).await, "/b")
}

async fn sized(server: &TestServer, size: u32) -> DoubleBarrier {
    DoubleBarrier::new(&client(server).await, "/b", size).unwrap()
}

async fn leave_all(inside: impl IntoIterator<Item = Inside>) {
    let leaving: Vec<_> = inside.into_iter().map(|inside| tokio::spawn(inside.leave())).collect();
    for left in leaving {
        within(left).await.unwrap().unwrap();
    }
}

async fn names(zk: &Client) -> Vec<String> {
    zk.children("/b").await.unwrap().names
}

#[tokio::test]
async fn members_without_a_size_take_that_of_the_node() {
    let server = TestServer::start();
    let zk = client(&server).await;
    sized(&server, 3).await.publish_size().await.unwrap();
    assert_eq!(zk.get("/b").await.unwrap().data, "3");
    assert_eq!(names(&zk).await, Vec::<String>::new(), "publishing does not enter");
    let (a, b) = (enter(joining(&server).await), enter(joining(&server).await));
    eventually(|| server.watch_count() == 2).await;
    assert!(!a.is_finished() && !b.is_finished());
    let last = within(joining(&server).await.enter()).await.unwrap();
    let (a, b) = (within(a).await.unwrap().unwrap(), within(b).await.unwrap().unwrap());
    leave_all([a, b, last]).await;
    assert_eq!(names(&zk).await, Vec::<String>::new());
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn members_wait_for_a_missing_size() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let waiting = joining(&server).await;
    assert_eq!(waiting.size().await, Ok(None));
    assert_eq!(waiting.enter_within(MOMENT).await.unwrap_err(), Error::TimedOut);
    assert!(zk.exists("/b").await.unwrap().is_none(), "no node was made meanwhile");
    eventually(|| server.watch_count() == 0).await;
    let first = enter(waiting);
    eventually(|| server.watch_count() == 1).await;
    // As Curator's members create it: without a size.
    zk.create("/b", "").container().await.unwrap();
    let second = enter(joining(&server).await);
    eventually(|| server.watch_count() == 2).await;
    assert_eq!(names(&zk).await, Vec::<String>::new(), "no member is counted yet");
    let third = within(sized(&server, 3).await.enter()).await.unwrap();
    let (first, second) =
        (within(first).await.unwrap().unwrap(), within(second).await.unwrap().unwrap());
    leave_all([first, second, third]).await;
}

#[tokio::test]
async fn a_size_that_changes_before_all_have_entered_counts() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/b", "1").container().await.unwrap();
    let proxy = TestProxy::start(server.address());
    let behind = client_behind(&proxy).await;
    let rule = proxy.once(OpCode::Create2, Fault::HoldRequest);
    let first = enter(DoubleBarrier::with_published_size(&behind, "/b"));
    within(rule.until_fired()).await;
    // It has read 1, and has not joined yet.
    sized(&server, 2).await.publish_size().await.unwrap();
    rule.release();
    eventually(|| server.watch_count() == 1).await;
    // Its read of the state has finished when this is answered.
    behind.sync("/").await.unwrap();
    let second = within(joining(&server).await.enter()).await.unwrap();
    let first = within(first).await.unwrap().unwrap();
    assert_eq!(proxy.traffic().requests(OpCode::Multi), 0, "it waited for the second one");
    leave_all([first, second]).await;
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_member_of_a_node_that_loses_its_size_waits_for_a_new_one() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/b", "2").container().await.unwrap();
    let proxy = TestProxy::start(server.address());
    let behind = client_behind(&proxy).await;
    let rule = proxy.once(OpCode::Create2, Fault::HoldRequest);
    let first = enter(DoubleBarrier::with_published_size(&behind, "/b"));
    within(rule.until_fired()).await;
    zk.set("/b", "").await.unwrap();
    rule.release();
    // For `ready`, and for the size.
    eventually(|| server.watch_count() == 2).await;
    let second = within(sized(&server, 2).await.enter()).await.unwrap();
    leave_all([within(first).await.unwrap().unwrap(), second]).await;
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_node_that_holds_something_else_is_reported() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let member = joining(&server).await;
    for data in ["hello", "0", "-1"] {
        zk.create("/b", data).await.unwrap();
        let error = within(member.enter()).await.unwrap_err();
        let expected =
            format!("/b: the data cannot be read: \"{data}\" is not a number of members");
        assert_eq!(error.to_string(), expected);
        assert!(matches!(member.size().await, Err(Error::Codec { .. })));
        assert_eq!(names(&zk).await, Vec::<String>::new());
        zk.delete("/b").await.unwrap();
    }
    let refused = member.publish_size().await.unwrap_err();
    assert_eq!(refused.to_string(), "the barrier /b was given no size");
    sized(&server, 2).await.publish_size().await.unwrap();
    let _waiting = enter(member);
    eventually(|| server.watch_count() == 1).await;
    let refused = sized(&server, 3).await.publish_size().await.unwrap_err();
    assert_eq!(refused.to_string(), "the barrier /b is for 2 members, not for 3");
}

#[tokio::test]
async fn a_member_whose_session_ends_while_it_waits_for_a_size_is_lost() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let waiting = enter(DoubleBarrier::with_published_size(&zk, "/b"));
    eventually(|| server.watch_count() == 1).await;
    server.expire_session(zk.session().id());
    assert_eq!(within(waiting).await.unwrap().unwrap_err(), Error::Lost);
}

#[tokio::test]
async fn a_cut_at_any_request_makes_no_second_member() {
    sweep(async |run| {
        let other = client(run.server).await;
        let publisher = DoubleBarrier::new(&run.zk, &run.path, 2).unwrap();
        publisher.publish_size().await.unwrap();
        let theirs = enter(DoubleBarrier::with_published_size(&other, &run.path));
        let ours = DoubleBarrier::with_published_size(&run.zk, &run.path).enter().await.unwrap();
        let theirs = theirs.await.unwrap().unwrap();
        let children = other.children(&run.path).await.unwrap().names;
        assert_eq!(children.len(), 3, "two members and ready: {children:?}");
        leave_all([ours, theirs]).await;
        assert_eq!(other.children(&run.path).await.unwrap().names, Vec::<String>::new());
    })
    .await;
}
