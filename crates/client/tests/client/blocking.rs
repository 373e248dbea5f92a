//! The client in programs without an async runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use herdsman_client::blocking::Wait;
use herdsman_client::{
    Acl, Client, ConnectionEvent, ConnectionState, EventType, Lifetime, Op, OpResult, WatchUpdate,
};
use herdsman_testing::{TestProxy, TestServer};

use crate::world::options;

/// Enough for the slowest machine; a test that reaches this limit has failed.
const WAIT_MAX: Duration = Duration::from_secs(20);

fn connect(server: &TestServer) -> Client {
    options().connect(&server.connect_string()).wait_timeout(WAIT_MAX).unwrap().unwrap()
}

/// Polls until `look` returns true.
fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !look() {
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn every_operation_can_be_waited_for() {
    let server = TestServer::start_with(|config| config.znodes.ttl = true);
    let zk = connect(&server);
    assert_eq!(zk.state(), ConnectionState::Connected);
    zk.create("/a/b", "x").parents().acl(Acl::open()).wait().unwrap();
    zk.create("/a/e", "").ephemeral().wait().unwrap();
    zk.create("/a/c", "").container().wait().unwrap();
    zk.create("/a/t", "").ttl(WAIT_MAX).wait().unwrap();
    let numbered = zk.create("/a/n-", "").sequential().protected().wait().unwrap();
    assert!(numbered.path.ends_with("-n-0000000004"), "{numbered:?}");
    zk.ensure("/a/d", Lifetime::Persistent).wait().unwrap();
    assert_eq!(zk.get("/a/b").wait().unwrap().data, "x");
    assert_eq!(zk.exists("/a/none").wait().unwrap(), None);
    assert_eq!(zk.children("/a").wait().unwrap().names.len(), 6);
    let stat = zk.set("/a/b", "y").version(0).wait().unwrap();
    assert!(zk.delete("/a/b").version(0).wait().unwrap_err().is_bad_version());
    zk.delete("/a/b").version(stat.version).wait().unwrap();
    let results = zk.transaction([Op::create("/t", ""), Op::delete("/t")]).wait().unwrap();
    assert_eq!(results[1], OpResult::Deleted);
    zk.sync("/").wait().unwrap();
    zk.delete("/a").recursive().wait().unwrap();
    zk.close().wait().unwrap();
    assert_eq!(zk.state(), ConnectionState::Closed);
    assert!(zk.get("/").wait().unwrap_err().is_closed());
}

#[test]
fn a_watch_can_be_waited_for_more_than_once() {
    let server = TestServer::start();
    let zk = connect(&server);
    zk.create("/a", "").wait().unwrap();
    let (_, mut changed) = zk.get("/a").watch().wait().unwrap();
    assert_eq!((&mut changed).wait_timeout(Duration::from_millis(20)), None);
    assert_eq!(server.watch_count(), 1, "a timeout does not remove it");
    let mut updates = zk.watch("/").recursive().wait().unwrap();
    assert_eq!(updates.next().wait_timeout(Duration::from_millis(20)), None);
    zk.set("/a", "x").wait().unwrap();
    let event = (&mut changed).wait_timeout(WAIT_MAX).unwrap().unwrap();
    assert_eq!((event.kind, event.path.as_str()), (EventType::NodeDataChanged, "/a"));
    let update = updates.next().wait_timeout(WAIT_MAX).unwrap();
    assert_eq!(update, Some(WatchUpdate::Event(event)));
}

#[test]
fn what_connecting_has_seen_is_known_to_the_client_and_not_reported_again() {
    let server = TestServer::start();
    for _ in 0..50 {
        let zk = connect(&server);
        assert_eq!(zk.state(), ConnectionState::Connected);
        assert_eq!(zk.events().next().wait_timeout(Duration::from_millis(2)), None);
    }
}

#[test]
fn connections_are_kept_without_a_waiting_thread() {
    let server = TestServer::start_with(crate::world::short_sessions);
    let proxy = TestProxy::start(server.address());
    let short = options().session_timeout(Duration::from_secs(1));
    let zk = short.connect(&proxy.connect_string()).wait().unwrap();
    let session = zk.session();
    let mut events = zk.events();
    zk.create("/e", "").ephemeral().wait().unwrap();
    // No code here drives a runtime; the background thread pings and reconnects.
    std::thread::sleep(session.timeout() * 3 / 2);
    proxy.cut();
    assert_eq!(events.next().wait_timeout(WAIT_MAX), Some(Some(ConnectionEvent::Suspended)));
    eventually("reconnected", || zk.state() == ConnectionState::Connected);
    assert_eq!(zk.session().id(), session.id());
    assert!(zk.exists("/e").wait().unwrap().is_some());
}

#[test]
fn what_is_sent_or_dropped_outside_a_wait_reaches_the_server() {
    let server = TestServer::start();
    let zk = connect(&server);
    let sent: Vec<_> = (0..100).map(|n| zk.create(&format!("/{n}"), "").send()).collect();
    for (n, reply) in sent.into_iter().enumerate() {
        assert_eq!(reply.wait().unwrap().path, format!("/{n}"));
    }
    zk.delete("/0").in_background();
    eventually("deleted", || zk.exists("/0").wait().unwrap().is_none());
    // A protected creation whose result is not taken is removed.
    drop(zk.create("/p-", "").protected().send());
    let is_left = |names: Vec<String>| names.iter().any(|name| name.contains("p-"));
    eventually("removed", || !is_left(zk.children("/").wait().unwrap().names));
    assert_eq!(server.session_count(), 1);
    drop(zk);
    eventually("the session is closed", || server.session_count() == 0);
}

#[test]
fn what_starts_tasks_without_being_async_needs_no_runtime() {
    let server = TestServer::start();
    let zk = options().start(&server.connect_string()).unwrap();
    assert!(zk.exists("/").wait_timeout(WAIT_MAX).unwrap().unwrap().is_some());
    let task = zk.spawn({
        let zk = zk.clone();
        async move { zk.create("/a", "x").await }
    });
    assert_eq!(task.wait().unwrap().unwrap().path, "/a");
    // A client also connects if no thread waits for it, and closes its session.
    let other = options().start(&server.connect_string()).unwrap();
    eventually("connected", || other.state() == ConnectionState::Connected);
    assert_eq!(server.session_count(), 2);
    drop(other);
    eventually("the session is closed", || server.session_count() == 1);
}

#[test]
fn several_threads_can_wait() {
    let server = TestServer::start();
    let zk = connect(&server);
    let waiting = {
        let zk = zk.clone();
        std::thread::spawn(move || {
            let (_, created) = zk.exists("/go").watch().wait().unwrap();
            created.wait().unwrap().kind
        })
    };
    eventually("watched", || server.watch_count() == 1);
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let zk = zk.clone();
            std::thread::spawn(move || {
                for _ in 0..50 {
                    zk.create("/n-", "").sequential().wait().unwrap();
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    zk.create("/go", "").wait().unwrap();
    assert_eq!(waiting.join().unwrap(), EventType::NodeCreated);
    assert_eq!(zk.count_descendants("/").wait().unwrap(), 401 + 3);
}

fn message_of_wait() -> String {
    let waited = catch_unwind(AssertUnwindSafe(|| std::future::ready(()).wait()));
    waited.expect_err("it panics").downcast_ref::<&str>().copied().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn in_an_async_task_the_panic_says_what_to_do_instead() {
    let message = message_of_wait();
    assert!(message.contains("inside an async task"), "{message}");
    assert!(message.contains(".await"), "{message}");
    let spawned = tokio::spawn(async { message_of_wait() }).await.unwrap();
    assert_eq!(spawned, message);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_works_wherever_tokio_allows_blocking() {
    assert!(message_of_wait().contains("inside an async task"));
    assert!(tokio::spawn(async { message_of_wait() }).await.unwrap().contains("async task"));
    let server = TestServer::start();
    let zk = connect_in_background(server.connect_string()).await;
    let stat = tokio::task::block_in_place(|| zk.exists("/zookeeper").wait().unwrap());
    assert!(stat.is_some());
    // A client of this runtime, with a separate thread that waits for it.
    let zk = options().connect(&server.connect_string()).await.unwrap();
    let looked = std::thread::spawn(move || zk.exists("/zookeeper").wait().unwrap());
    assert_eq!(tokio::task::spawn_blocking(|| looked.join().unwrap()).await.unwrap(), stat);
}

async fn connect_in_background(servers: String) -> Client {
    let connect = move || options().connect(&servers).wait().unwrap();
    tokio::task::spawn_blocking(connect).await.unwrap()
}

#[test]
fn waiting_works_with_an_entered_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let server = TestServer::start();
    assert!(connect(&server).exists("/").wait().unwrap().is_some());
}
