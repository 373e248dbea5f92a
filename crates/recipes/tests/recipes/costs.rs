//! What recipes cost, as docs/recipes.md has it: requests of all clients, apart from heartbeats.

use std::time::Duration;

use herdsman_client::Client;
use herdsman_recipes::config::Publisher;
use herdsman_recipes::messaging::{Heartbeat, HeartbeatMonitor};
use herdsman_recipes::monitor::{Monitor, Reporter};
use herdsman_recipes::partitioner::{Partitioner, Update};
use herdsman_recipes::persistent_node::PersistentNode;
use herdsman_recipes::{AtomicLong, Config, Group};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client_behind, eventually, within};

const LONG: Duration = Duration::from_secs(3600);

struct Meter {
    _server: TestServer,
    proxy: TestProxy,
    zk: Client,
    other: Client,
}

impl Meter {
    async fn start() -> Self {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let (zk, other) = (client_behind(&proxy).await, client_behind(&proxy).await);
        for directory in ["/group", "/m", "/h", "/p/members", "/p/owners"] {
            zk.create(directory, "").parents().await.unwrap();
        }
        Meter { _server: server, proxy, zk, other }
    }

    /// Waits until no more requests are sent, and returns how many there were.
    async fn settle(&self) -> usize {
        let mut before = self.proxy.traffic().requests_in_all();
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = self.proxy.traffic().requests_in_all();
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// Checks how many requests this makes, at once or soon afterwards.
    async fn costs<T>(&self, requests: usize, work: impl Future<Output = T>) -> T {
        self.costs_up_to(requests, requests, work).await
    }

    async fn costs_up_to<T>(&self, least: usize, most: usize, work: impl Future<Output = T>) -> T {
        let before = self.settle().await;
        self.proxy.clear_log();
        let sent = || self.proxy.traffic().requests_in_all() - before;
        let done = within(work).await;
        eventually(|| sent() >= least).await;
        let requests = self.settle().await - before;
        assert!((least..=most).contains(&requests), "{requests}: {:#?}", self.proxy.log());
        done
    }
}

#[tokio::test]
async fn nodes_and_groups() {
    let meter = Meter::start().await;
    let Meter { zk, other, .. } = &meter;
    let start = async {
        let node = PersistentNode::at(zk, "/node", "x").start().unwrap();
        node.wait_until_present().await.unwrap();
        node
    };
    let node = meter.costs(4, start).await;
    meter.costs(2, node.set_data("y")).await.unwrap();
    meter.costs(4, node.close()).await.unwrap();

    let (group, observed) =
        (Group::new(zk, "/group").unwrap(), Group::new(other, "/group").unwrap());
    let one = meter.costs(4, group.join("1", "x")).await.unwrap();
    let _two = meter.costs(4, group.join("2", "x")).await.unwrap();
    let _members = meter.costs(2 + 2, observed.observe()).await.unwrap();
    meter.costs(2 + 1, one.set_data("y")).await.unwrap();
}

#[tokio::test]
async fn monitors() {
    let meter = Meter::start().await;
    let Meter { zk, other, .. } = &meter;
    let reporter = Reporter::start(zk, "/m", "1", &1).await.unwrap();
    let _monitor = meter.costs(2 + 1, Monitor::<u32>::open(other, "/m", LONG)).await.unwrap();
    meter.costs(2 + 1, reporter.beat()).await.unwrap();
    let heart = Heartbeat::start(zk, "/h", "1").await.unwrap();
    let _monitor = meter.costs(2 + 1, HeartbeatMonitor::start(other, "/h", LONG)).await.unwrap();
    meter.costs(2, heart.beat()).await.unwrap();
}

#[tokio::test]
async fn counters_and_configuration() {
    let meter = Meter::start().await;
    let Meter { zk, other, .. } = &meter;
    let counter = AtomicLong::new(zk, "/count");
    meter.costs(2, counter.add(1)).await.unwrap();
    meter.costs(2, counter.add(1)).await.unwrap();
    meter.costs(3, counter.add_exactly_once(1)).await.unwrap();
    let missing = AtomicLong::new(zk, "/missing");
    meter.costs(3 + 2, missing.add_exactly_once(1)).await.unwrap();
    let publisher = Publisher::<u32>::new(zk, "/config").unwrap();
    meter.costs(2, publisher.publish(&1)).await.unwrap();
    let start = async {
        let config = Config::<u32>::start(other, "/config").await.unwrap();
        config.synced().await.unwrap();
        config
    };
    let _config = meter.costs(3, start).await;
    meter.costs(2 + 1, publisher.publish(&2)).await.unwrap();
    let publisher = publisher.with_history(9).unwrap();
    publisher.publish(&3).await.unwrap();
    meter.costs(4 + 1, publisher.publish(&4)).await.unwrap();
}

#[tokio::test]
async fn items_that_move() {
    let meter = Meter::start().await;
    let join = |zk, member| {
        let options = Partitioner::of(zk, "/p", member, ["1", "2", "3", "4"]);
        options.settle(Duration::from_millis(20)).join()
    };
    let mut one = join(&meter.zk, "one").await.unwrap();
    assert!(matches!(within(one.next()).await, Some(Update::Acquired(_))));
    let (members, items_read, items_moved) = (2, 4, 2);
    let setup = 2 * 2 + 1 + items_read;
    let moved = async {
        let two = join(&meter.other, "two").await.unwrap();
        let Some(Update::Release(asked)) = one.next().await else { panic!("it has too many") };
        asked.confirm();
        two
    };
    let least = setup + 4 + members + items_moved * (4 + members);
    // The new owner of an item may look whether the node is there before it has heard of it.
    let _two = meter.costs_up_to(least, least + items_moved, moved).await;
}
