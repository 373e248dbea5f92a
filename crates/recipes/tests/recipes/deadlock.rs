//! Deadlocks, found in the nodes of locks.

use std::time::Duration;

use herdsman_client::Client;
use herdsman_recipes::lock::{DeadlockWatchdog, Remedy, find_deadlocks, find_locks, read_queues};
use herdsman_recipes::wait_for::WaitForGraph;
use herdsman_recipes::{HoldOptions, Layout, Lock, RwLock};
use herdsman_testing::TestServer;

use crate::common::{client, within};
use crate::lock::{until_nodes, waiting};

const PATHS: [&str; 3] = ["/locks/x", "/locks/y", "/locks/z"];

fn lock(zk: &Client, path: &str) -> Lock {
    Lock::new(zk, path).unwrap().options(&HoldOptions::new().owner("task"))
}

#[tokio::test]
async fn two_owners_that_wait_for_each_other_are_found() {
    let server = TestServer::start();
    let (zk, a, b) = (client(&server).await, client(&server).await, client(&server).await);
    let [x, y, _] = PATHS;
    let a_has_x = lock(&a, x).options(&HoldOptions::new().owner("a")).acquire().await.unwrap();
    let b_has_y = lock(&b, y).options(&HoldOptions::new().owner("b")).acquire().await.unwrap();
    let a_wants_y = waiting(&zk, &lock(&a, y).options(&HoldOptions::new().owner("a"))).await;
    assert_eq!(find_deadlocks(&zk, &PATHS).await.unwrap(), []);
    let b_wants_x = waiting(&zk, &lock(&b, x).options(&HoldOptions::new().owner("b"))).await;

    let locks = find_locks(&zk, "/").await.unwrap();
    assert_eq!(locks, [x, y]);
    let found = find_deadlocks(&zk, &locks).await.unwrap();
    let [deadlock] = found.as_slice() else { panic!("{found:?}") };
    let (a_name, b_name) =
        (format!("{:#x} a", a.session().id().0), format!("{:#x} b", b.session().id().0));
    let mut cycle: Vec<_> = deadlock.cycle.iter().map(ToString::to_string).collect();
    cycle.sort_unstable();
    let mut expected = [
        format!("{a_name} waits for {y} held by {b_name}"),
        format!("{b_name} waits for {x} held by {a_name}"),
    ];
    expected.sort_unstable();
    assert_eq!(cycle, expected);

    // A revocation request replaces the owner's text: it is not known any more that the holder is the one that waits.
    lock(&zk, x).request_revocation().await.unwrap().expect("a holds it");
    assert_eq!(find_deadlocks(&zk, &locks).await.unwrap(), []);
    within(a_has_x.revocation_requested()).await.unwrap();
    a_has_x.release().await.unwrap();
    let b_has_x = within(b_wants_x).await.unwrap();
    assert_eq!(find_deadlocks(&zk, &locks).await.unwrap(), []);
    b_has_x.release().await.unwrap();
    b_has_y.release().await.unwrap();
    within(a_wants_y).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_watchdog_asks_the_youngest_to_release() {
    let server = TestServer::start();
    let (zk, a, b) = (client(&server).await, client(&server).await, client(&server).await);
    let [x, y, _] = PATHS;
    let watchdog = DeadlockWatchdog::new(&zk, "/locks").unwrap();
    let mut watchdog = watchdog.interval(Duration::from_millis(10)).remedy(Remedy::RevokeYoungest);
    let a_has_x = lock(&a, x).options(&HoldOptions::new().owner("a")).acquire().await.unwrap();
    let b_has_y = lock(&b, y).options(&HoldOptions::new().owner("b")).acquire().await.unwrap();
    let a_wants_y = waiting(&zk, &lock(&a, y).options(&HoldOptions::new().owner("a"))).await;
    let b_wants_x = waiting(&zk, &lock(&b, x).options(&HoldOptions::new().owner("b"))).await;
    let found = within(watchdog.next()).await.unwrap();
    assert_eq!(found.deadlock.cycle.len(), 2);
    let (path, asked) = found.asked.expect("one was asked");
    assert_eq!((path.as_str(), asked.token), (b_has_y.path(), b_has_y.token()));
    // It does not release its lock, so the other one is asked, and the deadlock is not reported again.
    let found = within(watchdog.next()).await.unwrap();
    assert_eq!(found.asked.expect("the other was asked").0, a_has_x.path());
    within(a_has_x.revocation_requested()).await.unwrap();
    within(b_has_y.revocation_requested()).await.unwrap();
    let nothing_new = tokio::time::timeout(Duration::from_millis(300), watchdog.next());
    assert!(nothing_new.await.is_err());
    b_has_y.release().await.unwrap();
    within(a_wants_y).await.unwrap().release().await.unwrap();
    a_has_x.release().await.unwrap();
    within(b_wants_x).await.unwrap().release().await.unwrap();
}

/// The request replaces the holder's text, after which the watchdog used to miss the cycle.
#[tokio::test]
async fn a_watchdog_asks_the_second_task_of_one_session_too() {
    let server = TestServer::start();
    let (zk, program) = (client(&server).await, client(&server).await);
    let [x, y, _] = PATHS;
    let watchdog = DeadlockWatchdog::new(&zk, "/locks").unwrap();
    let mut watchdog = watchdog.interval(Duration::from_millis(10)).remedy(Remedy::RevokeYoungest);
    let one_has_x =
        lock(&program, x).options(&HoldOptions::new().owner("one")).acquire().await.unwrap();
    let two_has_y =
        lock(&program, y).options(&HoldOptions::new().owner("two")).acquire().await.unwrap();
    let one_wants_y =
        waiting(&zk, &lock(&program, y).options(&HoldOptions::new().owner("one"))).await;
    let two_wants_x =
        waiting(&zk, &lock(&program, x).options(&HoldOptions::new().owner("two"))).await;
    let first = within(watchdog.next()).await.unwrap();
    assert_eq!(first.asked.expect("one was asked").0, two_has_y.path());
    let second = within(watchdog.next()).await.unwrap();
    assert_eq!(second.asked.expect("the other was asked").0, one_has_x.path());
    assert_eq!(second.deadlock, first.deadlock);
    two_has_y.release().await.unwrap();
    within(one_wants_y).await.unwrap().release().await.unwrap();
    one_has_x.release().await.unwrap();
    within(two_wants_x).await.unwrap().release().await.unwrap();
}

/// Its lock used to be attributed to another task of its session.
#[tokio::test]
async fn a_holder_that_was_asked_to_release_is_not_taken_for_another_task_of_its_session() {
    let server = TestServer::start();
    let (zk, a, b) = (client(&server).await, client(&server).await, client(&server).await);
    let [x, y, _] = PATHS;
    let one_has_x = lock(&a, x).options(&HoldOptions::new().owner("one")).acquire().await.unwrap();
    let b_has_y = lock(&b, y).options(&HoldOptions::new().owner("b")).acquire().await.unwrap();
    let two_wants_y = waiting(&zk, &lock(&a, y).options(&HoldOptions::new().owner("two"))).await;
    let b_wants_x = waiting(&zk, &lock(&b, x).options(&HoldOptions::new().owner("b"))).await;
    lock(&zk, x).request_revocation().await.unwrap().expect("one holds it");
    assert_eq!(find_deadlocks(&zk, &PATHS).await.unwrap(), []);
    one_has_x.release().await.unwrap();
    within(b_wants_x).await.unwrap().release().await.unwrap();
    b_has_y.release().await.unwrap();
    within(two_wants_y).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn three_owners_that_read_and_write_in_a_cycle_are_found() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let (a, b, c) = (client(&server).await, client(&server).await, client(&server).await);
    let rw = |zk: &Client, path: &str| RwLock::new(zk, path).unwrap();
    let [x, y, z] = PATHS;
    // a reads x and wants to read y; b writes y and wants to write z; c reads z and wants to write x. Another reader
    // of x does not matter.
    let bystander = rw(&zk, x).read().await.unwrap();
    let held = (
        rw(&a, x).read().await.unwrap(),
        rw(&b, y).write().await.unwrap(),
        rw(&c, z).read().await.unwrap(),
    );
    let a_wants_y = rw(&a, y);
    let a_wants_y = tokio::spawn(async move { a_wants_y.read().await });
    until_nodes(&zk, y, 2).await;
    let b_wants_z = rw(&b, z);
    let b_wants_z = tokio::spawn(async move { b_wants_z.write().await });
    until_nodes(&zk, z, 2).await;
    assert_eq!(find_deadlocks(&zk, &PATHS).await.unwrap(), []);
    let c_wants_x = rw(&c, x);
    let c_wants_x = tokio::spawn(async move { c_wants_x.write().await });
    until_nodes(&zk, x, 3).await;

    let found = find_deadlocks(&zk, &PATHS).await.unwrap();
    let [deadlock] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((deadlock.cycle.len(), deadlock.stuck.len()), (3, 0), "{deadlock}");
    let mut locks: Vec<_> = deadlock.cycle.iter().map(|wait| wait.path.as_str()).collect();
    locks.sort_unstable();
    assert_eq!(locks, PATHS);
    let bystander_name = format!("{:#x}", zk.session().id().0);
    assert!(deadlock.cycle.iter().all(|wait| !wait.blocker.starts_with(&bystander_name)));

    c_wants_x.abort();
    until_nodes(&zk, x, 2).await;
    assert_eq!(find_deadlocks(&zk, &PATHS).await.unwrap(), []);
    drop((held, bystander));
    drop(within(a_wants_y).await.unwrap().unwrap());
    drop(within(b_wants_z).await.unwrap().unwrap());
}

#[tokio::test]
async fn waits_that_end_by_themselves_are_not_deadlocks() {
    let server = TestServer::start();
    let (zk, a, b) = (client(&server).await, client(&server).await, client(&server).await);
    let [x, y, _] = PATHS;
    // Both take the locks in the same order.
    let a_has = (lock(&a, x).acquire().await.unwrap(), lock(&a, y).acquire().await.unwrap());
    let b_wants_x = waiting(&zk, &lock(&b, x)).await;
    let b_wants_y = waiting(&zk, &lock(&b, y)).await;
    assert_eq!(find_deadlocks(&zk, &PATHS).await.unwrap(), []);
    let queues = read_queues(&zk, &PATHS).await.unwrap();
    assert_eq!(queues.iter().map(|queue| queue.contenders.len()).collect::<Vec<_>>(), [2, 2, 0]);
    assert_eq!(WaitForGraph::new(&queues).edges().len(), 2);

    // Two tasks of one client with different texts are two owners.
    let other_task = waiting(&zk, &lock(&a, "/locks/z")).await;
    let z = within(other_task).await.unwrap();
    let b_wants_z = waiting(&zk, &lock(&b, "/locks/z")).await;
    let b_holds = lock(&b, "/locks/b").acquire().await.unwrap();
    let third =
        waiting(&zk, &lock(&a, "/locks/b").options(&HoldOptions::new().owner("another task")))
            .await;
    let all = find_locks(&zk, "/locks").await.unwrap();
    assert_eq!(all.len(), 4);
    assert_eq!(find_deadlocks(&zk, &all).await.unwrap(), []);
    for task in [b_wants_x, b_wants_y, b_wants_z, third] {
        task.abort();
    }
    drop((a_has, z, b_holds));
}

#[tokio::test]
async fn an_owner_that_waits_for_itself_is_found() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for layout in [Layout::Curator, Layout::Kazoo, Layout::Apache] {
        let path = format!("/locks/{layout:?}");
        let lock = lock(&zk, &path).layout(layout);
        let held = lock.acquire().await.unwrap();
        let again = waiting(&zk, &lock).await;
        let found = find_deadlocks(&zk, &[&path]).await.unwrap();
        let [deadlock] = found.as_slice() else { panic!("{found:?}") };
        assert!(deadlock.to_string().ends_with("held by itself"), "{deadlock}");
        held.release().await.unwrap();
        within(again).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn foreign_nodes_and_bad_paths() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/locks/x/README", "").parents().await.unwrap();
    assert_eq!(find_locks(&zk, "/").await.unwrap(), [""; 0]);
    assert_eq!(find_locks(&zk, "/nowhere").await.unwrap(), [""; 0]);
    assert_eq!(find_deadlocks(&zk, &PATHS).await.unwrap(), []);
    assert!(find_deadlocks(&zk, &["locks"]).await.is_err());
    assert!(find_locks(&zk, "locks").await.is_err());
}
