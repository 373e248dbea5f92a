//! A worker: registers, carries out the tasks that are assigned to it, and reports.
//!
//! In: names in its directory of assignments. Out: executions, as many at once as the worker takes. If an assignment
//! is deleted while its task runs (cancelled, or taken away), the task is stopped. When the session has ended or may
//! have (no server was heard from for a session timeout), or the registration was deleted, all tasks are stopped and
//! the worker registers again.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{Client, Fenced, Session};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinSet};
use uuid::Uuid;

use super::execution::{Attempt, Attempted, Execution};
use super::nodes::{Assignment, AssignmentName, Paths, WorkerRecord};
use super::registration::register;
use super::task::{Failure, TaskId};
use crate::contact::{is_silent, live_session, session_lost};
use crate::error::{Error, Result};
use crate::messaging::Progress;
use crate::messaging::envelope::{from_json, to_json, user_json};
use crate::path;
use crate::retrying::{must_restart, retrying};

/// The user's handler, with its type erased.
pub(super) type Work =
    Arc<dyn Fn(Task) -> Pin<Box<dyn Future<Output = Result<Bytes, Failure>> + Send>> + Send + Sync>;

/// A task that a worker carries out.
#[derive(Clone, Debug)]
pub struct Task {
    id: TaskId,
    payload: Bytes,
    attempt: u32,
    attempts_max: u32,
    token: u64,
    fenced: Fenced,
    session: Session,
    reports: watch::Sender<Option<Progress>>,
    /// Closed when the attempt has ended.
    over: watch::Receiver<()>,
}

impl Task {
    pub(super) fn new(
        id: TaskId,
        payload: Bytes,
        attempt: &Attempt,
        session: Session,
        reports: watch::Sender<Option<Progress>>,
        over: watch::Receiver<()>,
    ) -> Self {
        let Assignment { attempt: number, attempts_max, .. } = attempt.assignment;
        let (token, fenced) = (attempt.token, attempt.fenced.clone());
        Task { id, payload, attempt: number, attempts_max, token, fenced, session, reports, over }
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Returns the payload that was submitted.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Returns the payload as JSON. With `?` in a handler, a payload that cannot be decoded fails the task for good.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        from_json(&format!("the payload of task {}", self.id), &self.payload)
    }

    /// Returns the number of this attempt, from 1. Earlier ones may have done part or all of the work.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns whether no attempt follows if this one fails.
    #[must_use]
    pub fn is_last_attempt(&self) -> bool {
        self.attempt >= self.attempts_max
    }

    /// Returns a number that only grows from attempt to attempt, whichever worker makes it. A store that rejects
    /// tokens below the highest it has seen is safe from an attempt that does not know yet that it has ended.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns a client whose writes fail with [`Deposed`](herdsman_client::ErrorKind::Deposed), and change nothing,
    /// once the task has ended, was cancelled or was assigned again.
    #[must_use]
    pub fn fenced(&self) -> Fenced {
        self.fenced.clone()
    }

    /// Returns whether this attempt has ended, as far as this process can know: see [`Task::lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.over.has_changed().is_err() || is_silent(&self.session)
    }

    /// Resolves when the work must stop, because another worker may do it now: no server was heard from for a session
    /// timeout, the session has ended, or the task was cancelled or taken away. The handler itself is then dropped;
    /// this is for work that it has started elsewhere, for example in a thread. Also resolves when the handler has
    /// returned.
    pub async fn lost(&self) {
        let mut over = self.over.clone();
        tokio::select! {
            // Nothing is ever sent.
            _ = over.changed() => {}
            // The worker cannot notice it while the handler blocks its thread.
            () = session_lost(&self.session) => {}
        }
    }

    /// Reports progress to clients that follow the task. Never waits: a report that was not written yet is replaced.
    pub fn report(&self, progress: Progress) {
        self.reports.send_replace(Some(progress));
    }
}

/// A worker. See [`Master`](super::Master) for a whole example.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// # use herdsman_recipes::master_worker::{Master, Submitter};
/// # let master = Master::new(&zk, "/jobs")?;
/// # tokio::spawn(async move { master.run().await });
/// use herdsman_recipes::master_worker::Worker;
/// use herdsman_recipes::messaging::Progress;
///
/// let worker = Worker::new(&zk, "/jobs", "worker-1")?.concurrency(4);
/// tokio::spawn(async move {
///     worker
///         .run_json(|task, numbers: Vec<u64>| async move {
///             task.report(Progress::new(50, "adding"));
///             Ok(numbers.iter().sum::<u64>())
///         })
///         .await
/// });
/// # let submitter = Submitter::new(&zk, "/jobs")?;
/// let task = submitter.submit_json(&[1, 2, 3]).await?;
/// assert_eq!(submitter.result(&task).await?.json::<u64>()?, 6);
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Worker {
    client: Client,
    paths: Paths,
    id: String,
    concurrency: usize,
    progress_interval: Duration,
}

impl Worker {
    /// Creates a worker with an id that no other worker has at the same time.
    pub fn new(client: &Client, root: &str, id: &str) -> Result<Self> {
        let paths = Paths::new(root)?;
        if id.is_empty() || id.contains('/') {
            return Err(Error::invalid(format!("{id:?} cannot be the id of a worker")));
        }
        path::check(&paths.worker(id))?;
        let (client, id) = (client.clone(), id.to_owned());
        let progress_interval = Duration::from_millis(200);
        Ok(Worker { client, paths, id, concurrency: 1, progress_interval })
    }

    /// Sets how many tasks it takes at once; default 1.
    #[must_use]
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = tasks;
        self
    }

    /// Sets the interval in which the progress of a task is written at most once; default 200 ms.
    #[must_use]
    pub fn progress_interval(mut self, interval: Duration) -> Self {
        self.progress_interval = interval;
        self
    }

    /// Works until the client is closed. Dropping the future stops all tasks at their current await point and removes
    /// the registration; the tasks are then assigned to other workers.
    ///
    /// A task may be carried out more than once, here or elsewhere, but only one result of it counts. A handler that
    /// panics has failed one attempt.
    pub async fn run<F, W, R>(&self, work: F) -> Result<()>
    where
        F: Fn(Task) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Into<Bytes>,
    {
        self.run_work(Arc::new(move |task| {
            let working = work(task);
            Box::pin(async move { working.await.map(Into::into) })
        }))
        .await
    }

    /// Like [`Worker::run`], with payload and result as JSON. A payload that cannot be decoded fails its task for
    /// good, and the handler is not called.
    pub async fn run_json<F, W, P, R>(&self, work: F) -> Result<()>
    where
        F: Fn(Task, P) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Failure>> + Send + 'static,
        P: DeserializeOwned,
        R: Serialize,
    {
        self.run_work(Arc::new(move |task| {
            let working = task.json::<P>().map(|payload| work(task, payload));
            Box::pin(async move { Ok(user_json(&working?.await?)?) })
        }))
        .await
    }

    async fn run_work(&self, work: Work) -> Result<()> {
        if self.concurrency == 0 {
            return Err(Error::invalid("a worker must take at least one task"));
        }
        loop {
            let session = live_session(&self.client).await?;
            match self.run_in(&session, &work).await {
                Err(error) if must_restart(&self.client, &error) => {
                    tracing::info!(worker = self.id, "the session has ended; registering again");
                }
                ended => ended?,
            }
        }
    }

    /// Works in this session as long as the registration exists.
    async fn run_in(&self, session: &Session, work: &Work) -> Result<()> {
        let client = retrying(&self.client.bound_to(session));
        self.paths.make(&client).await?;
        let nonce = Uuid::new_v4().to_string();
        let record = to_json(&WorkerRecord { limit: self.concurrency, nonce });
        let path = self.paths.worker(&self.id);
        let registration = register(&client, session, &path, record).await?;
        let incarnation = registration.czxid().0;
        tokio::select! {
            served = self.serve(&client, incarnation, work) => Ok(served?),
            // Its node was deleted, the session has ended, or no server was heard from for a session timeout: tasks
            // may be assigned to other workers.
            () = registration.lost() => {
                tracing::info!(worker = self.id, "registration lost; stopping its tasks");
                Ok(())
            }
        }
    }

    async fn serve(
        &self,
        client: &Client,
        incarnation: i64,
        work: &Work,
    ) -> herdsman_client::Result<()> {
        let directory = self.paths.assignments(&self.id);
        let mut updates = client.watch(&directory).await?;
        let mut executions = Executions::default();
        loop {
            let assigned = assignments(client, &directory).await?;
            executions.keep_only(&assigned);
            for name in executions.to_start(&assigned, self.concurrency) {
                let execution = Execution {
                    client: client.clone(),
                    paths: self.paths.clone(),
                    worker: self.id.clone(),
                    incarnation,
                    name: name.clone(),
                    progress_interval: self.progress_interval,
                };
                executions.start(name, execution.run(work.clone()));
            }
            tokio::select! {
                update = updates.next() => match update {
                    Some(_) => executions.note_update(),
                    // The session has ended, or the client is closed: the next call returns the error.
                    None => return client.exists(&directory).await.map(drop),
                },
                () = executions.one_finished() => {}
            }
        }
    }
}

/// Returns this worker's assignments. Names that do not belong to the recipe are ignored.
async fn assignments(
    client: &Client,
    directory: &str,
) -> herdsman_client::Result<BTreeSet<AssignmentName>> {
    match client.children(directory).await {
        // Created by the master with the first assignment.
        Err(error) if error.is_no_node() => Ok(BTreeSet::new()),
        Err(error) => Err(error),
        Ok(children) => {
            Ok(children.names.iter().filter_map(|name| AssignmentName::parse(name)).collect())
        }
    }
}

/// The assignments whose tasks run, and those that are listed but are not for this worker.
#[derive(Default)]
struct Executions {
    executions: JoinSet<Attempted>,
    running: BTreeMap<AssignmentName, Running>,
    skipped: BTreeSet<AssignmentName>,
    /// How often the directory has changed.
    updates: u64,
}

struct Running {
    abort: AbortHandle,
    /// [`Executions::updates`] when it was started.
    since: u64,
}

impl Executions {
    fn start(
        &mut self,
        name: AssignmentName,
        run: impl Future<Output = Attempted> + Send + 'static,
    ) {
        let abort = self.executions.spawn(run);
        self.running.insert(name, Running { abort, since: self.updates });
    }

    /// Stops tasks that are no longer assigned.
    fn keep_only(&mut self, assigned: &BTreeSet<AssignmentName>) {
        for (name, running) in &self.running {
            if !assigned.contains(name) {
                running.abort.abort();
            }
        }
        self.skipped.retain(|name| assigned.contains(name));
    }

    fn to_start(&self, assigned: &BTreeSet<AssignmentName>, room: usize) -> Vec<AssignmentName> {
        let is_new = |name: &&AssignmentName| {
            !self.running.contains_key(*name) && !self.skipped.contains(*name)
        };
        let free = room.saturating_sub(self.running.len());
        assigned.iter().filter(is_new).take(free).cloned().collect()
    }

    /// Notes a change: an assignment that was skipped may have been replaced by one for this worker.
    fn note_update(&mut self) {
        self.updates += 1;
        self.skipped.clear();
    }

    /// Waits for the end of an execution; for ever if there is none.
    async fn one_finished(&mut self) {
        let Some(finished) = self.executions.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let (id, attempted) = match finished {
            Ok((id, attempted)) => (id, attempted),
            // Stopped by `keep_only`.
            Err(error) => (error.id(), Attempted::Settled),
        };
        self.remove_finished(id, attempted);
    }

    fn remove_finished(&mut self, id: Id, attempted: Attempted) {
        let finished = self.running.iter().find(|(_, running)| running.abort.id() == id);
        let Some((name, since)) = finished.map(|(name, running)| (name.clone(), running.since))
        else {
            return;
        };
        self.running.remove(&name);
        // After an update it may be a different assignment from the one that was read.
        if attempted == Attempted::Left && since == self.updates {
            self.skipped.insert(name);
        }
    }
}
