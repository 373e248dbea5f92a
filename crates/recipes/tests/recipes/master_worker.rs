//! Master–worker: every task ends once, whatever process dies and whatever is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::Error;
use herdsman_recipes::master_worker::{
    Ending, Failure, Master, Role, Submitter, Task, TaskId, TaskState, Worker,
};
use herdsman_recipes::messaging::{Heartbeat, HeartbeatEvent, HeartbeatMonitor, Progress};
use herdsman_testing::proxy::{Fault, OpCode, Rule};
use herdsman_testing::{TestProxy, TestServer};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, eventually, within};

/// Stops its task when it is dropped.
pub struct Stop<T>(pub JoinHandle<T>);

impl<T> Drop for Stop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub fn run_master(zk: &Client) -> Stop<()> {
    let master = Master::new(zk, "/mw").unwrap();
    Stop(tokio::spawn(async move { master.run().await.unwrap() }))
}

/// A worker that answers in upper case.
pub fn run_shouter(zk: &Client, id: &str) -> Stop<()> {
    let worker = Worker::new(zk, "/mw", id).unwrap();
    Stop(tokio::spawn(async move { worker.run(shout).await.unwrap() }))
}

async fn shout(task: Task) -> Result<Vec<u8>, Failure> {
    Ok(task.payload().to_ascii_uppercase())
}

/// Starts a worker that reports its assignments, and continues when it gets a permit.
fn run_gated(zk: &Client, id: &'static str, gate: &Arc<Semaphore>) -> (Stop<()>, Starts) {
    let worker = Worker::new(zk, "/mw", id).unwrap();
    let gate = Arc::clone(gate);
    let (sender, starts) = mpsc::unbounded_channel();
    let work = move |task: Task| {
        let gate = Arc::clone(&gate);
        sender.send((id, task.id().clone(), task.attempt())).unwrap();
        async move {
            gate.acquire().await.unwrap().forget();
            Ok::<_, Failure>(format!("{id}:{}", task.attempt()))
        }
    };
    let running = tokio::spawn(async move { worker.run(work).await.unwrap() });
    (Stop(running), starts)
}

type Starts = mpsc::UnboundedReceiver<(&'static str, TaskId, u32)>;

async fn names(zk: &Client, path: &str) -> Vec<String> {
    match zk.children(path).await {
        Ok(children) => children.names,
        Err(error) if *error.kind() == ErrorKind::NoNode => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Checks that nothing is left but `ended` results.
pub async fn assert_settled(zk: &Client, ended: usize) {
    assert_eq!(names(zk, "/mw/tasks").await, Vec::<String>::new());
    for worker in names(zk, "/mw/assign").await {
        assert_eq!(names(zk, &format!("/mw/assign/{worker}")).await, Vec::<String>::new());
    }
    assert_eq!(names(zk, "/mw/status").await.len(), ended);
    assert_eq!(names(zk, "/mw/results").await.len(), ended);
}

pub fn done(result: &str) -> Ending {
    Ending::Done(Bytes::copy_from_slice(result.as_bytes()))
}

#[tokio::test]
async fn tasks_are_shared_among_workers_and_nothing_is_left_behind() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let tasks = {
        let (_master, _backup) = (run_master(&zk), run_master(&zk));
        let gate = Arc::new(Semaphore::new(0));
        let (_one, mut first) = run_gated(&zk, "one", &gate);
        let (_two, mut second) = run_gated(&zk, "two", &gate);
        let mut tasks = Vec::new();
        for payload in ["a", "b", "c", "d"] {
            tasks.push(submitter.submit(payload).await.unwrap());
        }
        // Each takes one task at a time, so both have one before either ends.
        within(first.recv()).await.unwrap();
        within(second.recv()).await.unwrap();
        gate.add_permits(4);
        for task in &tasks {
            let Ending::Done(result) = within(submitter.result(task)).await.unwrap() else {
                panic!("{task} was not done");
            };
            assert!(result.ends_with(b":1"), "{result:?}");
        }
        tasks
    };
    assert_settled(&zk, tasks.len()).await;
    eventually(|| server.watch_count() == 0).await;
    eventually(|| server.ephemerals(zk.session().id()).is_empty()).await;
}

/// Cuts the connection at each request in turn, of each of the three processes, before it was carried out and after:
/// the task is done, once, and everything is cleaned up.
async fn sweep(who: usize, fault: Fault) {
    for skip in 0.. {
        let server = TestServer::start();
        let proxies: Vec<_> = (0..3).map(|_| TestProxy::start(server.address())).collect();
        let mut clients = Vec::new();
        for proxy in &proxies {
            clients.push(client_behind(proxy).await);
        }
        let ops = [OpCode::Multi, OpCode::Create2, OpCode::SetData, OpCode::Delete];
        let rule = ops.iter().fold(Rule::new(fault), |rule, op| rule.on(*op));
        let lost = proxies[who].add_rule(rule.skip(skip));
        let _master = run_master(&clients[0]);
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let worker = Worker::new(&clients[1], "/mw", "w").unwrap();
        let _worker = Stop(tokio::spawn(async move {
            let work = move |task: Task| {
                counted.fetch_add(1, Ordering::Relaxed);
                shout(task)
            };
            worker.run(work).await.unwrap();
        }));
        let submitter = Submitter::new(&clients[2], "/mw").unwrap();
        let task = within(submitter.submit("a")).await.unwrap();
        assert_eq!(within(submitter.result(&task)).await.unwrap(), done("A"), "skip {skip}");
        assert_eq!(runs.load(Ordering::Relaxed), 1, "skip {skip}");
        assert_settled(&client(&server).await, 1).await;
        if lost.fired() == 0 {
            assert!(skip > 1, "the fault was hardly ever triggered");
            return;
        }
    }
}

#[tokio::test]
async fn a_master_that_loses_replies_loses_nothing() {
    sweep(0, Fault::CutBeforeReply).await;
    sweep(0, Fault::CutBeforeRequest).await;
}

#[tokio::test]
async fn a_worker_that_loses_replies_ends_each_task_once() {
    sweep(1, Fault::CutBeforeReply).await;
    sweep(1, Fault::CutBeforeRequest).await;
}

#[tokio::test]
async fn a_submitter_that_loses_replies_submits_once() {
    sweep(2, Fault::CutBeforeReply).await;
    sweep(2, Fault::CutBeforeRequest).await;
}

#[tokio::test]
async fn a_disconnected_worker_cannot_report_a_result() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, cut_off) = (client(&server).await, client_behind(&proxy).await);
    let _master = run_master(&zk);
    let (old_gate, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (_old, mut old_starts) = run_gated(&cut_off, "old", &old_gate);
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = submitter.submit("a").await.unwrap();
    assert_eq!(within(old_starts.recv()).await.unwrap(), ("old", task.clone(), 1));
    let (_new, mut new_starts) = run_gated(&zk, "new", &gate);
    // The old worker is done, but its report does not arrive before its session has ended.
    let held = proxy.once(OpCode::Multi, Fault::HoldRequest);
    old_gate.add_permits(1);
    within(held.until_fired()).await;
    server.expire_session(cut_off.session().id());
    assert_eq!(within(new_starts.recv()).await.unwrap(), ("new", task.clone(), 2));
    held.release();
    gate.add_permits(1);
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("new:2"));
    assert_settled(&zk, 1).await;
}

/// It used to keep working until it could ask a server.
#[tokio::test]
async fn a_disconnected_worker_stops_its_tasks_by_itself() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, cut_off) = (client(&server).await, client_behind(&proxy).await);
    let _master = run_master(&zk);
    let worker = Worker::new(&cut_off, "/mw", "old").unwrap();
    let (sender, mut started) = mpsc::unbounded_channel();
    let work = move |task: Task| {
        sender.send(task).unwrap();
        std::future::pending::<Result<Bytes, Failure>>()
    };
    let _worker = Stop(tokio::spawn(async move { worker.run(work).await.unwrap() }));
    zk.create("/data", "0").await.unwrap();
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let id = submitter.submit("a").await.unwrap();
    let task = within(started.recv()).await.unwrap();
    task.fenced().set("/data", "1").await.unwrap();
    assert!(!task.is_lost());
    proxy.partition();
    within(task.lost()).await;
    assert!(task.is_lost());
    // No server has told it yet.
    assert!(!cut_off.session().state().is_connected());
    proxy.heal();
    let again = within(started.recv()).await.unwrap();
    assert_eq!((again.id(), again.attempt()), (&id, 2));
    assert!(again.token() > task.token());
    again.fenced().set("/data", "2").await.unwrap();
    let error = within(task.fenced().set("/data", "x")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Deposed | ErrorKind::SessionExpired), "{error}");
    assert_eq!(zk.get("/data").await.unwrap().data, "2");
}

/// The worker cannot stop a handler that blocks its thread.
#[tokio::test]
async fn a_task_that_blocks_its_thread_is_lost_after_a_session_timeout() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let _master = run_master(&zk);
    let worker = Worker::new(&zk, "/mw", "w").unwrap();
    let (sender, mut seen) = mpsc::unbounded_channel();
    let timeout = zk.session().timeout();
    let work = move |task: Task| {
        let before = task.is_lost();
        std::thread::sleep(timeout);
        sender.send((before, task.is_lost(), task.lost().now_or_never())).unwrap();
        std::future::pending::<Result<Bytes, Failure>>()
    };
    let _worker = Stop(tokio::spawn(async move { worker.run(work).await.unwrap() }));
    Submitter::new(&zk, "/mw").unwrap().submit("a").await.unwrap();
    assert_eq!(within(seen.recv()).await.unwrap(), (false, true, Some(())));
}

async fn await_registration(zk: &Client) {
    within(async {
        while names(zk, "/mw/workers").await.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The node exists, but its worker does not know that yet.
#[tokio::test]
async fn a_worker_that_stops_while_it_registers_leaves_no_registration() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, other) = (client(&server).await, client_behind(&proxy).await);
    let create = Rule::new(Fault::HoldReply).on(OpCode::Create2).path_containing("/mw/workers/w");
    let held = proxy.add_rule(create);
    let stopping = run_shouter(&other, "w");
    within(held.until_fired()).await;
    await_registration(&zk).await;
    drop(stopping);
    held.release();
    eventually(|| server.ephemerals(other.session().id()).is_empty()).await;
}

/// The deletion of a registration was repeated by its name when the reply to it was lost.
#[tokio::test]
async fn a_worker_that_stops_does_not_delete_the_next_ones_registration() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, old) = (client(&server).await, client_behind(&proxy).await);
    let stopping = run_shouter(&old, "w");
    await_registration(&zk).await;
    let lost = proxy.once(OpCode::Delete, Fault::CutBeforeReply);
    proxy.refuse_connections();
    drop(stopping);
    within(lost.until_fired()).await;
    let _next = run_shouter(&zk, "w");
    await_registration(&zk).await;
    let registered = zk.get("/mw/workers/w").await.unwrap().stat;
    let requests = proxy.traffic().requests_in_all();
    proxy.accept_connections();
    within(old.sync("/").send()).await.unwrap();
    // Any further requests are sent now.
    within(proxy.until(|traffic| traffic.requests_in_all() > requests + 2)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(zk.exists("/mw/workers/w").await.unwrap(), Some(registered));
}

/// Its deadline is meant for single calls.
#[tokio::test]
async fn masters_and_workers_survive_a_failover_longer_than_their_clients_deadline() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let options = Client::options().deadline(Duration::from_millis(200));
    let hasty = within(options.connect(&server.connect_string())).await.unwrap();
    let _master = run_master(&hasty);
    let _worker = run_shouter(&hasty, "w");
    let monitor =
        HeartbeatMonitor::start(&hasty, "/hearts", Duration::from_secs(3600)).await.unwrap();
    let mut events = monitor.events();
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = submitter.submit("a").await.unwrap();
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("A"));
    server.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.start_again();
    let task = within(submitter.submit("b")).await.unwrap();
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("B"));
    let _heart = within(Heartbeat::start(&zk, "/hearts", "a")).await.unwrap();
    assert_eq!(within(events.next()).await, Some(HeartbeatEvent::Appeared("a".into())));
}

#[tokio::test]
async fn a_worker_whose_registration_is_deleted_registers_again() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let _master = run_master(&zk);
    let gate = Arc::new(Semaphore::new(0));
    let (_worker, mut starts) = run_gated(&zk, "w", &gate);
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = submitter.submit("a").await.unwrap();
    assert_eq!(within(starts.recv()).await.unwrap().2, 1);
    zk.delete("/mw/workers/w").await.unwrap();
    // The name is the same, but the master does not take it for the same worker.
    assert_eq!(within(starts.recv()).await.unwrap().2, 2);
    gate.add_permits(1);
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("w:2"));
}

#[tokio::test]
async fn a_deposed_master_cannot_assign() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, old) = (client(&server).await, client_behind(&proxy).await);
    let master = Master::new(&old, "/mw").unwrap();
    let mut roles = master.roles();
    let _old = Stop(tokio::spawn(async move { master.run().await.unwrap() }));
    while within(roles.next()).await != Some(Role::Active) {}
    let _backup = run_master(&zk);
    let gate = Arc::new(Semaphore::new(1));
    let (_worker, _starts) = run_gated(&zk, "w", &gate);
    // Its first assignment is in flight when it is deposed.
    let held = proxy
        .add_rule(Rule::new(Fault::HoldRequest).on(OpCode::Multi).path_containing("/assign/w/"));
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = submitter.submit("a").await.unwrap();
    within(held.until_fired()).await;
    let mut line = names(&zk, "/mw/master").await;
    line.sort_by_key(|name| name[name.len() - 10..].to_owned());
    zk.delete(&format!("/mw/master/{}", line[0])).await.unwrap();
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("w:1"));
    let second = submitter.submit("b").await.unwrap();
    held.release();
    gate.add_permits(1);
    assert_eq!(within(submitter.result(&second)).await.unwrap(), done("w:1"));
    assert_eq!(submitter.status(&task).await.unwrap().attempts, 1);
    assert_settled(&zk, 2).await;
}

#[tokio::test]
async fn failures_are_tried_again_and_then_given_up_with_the_payload_kept() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let master = Master::new(&zk, "/mw").unwrap().attempts_max(2);
    let _master = Stop(tokio::spawn(async move { master.run().await }));
    let worker = Worker::new(&zk, "/mw", "w").unwrap();
    let _worker = Stop(tokio::spawn(async move {
        worker
            .run(|task: Task| async move {
                match &task.payload()[..] {
                    b"panics" => panic!("a bug"),
                    b"flaky" if !task.is_last_attempt() => Err(Failure::transient("not yet")),
                    b"hopeless" => Err(Failure::transient("never")),
                    b"number" => Err(task.json::<u32>().unwrap_err().into()),
                    b"huge" => Ok(vec![0; 1_000_001]),
                    _ => Ok(b"fine".to_vec()),
                }
            })
            .await
    }));
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    for (payload, attempts, reason) in [
        ("panics", 2, "died"),
        ("hopeless", 2, "never"),
        ("number", 1, "cannot be read"),
        ("huge", 1, "too large"),
    ] {
        let task = submitter.submit(payload).await.unwrap();
        let Ending::Failed { reason: given } = within(submitter.result(&task)).await.unwrap()
        else {
            panic!("{payload} was not given up");
        };
        assert!(given.contains(reason), "{payload}: {given}");
        let status = submitter.status(&task).await.unwrap();
        assert_eq!((status.state, status.attempts), (TaskState::Failed, attempts), "{payload}");
        let dead = zk.get(&format!("/mw/dead/{task}")).await.unwrap();
        assert_eq!(dead.data, payload);
        submitter.forget(&task).await.unwrap();
    }
    let flaky = submitter.submit("flaky").await.unwrap();
    assert_eq!(within(submitter.result(&flaky)).await.unwrap(), done("fine"));
    assert_eq!(names(&zk, "/mw/dead").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_task_that_kills_its_workers_is_given_up() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let _master = run_master(&zk);
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = submitter.submit("poison").await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    for attempt in 1..=3 {
        let victim = client(&server).await;
        let (_worker, mut starts) = run_gated(&victim, "w", &gate);
        assert_eq!(within(starts.recv()).await.unwrap().2, attempt);
        server.expire_session(victim.session().id());
    }
    let Ending::Failed { reason } = within(submitter.result(&task)).await.unwrap() else {
        panic!("the task was not given up");
    };
    assert!(reason.contains("left during attempt"), "{reason}");
    assert_eq!(zk.get(&format!("/mw/dead/{task}")).await.unwrap().data, "poison");
    assert_settled(&zk, 1).await;
}

#[tokio::test]
async fn a_task_is_cancelled_wherever_it_is() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let waiting = submitter.submit("a").await.unwrap();
    assert_eq!(submitter.cancel(&waiting).await.unwrap(), Ending::Cancelled);
    assert_eq!(within(submitter.result(&waiting)).await.unwrap(), Ending::Cancelled);

    let _master = run_master(&zk);
    let gate = Arc::new(Semaphore::new(0));
    let (_worker, mut starts) = run_gated(&zk, "w", &gate);
    let running = submitter.submit("b").await.unwrap();
    let next = submitter.submit("c").await.unwrap();
    assert_eq!(within(starts.recv()).await.unwrap().1, running);
    assert!(matches!(submitter.forget(&running).await, Err(Error::InvalidArgument(_))));
    assert_eq!(submitter.cancel(&running).await.unwrap(), Ending::Cancelled);
    // The worker takes one task at a time, so it has stopped the one that was cancelled.
    assert_eq!(within(starts.recv()).await.unwrap().1, next);
    gate.add_permits(1);
    assert_eq!(within(submitter.result(&next)).await.unwrap(), done("w:1"));
    assert_eq!(submitter.cancel(&next).await.unwrap(), done("w:1"));
    assert_settled(&zk, 3).await;
}

#[tokio::test]
async fn a_task_can_be_followed() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = submitter.submit("a").await.unwrap();
    let mut statuses = submitter.follow(&task);
    let first = within(statuses.next()).await.unwrap().unwrap();
    assert_eq!((first.state, first.attempts), (TaskState::Waiting, 0));
    let _master = run_master(&zk);
    let worker = Worker::new(&zk, "/mw", "w").unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let inner = Arc::clone(&gate);
    let _worker = Stop(tokio::spawn(async move {
        worker
            .run(move |task: Task| {
                let gate = Arc::clone(&inner);
                async move {
                    task.report(Progress::new(40, "halfway, nearly"));
                    gate.acquire().await.unwrap().forget();
                    Ok::<_, Failure>("x")
                }
            })
            .await
    }));
    loop {
        let status = within(statuses.next()).await.unwrap().unwrap();
        if let Some(progress) = status.progress {
            assert_eq!((progress.percent(), progress.text()), (40, "halfway, nearly"));
            assert_eq!(status.state, TaskState::Assigned { worker: "w".into() });
            break;
        }
    }
    gate.add_permits(1);
    let last = within(statuses.next()).await.unwrap().unwrap();
    assert_eq!((last.state, last.attempts), (TaskState::Done, 1));
    assert!(within(statuses.next()).await.is_none());
    let unknown = "nobody".parse().unwrap();
    let error = within(submitter.follow(&unknown).next()).await.unwrap().unwrap_err();
    assert_eq!(error.client_kind(), Some(&ErrorKind::NoNode));
}

#[tokio::test]
async fn ended_tasks_beyond_the_limit_are_forgotten() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let task = submitter.submit("a").await.unwrap();
        submitter.cancel(&task).await.unwrap();
        tasks.push(task);
    }
    let master = Master::new(&zk, "/mw").unwrap().keep_ended(2);
    let _master = Stop(tokio::spawn(async move { master.run().await }));
    within(async {
        while names(&zk, "/mw/results").await.len() > 2 {
            let (_, watch) = zk.children("/mw/results").watch().await.unwrap();
            if names(&zk, "/mw/results").await.len() > 2 {
                watch.await.unwrap();
            }
        }
    })
    .await;
    let forgotten = within(submitter.result(&tasks[2])).await.unwrap_err();
    assert_eq!(forgotten.client_kind(), Some(&ErrorKind::NoNode));
    assert_eq!(within(submitter.result(&tasks[3])).await.unwrap(), Ending::Cancelled);
    assert_settled(&zk, 2).await;
}

#[tokio::test]
async fn bad_input_is_refused_and_leaves_nothing_behind() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for root in ["", "mw", "/", "/mw/", "/a//b"] {
        assert!(Submitter::new(&zk, root).is_err(), "{root:?}");
        assert!(Master::new(&zk, root).is_err(), "{root:?}");
    }
    for id in ["", "a/b", ".", ".."] {
        assert!(Worker::new(&zk, "/mw", id).is_err(), "{id:?}");
    }
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    assert!(matches!(submitter.submit_once("", "a").await, Err(Error::InvalidArgument(_))));
    let huge = vec![0; 1_000_001];
    assert!(matches!(submitter.submit(huge).await, Err(Error::InvalidArgument(_))));
    let idle = Worker::new(&zk, "/mw", "w").unwrap().concurrency(0);
    assert!(matches!(idle.run(shout).await, Err(Error::InvalidArgument(_))));
    let hopeless = Master::new(&zk, "/mw").unwrap().attempts_max(0);
    assert!(matches!(hopeless.run().await, Err(Error::InvalidArgument(_))));
    assert!(zk.exists("/mw").await.unwrap().is_none());

    let full = submitter.backlog_max(1);
    let task = full.submit_once("k", "a").await.unwrap();
    assert!(matches!(full.submit("b").await, Err(Error::Full { limit: 1 })));
    assert_eq!(full.submit_once("k", "a").await.unwrap(), task);
    assert_eq!(names(&zk, "/mw/tasks").await.len(), 1);
}

#[tokio::test]
async fn foreign_nodes_are_ignored() {
    let server = TestServer::start();
    let zk = client(&server).await;
    for path in ["status/readme", "workers/readme", "assign/w/readme", "master/readme", "tasks/x"] {
        zk.create(&format!("/mw/{path}"), "hello").parents().await.unwrap();
    }
    let _running = (run_master(&zk), run_shouter(&zk, "w"));
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = submitter.submit("a").await.unwrap();
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("A"));
    assert_eq!(zk.get("/mw/assign/w/readme").await.unwrap().data, "hello");
    assert_eq!(zk.get("/mw/status/readme").await.unwrap().data, "hello");
}

#[tokio::test]
async fn tasks_whose_nodes_were_deleted_by_hand_end_all_the_same() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let without_payload = submitter.submit("a").await.unwrap();
    zk.delete(&format!("/mw/tasks/{without_payload}")).await.unwrap();
    let _master = run_master(&zk);
    let gate = Arc::new(Semaphore::new(0));
    let worker = run_gated(&zk, "w", &gate);
    let ending = within(submitter.result(&without_payload)).await.unwrap();
    assert!(matches!(ending, Ending::Failed { .. }), "{ending:?}");

    let (stop, mut starts) = worker;
    let without_assignment = submitter.submit("b").await.unwrap();
    within(starts.recv()).await.unwrap();
    drop(stop);
    for assignment in names(&zk, "/mw/assign/w").await {
        // It does not matter whether the master was faster.
        let _ = zk.delete(&format!("/mw/assign/w/{assignment}")).await;
    }
    let _worker = run_shouter(&zk, "other");
    assert_eq!(within(submitter.result(&without_assignment)).await.unwrap(), done("B"));
}

#[tokio::test]
async fn work_continues_when_the_server_is_restarted() {
    let mut server = TestServer::start();
    let zk = client(&server).await;
    let _master = run_master(&zk);
    let gate = Arc::new(Semaphore::new(0));
    let (_worker, mut starts) = run_gated(&zk, "w", &gate);
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let first = submitter.submit("a").await.unwrap();
    within(starts.recv()).await.unwrap();
    server.restart();
    gate.add_permits(8);
    let second = within(submitter.submit("b")).await.unwrap();
    for task in [&first, &second] {
        assert!(matches!(within(submitter.result(task)).await.unwrap(), Ending::Done(_)));
    }
    assert_settled(&zk, 2).await;
}
