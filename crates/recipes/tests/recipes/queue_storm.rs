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

use crate::world::{client, client_behind, within};

const WORKERS: usize = 4;
const BLOWS: usize = 25;
const STOP: &str = "stop";

/// What was done with each item, by its text.
#[derive(Default)]
struct Ledger {
    offered: Mutex<BTreeMap<Bytes, Outcome>>,
    /// How often each was consumed.
    consumed: Mutex<BTreeMap<Bytes, usize>>,
    /// Items that a consumer may have taken without learning of it.
    doubts: Mutex<usize>,
    /// The storm is over.
    is_calm: AtomicBool,
}

impl Ledger {
    fn note_offer(&self, item: &str, outcome: Outcome) {
        self.offered.lock().insert(Bytes::copy_from_slice(item.as_bytes()), outcome);
    }

    fn note_consumed(&self, item: &Bytes) {
        *self.consumed.lock().entry(item.clone()).or_default() += 1;
    }

    /// Nothing comes from nowhere, and what was surely offered was consumed, except as many as say
    /// so.
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

/// A queue in the storm.
trait Stormed: Send + Sync + Sized + 'static {
    fn open(zk: &Client) -> Self;
    fn offer(&self, item: String) -> impl Future<Output = Result<()>> + Send;
    /// Consumes everything until it is told to stop.
    fn consume(self, ledger: Arc<Ledger>) -> impl Future<Output = ()> + Send;
    fn items_left(&self) -> impl Future<Output = usize> + Send;
}

impl Stormed for Queue {
    fn open(zk: &Client) -> Self {
        Queue::new(zk, "/q").expect("the path is valid")
    }

    async fn offer(&self, item: String) -> Result<()> {
        Queue::offer(self, item).await
    }

    async fn consume(self, ledger: Arc<Ledger>) {
        loop {
            match self.take().await {
                Ok(item) if item == STOP => return,
                Ok(item) => ledger.note_consumed(&item),
                Err(error) if error.outcome() == Outcome::Unknown => *ledger.doubts.lock() += 1,
                Err(error) => assert!(matches!(error, Error::Client(_)), "{error}"),
            }
        }
    }

    async fn items_left(&self) -> usize {
        self.len().await.expect("the storm is over")
    }
}

impl Stormed for WorkQueue {
    fn open(zk: &Client) -> Self {
        WorkQueue::new(zk, "/q").expect("the path is valid")
    }

    async fn offer(&self, item: String) -> Result<()> {
        WorkQueue::offer(self, item).await
    }

    async fn consume(self, ledger: Arc<Ledger>) {
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
                ledger.note_consumed(item.payload());
            }
            match item.done().await {
                Ok(()) if is_stop => return,
                Ok(()) => {}
                Err(_) => *ledger.doubts.lock() += 1,
            }
        }
    }

    async fn items_left(&self) -> usize {
        self.len().await.expect("the storm is over")
    }
}

/// Offers until it is done or in doubt.
async fn offer_surely(queue: &impl Stormed, item: &str) -> Outcome {
    loop {
        match queue.offer(item.to_owned()).await {
            Ok(()) => return Outcome::Applied,
            Err(error) if error.outcome() == Outcome::Unknown => return Outcome::Unknown,
            Err(error) => assert!(matches!(error, Error::Client(_)), "{error}"),
        }
    }
}

/// Cuts all connections again and again, each time after a number of requests that the seed decides,
/// and now and then ends a session.
async fn rage(server: &TestServer, proxy: &TestProxy, clients: &[Client], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..BLOWS {
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

/// Offers items as long as the storm lasts.
async fn produce(queue: impl Stormed, producer: usize, ledger: Arc<Ledger>) {
    for number in 0.. {
        let item = format!("{producer}-{number}");
        let outcome = offer_surely(&queue, &item).await;
        ledger.note_offer(&item, outcome);
        if ledger.is_calm.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Producers and consumers in a storm, then calm until all is consumed.
async fn storm<Q: Stormed>(seed: u64) -> Arc<Ledger> {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let ledger = Arc::new(Ledger::default());
    let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
    let mut clients = Vec::new();
    for worker in 0..WORKERS {
        let (producer, consumer) = (client_behind(&proxy).await, client_behind(&proxy).await);
        producers.spawn(produce(Q::open(&producer), worker, ledger.clone()));
        consumers.spawn(Q::open(&consumer).consume(ledger.clone()));
        clients.extend([producer, consumer]);
    }
    within(rage(&server, &proxy, &clients, seed)).await;
    ledger.is_calm.store(true, Ordering::Release);
    within(producers.join_all()).await;
    let calm = Q::open(&client(&server).await);
    for _ in 0..WORKERS {
        calm.offer(STOP.to_owned()).await.expect("the storm is over");
    }
    within(consumers.join_all()).await;
    assert_eq!(calm.items_left().await, 0);
    ledger
}

#[tokio::test]
async fn at_most_once_never_delivers_twice_and_loses_only_what_it_says() {
    for seed in [1, 2] {
        let ledger = storm::<Queue>(seed).await;
        ledger.check(*ledger.doubts.lock());
        let consumed = ledger.consumed.lock();
        let twice: Vec<_> = consumed.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "delivered more than once: {twice:?}");
    }
}

/// An item comes again only if its consumer could not say that it was done.
#[tokio::test]
async fn at_least_once_delivers_everything() {
    for seed in [3, 4] {
        let ledger = storm::<WorkQueue>(seed).await;
        ledger.check(0);
        let again: usize = ledger.consumed.lock().values().map(|count| count - 1).sum();
        assert!(again <= *ledger.doubts.lock(), "{again} came again without a reason");
    }
}
