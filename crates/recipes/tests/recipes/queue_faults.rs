//! Four producers and four consumers, whose connections are cut and whose sessions end at random.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use herdsman_client::{Client, Outcome};
use herdsman_recipes::queue::{Queue, WorkQueue};
use herdsman_recipes::{Error, Result};
use herdsman_testing::{TestProxy, TestServer};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::common::{client, client_behind, within};

const WORKERS: usize = 4;
const FAULTS: usize = 25;
const STOP: &str = "stop";

/// What happened to each item, by its text.
#[derive(Default)]
struct Records {
    offered: Mutex<BTreeMap<Bytes, Outcome>>,
    /// How often each was consumed.
    consumed: Mutex<BTreeMap<Bytes, usize>>,
    /// Items that a consumer may have taken without learning of it.
    doubts: Mutex<usize>,
    /// There are no more faults.
    is_over: AtomicBool,
}

impl Records {
    fn note_offer(&self, item: &str, outcome: Outcome) {
        self.offered.lock().insert(Bytes::copy_from_slice(item.as_bytes()), outcome);
    }

    fn note_consumed(&self, item: &Bytes) {
        *self.consumed.lock().entry(item.clone()).or_default() += 1;
    }

    /// Checks that every consumed item was offered, and that every item that was certainly offered was consumed,
    /// except for up to `missing_max`.
    fn check(&self, missing_max: usize) {
        let (offered, consumed) = (self.offered.lock(), self.consumed.lock());
        for item in consumed.keys() {
            assert!(offered.contains_key(item), "{item:?} was never offered");
        }
        let sure = offered.iter().filter(|(_, outcome)| **outcome == Outcome::Applied);
        let missing: Vec<_> = sure.filter(|(item, _)| !consumed.contains_key(*item)).collect();
        assert!(missing.len() <= missing_max, "{missing:?} are lost, {missing_max} in doubt");
    }
}

/// A queue under test.
trait QueueUnderTest: Send + Sync + Sized + 'static {
    fn open(zk: &Client) -> Self;
    fn offer(&self, item: String) -> impl Future<Output = Result<()>> + Send;
    /// Consumes everything until the stop item.
    fn consume(self, records: Arc<Records>) -> impl Future<Output = ()> + Send;
    fn items_left(&self) -> impl Future<Output = usize> + Send;
}

impl QueueUnderTest for Queue {
    fn open(zk: &Client) -> Self {
        Queue::new(zk, "/q").expect("the path is valid")
    }

    async fn offer(&self, item: String) -> Result<()> {
        Queue::offer(self, item).await
    }

    async fn consume(self, records: Arc<Records>) {
        loop {
            match self.take().await {
                Ok(item) if item == STOP => return,
                Ok(item) => records.note_consumed(&item),
                Err(error) if error.outcome() == Outcome::Unknown => *records.doubts.lock() += 1,
                Err(error) => assert!(matches!(error, Error::Client(_)), "{error}"),
            }
        }
    }

    async fn items_left(&self) -> usize {
        self.len().await.expect("there are no more faults")
    }
}

impl QueueUnderTest for WorkQueue {
    fn open(zk: &Client) -> Self {
        WorkQueue::new(zk, "/q").expect("the path is valid")
    }

    async fn offer(&self, item: String) -> Result<()> {
        WorkQueue::offer(self, item).await
    }

    async fn consume(self, records: Arc<Records>) {
        loop {
            let item = match self.take().await {
                Ok(item) => item,
                Err(error) => {
                    assert!(matches!(error, Error::Client(_)), "{error}");
                    continue;
                }
            };
            let is_stop = item.payload() == STOP;
            if !is_stop {
                records.note_consumed(item.payload());
            }
            match item.done().await {
                Ok(()) if is_stop => return,
                Ok(()) => {}
                Err(_) => *records.doubts.lock() += 1,
            }
        }
    }

    async fn items_left(&self) -> usize {
        self.len().await.expect("there are no more faults")
    }
}

/// Offers until it succeeds or its outcome is unknown.
async fn offer_until_known(queue: &impl QueueUnderTest, item: &str) -> Outcome {
    loop {
        match queue.offer(item.to_owned()).await {
            Ok(()) => return Outcome::Applied,
            Err(error) if error.outcome() == Outcome::Unknown => return Outcome::Unknown,
            Err(error) => assert!(matches!(error, Error::Client(_)), "{error}"),
        }
    }
}

/// Cuts all connections repeatedly, each time after a number of requests that the seed decides, and occasionally ends
/// a session.
async fn inject_faults(server: &TestServer, proxy: &TestProxy, clients: &[Client], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..FAULTS {
        let enough = proxy.traffic().requests_in_all() + random.usize(1..40);
        proxy.until(|traffic| traffic.requests_in_all() >= enough).await;
        match random.u8(..10) {
            0 => {
                let session = clients[random.usize(..clients.len())].session().id();
                if server.has_session(session) {
                    server.expire_session(session);
                }
            }
            1..5 => proxy.cut(),
            _ => proxy.reset(),
        }
    }
}

/// Offers items as long as there are faults.
async fn produce(queue: impl QueueUnderTest, producer: usize, records: Arc<Records>) {
    for number in 0.. {
        let item = format!("{producer}-{number}");
        let outcome = offer_until_known(&queue, &item).await;
        records.note_offer(&item, outcome);
        if records.is_over.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Runs producers and consumers with faults, then without until all is consumed.
async fn run_with_faults<Q: QueueUnderTest>(seed: u64) -> Arc<Records> {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let records = Arc::new(Records::default());
    let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
    let mut clients = Vec::new();
    for worker in 0..WORKERS {
        let (producer, consumer) = (client_behind(&proxy).await, client_behind(&proxy).await);
        producers.spawn(produce(Q::open(&producer), worker, records.clone()));
        consumers.spawn(Q::open(&consumer).consume(records.clone()));
        clients.extend([producer, consumer]);
    }
    within(inject_faults(&server, &proxy, &clients, seed)).await;
    records.is_over.store(true, Ordering::Release);
    within(producers.join_all()).await;
    let without_faults = Q::open(&client(&server).await);
    for _ in 0..WORKERS {
        without_faults.offer(STOP.to_owned()).await.expect("there are no more faults");
    }
    within(consumers.join_all()).await;
    assert_eq!(without_faults.items_left().await, 0);
    records
}

#[tokio::test]
async fn at_most_once_never_delivers_twice_and_loses_only_what_it_reports() {
    for seed in [1, 2] {
        let records = run_with_faults::<Queue>(seed).await;
        records.check(*records.doubts.lock());
        let consumed = records.consumed.lock();
        let twice: Vec<_> = consumed.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "delivered more than once: {twice:?}");
    }
}

/// An item is delivered again only if its consumer could not report that it was done.
#[tokio::test]
async fn at_least_once_delivers_everything() {
    for seed in [3, 4] {
        let records = run_with_faults::<WorkQueue>(seed).await;
        records.check(0);
        let again: usize = records.consumed.lock().values().map(|count| count - 1).sum();
        assert!(again <= *records.doubts.lock(), "{again} were delivered again without a reason");
    }
}
