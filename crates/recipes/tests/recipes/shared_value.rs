//! Shared values and counts in Curator's layout, and cells whose changes are never lost.

use std::collections::BTreeSet;

use bytes::Bytes;
use herdsman_client::Outcome;
use herdsman_recipes::Error;
use herdsman_recipes::config::ConfigUpdate;
use herdsman_recipes::shared_value::{SharedCount, SharedValue};
use herdsman_recipes::versioned_cell::VersionedCell;
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

#[tokio::test]
async fn a_count_is_four_bytes_that_all_see() {
    let server = TestServer::start();
    let (first, second) = (client(&server).await, client(&server).await);
    let ours = SharedCount::start(&first, "/counts/a", -2).await.unwrap();
    let theirs = SharedCount::start(&second, "/counts/a", 99).await.unwrap();
    assert_eq!(first.get("/counts/a").await.unwrap().data, &[255, 255, 255, 254][..]);
    assert_eq!(theirs.current().unwrap().value, -2, "the first initial value stays");

    let mut changes = theirs.changes();
    assert_eq!(within(changes.next_value()).await.unwrap().value, -2);
    let seen = ours.read().await.unwrap();
    let written = ours.try_set(&seen, 5).await.unwrap().expect("no other client was faster");
    assert_eq!((written.value, written.version()), (5, Some(1)));
    assert_eq!(within(changes.next_value()).await.unwrap().value, 5);
    assert!(theirs.try_set(&seen, 6).await.unwrap().is_none());
    assert_eq!(theirs.set(i32::MAX).await.unwrap().version(), Some(2));
    drop((ours, theirs));
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn data_that_is_not_a_count_is_reported_and_the_stream_continues() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let count = SharedCount::start(&zk, "/count", 1).await.unwrap();
    let mut changes = count.changes();
    within(changes.next_value()).await.unwrap();
    other.set("/count", "xyz").await.unwrap();
    assert!(matches!(within(changes.next()).await, Some(ConfigUpdate::Invalid { version: 1, .. })));
    assert!(matches!(count.read().await, Err(Error::Codec { .. })));
    count.set(2).await.unwrap();
    assert_eq!(within(changes.next_value()).await.unwrap().value, 2);
}

#[tokio::test]
async fn a_lost_creation_of_the_initial_value_is_repeated() {
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let create = Rule::new(fault).on(OpCode::Create2).path_containing("/value");
        let lost = proxy.add_rule(create);
        let value = within(SharedValue::start(&zk, "/value", "seed")).await.unwrap();
        assert_eq!((lost.fired(), value.current().unwrap().value.clone()), (1, "seed".into()));
        assert_eq!(zk.get("/value").await.unwrap().stat.version, 0);
    }
}

#[tokio::test]
async fn a_lost_reply_is_resolved_as_far_as_the_node_shows() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let value = SharedValue::start(&zk, "/value", "seed").await.unwrap();
    let seen = value.read().await.unwrap();
    // Not carried out: sent again.
    proxy.once(OpCode::SetData, Fault::CutBeforeRequest);
    let written = within(value.try_set(&seen, Bytes::from("one"))).await.unwrap().unwrap();
    assert_eq!(written.version(), Some(1));
    // Carried out: another client could have written the same.
    proxy.once(OpCode::SetData, Fault::CutBeforeReply);
    let error = within(value.try_set(&written, Bytes::from("two"))).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(zk.get("/value").await.unwrap().stat.version, 2, "not written twice");
}

#[tokio::test]
async fn bad_input_is_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    assert!(SharedValue::start(&zk, "value", "seed").await.is_err());
    assert!(VersionedCell::<u32>::new(&zk, "/cell/").is_err());
    zk.create("/cell", "not a number").await.unwrap();
    let cell = VersionedCell::<u32>::new(&zk, "/cell").unwrap();
    assert!(matches!(cell.update(|_| 1).await, Err(Error::Codec { .. })));
    assert_eq!(zk.get("/cell").await.unwrap().data, "not a number");
}

#[tokio::test]
async fn a_cell_takes_over_a_bare_value() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/cell", "41").await.unwrap();
    let cell = VersionedCell::<u32>::new(&zk, "/cell").unwrap();
    assert_eq!(cell.read().await.unwrap().unwrap().value, 41);
    let written = cell.update(|value| value.copied().unwrap_or(0) + 1).await.unwrap();
    assert_eq!((written.value, written.version()), (42, Some(1)));
    assert_eq!(cell.read().await.unwrap().unwrap(), written);
    assert!(cell.try_update(|_| None).await.unwrap().is_none());
    assert_eq!(cell.read().await.unwrap().unwrap().version(), Some(1));
}

#[tokio::test]
async fn no_change_of_a_cell_is_lost_or_made_twice() {
    let server = TestServer::start();
    let mut writers = Vec::new();
    for writer in 0..4_u32 {
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let cell = VersionedCell::<BTreeSet<u32>>::new(&zk, "/cell").unwrap();
        writers.push(tokio::spawn(async move {
            let mut unknown = Vec::new();
            for number in 0..15 {
                let fault = [Fault::CutBeforeReply, Fault::CutBeforeRequest][number as usize % 2];
                if number % 3 == 0 {
                    proxy.once(OpCode::SetData, fault);
                }
                let id = writer * 100 + number;
                // If a change were made twice, it would find its own number there already.
                let change = |numbers: Option<&BTreeSet<u32>>| {
                    let mut numbers = numbers.cloned().unwrap_or_default();
                    assert!(numbers.insert(id), "{id} made twice");
                    numbers
                };
                match within(cell.update(change)).await {
                    Ok(_) => {}
                    Err(error) if error.outcome() == Outcome::Unknown => unknown.push(id),
                    Err(error) => panic!("{error}"),
                }
                proxy.clear_rules();
            }
            unknown
        }));
    }
    let mut unknown = BTreeSet::new();
    for writer in writers {
        unknown.extend(within(writer).await.unwrap());
    }
    let zk = client(&server).await;
    let cell = VersionedCell::<BTreeSet<u32>>::new(&zk, "/cell").unwrap();
    let numbers = cell.read().await.unwrap().unwrap().value;
    let all = (0..4).flat_map(|writer| (0..15).map(move |number| writer * 100 + number));
    let missing: BTreeSet<_> = all.filter(|id| !numbers.contains(id)).collect();
    assert!(
        missing.is_subset(&unknown),
        "lost, but not reported: {missing:?}, unknown {unknown:?}"
    );
}

#[tokio::test]
async fn a_lost_reply_alone_never_leaves_a_cell_unknown() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let cell = VersionedCell::<u32>::new(&zk, "/cells/a").unwrap();
    cell.update(|_| 0).await.unwrap();
    for (number, fault) in [Fault::CutBeforeReply, Fault::CutBeforeRequest].into_iter().enumerate()
    {
        let lost = proxy.once(OpCode::SetData, fault);
        let change = |value: Option<&u32>| value.copied().unwrap_or(0) + 1;
        let written = within(cell.update(change)).await.unwrap();
        assert_eq!((written.value as usize, lost.fired()), (number + 1, 1));
    }
    let create = Rule::new(Fault::CutBeforeReply).on(OpCode::Create2).path_containing("/other");
    proxy.add_rule(create);
    let other = VersionedCell::<u32>::new(&zk, "/other").unwrap();
    assert_eq!(within(other.update(|_| 7)).await.unwrap().version(), Some(0));
}
