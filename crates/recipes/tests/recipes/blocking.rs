//! Recipes in programs without an async runtime. No test here has one.

use std::time::Duration;

use futures_util::StreamExt as _;
use herdsman_client::blocking::Wait;
use herdsman_client::{Client, Lifetime};
use herdsman_recipes::election::{CloseMode, Election, LeaderLatch};
use herdsman_recipes::master_worker::Submitter;
use herdsman_recipes::messaging::{LiveProgressReporter, Progress, ProgressReporter};
use herdsman_recipes::persistent_node::PersistentNode;
use herdsman_recipes::queue::TicketQueue;
use herdsman_recipes::{Lock, NodeCache};
use herdsman_testing::TestServer;

/// Long enough for the slowest machine; a test that runs into it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

fn within<T: Wait>(future: T) -> T::Output {
    future.wait_timeout(PATIENCE).expect("it happens in time")
}

fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let zk = within(Client::connect(&server.connect_string())).unwrap();
    (server, zk)
}

#[test]
fn recipes_that_are_started_without_being_async_need_no_runtime() {
    let (server, zk) = start();
    let node = PersistentNode::at(&zk, "/node", "x").start().unwrap();
    let numbered = PersistentNode::at(&zk, "/n-", "x").sequential().start().unwrap();
    within(node.wait_until_present()).unwrap();
    within(numbered.wait_until_present()).unwrap();
    within(numbered.close()).unwrap();
    within(node.close()).unwrap();

    let latch = LeaderLatch::start(&zk, "/latch", "a").unwrap();
    within(latch.wait_for_leadership()).unwrap();
    let mut leaders = Election::new(&zk, "/latch", "b").unwrap().observe();
    within(leaders.next());
    within(latch.close(CloseMode::Silent)).unwrap();
    drop(leaders);

    let ticket = within(TicketQueue::new(&zk, "/tickets").unwrap().take_number()).unwrap();
    let mut positions = ticket.positions(Duration::from_millis(1)).unwrap();
    assert_eq!(within(positions.next()), Some(Ok(0)));
    within(ticket.leave()).unwrap();

    let progress = Progress::new(50, "half");
    let reporter = ProgressReporter::start(&zk, "/progress").unwrap();
    reporter.report(progress.clone());
    within(reporter.flush()).unwrap();
    let live = LiveProgressReporter::start(&zk, "/live").unwrap();
    live.report(progress.clone());
    within(live.finish(progress)).unwrap();

    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = within(submitter.submit("a")).unwrap();
    let mut statuses = submitter.follow(&task);
    assert!(matches!(within(statuses.next()), Some(Ok(_))));
    within(zk.close()).unwrap();
    assert_eq!(server.session_count(), 0);
}

#[test]
fn other_recipes_are_waited_for_and_dropped_on_any_thread() {
    let (server, zk) = start();
    within(zk.ensure("/config", Lifetime::Persistent)).unwrap();
    within(zk.set("/config", "1")).unwrap();
    let cache = within(NodeCache::start(&zk, "/config")).unwrap();
    assert_eq!(within(cache.synced()).unwrap().unwrap().data, "1");
    let guard = within(Lock::new(&zk, "/lock").unwrap().acquire()).unwrap();
    drop(guard);
    let guard = within(Lock::new(&zk, "/lock").unwrap().acquire()).unwrap();
    drop((guard, cache, zk));
    let left = std::time::Instant::now() + PATIENCE;
    while server.session_count() > 0 {
        assert!(std::time::Instant::now() < left, "the session is not closed");
        std::thread::sleep(Duration::from_millis(2));
    }
}
