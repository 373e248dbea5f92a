//! Tasks with a key: there is one at a time, and when the key is used again after its task was forgotten, the two
//! tasks have only their id in common.

use std::sync::Arc;

use herdsman_client::{Client, ErrorKind};
use herdsman_recipes::master_worker::{Ending, Failure, Submitter, Task, TaskState, Worker};
use herdsman_testing::{TestProxy, TestServer};
use tokio::sync::{Semaphore, mpsc};

use crate::common::{client, client_behind, within};
use crate::master_worker::{Stop, assert_settled, done, run_master, run_shouter};

type Tasks = mpsc::UnboundedReceiver<Task>;

/// Starts a worker that passes on its tasks, and ends each with its payload when it gets a permit.
fn run_echo(zk: &Client, gate: &Arc<Semaphore>) -> (Stop<()>, Tasks) {
    let worker = Worker::new(zk, "/mw", "w").unwrap();
    let gate = Arc::clone(gate);
    let (sender, tasks) = mpsc::unbounded_channel();
    let work = move |task: Task| {
        let gate = Arc::clone(&gate);
        sender.send(task.clone()).unwrap();
        async move {
            gate.acquire().await.unwrap().forget();
            Ok::<_, Failure>(task.payload().clone())
        }
    };
    (Stop(tokio::spawn(async move { worker.run(work).await.unwrap() })), tasks)
}

#[tokio::test]
async fn the_same_key_is_the_same_task() {
    let server = TestServer::start();
    let zk = client(&server).await;
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let task = submitter.submit_once("k", "first").await.unwrap();
    assert_eq!(submitter.submit_once("k", "second").await.unwrap(), task);
    assert_ne!(submitter.submit_once("other", "x").await.unwrap(), task);
    let _running = (run_master(&zk), run_shouter(&zk, "w"));
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("FIRST"));
    // An ended task is still known, until it is forgotten.
    assert_eq!(submitter.submit_once("k", "third").await.unwrap(), task);
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("FIRST"));
    submitter.forget(&task).await.unwrap();
    assert_eq!(submitter.submit_once("k", "fourth").await.unwrap(), task);
    assert_eq!(within(submitter.result(&task)).await.unwrap(), done("FOURTH"));
}

/// Ends the task with the key `k`, and submits another one.
async fn replace(submitter: &Submitter, task: &Task) {
    assert_eq!(submitter.cancel(task.id()).await.unwrap(), Ending::Cancelled);
    submitter.forget(task.id()).await.unwrap();
    assert_eq!(submitter.submit_once("k", "second").await.unwrap(), *task.id());
}

/// The status of the second task has the same version as that of the first one had.
#[tokio::test]
async fn the_writes_of_a_forgotten_task_do_not_count_for_the_next_one_with_its_key() {
    let server = TestServer::start();
    let zk = client(&server).await;
    zk.create("/data", "").await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (_master, (_worker, mut tasks)) = (run_master(&zk), run_echo(&zk, &gate));
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    submitter.submit_once("k", "first").await.unwrap();
    let first = within(tasks.recv()).await.unwrap();
    first.fenced().set("/data", "first").await.unwrap();
    replace(&submitter, &first).await;
    let second = within(tasks.recv()).await.unwrap();
    assert_eq!(second.payload(), "second");
    let error = first.fenced().set("/data", "too late").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Deposed);
    second.fenced().set("/data", "second").await.unwrap();
}

/// When the worker is connected again, its directory looks as before.
#[tokio::test]
async fn a_worker_that_did_not_see_its_task_replaced_does_not_end_the_next_one_with_its_result() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let (zk, cut_off) = (client(&server).await, client_behind(&proxy).await);
    let gate = Arc::new(Semaphore::new(0));
    let (_master, (_worker, mut tasks)) = (run_master(&zk), run_echo(&cut_off, &gate));
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    submitter.submit_once("k", "first").await.unwrap();
    let first = within(tasks.recv()).await.unwrap();
    proxy.partition();
    replace(&submitter, &first).await;
    let mut statuses = submitter.follow(first.id());
    while within(statuses.next()).await.unwrap().unwrap().state == TaskState::Waiting {}
    proxy.heal();
    // One for each of the two.
    gate.add_permits(2);
    let ending = within(submitter.result(first.id())).await.unwrap();
    assert_eq!(ending, done("second"));
    assert_settled(&zk, 1).await;
}
