//! Configuration: typed values that survive invalid data, deletion and outages.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Outcome};
use herdsman_recipes::cache::CacheOptions;
use herdsman_recipes::codec::{Decode, Json, Raw, Utf8};
use herdsman_recipes::config::{
    Config, ConfigOptions, ConfigUpdate, HistoryEntry, Publisher, Source, Versioned,
};
use herdsman_recipes::{Error, Events};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};
use serde::{Deserialize, Serialize};

use crate::common::{client, client_behind, eventually, within};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Limits {
    connections: u32,
}

fn limits(connections: u32) -> Limits {
    Limits { connections }
}

fn limits_of(data: &[u8]) -> Limits {
    Json.decode(data).expect("limits in JSON")
}

fn options() -> ConfigOptions<Limits> {
    let cache = CacheOptions::default().resync_spread(Duration::ZERO);
    ConfigOptions::json().cache(cache)
}

async fn next(changes: &mut Events<ConfigUpdate<Limits>>) -> ConfigUpdate<Limits> {
    within(changes.next()).await.expect("the stream continues")
}

async fn next_value(changes: &mut Events<ConfigUpdate<Limits>>) -> Arc<Versioned<Limits>> {
    match next(changes).await {
        ConfigUpdate::Value(value) => value,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn values_are_typed_and_everything_else_is_reported() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let config = Config::<Limits>::start(&zk, "/config/limits").await.unwrap();
    within(config.synced()).await.unwrap();
    assert!(config.current().is_none());
    let mut changes = config.changes();

    other.create("/config/limits", r#"{"connections":1}"#).parents().await.unwrap();
    let first = next_value(&mut changes).await;
    assert_eq!((&first.value, first.version()), (&limits(1), Some(0)));

    let stat = other.set("/config/limits", "{nonsense").await.unwrap();
    match next(&mut changes).await {
        ConfigUpdate::Invalid { reason, version, zxid } => {
            assert_eq!((version, zxid), (1, stat.mzxid));
            assert!(!reason.is_empty());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(config.current().unwrap().value, limits(1), "the last good value stays");

    other.set("/config/limits", r#"{"connections":2}"#).await.unwrap();
    assert_eq!(next_value(&mut changes).await.value, limits(2));
    other.delete("/config/limits").await.unwrap();
    assert!(matches!(next(&mut changes).await, ConfigUpdate::Deleted));
    assert_eq!(config.current().unwrap().value, limits(2), "the last good value stays");

    other.create("/config/limits", r#"{"connections":3}"#).await.unwrap();
    let third = next_value(&mut changes).await;
    assert_eq!((&third.value, third.version()), (&limits(3), Some(0)));
    assert!(third.zxid() > first.zxid(), "zxids grow although versions start again");
}

#[tokio::test]
async fn a_deletion_during_an_outage_is_reported_with_the_new_value() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    other.create("/limits", r#"{"connections":1}"#).await.unwrap();
    let config = options().start(&zk, "/limits").await.unwrap();
    assert_eq!(within(config.value()).await.unwrap().value, limits(1));
    let mut changes = config.changes();
    next_value(&mut changes).await;
    proxy.refuse_connections();
    proxy.cut();
    other.delete("/limits").await.unwrap();
    other.create("/limits", r#"{"connections":1}"#).await.unwrap();
    proxy.accept_connections();
    assert!(matches!(next(&mut changes).await, ConfigUpdate::Deleted));
    assert_eq!(next_value(&mut changes).await.value, limits(1));
}

#[tokio::test]
async fn values_continue_after_an_expired_session_and_a_restart() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let publisher = Publisher::new(&zk, "/limits").unwrap();
    publisher.publish(&limits(1)).await.unwrap();
    let config = options().start(&zk, "/limits").await.unwrap();
    let mut changes = config.changes();
    assert_eq!(within(changes.next_value()).await.unwrap().value, limits(1));

    server.expire_session(zk.session().id());
    within(zk.connected_session()).await.unwrap();
    publisher.publish(&limits(2)).await.unwrap();
    assert_eq!(next_value(&mut changes).await.value, limits(2));

    server.restart();
    within(zk.connected_session()).await.unwrap();
    within(publisher.publish(&limits(3))).await.unwrap();
    assert_eq!(next_value(&mut changes).await.value, limits(3));
}

#[tokio::test]
async fn a_default_is_in_force_until_there_is_a_valid_value() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let positive = |limits: &Limits| match limits.connections {
        0 => Err("no connections at all".into()),
        _ => Ok(()),
    };
    let config =
        options().default_value(limits(10)).validate(positive).start(&zk, "/limits").await.unwrap();
    assert_eq!(config.current().unwrap().source, Source::Default);
    let mut changes = config.changes();
    assert_eq!(next_value(&mut changes).await.value, limits(10));
    assert!(matches!(next(&mut changes).await, ConfigUpdate::Deleted));
    let publisher = Publisher::new(&zk, "/limits").unwrap();
    publisher.publish(&limits(0)).await.unwrap();
    match next(&mut changes).await {
        ConfigUpdate::Invalid { reason, .. } => assert_eq!(reason, "no connections at all"),
        other => panic!("{other:?}"),
    }
    assert_eq!(config.current().unwrap().value, limits(10));
    publisher.publish(&limits(5)).await.unwrap();
    assert_eq!(next_value(&mut changes).await.value, limits(5));
}

#[tokio::test]
async fn the_last_good_value_survives_a_restart_without_the_service() {
    let mut server = TestServer::start();
    let file = server.data_dir().join("limits.json");
    let servers = server.connect_string();
    let zk = client(&server).await;
    let publisher = Publisher::new(&zk, "/limits").unwrap();
    publisher.publish(&limits(7)).await.unwrap();
    let config = options().fallback_file(&file).start(&zk, "/limits").await.unwrap();
    within(config.value()).await.unwrap();
    zk.set("/limits", "nonsense").await.unwrap();
    publisher.publish(&limits(8)).await.unwrap();
    within(config.wait_for(|value| value.is_some_and(|v| v.value == limits(8)))).await.unwrap();
    eventually(|| fs::read(&file).is_ok_and(|data| data == br#"{"connections":8}"#)).await;
    drop(config);
    zk.close().await.unwrap();
    server.stop();

    let alone = Client::options().start(&servers).unwrap();
    let config = options()
        .default_value(limits(1))
        .fallback_file(&file)
        .start(&alone, "/limits")
        .await
        .unwrap();
    let value = config.current().unwrap();
    assert_eq!((&value.value, value.source), (&limits(8), Source::File));
    assert_eq!((value.version(), value.zxid()), (None, None));

    server.start_again();
    within(config.synced()).await.unwrap();
    assert_eq!(config.current().unwrap().version(), Some(2));
    let left = fs::read_dir(server.data_dir()).unwrap();
    let leftovers = left
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(leftovers.count(), 0);
}

#[tokio::test]
async fn an_unusable_file_does_not_prevent_the_start() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let file = server.data_dir().join("limits.json");
    fs::write(&file, "half a val").unwrap();
    let config = options().fallback_file(&file).start(&zk, "/limits").await.unwrap();
    assert!(config.current().is_none());

    let nowhere = server.data_dir().join("missing").join("limits.json");
    let config = options().fallback_file(nowhere).start(&zk, "/limits").await.unwrap();
    within(config.synced()).await.unwrap();
    let mut changes = config.changes();
    Publisher::new(&zk, "/limits").unwrap().publish(&limits(1)).await.unwrap();
    next_value(&mut changes).await;
    assert!(matches!(next(&mut changes).await, ConfigUpdate::FileFailed { .. }));
}

#[tokio::test]
async fn text_and_bytes_need_no_json() {
    let server = TestServer::start();
    let zk = client(&server).await;
    Publisher::with_codec(&zk, "/text", Utf8).unwrap().publish(&"größer".into()).await.unwrap();
    let text = ConfigOptions::new(Utf8).start(&zk, "/text").await.unwrap();
    assert_eq!(within(text.value()).await.unwrap().value, "größer");
    let bytes = Bytes::from_static(&[0xff, 0]);
    Publisher::with_codec(&zk, "/text", Raw).unwrap().publish(&bytes).await.unwrap();
    let raw = ConfigOptions::new(Raw).start(&zk, "/text").await.unwrap();
    assert_eq!(within(raw.value()).await.unwrap().value, bytes);
    within(text.changes().next()).await.unwrap();
    assert_eq!(text.current().unwrap().value, "größer");
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing() {
    let server = TestServer::start();
    let zk = client(&server).await;
    assert!(Config::<Limits>::start(&zk, "relative").await.is_err());
    assert!(Publisher::<Limits>::new(&zk, "/a//b").is_err());
    assert!(Publisher::<Limits>::new(&zk, "/a").unwrap().with_history(0).is_err());
    let refused = options().default_value(limits(0)).validate(|_| Err("never".into()));
    assert!(matches!(refused.start(&zk, "/a").await, Err(Error::InvalidArgument(_))));
    let no_name = options().fallback_file("/").start(&zk, "/a").await;
    assert!(matches!(no_name, Err(Error::InvalidArgument(_))));
    assert_eq!(server.watch_count(), 0);
    assert!(zk.exists("/a").await.unwrap().is_none());
}

#[tokio::test]
async fn dropping_a_config_removes_its_watch() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let config = options().start(&zk, "/limits").await.unwrap();
    within(config.synced()).await.unwrap();
    assert!(server.watch_count() > 0);
    let mut changes = config.changes();
    drop(config);
    assert!(within(changes.next()).await.is_none());
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_version_decides_between_two_publishers() {
    let server = TestServer::start();
    let (first, second) = (client(&server).await, client(&server).await);
    let first = Publisher::new(&first, "/config/limits").unwrap();
    let second = Publisher::new(&second, "/config/limits").unwrap();
    let published = first.publish(&limits(1)).await.unwrap();
    let newer = second.compare_and_publish(published.version, &limits(2)).await.unwrap();
    let error = first.compare_and_publish(published.version, &limits(3)).await.unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::BadVersion));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(newer.zxid > published.zxid);
    assert!(matches!(
        first.compare_and_publish(-1, &limits(3)).await,
        Err(Error::InvalidArgument(_))
    ));
}

#[tokio::test]
async fn a_lost_reply_publishes_once() {
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let publisher = Publisher::new(&zk, "/limits").unwrap();
        let lost = proxy.once(OpCode::Multi, fault);
        assert_eq!(within(publisher.publish(&limits(1))).await.unwrap().version, 0);
        assert_eq!(lost.fired(), 1);
        let lost = proxy.once(OpCode::SetData, fault);
        assert_eq!(within(publisher.publish(&limits(2))).await.unwrap().version, 1);
        assert_eq!(lost.fired(), 1);
        let lost = proxy.once(OpCode::SetData, fault);
        let third = within(publisher.compare_and_publish(1, &limits(3))).await.unwrap();
        assert_eq!((third.version, lost.fired()), (2, 1));
        assert_eq!(zk.get("/limits").await.unwrap().stat.version, 2);
    }
}

#[tokio::test]
async fn a_lost_reply_followed_by_other_writes_stays_unknown() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    other.create("/limits", "{}").await.unwrap();
    let publisher = Publisher::new(&zk, "/limits").unwrap();
    let lost = proxy.once(OpCode::SetData, Fault::CutBeforeReply);
    // The read of the node has to wait until others have written twice.
    let sync = proxy.add_rule(Rule::new(Fault::HoldRequest).on(OpCode::Sync));
    let publishing =
        tokio::spawn(
            async move { publisher.compare_and_publish(0, &limits(1)).await.unwrap_err() },
        );
    within(lost.until_fired()).await;
    other.set("/limits", "{}").await.unwrap();
    other.set("/limits", "{}").await.unwrap();
    sync.release();
    let error = within(publishing).await.unwrap();
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn a_history_is_bounded_and_allows_rollbacks() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let publisher = Publisher::new(&zk, "/config/limits").unwrap().with_history(3).unwrap();
    for connections in 1..=5 {
        publisher.publish(&limits(connections)).await.unwrap();
    }
    let kept = |entries: Vec<HistoryEntry>| {
        let data = entries.iter().map(|entry| &entry.data);
        data.map(|data| limits_of(data).connections).collect::<Vec<_>>()
    };
    assert_eq!(kept(publisher.history().await.unwrap()), [5, 4, 3]);
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    within(publisher.rollback(2)).await.unwrap();
    assert_eq!(lost.fired(), 1);
    assert_eq!(kept(publisher.history().await.unwrap()), [3, 5, 4]);
    let now = zk.get("/config/limits").await.unwrap();
    assert_eq!((limits_of(&now.data), now.stat.version), (limits(3), 5));
    assert_eq!(zk.children("/config/limits/history").await.unwrap().names.len(), 3);
    for impossible in [0, 3] {
        let error = publisher.rollback(impossible).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    let forgetful = Publisher::<Limits>::new(&zk, "/config/limits").unwrap();
    assert!(matches!(forgetful.rollback(1).await, Err(Error::InvalidArgument(_))));
}
