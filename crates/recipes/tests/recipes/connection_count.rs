//! Instances that publish their own numbers of connections, and clients that balance by them.

use std::time::Duration;

use herdsman_client::Client;
use herdsman_recipes::balance::Algorithm;
use herdsman_recipes::discovery::{
    ConnectionCount, Registration, Registry, ServiceInstance, ServiceProvider,
};
use herdsman_testing::proxy::OpCode;
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};
use crate::lock_loss::sweep;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(1);

fn registry(zk: &Client) -> Registry<u32> {
    Registry::new(zk, "/services").unwrap()
}

async fn register(zk: &Client, id: &str) -> Registration<u32> {
    let instance = ServiceInstance::new("web").with_id(id);
    within(registry(zk).register(instance)).await.unwrap()
}

/// Publishes at once, and again only when the number changes.
async fn publish(registration: &Registration<u32>) -> ConnectionCount {
    let options = within(registration.connection_count()).await.unwrap();
    within(options.interval(SHORT).refresh(LONG).start()).await.unwrap()
}

async fn provider(zk: &Client, stale_after: Duration) -> ServiceProvider<u32> {
    let options = registry(zk).provider("web").algorithm(Algorithm::LeastConnections);
    within(options.instance_counts(stale_after).open()).await.unwrap()
}

/// Whether each of ten picks is this instance.
fn picks_only(provider: &ServiceProvider<u32>, id: &str) -> bool {
    (0..10).all(|_| provider.pick("").unwrap().id == id)
}

/// Whether picks take turns, as for instances with equal loads.
fn picks_both(provider: &ServiceProvider<u32>) -> bool {
    !picks_only(provider, "a") && !picks_only(provider, "b")
}

#[tokio::test]
async fn clients_pick_by_what_instances_publish() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let (a, b) = (register(&zk, "a").await, register(&other, "b").await);
    let (of_a, of_b) = (publish(&a).await, publish(&b).await);
    let provider = provider(&zk, LONG).await;
    assert!(picks_both(&provider));
    let busy = [of_a.begin(), of_a.begin(), of_a.begin()];
    assert_eq!(of_a.get(), 3);
    within(of_a.flush()).await.unwrap();
    assert_eq!(zk.get("/services-connections/web/a").await.unwrap().data, "3");
    eventually(|| picks_only(&provider, "b")).await;
    of_b.set(4);
    eventually(|| picks_only(&provider, "a")).await;
    drop(busy);
    of_b.set(0);
    eventually(|| picks_both(&provider)).await;
    assert_eq!(registry(&zk).names().await.unwrap(), ["web"], "counts are no service");
    assert!(zk.exists("/services-loads").await.unwrap().is_none(), "clients publish nothing");
}

#[tokio::test]
async fn counts_that_are_missing_or_stale_leave_the_clients_own() {
    let server = TestServer::start();
    let (zk, other) = (client(&server).await, client(&server).await);
    let (a, b) = (register(&zk, "a").await, register(&other, "b").await);
    let of_a = publish(&a).await;
    let provider = provider(&zk, Duration::from_millis(300)).await;
    of_a.set(7);
    within(of_a.flush()).await.unwrap();
    assert!(picks_both(&provider), "b has no count, so that of a is not compared with it");
    let own = provider.pick("").unwrap();
    let idle = if own.id == "a" { "b" } else { "a" };
    assert!(picks_only(&provider, idle), "own requests count");
    drop(own);
    let of_b = publish(&b).await;
    // A count that was written just now is fresh, even if the number has not changed, and stale after a while.
    for _ in 0..2 {
        eventually(|| {
            of_a.set(8);
            of_b.set(0);
            picks_only(&provider, "b")
        })
        .await;
        eventually(|| picks_both(&provider)).await;
    }
}

#[tokio::test]
async fn a_count_that_does_not_change_is_written_again() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let a = register(&zk, "a").await;
    let options = a.connection_count().await.unwrap();
    let refresh = Duration::from_millis(10);
    let _count = within(options.interval(SHORT).refresh(refresh).start()).await.unwrap();
    within(async {
        while zk.get("/services-connections/web/a").await.unwrap().stat.version < 3 {}
    })
    .await;
}

#[tokio::test]
async fn counts_end_with_the_session_and_are_put_back_in_the_next() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client(&server).await, client_behind(&proxy).await);
    let (a, b) = (register(&zk, "a").await, register(&other, "b").await);
    let (of_a, of_b) = (publish(&a).await, publish(&b).await);
    let provider = provider(&zk, LONG).await;
    of_a.set(2);
    eventually(|| picks_only(&provider, "b")).await;
    proxy.partition();
    server.expire_session(other.session().id());
    eventually(|| picks_only(&provider, "a")).await;
    assert!(zk.exists("/services-connections/web/b").await.unwrap().is_none());
    of_b.set(5);
    proxy.heal();
    within(async { while zk.exists("/services-connections/web/b").await.unwrap().is_none() {} })
        .await;
    assert_eq!(zk.get("/services-connections/web/b").await.unwrap().data, "5");
    drop((of_a, provider));
    within(async { while zk.exists("/services-connections/web/a").await.unwrap().is_some() {} })
        .await;
}

#[tokio::test]
async fn counts_are_written_no_more_often_than_allowed() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let a = register(&zk, "a").await;
    let options = a.connection_count().await.unwrap();
    let of_a = within(options.interval(LONG).start()).await.unwrap();
    let before = proxy.traffic();
    let mut open = Vec::new();
    for _ in 0..50 {
        open.push(of_a.begin());
        zk.sync("/").await.unwrap();
    }
    let after = proxy.traffic();
    let requests = after.requests_in_all() - before.requests_in_all();
    let syncs = after.requests(OpCode::Sync) - before.requests(OpCode::Sync);
    assert_eq!((of_a.get(), requests - syncs), (50, 0));
}

#[tokio::test]
async fn a_sequential_instance_publishes_under_its_own_name() {
    use herdsman_recipes::discovery::ServiceType;
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut instance = ServiceInstance::new("web").with_id("a-");
    instance.service_type = ServiceType::DynamicSequential;
    let first = within(registry(&zk).register(instance.clone())).await.unwrap();
    let second = within(registry(&zk).register(instance)).await.unwrap();
    let counts = [publish(&first).await, publish(&second).await];
    let mut published = zk.children("/services-connections/web").await.unwrap().names;
    let mut registered = zk.children("/services/web").await.unwrap().names;
    published.sort();
    registered.sort();
    assert_eq!(published, registered);
    drop(counts);
}

#[tokio::test]
async fn a_cut_at_any_request_loses_no_count() {
    sweep(async |run| {
        let registry: Registry<u32> = Registry::new(&run.zk, &run.path).unwrap();
        let instance = ServiceInstance::new("web").with_id("a");
        let registration = registry.register(instance).await.unwrap();
        let count = publish(&registration).await;
        let open = [count.begin(), count.begin()];
        count.flush().await.unwrap();
        let path = format!("{}-connections/web/a", run.path);
        let other = client(run.server).await;
        assert_eq!(other.get(&path).await.unwrap().data, "2");
        std::thread::spawn(move || drop((open, count))).join().unwrap();
        registration.unregister().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn bad_intervals_are_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let a = register(&zk, "a").await;
    let zero = Duration::ZERO;
    assert!(a.connection_count().await.unwrap().interval(zero).start().await.is_err());
    assert!(a.connection_count().await.unwrap().refresh(zero).start().await.is_err());
    let options = registry(&zk).provider("web").algorithm(Algorithm::LeastConnections);
    assert!(options.instance_counts(zero).open().await.is_err());
    assert!(zk.exists("/services-connections").await.unwrap().is_none());
}
