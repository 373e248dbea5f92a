//! Counters: no addition is lost, and an unknown outcome is reported.

use herdsman_client::{Client, ErrorKind, Outcome};
use herdsman_recipes::{AtomicInt, AtomicLong, Change, Error};
use herdsman_testing::proxy::{Fault, OpCode};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, within};

async fn data(zk: &Client, path: &str) -> Vec<u8> {
    zk.get(path).await.unwrap().data.to_vec()
}

#[tokio::test]
async fn numbers_are_stored_as_in_curator() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let (long, int) = (AtomicLong::new(&zk, "/app/long"), AtomicInt::new(&zk, "/app/int"));
    assert_eq!((long.get().await, int.get().await), (Ok(0), Ok(0)));
    assert!(zk.exists("/app").await.unwrap().is_none(), "reading makes nothing");
    assert_eq!(long.add(258).await, Ok(Change { before: 0, after: 258 }));
    assert_eq!(int.decrement().await, Ok(Change { before: 0, after: -1 }));
    assert_eq!(data(&zk, "/app/long").await, [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(data(&zk, "/app/int").await, [0xff; 4]);
    assert_eq!(long.increment().await, Ok(Change { before: 258, after: 259 }));
    long.set(i64::MAX).await.unwrap();
    assert_eq!(long.increment().await.unwrap().after, i64::MIN, "wraps around as Curator's");
}

#[tokio::test]
async fn comparing_setting_and_initializing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let counter = AtomicLong::new(&zk, "/c");
    assert_eq!(counter.compare_and_set(1, 2).await, Ok(false));
    assert!(zk.exists("/c").await.unwrap().is_none());
    assert_eq!(counter.initialize(7).await, Ok(true));
    assert_eq!(counter.initialize(8).await, Ok(false));
    assert_eq!(counter.compare_and_set(8, 9).await, Ok(false));
    assert_eq!(counter.compare_and_set(7, 9).await, Ok(true));
    assert_eq!(counter.update(|number| number * 2).await, Ok(Change { before: 9, after: 18 }));
    zk.delete("/c").await.unwrap();
    assert_eq!(counter.compare_and_set(0, 1).await, Ok(true));
    assert_eq!(counter.get().await, Ok(1));
}

#[tokio::test]
async fn data_that_is_not_a_number_is_an_error_and_stays() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let counter = AtomicLong::new(&zk, "/c");
    zk.create("/c", "abc").await.unwrap();
    for result in [counter.increment().await, counter.add_exactly_once(1).await] {
        assert!(matches!(result, Err(Error::Codec { .. })), "{result:?}");
    }
    assert_eq!(data(&zk, "/c").await, b"abc");
    zk.set("/c", "").await.unwrap();
    assert_eq!(counter.increment().await.unwrap().after, 1, "as kazoo leaves it: empty is 0");
    let bad = AtomicLong::new(&zk, "c").increment().await.unwrap_err();
    assert!(matches!(bad.client_kind(), Some(ErrorKind::InvalidPath(_))));
}

#[tokio::test]
async fn additions_of_many_clients_all_count() {
    let server = TestServer::start();
    let mut adders = Vec::new();
    for adder in 0..6 {
        let counter = AtomicLong::new(&client(&server).await, "/app/c");
        adders.push(tokio::spawn(async move {
            let mut after = Vec::new();
            for _ in 0..20 {
                let change = match adder % 2 {
                    0 => counter.add(1).await.unwrap(),
                    _ => counter.add_exactly_once(1).await.unwrap(),
                };
                assert_eq!(change.before + 1, change.after);
                after.push(change.after);
            }
            after
        }));
    }
    let mut all = Vec::new();
    for adder in adders {
        all.extend(within(adder).await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (1..=120).collect::<Vec<i64>>());
}

#[tokio::test]
async fn a_request_that_was_lost_is_sent_again() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let counter = AtomicLong::new(&client_behind(&proxy).await, "/c");
    for (op, after) in [(OpCode::Create2, 1), (OpCode::SetData, 2)] {
        let lost = proxy.once(op, Fault::CutBeforeRequest);
        assert_eq!(within(counter.increment()).await.map(|change| change.after), Ok(after));
        assert_eq!(lost.fired(), 1);
    }
}

#[tokio::test]
async fn a_lost_reply_is_reported_as_an_unknown_outcome() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let counter = AtomicLong::new(&client_behind(&proxy).await, "/c");
    for (op, number) in [(OpCode::Create2, 1), (OpCode::SetData, 2)] {
        let lost = proxy.once(op, Fault::CutBeforeReply);
        let error = within(counter.increment()).await.unwrap_err();
        assert_eq!((error.outcome(), lost.fired()), (Outcome::Unknown, 1));
        assert_eq!(counter.get().await, Ok(number), "it was added once");
    }
    // Setting it twice has the same effect as once, so that leaves no doubt.
    proxy.once(OpCode::SetData, Fault::CutBeforeReply);
    within(counter.set(9)).await.unwrap();
    assert_eq!(counter.get().await, Ok(9));
}

#[tokio::test]
async fn an_unknown_outcome_is_resolved_when_another_client_wrote_a_different_value() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (ours, theirs) = (client_behind(&proxy).await, client(&server).await);
    let (ours, theirs) = (AtomicLong::new(&ours, "/c"), AtomicLong::new(&theirs, "/c"));
    theirs.initialize(10).await.unwrap();
    let lost = proxy.once(OpCode::SetData, Fault::CutBeforeRequest);
    proxy.refuse_connections();
    let adding = tokio::spawn(async move { ours.add(1).await });
    within(lost.until_fired()).await;
    theirs.set(50).await.unwrap();
    proxy.accept_connections();
    assert_eq!(within(adding).await.unwrap(), Ok(Change { before: 50, after: 51 }));
}

#[tokio::test]
async fn an_exact_addition_adds_once_whatever_is_lost() {
    let mut server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, unlucky) = (client(&server).await, client_behind(&proxy).await);
    let counter = AtomicLong::new(&unlucky, "/app/c");
    let mut number = 0;
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest, Fault::CutBeforeReply] {
        let lost = proxy.once(OpCode::Multi, fault);
        let change = within(counter.add_exactly_once(5)).await.unwrap();
        assert_eq!((change.before, change.after), (number, number + 5));
        assert_eq!(lost.fired(), 1);
        number += 5;
    }
    // The marks are deleted.
    within(async { while !zk.children("/app/c").await.unwrap().names.is_empty() {} }).await;
    server.restart();
    assert_eq!(within(counter.add_exactly_once(1)).await.unwrap().after, 16);
    server.expire_session(unlucky.session().id());
    let added = within(async {
        loop {
            // The end of the session may be noticed half-way; nothing was written then.
            match counter.add_exactly_once(1).await {
                Err(error) => assert_eq!(error.outcome(), Outcome::NotApplied, "{error}"),
                added => break added,
            }
        }
    });
    assert_eq!(added.await.unwrap().after, 17);
}

#[tokio::test]
async fn attempts_end_when_other_clients_are_always_faster() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (ours, zk) = (client_behind(&proxy).await, client(&server).await);
    let ours = AtomicLong::new(&ours, "/c").attempts_max(1);
    let theirs = AtomicLong::new(&zk, "/c");
    theirs.initialize(0).await.unwrap();
    let held = proxy.once(OpCode::SetData, Fault::HoldRequest);
    let adding = tokio::spawn(async move { ours.add(1).await });
    within(held.until_fired()).await;
    theirs.add(1).await.unwrap();
    held.release();
    let error = within(adding).await.unwrap().unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::BadVersion));
    assert_eq!(theirs.get().await, Ok(1));
}
