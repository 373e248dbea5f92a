//! The exclusive locks when replies are lost, sessions end and servers stop.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt as _;
use herdsman_client::{Client, ErrorKind, Op};
use herdsman_recipes::queue::WorkQueue;
use herdsman_recipes::worker_id::WorkerIds;
use herdsman_recipes::{
    Error, HoldOptions, Layout, LeaseLock, Lock, LockGuard, LostWhen, NaiveLock, Race, Result,
};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer, expire_session};

use crate::common::{client, client_behind, eventually, within};
use crate::lock::{nodes, until_nodes, waiting};

const FAULTS: [Fault; 2] = [Fault::CutBeforeReply, Fault::CutBeforeRequest];
const PATH: &str = "/locks/a";

/// One run of a sweep: a client behind a proxy that breaks the connection once, and a path that no other run uses, so
/// that parents have to be created each time.
pub struct Run<'s> {
    pub server: &'s TestServer,
    pub proxy: TestProxy,
    pub zk: Client,
    pub path: String,
}

impl Run<'_> {
    /// The nodes of the client's session.
    pub fn own_nodes(&self) -> Vec<String> {
        self.server.ephemerals(self.zk.session().id())
    }
}

/// Runs `cycle` repeatedly, with the connection cut at its first request, at its second, and so on, until it ends
/// before the cut.
pub async fn sweep(cycle: impl AsyncFn(&Run<'_>)) {
    let server = TestServer::start();
    for fault in FAULTS {
        for skipped in 0.. {
            let proxy = TestProxy::start(server.address());
            let zk = client_behind(&proxy).await;
            let path = format!("/locks/{fault:?}/{skipped}");
            let run = Run { server: &server, proxy, zk, path };
            let rule = run.proxy.add_rule(Rule::new(fault).skip(skipped));
            within(cycle(&run)).await;
            eventually(|| run.own_nodes().is_empty()).await;
            if rule.fired() == 0 {
                assert!(skipped > 2, "it has made {skipped} requests in all");
                break;
            }
        }
    }
    eventually(|| server.watch_count() == 0).await;
}

/// Checks that another client gets the lock.
async fn is_free(run: &Run<'_>, layout: Layout) {
    let other = client(run.server).await;
    let lock = Lock::new(&other, &run.path).unwrap().layout(layout);
    within(lock.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_cut_at_any_request_leaves_one_node_or_none() {
    for layout in [Layout::Curator, Layout::Kazoo] {
        sweep(async |run| {
            let lock = Lock::new(&run.zk, &run.path).unwrap().layout(layout);
            let guard = lock.acquire().await.unwrap();
            assert_eq!(run.own_nodes(), [guard.path()]);
            guard.release().await.unwrap();
            assert_eq!(run.own_nodes(), [""; 0]);
            is_free(run, layout).await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_cut_at_any_request_of_a_waiter_leaves_one_node_or_none() {
    sweep(async |run| {
        let other = client(run.server).await;
        let held = Lock::new(&other, &run.path).unwrap().acquire().await.unwrap();
        let waiter = waiting(&other, &Lock::new(&run.zk, &run.path).unwrap()).await;
        held.release().await.unwrap();
        let guard = waiter.await.unwrap();
        assert_eq!(run.own_nodes(), [guard.path()]);
        guard.release().await.unwrap();
        is_free(run, Layout::Curator).await;
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_an_attempt_leaves_one_node_or_none() {
    sweep(async |run| {
        let lock = Lock::new(&run.zk, &run.path).unwrap();
        let guard = lock.try_acquire().await.unwrap().expect("no other contender");
        assert_eq!(run.own_nodes(), [guard.path()]);
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert_eq!(run.own_nodes(), [guard.path()]);
        drop(guard);
        is_free(run, Layout::Curator).await;
    })
    .await;
}

#[tokio::test]
async fn a_cut_at_any_request_of_the_naive_lock_leaves_one_node_or_none() {
    sweep(async |run| {
        let lock = NaiveLock::new(&run.zk, &run.path).unwrap();
        let guard = lock.acquire().await.unwrap();
        assert_eq!(lock_nodes(run).await, [run.path.as_str()]);
        guard.release().await.unwrap();
        assert_eq!(run.own_nodes(), [""; 0]);
        let other = client(run.server).await;
        let other = NaiveLock::new(&other, &run.path).unwrap();
        let held = within(other.acquire()).await.unwrap();
        // A late deletion by the first one must not hit the second one's node.
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert!(held.lost().now_or_never().is_none() && held.is_trusted());
        held.release().await.unwrap();
    })
    .await;
}

/// Returns the nodes of the client's session, without the markers, of which there is one for each lock.
async fn lock_nodes(run: &Run<'_>) -> Vec<String> {
    let (markers, nodes): (Vec<_>, Vec<_>) =
        run.own_nodes().into_iter().partition(|path| path.contains("-fence/"));
    assert_eq!(markers.len(), nodes.len());
    nodes
}

#[tokio::test]
async fn a_cut_at_any_request_of_the_lease_lock_leaves_one_node_or_none() {
    sweep(async |run| {
        let lock = LeaseLock::new(&run.zk, &run.path, Duration::from_secs(60)).unwrap();
        let guard = lock.acquire().await.unwrap();
        assert_eq!(lock_nodes(run).await, [run.path.as_str()]);
        guard.renew().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(run.own_nodes(), [""; 0]);
        let other = client(run.server).await;
        let short = LeaseLock::new(&other, &run.path, Duration::from_millis(1)).unwrap();
        let former = within(short.acquire()).await.unwrap();
        // The lease has expired, and the lock was not released.
        let guard = within(lock.acquire()).await.unwrap();
        assert_eq!(lock_nodes(run).await, [run.path.as_str()]);
        assert!(guard.token() > former.token());
        assert_eq!(former.renew().await, Err(Error::Lost));
        assert_eq!(former.release().await, Err(Error::Lost));
        guard.renew().await.unwrap();
        drop(guard);
    })
    .await;
}

/// The node is deleted by hand, and the next holder creates it again; or the same session holds it again.
#[tokio::test]
async fn a_fence_identifies_its_holder_and_not_only_the_path() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    one.create("/data", "0").await.unwrap();
    let former = NaiveLock::new(&one, "/running").unwrap().acquire().await.unwrap();
    former.fenced().set("/data", "1").await.unwrap();
    two.delete("/running").await.unwrap();
    assert_eq!(kind(former.fenced().set("/data", "x").await), ErrorKind::Deposed);
    let lock = NaiveLock::new(&two, "/running").unwrap();
    let held = lock.acquire().await.unwrap();
    assert_eq!(kind(former.fenced().set("/data", "x").await), ErrorKind::Deposed);
    held.fenced().set("/data", "2").await.unwrap();
    let straggler = held.fenced();
    held.release().await.unwrap();
    let again = lock.acquire().await.unwrap();
    assert_eq!(kind(straggler.set("/data", "x").await), ErrorKind::Deposed);
    again.fenced().set("/data", "3").await.unwrap();
    assert_eq!(two.get("/data").await.unwrap().data, "3");
    drop((former, again));
    eventually(|| server.ephemerals(one.session().id()).is_empty()).await;
    eventually(|| server.ephemerals(two.session().id()).is_empty()).await;
}

fn kind<T: std::fmt::Debug>(result: herdsman_client::Result<T>) -> ErrorKind {
    result.unwrap_err().kind().clone()
}

#[tokio::test]
async fn a_lease_that_is_renewed_is_not_taken_over() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    one.create("/data", "0").await.unwrap();
    let lease = Duration::from_secs(2);
    let held = LeaseLock::new(&one, "/l", lease).unwrap().acquire().await.unwrap();
    assert!(held.is_trusted());
    let other = LeaseLock::new(&two, "/l", lease).unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { other.acquire().await });
    for _ in 0..4 {
        let before = held.expires_at();
        tokio::time::sleep(lease / 3).await;
        // On a machine that was paused for a lease, the lock may have been taken over.
        if held.renew().await.is_ok() {
            assert!(held.expires_at() > before && !waiting.is_finished());
        }
    }
    let next = within(waiting).await.unwrap().unwrap();
    within(held.lost()).await;
    assert!(!held.is_trusted() && next.token() > held.token());
    assert_eq!(kind(held.fenced().set("/data", "x").await), ErrorKind::Deposed);
    assert_eq!(held.run(std::future::pending::<()>()).await, Err(Error::Lost));
    next.fenced().set("/data", "1").await.unwrap();
    drop(held);
    eventually(|| server.ephemerals(one.session().id()).is_empty()).await;
    assert!(next.is_trusted());
    next.release().await.unwrap();
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn bad_leases_are_refused() {
    let server = TestServer::start();
    let zk = client(&server).await;
    assert!(LeaseLock::new(&zk, "/l", Duration::ZERO).is_err());
    assert!(LeaseLock::new(&zk, "/", Duration::from_secs(1)).is_err());
    zk.create("/l", "not a lease").ephemeral().await.unwrap();
    let lock = LeaseLock::new(&zk, "/l", Duration::from_secs(1)).unwrap();
    zk.create("/l-fence", "").await.unwrap();
    assert!(matches!(within(lock.acquire()).await.unwrap_err(), Error::Codec { .. }));
}

#[tokio::test]
async fn giving_up_without_a_reply_leaves_nothing_behind() {
    let server = TestServer::start();
    let other = client(&server).await;
    for fault in FAULTS {
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let cut = proxy.once(OpCode::Create2, fault);
        let fair = Lock::new(&zk, PATH).unwrap();
        let task = tokio::spawn(async move { fair.acquire().await });
        within(cut.until_fired()).await;
        task.abort();
        let cut = proxy.once(OpCode::Multi, fault);
        let naive = NaiveLock::new(&zk, "/naive").unwrap();
        let task = tokio::spawn(async move { naive.acquire().await });
        within(cut.until_fired()).await;
        task.abort();
        drop(within(Lock::new(&other, PATH).unwrap().acquire()).await.unwrap());
        drop(within(NaiveLock::new(&other, "/naive").unwrap().acquire()).await.unwrap());
        eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
    }
}

/// The claim was applied, but this cannot be recognized by the fence any more.
#[tokio::test]
async fn a_lost_reply_and_a_write_to_the_fence_leave_no_lock_of_nobody() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client_behind(&proxy).await, client(&server).await);
    let lock = NaiveLock::new(&zk, "/naive").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let lost = proxy.once(OpCode::Multi, Fault::CutBeforeReply);
    // The open connection stays until the reply is lost.
    proxy.refuse_connections();
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    within(lost.until_fired()).await;
    other.set("/naive-fence", "by hand").await.unwrap();
    proxy.accept_connections();
    within(acquiring).await.unwrap().unwrap().release().await.unwrap();
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

#[tokio::test]
async fn a_guard_dropped_outside_the_runtime_is_released() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let guard = Lock::new(&zk, PATH).unwrap().acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    until_nodes(&zk, PATH, 0).await;
    let queue = WorkQueue::new(&zk, "/queue").unwrap();
    queue.offer("a").await.unwrap();
    let held = (
        NaiveLock::new(&zk, "/naive").unwrap().acquire().await.unwrap(),
        LeaseLock::new(&zk, "/lease", Duration::from_secs(60)).unwrap().acquire().await.unwrap(),
        Race::new(&zk, "/leader", "me").unwrap().campaign().await.unwrap(),
        queue.take().await.unwrap(),
        queue,
        WorkerIds::new(&zk, "/ids", 0..=7).unwrap().lease().await.unwrap(),
    );
    assert!(!server.ephemerals(zk.session().id()).is_empty());
    std::thread::spawn(move || drop(held)).join().unwrap();
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

/// Checks what a guard does when its session has been ended.
async fn loses_its_session(lost_when: LostWhen) {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    one.create("/data", "0").await.unwrap();
    let lock = Lock::new(&one, PATH).unwrap().options(&HoldOptions::new().lost_when(lost_when));
    let guard = lock.acquire().await.unwrap();
    let next = waiting(&two, &Lock::new(&two, PATH).unwrap()).await;
    server.expire_session(guard.session().id());
    let next = within(next).await.unwrap();
    within(guard.lost()).await;
    assert!(!guard.is_trusted());
    assert!(next.token() > guard.token());
    let error = guard.fenced().set("/data", "1").await.unwrap_err();
    let refused = matches!(error.kind(), ErrorKind::Deposed | ErrorKind::SessionExpired);
    assert!(refused || *error.kind() == ErrorKind::ConnectionLoss, "{error}");
    assert_eq!(two.get("/data").await.unwrap().data, "0");
    assert_eq!(within(guard.run(std::future::pending::<()>())).await.unwrap_err(), Error::Lost);
    assert_eq!(within(guard.release()).await.unwrap_err(), Error::Lost);
    assert!(next.is_trusted());
    assert_eq!(nodes(&two, PATH).await, [next.name()]);
    // The client continues in its next session.
    let again = tokio::spawn(async move { lock.acquire().await });
    next.release().await.unwrap();
    within(again).await.unwrap().unwrap().release().await.unwrap();
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_guard_notices_the_end_of_its_session() {
    loses_its_session(LostWhen::Disconnected).await;
    loses_its_session(LostWhen::SessionTimedOut).await;
}

#[tokio::test]
async fn a_write_in_flight_when_its_holder_was_deposed_changes_nothing() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (one, two) = (client_behind(&proxy).await, client(&server).await);
    two.create("/data", "0").await.unwrap();
    let guard = Lock::new(&one, PATH).unwrap().acquire().await.unwrap();
    // The holder is paused between its decision to write and the write.
    let paused = proxy.once(OpCode::Multi, Fault::HoldRequest);
    let fenced = guard.fenced();
    let write = tokio::spawn(async move { fenced.set("/data", "1").await });
    within(proxy.until(|traffic| traffic.requests(OpCode::Multi) == 1)).await;
    two.delete(guard.path()).await.unwrap();
    let next = within(Lock::new(&two, PATH).unwrap().acquire()).await.unwrap();
    next.fenced().set("/data", "2").await.unwrap();
    paused.release();
    let error = within(write).await.unwrap().unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Deposed);
    assert_eq!(two.get("/data").await.unwrap().data, "2");
}

#[tokio::test]
async fn a_waiter_whose_session_has_ended_joins_the_line_again() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let held = Lock::new(&one, PATH).unwrap().acquire().await.unwrap();
    let waiter = waiting(&one, &Lock::new(&two, PATH).unwrap()).await;
    let session = two.session().id();
    server.expire_session(session);
    until_nodes(&one, PATH, 2).await;
    held.release().await.unwrap();
    let guard = within(waiter).await.unwrap();
    assert_ne!(guard.session().id(), session);
    assert_eq!(nodes(&one, PATH).await, [guard.name()]);
    assert!(guard.is_trusted());
}

#[tokio::test]
async fn a_waiter_that_is_bound_to_a_session_ends_with_it() {
    let server = TestServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let _held = Lock::new(&one, PATH).unwrap().acquire().await.unwrap();
    let bound = two.bound_to(&two.session());
    let lock = Lock::new(&bound, PATH).unwrap();
    let waiter = tokio::spawn(async move { lock.acquire().await });
    until_nodes(&one, PATH, 2).await;
    server.expire_session(two.session().id());
    let error = within(waiter).await.unwrap().unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::SessionExpired));
}

/// A connection that is lost with the reply to the creation, and a session that ends before the node could be found
/// again: the search sees both as one failure.
#[tokio::test]
async fn a_session_that_ends_with_the_reply_to_its_creation_is_followed_by_the_next() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    zk.create(PATH, "").parents().await.unwrap();
    let session = zk.session().id();
    let lost = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    proxy.refuse_connections();
    let lock = Lock::new(&zk, PATH).unwrap();
    let acquired = tokio::spawn(async move { lock.acquire().await });
    within(lost.until_fired()).await;
    server.expire_session(session);
    proxy.accept_connections();
    let guard = within(acquired).await.unwrap().unwrap();
    assert_ne!(guard.session().id(), session);
    assert_eq!(nodes(&zk, PATH).await, [guard.name()]);
}

/// CURATOR-604: a node that an earlier session of the same process has left is found by its name, and taken for the
/// lock.
#[tokio::test]
async fn a_node_of_an_earlier_session_is_not_trusted() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, earlier) = (client_behind(&proxy).await, client(&server).await);
    earlier.create("/locks", "").await.unwrap();
    earlier.create(PATH, "").await.unwrap();
    let lost = proxy.once(OpCode::Create2, Fault::CutBeforeReply);
    proxy.refuse_connections();
    // The open connection stays; the next one is refused.
    let lock = Lock::new(&zk, PATH).unwrap();
    let acquired = tokio::spawn(async move { lock.acquire().await });
    within(lost.until_fired()).await;
    // The node that it finds after the reconnect has the right name, but belongs to another session.
    let name = nodes(&earlier, PATH).await.pop().unwrap();
    let stale = format!("{PATH}/{name}");
    earlier.delete(&stale).await.unwrap();
    earlier.create(&stale, "").ephemeral().await.unwrap();
    proxy.accept_connections();
    let guard = within(acquired).await.unwrap().unwrap();
    assert_ne!(guard.path(), stale);
    let owner = earlier.get(guard.path()).await.unwrap().stat.ephemeral_owner;
    assert_eq!(owner, guard.session().id().0);
}

#[tokio::test]
async fn a_guard_that_may_be_suspended_survives_a_restart_of_the_server() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let lock = Lock::new(&zk, PATH)
        .unwrap()
        .options(&HoldOptions::new().lost_when(LostWhen::SessionTimedOut));
    let guard = lock.acquire().await.unwrap();
    server.restart();
    let mut lost = Box::pin(guard.lost());
    assert!(lost.as_mut().now_or_never().is_none());
    within(zk.exists(PATH).send()).await.unwrap();
    assert!(guard.is_trusted());
    assert!(lost.as_mut().now_or_never().is_none());
    drop(lost);
    assert_eq!(within(guard.run(async { 7 })).await.unwrap(), 7);
    assert_eq!(nodes(&zk, PATH).await, [guard.name()]);
    within(guard.release()).await.unwrap();
    eventually(|| server.watch_count() == 0).await;
}

#[tokio::test]
async fn a_guard_that_may_not_be_suspended_ends_with_the_connection() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let guard = Lock::new(&zk, PATH).unwrap().acquire().await.unwrap();
    proxy.refuse_connections();
    let (ran, ()) = within(async {
        let work = guard.run(std::future::pending::<()>());
        tokio::join!(work, async { proxy.cut() })
    })
    .await;
    assert_eq!(ran.unwrap_err(), Error::Lost);
    assert!(!guard.is_trusted());
    // It was only a short break: the same session continues, and so does the same node.
    proxy.accept_connections();
    within(zk.exists("/").send()).await.unwrap();
    assert!(guard.is_trusted());
    guard.release().await.unwrap();
}

/// Ends a guard during an outage, and checks that the lock becomes free.
async fn is_released_during_an_outage(end: impl AsyncFnOnce(LockGuard) -> Result<()> + 'static) {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (one, two) = (client_behind(&proxy).await, client(&server).await);
    let guard = Lock::new(&one, PATH).unwrap().acquire().await.unwrap();
    let next = waiting(&two, &Lock::new(&two, PATH).unwrap()).await;
    proxy.refuse_connections();
    proxy.cut();
    let heal = async {
        one.session().wait_for(|state| !state.is_connected()).await;
        assert!(!next.is_finished());
        proxy.accept_connections();
    };
    let (ended, ()) = within(async { tokio::join!(end(guard), heal) }).await;
    ended.unwrap();
    let next = within(next).await.unwrap();
    assert_eq!(nodes(&two, PATH).await, [next.name()]);
}

#[tokio::test]
async fn a_release_during_an_outage_is_completed_later() {
    is_released_during_an_outage(async |guard| guard.release().await).await;
    is_released_during_an_outage(async |guard| {
        drop(guard);
        Ok(())
    })
    .await;
    // A release whose caller stops waiting.
    is_released_during_an_outage(async |guard| {
        guard.session().clone().wait_for(|state| !state.is_connected()).await;
        assert!(guard.release().now_or_never().is_none());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_release_during_an_outage_longer_than_the_session_reports_it() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = client_behind(&proxy).await;
    let guard = Lock::new(&zk, PATH).unwrap().acquire().await.unwrap();
    proxy.refuse_connections();
    proxy.cut();
    zk.session().wait_for(|state| !state.is_connected()).await;
    server.expire_session(guard.session().id());
    let release = tokio::spawn(guard.release());
    proxy.accept_connections();
    assert_eq!(within(release).await.unwrap().unwrap_err(), Error::Lost);
}

/// Clients that count under a lock.
const CLIENTS: usize = 5;
/// Sections that each of them completes.
const ROUNDS: usize = 20;
/// How often a connection is cut; every tenth time a session is ended instead.
const CUTS: usize = 100;

/// One section: a read, and a write that is not atomic with it. True if it was written.
async fn count_one(guard: &LockGuard, observer: &Client) -> bool {
    let mark = format!("/sections/{:020}", guard.token());
    let written = async {
        let count: u64 = text(&guard.client().get("/count").await?.data).parse().unwrap();
        let next = (count + 1).to_string();
        let ops = [Op::set("/count", next.clone()), Op::create(&mark, next)];
        guard.fenced().transaction(ops).await
    };
    match written.await {
        Ok(_) => true,
        // The outcome is unknown; the mark shows it.
        Err(_) => observer.exists(&mark).await.unwrap().is_some(),
    }
}

fn text(data: &[u8]) -> &str {
    std::str::from_utf8(data).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_exclude_each_other_while_connections_and_sessions_are_lost() {
    let server = TestServer::start();
    let observer = client(&server).await;
    observer.create("/count", "0").await.unwrap();
    observer.create("/sections", "").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    let (mut proxies, mut clients) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let proxy = TestProxy::start(server.address());
        let zk = client_behind(&proxy).await;
        let (lock, observer) = (Lock::new(&zk, PATH).unwrap(), observer.clone());
        tasks.spawn(async move {
            let mut done = 0;
            while done < ROUNDS {
                let guard = lock.acquire().await.unwrap();
                done += usize::from(count_one(&guard, &observer).await);
                drop(guard);
            }
        });
        proxies.push(proxy);
        clients.push(zk);
    }
    let (address, proxies) = (server.address(), Arc::new(proxies));
    let breaking = tokio::spawn(async move {
        let mut rng = Rng::with_seed(604);
        for cut in 0..CUTS {
            tokio::time::sleep(Duration::from_millis(rng.u64(1..20))).await;
            let victim = rng.usize(0..CLIENTS);
            if cut % 10 == 9 {
                let session = clients[victim].session().id();
                let ending = tokio::task::spawn_blocking(move || expire_session(address, session));
                ending.await.unwrap().unwrap();
            } else {
                proxies[victim].cut();
            }
        }
        (clients, proxies)
    });
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(120), all).await.expect("all of them make progress");
    let _kept = within(breaking).await.unwrap();

    let mut marks = observer.children("/sections").await.unwrap().names;
    marks.sort_unstable();
    let count: usize = text(&observer.get("/count").await.unwrap().data).parse().unwrap();
    assert_eq!(count, marks.len());
    assert!(count >= CLIENTS * ROUNDS, "{count}");
    // In the order of their tokens the sections have counted one by one.
    for (index, mark) in marks.iter().enumerate() {
        let counted = observer.get(&format!("/sections/{mark}")).await.unwrap().data;
        assert_eq!(text(&counted), (index + 1).to_string());
    }
    until_nodes(&observer, PATH, 0).await;
    eventually(|| server.watch_count() == 0).await;
}
