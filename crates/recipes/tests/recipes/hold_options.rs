//! The options that all recipes with guards share.

use std::time::Duration;

use herdsman_client::{Acl, Client, ErrorKind, Perms};
use herdsman_recipes::election::ElectionLayout;
use herdsman_recipes::queue::WorkOptions;
use herdsman_recipes::{
    DelayQueue, DoubleBarrier, Election, Error, Guard, HoldOptions, IdQueue, Layout, LeaseLock,
    Lock, LostWhen, NaiveLock, PriorityQueue, Race, RwLock, Semaphore, ShardedQueue, TicketQueue,
    WorkQueue, WorkerIds,
};
use herdsman_testing::TestServer;

use crate::common::{client, within};

/// A server, a client whose nodes no other client can use, and another client.
struct Fixture {
    _server: TestServer,
    /// Creates nodes that no client can use, unless the options set another ACL.
    zk: Client,
    other: Client,
    options: HoldOptions,
}

impl Fixture {
    async fn start() -> Self {
        let server = TestServer::start();
        let (zk, other) = (client(&server).await, client(&server).await);
        zk.authenticate("digest", "me:secret").await.unwrap();
        let zk = zk.with_default_acl([Acl::read_only()]).unwrap();
        let options = HoldOptions::new().acl([Acl::creator_all()]).unwrap();
        Fixture { _server: server, zk, other, options }
    }

    /// Checks that everything in the tree has the ACL, including the nodes that exist while it is held, and that it
    /// is refused to other clients.
    async fn guards<G: Guard>(&self, guard: G) -> G {
        let nodes = nodes(&self.zk).await;
        assert!(nodes.iter().any(|path| path == guard.path()), "{} of {nodes:?}", guard.path());
        self.nodes_are_ours(&nodes).await;
        guard
    }

    async fn nodes_are_ours(&self, nodes: &[String]) {
        for path in nodes {
            let (acl, _) = self.zk.acl(path).await.unwrap();
            assert_eq!(acl, [Acl::digest("me", "secret", Perms::ALL)], "{path}");
            let error = self.other.get(path).await.unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::NoAuth, "{path}");
        }
    }

    async fn releases<G: Guard>(&self, guard: G) {
        within(self.guards(guard).await.release()).await.unwrap();
        self.nodes_are_ours(&nodes(&self.zk).await).await;
    }
}

/// Returns all nodes that do not belong to the server, parents first.
async fn nodes(zk: &Client) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut unread = vec![String::new()];
    while let Some(parent) = unread.pop() {
        let listed = if parent.is_empty() { "/" } else { &parent };
        // Helper nodes of a recipe are deleted in the background.
        let Ok(children) = zk.children(listed).await else {
            found.retain(|path| *path != parent);
            continue;
        };
        let paths = children.names.iter().map(|name| format!("{parent}/{name}"));
        for path in paths.filter(|path| path != "/zookeeper") {
            found.push(path.clone());
            unread.push(path);
        }
    }
    found
}

fn is_refused(error: &Error) -> bool {
    error.client_kind() == Some(&ErrorKind::NoAuth)
}

#[tokio::test]
async fn fair_locks_make_all_nodes_with_the_acl() {
    for layout in [Layout::Curator, Layout::Kazoo, Layout::Apache] {
        let fixture = Fixture::start().await;
        let lock = Lock::new(&fixture.zk, "/deep/lock").unwrap().layout(layout);
        fixture.releases(within(lock.options(&fixture.options).acquire()).await.unwrap()).await;
        let theirs = Lock::new(&fixture.other, "/deep/lock").unwrap().layout(layout);
        assert!(is_refused(&within(theirs.acquire()).await.unwrap_err()));

        let rw = RwLock::new(&fixture.zk, "/deep/rw").unwrap().layout(layout);
        let rw = rw.options(&fixture.options);
        fixture.releases(within(rw.read()).await.unwrap()).await;
        let writer = fixture.guards(within(rw.write()).await.unwrap()).await;
        fixture.releases(within(writer.downgrade()).await.unwrap()).await;
    }
}

#[tokio::test]
async fn other_locks_make_all_nodes_with_the_acl() {
    let fixture = Fixture::start().await;
    let (zk, options) = (&fixture.zk, &fixture.options);
    let lock = NaiveLock::new(zk, "/naive/lock").unwrap().options(options);
    fixture.releases(within(lock.acquire()).await.unwrap()).await;
    let lease = Duration::from_secs(60);
    let lock = LeaseLock::new(zk, "/lease/lock", lease).unwrap().options(options);
    fixture.releases(within(lock.acquire()).await.unwrap()).await;
    let semaphore = Semaphore::new(zk, "/some/permits", 2).unwrap().options(options);
    fixture.releases(within(semaphore.acquire()).await.unwrap()).await;
    fixture.releases(within(semaphore.try_acquire()).await.unwrap().unwrap()).await;

    let theirs = NaiveLock::new(&fixture.other, "/naive/lock").unwrap();
    assert!(is_refused(&within(theirs.acquire()).await.unwrap_err()));
    let theirs = LeaseLock::new(&fixture.other, "/lease/lock", lease).unwrap();
    assert!(is_refused(&within(theirs.acquire()).await.unwrap_err()));
    let theirs = Semaphore::new(&fixture.other, "/some/permits", 2).unwrap();
    assert!(is_refused(&within(theirs.acquire()).await.unwrap_err()));
}

#[tokio::test]
async fn elections_make_all_nodes_with_the_acl() {
    let layouts = [
        ElectionLayout::Selector,
        ElectionLayout::Latch,
        ElectionLayout::Kazoo,
        ElectionLayout::Apache,
    ];
    for layout in layouts {
        let fixture = Fixture::start().await;
        let election = Election::new(&fixture.zk, "/app/leader", "me").unwrap().layout(layout);
        let election = election.with_epoch("/counts/of/leaders").unwrap();
        fixture
            .releases(within(election.options(&fixture.options).campaign()).await.unwrap())
            .await;
        let theirs = Election::new(&fixture.other, "/app/leader", "x").unwrap().layout(layout);
        assert!(is_refused(&within(theirs.campaign()).await.unwrap_err()));
    }
    let fixture = Fixture::start().await;
    let race = Race::new(&fixture.zk, "/app/leader", "me").unwrap();
    let race = race.epoch_at("/counts/of/leaders").unwrap().options(&fixture.options);
    fixture.releases(within(race.campaign()).await.unwrap()).await;
    let theirs = Race::new(&fixture.other, "/app/leader", "x").unwrap();
    assert!(is_refused(&within(theirs.campaign()).await.unwrap_err()));
}

#[tokio::test]
async fn queues_make_all_nodes_with_the_acl() {
    let fixture = Fixture::start().await;
    let zk = &fixture.zk;
    let options = || WorkOptions::new().capacity(1).hold(fixture.options.clone());
    let queue = WorkQueue::with(zk, "/my/jobs", options().dead_letter("/my/dead", 1)).unwrap();
    // The consumer waits in the line of consumers, the second producer in that of producers.
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    queue.offer("one").await.unwrap();
    let item = fixture.guards(within(consumer).await.unwrap().unwrap()).await;
    let producer = tokio::spawn({
        let queue = queue.clone();
        async move { queue.offer("two").await }
    });
    item.refuse().await.unwrap();
    within(producer).await.unwrap().unwrap();
    fixture.releases(within(queue.take()).await.unwrap()).await;
    let all = nodes(zk).await;
    for beside in ["/my/dead/", "/my/jobs-consumers", "/my/jobs-receipts", "/my/jobs-capacity"] {
        assert!(all.iter().any(|path| path.starts_with(beside)), "{beside} of {all:?}");
    }
    let theirs = WorkQueue::new(&fixture.other, "/my/jobs").unwrap();
    assert!(is_refused(&theirs.offer("theirs").await.unwrap_err()));

    let queue = PriorityQueue::with(zk, "/by/priority", options()).unwrap();
    queue.offer(1, "one").await.unwrap();
    fixture.releases(within(queue.take()).await.unwrap()).await;
    let queue = DelayQueue::with(zk, "/by/time", options()).unwrap();
    queue.offer(Duration::from_millis(1), "one").await.unwrap();
    fixture.releases(within(queue.take()).await.unwrap()).await;
    let queue = IdQueue::with(zk, "/by/id", options()).unwrap();
    queue.offer("id", "one").await.unwrap();
    fixture.releases(within(queue.take()).await.unwrap()).await;
    let queue = ShardedQueue::open(zk, "/in/shards", 2, options()).await.unwrap();
    queue.offer("one").await.unwrap();
    fixture.releases(within(queue.take()).await.unwrap()).await;

    let tickets = TicketQueue::new(zk, "/my/tickets").unwrap().options(&fixture.options);
    fixture.releases(within(tickets.take_number()).await.unwrap()).await;
    let theirs = TicketQueue::new(&fixture.other, "/my/tickets").unwrap();
    assert!(is_refused(&within(theirs.take_number()).await.unwrap_err()));
}

#[tokio::test]
async fn worker_ids_and_barriers_make_all_nodes_with_the_acl() {
    let fixture = Fixture::start().await;
    let ids = WorkerIds::new(&fixture.zk, "/my/ids", 0..=7).unwrap().identity("host-1").unwrap();
    let lease = within(ids.options(&fixture.options).lease()).await.unwrap();
    lease.reserve_until(1).await.unwrap();
    fixture.releases(lease).await;
    let theirs = WorkerIds::new(&fixture.other, "/my/ids", 0..=7).unwrap();
    assert!(is_refused(&within(theirs.lease()).await.unwrap_err()));

    let barrier =
        DoubleBarrier::new(&fixture.zk, "/my/barrier", 2).unwrap().options(&fixture.options);
    let (one, other) = within(async { tokio::join!(barrier.enter(), barrier.enter()) }).await;
    let (one, other) = (fixture.guards(one.unwrap()).await, other.unwrap());
    assert!(nodes(&fixture.zk).await.contains(&"/my/barrier/ready".to_owned()));
    let theirs = DoubleBarrier::new(&fixture.other, "/my/barrier", 2).unwrap();
    assert!(is_refused(&within(theirs.enter()).await.map(drop).unwrap_err()));
    within(async { tokio::join!(one.leave(), other.leave()) }).await.0.unwrap();
}

#[tokio::test]
async fn options_change_only_what_they_say() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let owner = HoldOptions::new().owner("the nightly backup");
    let other = HoldOptions::new().lost_when(LostWhen::SessionTimedOut);
    let lock = Lock::new(&zk, "/lock").unwrap().options(&owner).options(&other);
    let guard = lock.acquire().await.unwrap();
    assert_eq!(zk.get(guard.path()).await.unwrap().data, "the nightly backup");
    let race = Race::new(&zk, "/leader", "me").unwrap().options(&other);
    assert_eq!(race.campaign().await.unwrap().term().id(), "me");
    let election = Election::new(&zk, "/election", "me").unwrap().options(&owner);
    assert_eq!(election.campaign().await.unwrap().term().id(), "the nightly backup");
    assert!(HoldOptions::new().acl([]).is_err());
}
