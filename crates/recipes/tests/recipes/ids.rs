//! Ids of all four kinds: never the same one twice, whatever happens to connections and sessions.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::ids::{
    IdGenerator, RandomUuids, SegmentedIds, SequentialIds, SnowflakeIds, TimeOrderedUuids,
};
use herdsman_recipes::snowflake::{Snowflake, SnowflakeError};
use herdsman_recipes::{AtomicLong, Error, WorkerIds};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};

use crate::common::{client, client_behind, eventually, within};

const EPOCH_MS: u64 = 1_735_689_600_000;
const CLIENTS: usize = 8;

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn snowflakes(zk: &Client) -> SnowflakeIds {
    SnowflakeIds::new(WorkerIds::new(zk, "/ids/flakes", 0..=1023).unwrap(), EPOCH_MS).unwrap()
}

/// Cuts connections before randomly chosen requests and replies.
fn cut_at_random(proxy: &TestProxy, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut skip = 0;
    for _ in 0..60 {
        skip += random.usize(1..25);
        let fault = if random.bool() { Fault::CutBeforeReply } else { Fault::CutBeforeRequest };
        proxy.add_rule(Rule::new(fault).skip(skip));
    }
}

/// Eight clients generate ids concurrently while connections are cut.
async fn check_uniqueness<G: IdGenerator + 'static>(make: impl Fn(&Client) -> G, ids_each: usize) {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let mut generators = Vec::new();
    for _ in 0..CLIENTS {
        generators.push(make(&client_behind(&proxy).await));
    }
    let seed = 42;
    cut_at_random(&proxy, seed);
    let mut makers = Vec::new();
    for generator in generators {
        makers.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            while ids.len() < ids_each {
                // A cut may end a call with an error; the id is then wasted.
                ids.extend(generator.next().await.ok());
            }
            ids
        }));
    }
    let mut all = BTreeSet::new();
    for maker in makers {
        for id in within(maker).await.unwrap() {
            assert!(all.insert(id), "{id} twice (seed {seed})");
        }
    }
    assert_eq!(all.len(), CLIENTS * ids_each);
}

#[tokio::test]
async fn sequential_ids_are_unique_under_random_cuts() {
    check_uniqueness(|zk| SequentialIds::new(zk, "/ids/sequential"), 20).await;
}

#[tokio::test]
async fn segmented_ids_are_unique_under_random_cuts() {
    check_uniqueness(|zk| SegmentedIds::new(zk, "/ids/segmented", 3).unwrap(), 80).await;
}

#[tokio::test]
async fn snowflake_ids_are_unique_under_random_cuts() {
    check_uniqueness(snowflakes, 2000).await;
}

/// Nine worker ids for eight clients that take one, use it for a moment and release it.
#[tokio::test]
async fn snowflake_ids_are_unique_while_worker_ids_change_owners() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client_behind(&proxy).await);
    }
    cut_at_random(&proxy, 7);
    let mut makers = Vec::new();
    for zk in clients {
        makers.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..6 {
                let workers = WorkerIds::new(&zk, "/w", 0..=8).unwrap();
                let generator = SnowflakeIds::new(workers, EPOCH_MS).unwrap();
                let enough = ids.len() + 200;
                while ids.len() < enough {
                    ids.extend(generator.next().await.ok());
                }
            }
            ids
        }));
    }
    let mut all = BTreeSet::new();
    for maker in makers {
        for id in within(maker).await.unwrap() {
            assert!(all.insert(id), "{id} twice");
        }
    }
}

/// Owners are distinguished by their tokens; two owners at the same time would be two ephemerals at one path.
#[tokio::test]
async fn a_worker_id_never_has_two_owners_while_sessions_end() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut until_ms = 0;
    let mut token = 0;
    for round in 1..=5 {
        let owner = client(&server).await;
        let lease = within(WorkerIds::new(&owner, "/w", 0..=0).unwrap().lease()).await.unwrap();
        assert_eq!(lease.used_before_ms(), until_ms, "all that was reserved is respected");
        assert!(lease.token() > token);
        let refused = within(WorkerIds::new(&zk, "/w", 0..=0).unwrap().lease()).await;
        assert_eq!(refused.unwrap_err(), Error::Full { limit: 1 });
        until_ms = 1000 * round;
        token = lease.token();
        within(lease.reserve_until(until_ms)).await.unwrap();
        server.expire_session(owner.session().id());
    }
}

#[tokio::test]
async fn uuids_are_unique() {
    check_uniqueness(|_| RandomUuids, 500).await;
    check_uniqueness(|_| TimeOrderedUuids, 500).await;
}

#[tokio::test]
async fn sequential_ids_count_over_all_clients_and_leave_no_nodes() {
    let mut server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, unlucky) = (client(&server).await, client_behind(&proxy).await);
    let (ours, theirs) = (SequentialIds::new(&zk, "/t"), SequentialIds::new(&unlucky, "/t"));
    assert_eq!((ours.next().await, theirs.next().await), (Ok(0), Ok(1)));
    let lost = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    assert_eq!((within(theirs.next()).await, lost.fired()), (Ok(2), 1));
    server.restart();
    assert_eq!(within(ours.next()).await, Ok(3), "the count survives");
    server.expire_session(unlucky.session().id());
    let id = within(async {
        loop {
            if let Ok(id) = theirs.next().await {
                break id;
            }
        }
    });
    assert!(id.await >= 4);
    within(async { while !zk.children("/t").await.unwrap().names.is_empty() {} }).await;
    let bad = SequentialIds::new(&zk, "t").next().await.unwrap_err();
    assert!(matches!(bad.client_kind(), Some(ErrorKind::InvalidPath(_))));
}

#[tokio::test]
async fn segments_are_shared_with_a_counter_in_curators_layout() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let counter = AtomicLong::new(&zk, "/ids");
    counter.initialize(1000).await.unwrap();
    let ids = SegmentedIds::new(&zk, "/ids", 10).unwrap();
    assert_eq!(ids.next().await, Ok(1000));
    assert_eq!(counter.get().await, Ok(1010));
    counter.add(5).await.unwrap();
    let mut taken = Vec::new();
    while taken.last() != Some(&1024) {
        taken.push(within(ids.next()).await.unwrap());
    }
    let expected: Vec<u64> = (1001..1010).chain(1015..1025).collect();
    assert_eq!(taken, expected, "those that another took are left out");
}

#[tokio::test]
async fn the_next_segment_is_fetched_before_it_is_needed() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let ids = SegmentedIds::new(&client_behind(&proxy).await, "/ids", 100).unwrap();
    for _ in 0..75 {
        within(ids.next()).await.unwrap();
    }
    eventually(|| ids.remaining() == 125).await;
    // These need no server.
    proxy.refuse_connections();
    proxy.cut();
    for _ in 0..125 {
        within(ids.next()).await.unwrap();
    }
    proxy.accept_connections();
    assert!(within(ids.next()).await.unwrap() >= 200);
}

#[tokio::test]
async fn a_lost_reply_wastes_a_segment_and_repeats_none() {
    let mut server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let first = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    let ids = SegmentedIds::new(&zk, "/ids", 10).unwrap();
    assert_eq!(within(ids.next()).await, Ok(10), "0 to 9 are wasted");
    assert_eq!(first.fired(), 1);
    server.restart();
    let others = SegmentedIds::new(&zk, "/ids", 10).unwrap();
    let lost = proxy.once(OpCode::SetData, Fault::CutBeforeReply);
    assert_eq!(within(others.next()).await, Ok(30), "20 to 29 are wasted");
    assert_eq!(lost.fired(), 1);
}

#[tokio::test]
async fn segments_refuse_what_would_repeat_ids() {
    let server = TestServer::start();
    let zk = client(&server).await;
    assert!(matches!(SegmentedIds::new(&zk, "/ids", 0), Err(Error::InvalidArgument(_))));
    let ids = SegmentedIds::new(&zk, "/ids", 1).unwrap();
    let counter = AtomicLong::new(&zk, "/ids");
    for bad in [-1, i64::MAX] {
        counter.set(bad).await.unwrap();
        assert!(matches!(ids.next().await, Err(Error::Codec { .. })), "{bad}");
        assert_eq!(counter.get().await, Ok(bad));
    }
    counter.set(5).await.unwrap();
    let mut last = ids.next().await.unwrap();
    assert_eq!(last, 5);
    counter.set(0).await.unwrap();
    // One more may be fetched already.
    let refused = within(async {
        loop {
            match ids.next().await {
                Ok(id) => {
                    assert!(id > last);
                    last = id;
                }
                Err(error) => break error,
            }
        }
    });
    assert!(matches!(refused.await, Error::Codec { .. }));
}

#[tokio::test]
async fn worker_ids_are_the_smallest_free_ones_and_run_out() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/w/workers/README", "foreign").parents().await.unwrap();
    let mut leases = Vec::new();
    for _ in 0..CLIENTS {
        let workers = WorkerIds::new(&client(&server).await, "/w", 3..=10).unwrap();
        leases.push(tokio::spawn(async move { workers.lease().await }));
    }
    let mut held = Vec::new();
    for lease in leases {
        held.push(within(lease).await.unwrap().unwrap());
    }
    held.sort_by_key(|lease| lease.id());
    let ids: Vec<u16> = held.iter().map(|lease| lease.id()).collect();
    assert_eq!(ids, (3..=10).collect::<Vec<_>>());
    let workers = WorkerIds::new(&zk, "/w", 3..=10).unwrap();
    let refused = within(workers.lease()).await.unwrap_err();
    assert_eq!(refused.to_string(), "full: the limit is 8");
    within(held.remove(4).release()).await.unwrap();
    let again = within(workers.lease()).await.unwrap();
    assert_eq!(again.id(), 7);
    drop((again, held));
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

#[tokio::test]
async fn bad_worker_ranges_and_identities_are_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let empty = WorkerIds::new(&zk, "/w", 5..=4);
    assert!(matches!(empty, Err(Error::InvalidArgument(_))));
    let workers = WorkerIds::new(&zk, "/w", 0..=1024).unwrap();
    for identity in ["", "a/b", "..", "\0"] {
        let refused = workers.clone().identity(identity);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{identity:?}");
    }
    let refused = SnowflakeIds::new(workers, EPOCH_MS).unwrap_err();
    assert_eq!(refused.to_string(), "worker ids up to 1024; those of snowflakes end at 1023");
    let bad = WorkerIds::new(&zk, "w", 0..=1).unwrap().lease().await.unwrap_err();
    assert!(matches!(bad.client_kind(), Some(ErrorKind::InvalidPath(_))));
    assert_eq!(zk.children("/").await.unwrap().names, ["zookeeper"]);
}

#[tokio::test]
async fn a_lost_reply_leases_one_worker_id() {
    for fault in [Fault::CutBeforeReply, Fault::CutBeforeRequest] {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let workers = WorkerIds::new(&zk, "/w", 0..=3).unwrap();
        let lost = proxy.once(OpCode::Multi, fault);
        let lease = within(workers.lease()).await.unwrap();
        assert_eq!((lease.id(), lost.fired()), (0, 1));
        assert_eq!(server.ephemerals(zk.session().id()), ["/w/workers/0"]);
        let lost = proxy.once(OpCode::SetData, fault);
        within(lease.reserve_until(500)).await.unwrap();
        assert_eq!((lease.reserved_until_ms(), lost.fired()), (500, 1));
        let lost = proxy.once(OpCode::Multi, fault);
        // A reply that is lost leaves open whether we released it or had lost it before.
        let _ = within(lease.release()).await;
        assert_eq!(lost.fired(), 1);
        assert!(server.ephemerals(zk.session().id()).is_empty());
    }
}

#[tokio::test]
async fn a_late_release_does_not_hit_the_next_owner() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (ours, theirs) = (client_behind(&proxy).await, client(&server).await);
    let lease = within(WorkerIds::new(&ours, "/w", 0..=0).unwrap().lease()).await.unwrap();
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    proxy.refuse_connections();
    let releasing = tokio::spawn(lease.release());
    within(lost.until_fired()).await;
    let workers = WorkerIds::new(&theirs, "/w", 0..=0).unwrap();
    let next = within(async {
        loop {
            if let Ok(lease) = workers.lease().await {
                break lease;
            }
        }
    })
    .await;
    proxy.accept_connections();
    let _ = within(releasing).await.unwrap();
    assert_eq!(server.ephemerals(theirs.session().id()), ["/w/workers/0"]);
    assert!(next.is_trusted());
}

#[tokio::test]
async fn a_lost_worker_id_cannot_reserve_more_time() {
    let server = TestServer::start();
    let (ours, theirs) = (client(&server).await, client(&server).await);
    let old = within(WorkerIds::new(&ours, "/w", 0..=0).unwrap().lease()).await.unwrap();
    old.reserve_until(1000).await.unwrap();
    server.expire_session(ours.session().id());
    let new = within(WorkerIds::new(&theirs, "/w", 0..=0).unwrap().lease()).await.unwrap();
    assert_eq!((new.id(), new.used_before_ms()), (0, 1000));
    assert!(new.token() > old.token());
    assert_eq!(within(old.reserve_until(2000)).await, Err(Error::Lost));
    within(old.lost()).await;
    assert!(!old.is_trusted());
    new.reserve_until(2000).await.unwrap();
    assert_eq!(within(old.release()).await, Err(Error::Lost));
    assert!(new.is_trusted());
    within(new.release()).await.unwrap();
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_worker_id_survives_a_restart_of_the_server() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let lease = within(WorkerIds::new(&zk, "/w", 0..=3).unwrap().lease()).await.unwrap();
    server.restart();
    within(lease.reserve_until(77)).await.unwrap();
    let other = within(WorkerIds::new(&zk, "/w", 0..=3).unwrap().lease()).await.unwrap();
    assert_eq!((lease.id(), other.id()), (0, 1));
}

#[tokio::test]
async fn an_identity_gets_its_worker_id_again() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let workers = WorkerIds::new(&zk, "/w", 0..=9).unwrap();
    let named = workers.clone().identity("host-7").unwrap();
    let first = within(workers.lease()).await.unwrap();
    let sticky = within(named.lease()).await.unwrap();
    assert_eq!(sticky.id(), 1);
    within(sticky.release()).await.unwrap();
    within(first.release()).await.unwrap();
    let sticky = within(named.lease()).await.unwrap();
    assert_eq!(sticky.id(), 1, "although 0 is free");
    let twin = within(named.lease()).await.unwrap();
    assert_eq!(twin.id(), 0, "never two owners");
}

#[tokio::test]
async fn a_worker_whose_session_ended_continues_with_another_lease() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let ids = snowflakes(&zk);
    let mut all = BTreeSet::new();
    for _ in 0..3 {
        for _ in 0..100 {
            assert!(all.insert(within(ids.next()).await.unwrap()));
        }
        let session = zk.session().id();
        server.expire_session(session);
        eventually(|| zk.session().id() != session).await;
        let id = within(async {
            loop {
                if let Ok(id) = ids.next().await {
                    break id;
                }
            }
        });
        assert!(all.insert(id.await));
    }
}

#[tokio::test]
async fn a_worker_id_begins_after_the_time_of_its_last_owner() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let used_ms = now_ms() + 300;
    zk.create("/w/times/0", used_ms.to_string()).parents().await.unwrap();
    let workers = WorkerIds::new(&zk, "/w", 0..=0).unwrap();
    let ids = SnowflakeIds::new(workers, EPOCH_MS).unwrap();
    let id = within(ids.next()).await.unwrap();
    let parts = Snowflake::decompose(id, EPOCH_MS).unwrap();
    assert!(parts.unix_ms > used_ms, "{} {used_ms}", parts.unix_ms);
    assert_eq!((parts.worker_id, ids.worker_id()), (0, Some(0)));
}

#[tokio::test]
async fn a_time_far_ahead_is_refused_or_another_worker_id_is_taken() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let used_ms = now_ms() + 3_600_000;
    zk.create("/w/times/0", used_ms.to_string()).parents().await.unwrap();
    let only = WorkerIds::new(&zk, "/w", 0..=0).unwrap();
    let refused = SnowflakeIds::new(only, EPOCH_MS).unwrap().next().await.unwrap_err();
    assert!(matches!(refused, Error::Snowflake(SnowflakeError::ClockWentBack { .. })));
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
    let more = WorkerIds::new(&zk, "/w", 0..=1).unwrap();
    let ids = SnowflakeIds::new(more, EPOCH_MS).unwrap();
    within(ids.next()).await.unwrap();
    assert_eq!(ids.worker_id(), Some(1));
    zk.create("/v/times/0", "soon").parents().await.unwrap();
    let unreadable = WorkerIds::new(&zk, "/v", 0..=0).unwrap().lease().await.unwrap_err();
    assert!(matches!(unreadable, Error::Codec { .. }));
}
