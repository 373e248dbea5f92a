//! A client that moves to a server that is behind: its last write is proposed when the connection is lost, but not
//! committed yet, so the server that takes over its session does not have the write. Code that reads there without a
//! sync finds nothing, and leaves behind, or creates again, what is about to appear.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::persistent_node::PersistentNode;
use herdsman_recipes::queue::WorkQueue;
use herdsman_recipes::{Lock, NaiveLock};
use herdsman_testing::proxy::{ActiveRule, Fault, OpCode, Rule};
use herdsman_testing::{TestEnsemble, TestProxy};
use tokio::task::JoinHandle;

use crate::common::{client_of, eventually, within};

/// The server that is behind.
const OBSERVER: usize = 4;

struct Fixture {
    ensemble: TestEnsemble,
    leader: usize,
    /// In front of the leader, and later of the observer.
    proxy: Arc<TestProxy>,
    /// A client of the leader, which sees every write at once.
    observer: Client,
}

/// The client's session is at the observer, which is behind.
struct Behind<'w> {
    fixture: &'w Fixture,
    /// A read that the observer has answered.
    read: ActiveRule,
    syncs_before: usize,
}

impl Fixture {
    async fn start() -> Self {
        let ensemble = TestEnsemble::start_with_links();
        let leader = ensemble.await_leader();
        let proxy = Arc::new(TestProxy::start(ensemble.address(leader)));
        let observer = client_of(&ensemble.address(leader).to_string()).await;
        Fixture { ensemble, leader, proxy, observer }
    }

    async fn client(&self) -> Client {
        client_of(&self.proxy.connect_string()).await
    }

    /// Makes a write whose reply is lost, and moves the client to the observer, which does not have it until
    /// [`Behind::catch_up`].
    async fn lose_reply<T: Send + 'static>(
        &self,
        write: impl Future<Output = T> + Send + 'static,
    ) -> (JoinHandle<T>, Behind<'_>) {
        self.ensemble.hold_acks(self.leader);
        let before = self.ensemble.proposals(self.leader);
        let writing = tokio::spawn(write);
        eventually(|| self.ensemble.proposals(self.leader) > before).await;
        let reads = [OpCode::Exists, OpCode::GetData, OpCode::GetChildren, OpCode::GetChildren2];
        let answered = Rule::new(Fault::DelayReply(Duration::ZERO));
        let read = self.proxy.add_rule(reads.into_iter().fold(answered, Rule::on));
        let syncs_before = self.proxy.traffic().requests(OpCode::Sync);
        self.proxy.set_upstream(self.ensemble.address(OBSERVER));
        self.proxy.cut();
        (writing, Behind { fixture: self, read, syncs_before })
    }

    /// Returns the children when no write is in flight any more.
    async fn children(&self, path: &str) -> Vec<String> {
        within(self.observer.sync(path).send()).await.unwrap();
        self.observer.children(path).await.unwrap().names
    }
}

impl Behind<'_> {
    /// Lets the observer receive the write, but not before the client has read there, or has sent a sync.
    async fn catch_up(&self) {
        let Fixture { proxy, ensemble, .. } = self.fixture;
        let syncs = || proxy.traffic().requests(OpCode::Sync) > self.syncs_before;
        eventually(|| syncs() || self.read.fired() > 0).await;
        ensemble.release_acks();
    }
}

#[tokio::test]
async fn a_lock_whose_creation_is_in_flight_is_not_made_twice() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    zk.create("/lock", "").await.unwrap();
    let lock = Lock::new(&zk, "/lock").unwrap();
    let (locking, behind) = fixture.lose_reply(async move { lock.acquire().await }).await;
    behind.catch_up().await;
    let guard = within(locking).await.unwrap().unwrap();
    assert_eq!(fixture.children("/lock").await, [guard.name()]);
    guard.release().await.unwrap();
    assert_eq!(fixture.children("/lock").await, [""; 0]);
}

#[tokio::test]
async fn a_naive_lock_that_is_given_up_in_flight_is_not_left_behind() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    let lock = NaiveLock::new(&zk, "/lock").unwrap();
    // The fence node exists from now on.
    lock.acquire().await.unwrap().release().await.unwrap();
    let again = lock.clone();
    let (locking, behind) = fixture.lose_reply(async move { again.acquire().await }).await;
    locking.abort();
    // Nothing is read: the claim is sent again, and rejected or applied.
    fixture.ensemble.release_acks();
    let other = NaiveLock::new(&fixture.observer, "/lock").unwrap();
    within(other.acquire()).await.unwrap().release().await.unwrap();
    drop(behind);

    // A release in flight is not repeated when another client has the lock by then.
    fixture.proxy.set_upstream(fixture.ensemble.address(fixture.leader));
    fixture.proxy.cut();
    let guard = within(lock.acquire()).await.unwrap();
    let (releasing, behind) = fixture.lose_reply(guard.release()).await;
    fixture.ensemble.release_acks();
    let held = within(other.acquire()).await.unwrap();
    within(releasing).await.unwrap().unwrap();
    drop(behind);
    assert!(held.lost().now_or_never().is_none());
    held.release().await.unwrap();
}

#[tokio::test]
async fn an_item_whose_lock_is_in_flight_is_not_left_locked() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    let queue = WorkQueue::new(&zk, "/q").unwrap();
    queue.offer("a").await.unwrap();
    queue.take().await.unwrap().give_back().await.unwrap();
    // The deadline of the second attempt, whose result would be known, passes before its reply.
    let hasty = WorkQueue::new(&zk.with_deadline(Duration::from_millis(500)), "/q").unwrap();
    let (taking, behind) = fixture.lose_reply(async move { hasty.poll().await }).await;
    let error = within(taking).await.unwrap().unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::DeadlineExceeded));
    behind.catch_up().await;
    let other = WorkQueue::new(&fixture.observer, "/q").unwrap();
    let item = within(other.take()).await.unwrap();
    item.done().await.unwrap();
}

#[tokio::test]
async fn a_persistent_node_that_is_closed_in_flight_is_not_left_behind() {
    let fixture = Fixture::start().await;
    // Its session lives longer than the node.
    let zk = fixture.client().await;
    let (options, proxy) = (PersistentNode::at(&zk, "/n", "x"), fixture.proxy.clone());
    let start_and_close = async move {
        let node = options.start().unwrap();
        proxy.until(|traffic| traffic.requests(OpCode::Create2) == 1).await;
        node.close().await
    };
    let (closing, behind) = fixture.lose_reply(start_and_close).await;
    behind.catch_up().await;
    within(closing).await.unwrap().unwrap();
    assert_eq!(fixture.children("/").await, ["zookeeper"]);
}

#[tokio::test]
async fn one_registration_in_flight_is_one_instance() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    zk.create("/dir", "").await.unwrap();
    let start = async move { PersistentNode::at(&zk, "/dir/n-", "x").sequential().start() };
    let (starting, behind) = fixture.lose_reply(start).await;
    let node = within(starting).await.unwrap().unwrap();
    fixture.ensemble.release_acks();
    within(node.wait_until_present()).await.unwrap();
    drop(behind);
    assert_eq!(fixture.children("/dir").await.len(), 1);
    within(node.close()).await.unwrap();
    assert_eq!(fixture.children("/dir").await, [""; 0]);
}
