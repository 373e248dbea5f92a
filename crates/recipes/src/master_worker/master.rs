//! The master: stands by until it leads, and then assigns tasks to workers.
//!
//! In: the tree. Out: the steps of [`plan`](super::plan), each a transaction that also checks the master's own node
//! in line. A loop: read what may have changed, plan, carry out, and wait when there is nothing to do. The result of
//! a step is read back, whether its reply arrived or not.

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Op, OpResult, PersistentWatch, Reply, WatchUpdate};
use tokio::sync::watch;
use tokio::time::sleep;

use super::mastership::{Form, Mastership};
use super::nodes::{Paths, State};
use super::plan::{Limits, Step, plan_steps};
use super::role::{Active, Role};
use super::steps::{self, Assignee, TaskNodes};
use super::task::{Ending, TaskId};
use super::view::{KnownTask, View};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::retrying::{PAUSE, must_restart, retrying};

/// Steps that are in flight at once.
const PIPELINE: usize = 64;

/// A master; run one in each process that should stand by.
///
/// ```
/// # tokio_test_block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// use herdsman_recipes::master_worker::{Ending, Failure, Master, Submitter, Task, Worker};
///
/// let master = Master::new(&zk, "/jobs")?.attempts_max(5);
/// tokio::spawn(async move { master.run().await });
/// let worker = Worker::new(&zk, "/jobs", "worker-1")?;
/// tokio::spawn(async move { worker.run(shout).await });
///
/// async fn shout(task: Task) -> Result<Vec<u8>, Failure> {
///     Ok(task.payload().to_ascii_uppercase())
/// }
///
/// let submitter = Submitter::new(&zk, "/jobs")?;
/// let task = submitter.submit("hello").await?;
/// assert_eq!(submitter.result(&task).await?, Ending::Done("HELLO".into()));
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
/// # }
/// ```
#[derive(Debug)]
pub struct Master {
    client: Client,
    paths: Paths,
    id: String,
    form: Form,
    limits: Limits,
    role: watch::Sender<Role>,
}

impl Master {
    /// Creates a master of the tasks at `root`.
    pub fn new(client: &Client, root: &str) -> Result<Self> {
        Ok(Master {
            client: client.clone(),
            paths: Paths::new(root)?,
            id: String::new(),
            form: Form::Line,
            limits: Limits { attempts_max: 3, per_worker_max: 64, ended_max: 1000 },
            role: watch::Sender::new(Role::Backup),
        })
    }

    /// Sets the id in this master's node, for operators.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.id);
        self
    }

    /// Makes the active master one ephemeral node, `<root>/master`, with its [id](Master::id) as data, instead of the
    /// first in a line of candidates: for programs that read a fixed path to find the master, and whether there is
    /// one. When it is deleted, all masters that stand by wake up. All masters of a root must use the same form;
    /// [`run`](Master::run) fails if the path is that of a line.
    ///
    /// ```
    /// # tokio_test_block_on(async {
    /// # let server = herdsman_testing::TestServer::start();
    /// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
    /// use herdsman_recipes::master_worker::{Master, Role};
    ///
    /// let master = Master::new(&zk, "/jobs")?.id("host-1").single_node();
    /// let mut roles = master.roles();
    /// tokio::spawn(async move { master.run().await });
    /// while roles.next().await != Some(Role::Active) {}
    /// assert_eq!(zk.get("/jobs/master").await?.data, "host-1");
    /// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
    /// # fn tokio_test_block_on<F: std::future::Future>(future: F) -> F::Output {
    /// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    /// # }
    /// ```
    #[must_use]
    pub fn single_node(mut self) -> Self {
        self.form = Form::SingleNode;
        self
    }

    /// Sets how often a task is tried before it is given up; default 3. An attempt counts when the task is assigned
    /// to a worker, so the death of a worker counts.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.limits.attempts_max = attempts;
        self
    }

    /// Sets how many tasks a worker gets at once, even if it accepts more; default 64.
    #[must_use]
    pub fn per_worker_max(mut self, tasks: usize) -> Self {
        self.limits.per_worker_max = tasks;
        self
    }

    /// Sets how many ended tasks are kept with their results; default 1000. Beyond that those that ended first are
    /// forgotten, whether they were read or not.
    #[must_use]
    pub fn keep_ended(mut self, tasks: usize) -> Self {
        self.limits.ended_max = tasks;
        self
    }

    /// Returns its current role, as far as it knows.
    #[must_use]
    pub fn role(&self) -> Role {
        *self.role.borrow()
    }

    /// Returns its current role, and each change; a slow reader sees only the latest.
    pub fn roles(&self) -> Events<Role> {
        Events::of_latest(self.role.subscribe(), Some)
    }

    /// Stands by, leads when it is its turn, and stands by again when it was deposed. Returns only with a permanent
    /// error, such as a closed client. Dropping the future resigns.
    pub async fn run(&self) -> Result<()> {
        if self.limits.attempts_max == 0 || self.limits.per_worker_max == 0 {
            return Err(Error::invalid("a task needs at least one attempt, and a worker one task"));
        }
        loop {
            let mastership =
                Mastership::wait(&self.client, &self.paths, self.form, &self.id).await?;
            let active = Active::new(&self.role);
            let led = mastership.hold().run(self.lead(&mastership)).await.flatten();
            drop(active);
            match led {
                Err(error) if must_restart(&self.client, &error) => {
                    tracing::info!(%error, "no longer the active master");
                }
                ended => return ended,
            }
        }
    }

    async fn lead(&self, mastership: &Mastership) -> Result<()> {
        let client = retrying(mastership.hold().client());
        self.paths.make(&client).await?;
        let mut statuses = client.watch(&self.paths.statuses()).recursive().await?;
        let mut workers = client.watch(&self.paths.workers()).recursive().await?;
        let mut view = View::unread();
        loop {
            view.refresh(&client, &self.paths).await?;
            let planned = plan_steps(&view.tasks, &view.workers, &self.limits);
            if planned.is_empty() {
                self.await_change(&mut view, &mut statuses, &mut workers).await?;
                continue;
            }
            let check = mastership.check();
            let active =
                ActiveMaster { check, client: &client, paths: &self.paths, limits: &self.limits };
            if active.carry_out(&mut view, &planned).await? == 0 {
                sleep(PAUSE).await;
            }
        }
    }

    /// Waits for an event, and takes those already queued after it, so that one plan covers all of them.
    async fn await_change(
        &self,
        view: &mut View,
        statuses: &mut PersistentWatch,
        workers: &mut PersistentWatch,
    ) -> Result<()> {
        let mut has_news = false;
        loop {
            tokio::select! {
                biased;
                update = statuses.next() => view.note_status(&self.paths, &still_watching(update)?),
                update = workers.next() => {
                    still_watching(update)?;
                    view.mark_workers();
                }
                () = std::future::ready(()), if has_news => return Ok(()),
            }
            has_news = true;
        }
    }
}

/// Fails if the watch has ended, as it does with the session.
fn still_watching(update: Option<WatchUpdate>) -> Result<WatchUpdate> {
    update.ok_or(Error::Lost)
}

/// The active master.
struct ActiveMaster<'m> {
    /// The first operation of every write.
    check: Op,
    client: &'m Client,
    paths: &'m Paths,
    limits: &'m Limits,
}

impl ActiveMaster<'_> {
    /// Carries out the steps, many at a time; returns how many have succeeded for certain.
    async fn carry_out(&self, view: &mut View, planned: &[Step]) -> Result<usize> {
        let mut succeeded = 0;
        for chunk in planned.chunks(PIPELINE) {
            let mut sent = Vec::with_capacity(chunk.len());
            for step in chunk {
                if let Some(known) = view.tasks.get(step.task()).cloned() {
                    sent.push((step, self.send(&self.writes(view, step, &known).await?)));
                }
            }
            for (step, reply) in sent {
                let done = reply.await;
                view.mark_task(step.task());
                match done {
                    Ok(_) => succeeded += 1,
                    Err(error) => self.learn_from(view, step, error).await?,
                }
            }
        }
        Ok(succeeded)
    }

    /// Sends writes behind the check: no write of a deposed master is applied.
    fn send(&self, writes: &[Op]) -> Reply<Vec<OpResult>> {
        let fence = std::iter::once(self.check.clone());
        self.client.transaction(fence.chain(writes.iter().cloned())).send()
    }

    async fn writes(&self, view: &View, step: &Step, known: &KnownTask) -> Result<Vec<Op>> {
        let has_assignment = !known.lacks_assignment;
        Ok(match step {
            Step::Assign { task, worker } => {
                let incarnation = view
                    .workers
                    .get(worker)
                    .map_or_else(Default::default, |known| known.incarnation);
                let attempts_max = self.limits.attempts_max;
                let to = Assignee { worker: worker.clone(), incarnation, attempts_max };
                steps::assign(self.paths, task, &known.now, &to)
            }
            Step::HandBack(task) => {
                let task_nodes = TaskNodes { has_assignment, payload: None };
                steps::hand_back(self.paths, task, &known.now, &task_nodes)
            }
            Step::GiveUp(task) => {
                let payload = self.payload(task).await?;
                let task_nodes = TaskNodes { has_assignment, payload };
                let ending = Ending::Failed { reason: failure_reason(known) };
                steps::end(self.paths, task, &known.now, &task_nodes, &ending)
            }
            Step::Forget(task) => {
                let has_dead_letter = self.client.exists(&self.paths.dead(task)).await?.is_some();
                steps::forget(self.paths, task, &known.now, has_dead_letter)
            }
        })
    }

    async fn payload(&self, task: &TaskId) -> Result<Option<Bytes>> {
        match self.client.get(&self.paths.task(task)).await {
            Err(error) if error.is_no_node() => Ok(None),
            read => Ok(Some(read?.data)),
        }
    }

    /// Learns from a failed step. Fails only if this master is no longer the active one.
    async fn learn_from(
        &self,
        view: &mut View,
        step: &Step,
        error: herdsman_client::Error,
    ) -> Result<()> {
        tracing::debug!(?step, %error, "a step failed");
        // The fence is the first write.
        let failed = error.failed_op().map(|index| index.checked_sub(1));
        match (failed, error.kind(), step) {
            (Some(None), _, _) => return Err(Error::Lost),
            (_, ErrorKind::SessionExpired | ErrorKind::Closed, _) => return Err(error.into()),
            (Some(Some(steps::ASSIGN_CREATES)), ErrorKind::NoNode, Step::Assign { worker, .. }) => {
                self.create_directory(worker).await?;
            }
            (Some(Some(steps::DELETES_ASSIGNMENT)), ErrorKind::NoNode, task_loses) => {
                self.note_missing(view, task_loses);
            }
            _ => view.mark_workers(),
        }
        Ok(())
    }

    fn note_missing(&self, view: &mut View, step: &Step) {
        match step {
            Step::HandBack(task) | Step::GiveUp(task) => {
                if let Some(known) = view.tasks.get_mut(task) {
                    known.lacks_assignment = true;
                }
            }
            _ => view.mark_workers(),
        }
    }

    /// Creates a worker's directory of assignments: for its first task, or the first since the directory was last
    /// empty.
    async fn create_directory(&self, worker: &str) -> Result<()> {
        match self.send(&steps::create_directory(self.paths, worker)).await {
            Err(error) if error.is_node_exists() => Ok(()),
            Err(error) if error.failed_op() == Some(0) => Err(Error::Lost),
            // It may have been applied; the next attempt to assign shows that.
            Err(error) if error.is_retriable() => Ok(()),
            made => Ok(made.map(drop)?),
        }
    }
}

fn failure_reason(known: &KnownTask) -> String {
    let attempts = known.now.status.attempts;
    match &known.now.status.state {
        State::Assigned { worker, .. } => {
            format!("worker {worker} left during attempt {attempts}, the last one")
        }
        _ => format!("attempt {attempts} was the last one"),
    }
}
