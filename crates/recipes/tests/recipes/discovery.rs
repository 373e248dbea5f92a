//! Services register, and are found, followed and picked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use herdsman_client::Client;
use herdsman_recipes::balance::{Algorithm, OutlierPolicy};
use herdsman_recipes::discovery::{
    Registration, Registry, ServiceEvent, ServiceInstance, ServiceProvider, ServiceType,
};
use herdsman_recipes::persistent_node::Presence;
use herdsman_recipes::{Error, Events};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

/// The payload is a weight.
type Service = ServiceInstance<u32>;

fn registry(zk: &Client) -> Registry<u32> {
    Registry::new(zk, "/services").unwrap()
}

fn web(id: &str, weight: u32) -> Service {
    ServiceInstance::new("web").with_id(id).with_address(format!("host-{id}")).with_payload(weight)
}

async fn register(zk: &Client, instance: Service) -> Registration<u32> {
    within(registry(zk).register(instance)).await.unwrap()
}

/// The next event in short: `+a 1`, `~a 2`, `-a 2`, `!/path`.
async fn next(events: &mut Events<ServiceEvent<u32>>) -> String {
    let short = |sign: char, instance: &Service| {
        format!("{sign}{} {}", instance.id, instance.payload.unwrap_or_default())
    };
    match within(events.next()).await.expect("the stream continues") {
        ServiceEvent::Added(instance) => short('+', &instance),
        ServiceEvent::Changed(instance) => short('~', &instance),
        ServiceEvent::Removed(instance) => short('-', &instance),
        ServiceEvent::Unreadable(Error::Codec { path, .. }) => format!("!{path}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn instances_are_registered_found_updated_and_removed() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let mut a = register(&zk, web("a", 1)).await;
    let b = register(&other, web("b", 2)).await;
    assert_eq!(registry(&zk).names().await.unwrap(), ["web"]);
    let found = registry(&other).instances("web").await.unwrap();
    assert_eq!(found.instances, [a.instance().clone(), b.instance().clone()]);
    within(a.update(web("a", 5).disabled())).await.unwrap();
    let updated = registry(&other).instance("web", "a").await.unwrap().unwrap();
    assert_eq!((updated.payload, updated.enabled), (Some(5), false));
    within(a.unregister()).await.unwrap();
    assert_eq!(registry(&zk).instance("web", "a").await.unwrap(), None);
    drop(b);
    eventually(|| server.ephemerals(other.session().id()).is_empty()).await;
    assert_eq!(registry(&zk).instances("none").await.unwrap().instances, []);
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn the_type_decides_what_is_left_behind() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let fixed = register(&zk, web("static", 1).with_type(ServiceType::Static)).await;
    let permanent = register(&zk, web("permanent", 1).with_type(ServiceType::Permanent)).await;
    let numbered = register(&zk, web("n-", 1).with_type(ServiceType::DynamicSequential)).await;
    let dynamic = register(&zk, web("dynamic", 1)).await;
    let Presence::Present { path } = numbered.presence() else { panic!("it exists") };
    assert!(path.starts_with("/services/web/n-00000"), "{path}");
    drop((fixed, numbered, dynamic));
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
    within(permanent.unregister()).await.unwrap();
    zk.close().await.unwrap();
    let left = registry(&other).instances("web").await.unwrap().instances;
    assert_eq!(left.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>(), ["static"]);
}

#[tokio::test]
async fn a_registration_survives_sessions_restarts_and_deletion() {
    let mut server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let _a = register(&zk, web("a", 1)).await;
    let cache = registry(&other).cache("web").open().await.unwrap();
    let mut events = cache.events();
    assert_eq!(next(&mut events).await, "+a 1");
    server.expire_session(zk.session().id());
    let back = |event: &str| matches!(event, "+a 1" | "~a 1");
    while !back(&next(&mut events).await) {}
    other.delete("/services/web").recursive().await.unwrap();
    while !back(&next(&mut events).await) {}
    server.restart();
    let _b = register(&zk, web("b", 2)).await;
    assert_eq!(next(&mut events).await, "+b 2");
    assert_eq!(cache.instances().len(), 2);
}

#[tokio::test]
async fn a_lost_reply_registers_once() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    for service_type in [ServiceType::Dynamic, ServiceType::DynamicSequential] {
        let rule = Rule::new(Fault::CutBeforeReply).on(OpCode::Create2).on(OpCode::Multi);
        let lost = proxy.add_rule(rule.path_containing("/web/a"));
        let a = register(&zk, web("a", 1).with_type(service_type)).await;
        assert_eq!(lost.fired(), 1);
        assert_eq!(zk.children("/services/web").await.unwrap().names.len(), 1);
        assert_eq!(registry(&zk).names().await.unwrap(), ["web"]);
        within(a.unregister()).await.unwrap();
        assert_eq!(zk.children("/services/web").await.unwrap().names.len(), 0);
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_reported_and_skipped() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/services/web/broken", "{").parents().await.unwrap();
    let cache = registry(&zk).cache("web").open().await.unwrap();
    let mut events = cache.events();
    assert_eq!(next(&mut events).await, "!/services/web/broken");
    let found = registry(&zk).instances("web").await.unwrap();
    assert_eq!((found.instances.len(), found.unreadable.len()), (0, 1));
    let _a = register(&zk, web("a", 1)).await;
    assert_eq!(next(&mut events).await, "+a 1");
    zk.set("/services/web/a", "{\"serviceType\":\"?\"}").await.unwrap();
    assert_eq!(next(&mut events).await, "-a 1");
    assert_eq!(next(&mut events).await, "!/services/web/a");
    assert_eq!(cache.instances().len(), 0);
    zk.delete("/services/web/broken").await.unwrap();
    zk.set("/services/web/a", r#"{"name":"web","id":"a","payload":7}"#).await.unwrap();
    assert_eq!(next(&mut events).await, "+a 7");
}

#[tokio::test]
async fn the_last_good_set_survives_an_outage() {
    let mut server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let _a = register(&zk, web("a", 1)).await;
    let _b = register(&zk, web("b", 1)).await;
    let provider = registry(&other).provider("web").open().await.unwrap();
    server.kill();
    eventually(|| !other.state().is_connected()).await;
    let picked: BTreeSet<String> =
        (0..4).filter_map(|_| provider.pick("")).map(|picked| picked.id.clone()).collect();
    assert_eq!(picked.len(), 2);
    server.start_again();
    let _c = register(&zk, web("c", 1)).await;
    eventually(|| provider.cache().instances().len() == 3).await;
}

#[tokio::test]
async fn with_a_removal_delay_a_short_absence_goes_unnoticed() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let a = register(&zk, web("a", 1)).await;
    let delay = Duration::from_secs(3600);
    let cache = registry(&other).cache("web").removal_delay(delay).open().await.unwrap();
    let mut events = cache.events();
    assert_eq!(next(&mut events).await, "+a 1");
    within(a.unregister()).await.unwrap();
    let _b = register(&zk, web("b", 1)).await;
    assert_eq!(next(&mut events).await, "+b 1");
    assert_eq!(cache.instances().len(), 2, "a is kept");
    let _a = register(&zk, web("a", 2)).await;
    assert_eq!(next(&mut events).await, "~a 2");

    let cache = registry(&other).cache("web").removal_delay(Duration::from_millis(50));
    let cache = cache.open().await.unwrap();
    let mut events = cache.events();
    assert_eq!(next(&mut events).await, "+a 2");
    assert_eq!(next(&mut events).await, "+b 1");
    zk.close().await.unwrap();
    let removed = BTreeSet::from([next(&mut events).await, next(&mut events).await]);
    assert_eq!(removed, BTreeSet::from(["-a 2".to_owned(), "-b 1".to_owned()]));
}

fn tally(provider: &ServiceProvider<u32>, picks: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for number in 0..picks {
        let picked = provider.pick(format!("source {number}")).expect("there are instances");
        *counts.entry(picked.id.clone()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn every_algorithm_picks_all_that_are_enabled() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut registrations = Vec::new();
    for id in ["a", "b", "c"] {
        registrations.push(register(&zk, web(id, 1)).await);
    }
    registrations.push(register(&zk, web("off", 1).disabled()).await);
    for algorithm in Algorithm::ALL {
        let provider = registry(&zk).provider("web").algorithm(algorithm).open().await.unwrap();
        let counts = tally(&provider, 300);
        assert_eq!(counts.keys().collect::<Vec<_>>(), ["a", "b", "c"], "{algorithm}");
    }
    let empty = registry(&zk).provider("none").open().await.unwrap();
    assert!(empty.pick("").is_none());
}

#[tokio::test]
async fn weights_come_from_the_payload() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let _a = register(&zk, web("a", 1)).await;
    let _b = register(&zk, web("b", 3)).await;
    let provider = registry(&zk)
        .provider("web")
        .algorithm(Algorithm::WeightedRoundRobin)
        .weight(|instance| instance.payload.unwrap_or(1))
        .open()
        .await
        .unwrap();
    assert_eq!(tally(&provider, 40), BTreeMap::from([("a".into(), 10), ("b".into(), 30)]));
}

#[tokio::test]
async fn an_instance_with_errors_is_not_used() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let _a = register(&zk, web("a", 1)).await;
    let _b = register(&zk, web("b", 1)).await;
    let policy = OutlierPolicy { set_aside_for: Duration::from_secs(3600), ..Default::default() };
    let provider = registry(&zk).provider("web").outlier_policy(policy).open().await.unwrap();
    for _ in 0..4 {
        let picked = provider.pick("").unwrap();
        if picked.id == "a" { picked.failed() } else { picked.succeeded() }
    }
    assert_eq!(tally(&provider, 10), BTreeMap::from([("b".into(), 10)]));
}

#[tokio::test]
async fn least_connections_count_those_of_all_clients() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let _a = register(&zk, web("a", 1)).await;
    let _b = register(&zk, web("b", 1)).await;
    let open = |zk: &Client| {
        let provider = registry(zk).provider("web").algorithm(Algorithm::LeastConnections);
        provider.publish_interval(Duration::from_millis(10)).open()
    };
    let (ours, theirs) = (open(&zk).await.unwrap(), open(&other).await.unwrap());
    // They have four requests in flight with one instance, and none with the other.
    let mut under_way: Vec<_> = (0..8).filter_map(|_| theirs.pick("")).collect();
    under_way.retain(|picked| picked.id == "a");
    assert_eq!(under_way.len(), 4);
    let prefers_idle = || (0..3).all(|_| ours.pick("").unwrap().id == "b");
    eventually(prefers_idle).await;
    // Their counts end with their session.
    server.expire_session(other.session().id());
    drop(theirs);
    eventually(|| tally(&ours, 10).len() == 2).await;
    assert_eq!(registry(&zk).names().await.unwrap(), ["web"], "counts are no service");
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing_behind() {
    let server = TestServer::start();
    let zk = client(&server).await;
    Registry::<u32>::new(&zk, "services").unwrap_err();
    Registry::<u32>::new(&zk, "").unwrap_err();
    let registry = registry(&zk);
    for (name, id) in [("", "a"), ("a/b", "a"), ("web", ""), ("web", "a/b"), ("..", "a")] {
        let instance = ServiceInstance::new(name).with_id(id);
        within(registry.register(instance)).await.unwrap_err();
    }
    registry.instances("a/b").await.unwrap_err();
    registry.cache("a/b").open().await.unwrap_err();
    registry.provider("web").publish_interval(Duration::ZERO).open().await.unwrap_err();
    assert!(zk.exists("/services").await.unwrap().is_none());
    let mut a = register(&zk, web("a", 1)).await;
    a.update(web("b", 1)).await.unwrap_err();
    assert_eq!(registry.instances("web").await.unwrap().instances, [a.instance().clone()]);
}
