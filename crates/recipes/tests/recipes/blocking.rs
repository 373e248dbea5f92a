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
use herdsman_recipes::{
    AtomicLong, Config, Lock, NodeCache, Publisher, Queue, Race, RwLock, Semaphore, Versioned,
    WorkQueue,
};
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

#[test]
fn queues_on_plain_threads_deliver_each_item_once() {
    let (server, zk) = start();
    let queue = Queue::new(&zk, "/queue").unwrap();
    let taking = std::thread::spawn({
        let queue = queue.clone();
        move || [within(queue.take()).unwrap(), within(queue.take()).unwrap()]
    });
    within(queue.offer("a")).unwrap();
    within(queue.offer("b")).unwrap();
    assert_eq!(taking.join().unwrap(), ["a", "b"]);
    assert_eq!(within(queue.poll()).unwrap(), None);

    let work = WorkQueue::new(&zk, "/work").unwrap();
    within(work.offer("a")).unwrap();
    let item = within(work.take()).unwrap();
    assert_eq!(within(work.poll()).unwrap().map(|item| item.payload().clone()), None);
    drop(item);
    let again = within(work.take()).unwrap();
    assert_eq!(again.payload(), "a");
    within(again.done()).unwrap();
    assert!(within(work.is_empty()).unwrap());
    drop((queue, work));
    within(zk.close()).unwrap();
    assert_eq!(server.session_count(), 0);
}

#[test]
fn leaders_on_plain_threads_follow_one_another() {
    let (server, zk) = start();
    let other = within(Client::connect(&server.connect_string())).unwrap();
    let one = within(Election::new(&zk, "/leader", "1").unwrap().campaign()).unwrap();
    let waiting = std::thread::spawn({
        let election = Election::new(&other, "/leader", "2").unwrap();
        move || within(election.campaign()).unwrap()
    });
    within(one.fenced().create("/by", "1")).unwrap();
    let token = one.token();
    within(one.resign()).unwrap();
    let two = waiting.join().unwrap();
    assert!(two.token() > token);
    drop(two);

    let one = within(Race::new(&zk, "/race", "1").unwrap().campaign()).unwrap();
    let waiting = std::thread::spawn({
        let race = Race::new(&other, "/race", "2").unwrap();
        move || within(race.campaign()).unwrap()
    });
    drop(one);
    let two = waiting.join().unwrap();
    assert_eq!(two.epoch(), Some(2));
    within(two.resign()).unwrap();
}

#[test]
fn permits_and_locks_on_plain_threads_exclude_each_other() {
    let (_server, zk) = start();
    let semaphore = Semaphore::new(&zk, "/slots", 1).unwrap();
    let permit = within(semaphore.acquire()).unwrap();
    let waiting = std::thread::spawn(move || within(semaphore.acquire()).unwrap());
    drop(permit);
    within(waiting.join().unwrap().release()).unwrap();

    let rw = RwLock::new(&zk, "/rw").unwrap();
    let (read, also) = (within(rw.read()).unwrap(), within(rw.read()).unwrap());
    let writing = std::thread::spawn(move || within(rw.write()).unwrap());
    drop((read, also));
    within(writing.join().unwrap().release()).unwrap();
}

#[test]
fn counters_and_configuration_need_no_runtime() {
    let (_server, zk) = start();
    let counter = AtomicLong::new(&zk, "/count");
    let adding: Vec<_> = (0..4)
        .map(|_| {
            let counter = counter.clone();
            std::thread::spawn(move || {
                for _ in 0..5 {
                    within(counter.add(1)).unwrap();
                    within(counter.add_exactly_once(1)).unwrap();
                }
            })
        })
        .collect();
    for thread in adding {
        thread.join().unwrap();
    }
    assert_eq!(within(counter.get()).unwrap(), 40);

    let publisher = Publisher::<u32>::new(&zk, "/config").unwrap();
    within(publisher.publish(&1)).unwrap();
    let config = within(Config::<u32>::start(&zk, "/config")).unwrap();
    assert_eq!(within(config.value()).unwrap().value, 1);
    within(publisher.publish(&2)).unwrap();
    let is_new = |now: Option<&Versioned<u32>>| now.is_some_and(|now| now.value == 2);
    within(config.wait_for(is_new)).unwrap();
}
