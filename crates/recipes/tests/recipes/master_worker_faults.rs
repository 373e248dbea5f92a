//! Masters and workers are killed, disconnected and expired at random, and every task is done once.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use herdsman_client::{Client, EventType, WatchUpdate};
use herdsman_recipes::master_worker::{Ending, Failure, Master, Submitter, Task, Worker};
use herdsman_testing::{TestProxy, TestServer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::common::{client, client_behind, within};
use crate::master_worker::assert_settled;

const MASTERS: usize = 3;
const WORKERS: usize = 4;
const TASKS: usize = 60;

/// A master or worker behind its own proxy.
struct Process {
    kind: Kind,
    proxy: TestProxy,
    client: Client,
    running: JoinHandle<()>,
}

#[derive(Clone, Copy)]
enum Kind {
    Master,
    Worker(usize),
}

type Starts = mpsc::UnboundedSender<()>;

impl Process {
    async fn start(server: &TestServer, kind: Kind, starts: &Starts) -> Self {
        let proxy = TestProxy::start(server.address());
        let client = client_behind(&proxy).await;
        let running = spawn(&client, kind, starts);
        Process { kind, proxy, client, running }
    }

    async fn inject_fault(&mut self, server: &TestServer, rng: &mut Rng, starts: &Starts) {
        match rng.u8(..4) {
            0 => self.proxy.cut(),
            1 => server.expire_session(self.client.session().id()),
            // Killed and started again, in the same session.
            2 => {
                self.running.abort();
                self.running = spawn(&self.client, self.kind, starts);
            }
            // Killed with its process: the session is not closed, and another process takes its place.
            _ => {
                self.running.abort();
                self.proxy.cut();
                server.expire_session(self.client.session().id());
                self.client = client_behind(&self.proxy).await;
                self.running = spawn(&self.client, self.kind, starts);
            }
        }
    }
}

fn spawn(client: &Client, kind: Kind, starts: &Starts) -> JoinHandle<()> {
    match kind {
        Kind::Master => {
            let master = Master::new(client, "/mw").unwrap().attempts_max(u32::MAX);
            tokio::spawn(async move { drop(master.run().await) })
        }
        Kind::Worker(number) => {
            let worker = Worker::new(client, "/mw", &format!("w{number}")).unwrap().concurrency(2);
            let starts = starts.clone();
            let work = move |task: Task| {
                // The receiver is dropped at the end of the test.
                let _ = starts.send(());
                async move {
                    // The work: long enough to be interrupted.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    Ok::<_, Failure>(task.payload().clone())
                }
            };
            tokio::spawn(async move { drop(worker.run(work).await) })
        }
    }
}

async fn run_with_faults(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let server = TestServer::start();
    let zk = client(&server).await;
    let mut results_made = zk.watch("/mw/results").recursive().await.unwrap();
    let (starts, mut started) = mpsc::unbounded_channel();
    let mut processes = Vec::new();
    let kinds = (0..MASTERS).map(|_| Kind::Master).chain((0..WORKERS).map(Kind::Worker));
    for kind in kinds {
        processes.push(Process::start(&server, kind, &starts).await);
    }
    let submitter = Submitter::new(&zk, "/mw").unwrap();
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        tasks.push(submitter.submit(number.to_string()).await.unwrap());
    }
    // One fault for every third attempt at a task, until all are done.
    let all_done = async {
        for (number, task) in tasks.iter().enumerate() {
            let ending = submitter.result(task).await.unwrap();
            assert_eq!(ending, Ending::Done(number.to_string().into()), "seed {seed}");
        }
    };
    let mut faults_injected = 0;
    let faults = async {
        let mut attempts = 0_usize;
        while started.recv().await.is_some() {
            attempts += 1;
            if attempts.is_multiple_of(3) {
                faults_injected += 1;
                let process = rng.usize(..processes.len());
                processes[process].inject_fault(&server, &mut rng, &starts).await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), async {
        tokio::select! {
            () = all_done => {}
            () = faults => unreachable!("the workers hold senders"),
        }
    })
    .await
    .unwrap_or_else(|_| panic!("seed {seed}: not all tasks were done"));
    assert!(faults_injected >= TASKS / 3, "seed {seed}: {faults_injected} faults_injected");
    for process in &processes {
        process.running.abort();
    }
    assert_settled(&zk, TASKS).await;
    zk.create("/mw/results/end", "").await.unwrap();
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        match within(results_made.next()).await.unwrap() {
            WatchUpdate::Event(event) if event.path == "/mw/results/end" => break,
            WatchUpdate::Event(event) => {
                assert_ne!(event.kind, EventType::NodeDataChanged, "seed {seed}: {event:?}");
                *made.entry(event.path).or_default() += 1;
            }
            _ => panic!("seed {seed}: an event of the results was missed"),
        }
    }
    made.remove("/mw/results");
    assert_eq!(made.len(), TASKS, "seed {seed}");
    assert!(made.values().all(|times| *times == 1), "seed {seed}: {made:?}");
}

#[tokio::test]
async fn every_task_is_done_once_with_random_faults_first_seed() {
    run_with_faults(1).await;
}

#[tokio::test]
async fn every_task_is_done_once_with_random_faults_second_seed() {
    run_with_faults(2).await;
}

#[tokio::test]
async fn every_task_is_done_once_with_random_faults_third_seed() {
    run_with_faults(3).await;
}
