//! A client that moves to a server that is behind: its last write is proposed when the connection is lost, but not
//! committed yet, so the server that takes over its session does not have the write. Code that reads there without a
//! sync finds nothing, and leaves behind, or creates again, what is about to appear.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::election::{CloseMode, LatchEvent};
use herdsman_recipes::master_worker::Ending;
use herdsman_recipes::partitioner::Update;
use herdsman_recipes::{
    DoubleBarrier, Election, Error, Guard, HoldOptions, LeaderLatch, LeaseLock, Lock, LostWhen,
    Master, NaiveLock, Partitioner, PersistentNode, Race, Result, Submitter, WorkQueue, Worker,
    WorkerIds,
};
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
    writes_before: usize,
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
        let writes_before = self.writes();
        self.proxy.set_upstream(self.ensemble.address(OBSERVER));
        self.proxy.cut();
        (writing, Behind { fixture: self, read, syncs_before, writes_before })
    }

    /// Moves the client back to the leader.
    fn return_to_leader(&self) {
        self.proxy.set_upstream(self.ensemble.address(self.leader));
        self.proxy.cut();
    }

    /// Returns how many writes the client has sent.
    fn writes(&self) -> usize {
        let writes = [OpCode::Multi, OpCode::Create2, OpCode::Delete];
        writes.into_iter().map(|op| self.proxy.traffic().requests(op)).sum()
    }

    /// Returns the children when no write is in flight any more.
    async fn children(&self, path: &str) -> Vec<String> {
        within(self.observer.sync(path).send()).await.unwrap();
        self.observer.children(path).await.unwrap().names
    }
}

impl Behind<'_> {
    /// Lets the observer receive the write, but not before the client has read there, or has sent a sync or a write.
    async fn catch_up(&self) {
        let Fixture { proxy, ensemble, .. } = self.fixture;
        let syncs = || proxy.traffic().requests(OpCode::Sync) > self.syncs_before;
        let writes = || self.fixture.writes() > self.writes_before;
        eventually(|| syncs() || self.read.fired() > 0 || writes()).await;
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

/// The deletion of a leader's node is in flight.
#[tokio::test]
async fn a_leader_whose_node_is_being_deleted_has_not_regained_its_leadership() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    let leadership = Election::new(&zk, "/leader", "a").unwrap().campaign().await.unwrap();
    let (deleting, path) = (fixture.observer.clone(), leadership.path().to_owned());
    let delete = async move { deleting.delete(&path).await };
    let (deleting, behind) = fixture.lose_reply(delete).await;
    within(leadership.lost()).await;
    let (regained, ()) = tokio::join!(within(leadership.regained()), behind.catch_up());
    assert!(!regained);
    within(deleting).await.unwrap().unwrap();
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

/// A hold that survives the moment without a connection.
fn patient() -> HoldOptions {
    HoldOptions::new().lost_when(LostWhen::SessionTimedOut)
}

/// Acquires something while the acquisition is in flight, and releases it while the release is in flight.
async fn acquire_and_release_in_flight<G, F>(acquire: impl Fn(Client) -> F)
where
    G: Guard + Send + Sync + 'static,
    F: Future<Output = Result<G>> + Send + 'static,
{
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    // What is created only once exists from now on.
    acquire(zk.clone()).await.unwrap().release().await.unwrap();
    let (acquiring, behind) = fixture.lose_reply(acquire(zk.clone())).await;
    behind.catch_up().await;
    let guard = within(acquiring).await.unwrap().unwrap();
    let token = guard.token();
    fixture.return_to_leader();
    within(zk.session().wait_for(|state| state.is_connected())).await;
    let (releasing, behind) = fixture.lose_reply(guard.release()).await;
    behind.catch_up().await;
    let held = within(async {
        loop {
            match acquire(fixture.observer.clone()).await {
                // Nothing of the first client's is left when its release has been applied.
                Err(Error::Full { .. }) => tokio::task::yield_now().await,
                held => return held.unwrap(),
            }
        }
    });
    let held = held.await;
    within(releasing).await.unwrap().unwrap();
    assert!(held.token() > token && held.lost().now_or_never().is_none());
    within(fixture.observer.sync("/").send()).await.unwrap();
    assert!(fixture.observer.exists(held.path()).await.unwrap().is_some());
    let left = zk.session().client().ephemerals("/").await.unwrap();
    assert_eq!(left, [""; 0]);
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_race_is_won_and_left_in_flight() {
    acquire_and_release_in_flight(|zk| async move {
        Race::new(&zk, "/leader", "a")?.options(&patient()).campaign().await
    })
    .await;
}

#[tokio::test]
async fn a_lease_lock_is_acquired_and_released_in_flight() {
    acquire_and_release_in_flight(|zk| async move {
        LeaseLock::new(&zk, "/lock", Duration::from_secs(60))?.options(&patient()).acquire().await
    })
    .await;
}

#[tokio::test]
async fn a_worker_id_is_leased_and_released_in_flight() {
    acquire_and_release_in_flight(
        |zk| async move { WorkerIds::new(&zk, "/ids", 0..=0)?.lease().await },
    )
    .await;
}

/// The latch gains its leadership again after the reconnect, and loses it with its node.
#[tokio::test]
async fn a_latch_whose_node_is_being_deleted_does_not_lead_in_between() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    let latch = LeaderLatch::start(&zk, "/latch", "a").unwrap();
    let term = within(latch.wait_for_leadership()).await.unwrap();
    let mut events = latch.events();
    let (deleting, path) = (fixture.observer.clone(), term.node().to_owned());
    let delete = async move { deleting.delete(&path).await };
    let (deleting, behind) = fixture.lose_reply(delete).await;
    behind.catch_up().await;
    within(deleting).await.unwrap().unwrap();
    assert!(matches!(within(events.next()).await, Some(LatchEvent::Lost)));
    let Some(LatchEvent::Gained(again)) = within(events.next()).await else { panic!() };
    assert!(again.token() > term.token());
    within(latch.close(CloseMode::Silent)).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_registers_in_flight_is_registered_once() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    let observer = &fixture.observer;
    for directory in ["/mw/workers", "/mw/assign", "/mw/tasks", "/mw/status"] {
        observer.create(directory, "").parents().await.unwrap();
    }
    let worker = Worker::new(&zk, "/mw", "w").unwrap();
    let run = async move { worker.run(|_| async { Ok("done") }).await };
    let (running, behind) = fixture.lose_reply(run).await;
    behind.catch_up().await;
    let master = Master::new(observer, "/mw").unwrap();
    let master = tokio::spawn(async move { master.run().await });
    let submitter = Submitter::new(observer, "/mw").unwrap();
    let task = within(submitter.submit("a")).await.unwrap();
    assert_eq!(within(submitter.result(&task)).await.unwrap(), Ending::Done("done".into()));
    assert_eq!(fixture.children("/mw/workers").await, ["w"]);
    running.abort();
    within(async { while !fixture.children("/mw/workers").await.is_empty() {} }).await;
    master.abort();
}

#[tokio::test]
async fn an_item_that_is_acquired_in_flight_is_known_to_its_owner() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    for directory in ["/p/members", "/p/owners"] {
        fixture.observer.create(directory, "").parents().await.unwrap();
    }
    // It acquires nothing before it has settled.
    let options = Partitioner::of(&zk, "/p", "a", ["i"]).settle(Duration::from_secs(2));
    let mut partitioner = within(options.join()).await.unwrap();
    let update = async move { (partitioner.next().await, partitioner) };
    let (acquiring, behind) = fixture.lose_reply(update).await;
    behind.catch_up().await;
    let (update, partitioner) = within(acquiring).await.unwrap();
    let Some(Update::Acquired(items)) = update else { panic!("{update:?}") };
    let owner = fixture.observer.get("/p/owners/i").await.unwrap();
    assert_eq!(u64::try_from(owner.stat.czxid.0), Ok(items[0].token));
    within(partitioner.leave()).await;
    assert_eq!(fixture.children("/p/owners").await, [""; 0]);
}

#[tokio::test]
async fn a_member_leaves_a_double_barrier_in_flight() {
    let fixture = Fixture::start().await;
    let zk = fixture.client().await;
    let barrier = |zk: &Client| DoubleBarrier::new(zk, "/b", 2).unwrap();
    let (one, two) = (barrier(&zk), barrier(&fixture.observer));
    let (one, two) = within(async { tokio::join!(one.enter(), two.enter()) }).await;
    let (one, two) = (one.unwrap(), two.unwrap());
    // The lowest one deletes its node when all others have.
    if one.path() < two.path() {
        let path = two.path().to_owned();
        let second = tokio::spawn(two.leave());
        within(async { while fixture.observer.exists(&path).await.unwrap().is_some() {} }).await;
        let (leaving, behind) = fixture.lose_reply(one.leave()).await;
        behind.catch_up().await;
        within(leaving).await.unwrap().unwrap();
        within(second).await.unwrap().unwrap();
    } else {
        let (leaving, behind) = fixture.lose_reply(one.leave()).await;
        behind.catch_up().await;
        within(two.leave()).await.unwrap();
        within(leaving).await.unwrap().unwrap();
    }
    assert_eq!(fixture.children("/b").await, [""; 0]);
}
