//! Decides what the master does next.
//!
//! In: the tasks and workers as they were read. Out: steps; nothing is sent or read here. Waiting tasks are assigned,
//! oldest first, to the worker with the fewest tasks that can take another. Tasks of workers that have left are
//! handed back, or given up after their last attempt. Of the ended tasks, the oldest beyond the number to keep are
//! forgotten.

use std::collections::BTreeMap;

use super::nodes::State;
use super::task::TaskId;
use super::view::{KnownTask, KnownWorker};

/// The limits that the master observes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) attempts_max: u32,
    pub(super) per_worker_max: usize,
    pub(super) ended_max: usize,
}

/// A step to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Assign { task: TaskId, worker: String },
    HandBack(TaskId),
    GiveUp(TaskId),
    Forget(TaskId),
}

impl Step {
    pub(super) fn task(&self) -> &TaskId {
        match self {
            Step::Assign { task, .. }
            | Step::HandBack(task)
            | Step::GiveUp(task)
            | Step::Forget(task) => task,
        }
    }
}

pub(super) type Tasks = BTreeMap<TaskId, KnownTask>;
pub(super) type Workers = BTreeMap<String, KnownWorker>;

/// Returns all steps that can be taken at this moment.
pub(super) fn plan_steps(tasks: &Tasks, workers: &Workers, limits: &Limits) -> Vec<Step> {
    let mut steps = plan_orphans(tasks, workers, limits);
    steps.extend(plan_assignments(tasks, workers, limits));
    steps.extend(plan_forgetting(tasks, limits));
    steps
}

/// Returns whether the worker to which the task was assigned is still the same.
fn has_its_worker(state: &State, workers: &Workers) -> bool {
    match state {
        State::Assigned { worker, incarnation, .. } => {
            workers.get(worker).is_some_and(|known| known.incarnation == *incarnation)
        }
        _ => false,
    }
}

fn plan_orphans(tasks: &Tasks, workers: &Workers, limits: &Limits) -> Vec<Step> {
    let is_orphan = |known: &KnownTask| {
        let state = &known.now.status.state;
        matches!(state, State::Assigned { .. }) && !has_its_worker(state, workers)
    };
    let orphans = tasks.iter().filter(|(_, known)| is_orphan(known));
    let step = |(task, known): (&TaskId, &KnownTask)| {
        if known.now.status.attempts < limits.attempts_max {
            Step::HandBack(task.clone())
        } else {
            Step::GiveUp(task.clone())
        }
    };
    orphans.map(step).collect()
}

fn plan_assignments(tasks: &Tasks, workers: &Workers, limits: &Limits) -> Vec<Step> {
    let mut loads: BTreeMap<&str, usize> = workers.keys().map(|id| (id.as_str(), 0)).collect();
    for known in tasks.values() {
        let state = &known.now.status.state;
        if let State::Assigned { worker, .. } = state
            && has_its_worker(state, workers)
            && let Some(load) = loads.get_mut(worker.as_str())
        {
            *load += 1;
        }
    }
    let room = |worker: &str| workers[worker].limit.min(limits.per_worker_max);
    loads.retain(|worker, load| *load < room(worker));
    if loads.is_empty() {
        return Vec::new();
    }
    let mut steps = Vec::new();
    for task in waiting_in_order(tasks) {
        let idlest = loads.iter().min_by_key(|(_, load)| **load).map(|(worker, _)| *worker);
        let Some(worker) = idlest else {
            break;
        };
        steps.push(Step::Assign { task: task.clone(), worker: worker.to_owned() });
        let load = loads.entry(worker).and_modify(|load| *load += 1).or_default();
        if *load >= room(worker) {
            loads.remove(worker);
        }
    }
    steps
}

fn waiting_in_order(tasks: &Tasks) -> Vec<&TaskId> {
    let is_waiting = |known: &KnownTask| known.now.status.state == State::Waiting;
    let mut waiting: Vec<_> = tasks.iter().filter(|(_, known)| is_waiting(known)).collect();
    waiting.sort_by_key(|(_, known)| known.created);
    waiting.into_iter().map(|(task, _)| task).collect()
}

fn plan_forgetting(tasks: &Tasks, limits: &Limits) -> Vec<Step> {
    let is_final = |known: &KnownTask| known.now.status.state.is_final();
    let mut ended: Vec<_> = tasks.iter().filter(|(_, known)| is_final(known)).collect();
    let surplus = ended.len().saturating_sub(limits.ended_max);
    if surplus == 0 {
        return Vec::new();
    }
    ended.sort_by_key(|(_, known)| known.changed);
    ended[..surplus].iter().map(|(task, _)| Step::Forget((*task).clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master_worker::nodes::{Status, Versioned};
    use herdsman_client::Zxid;

    const LIMITS: Limits = Limits { attempts_max: 3, per_worker_max: 2, ended_max: 2 };

    fn id(name: &str) -> TaskId {
        name.parse().unwrap()
    }

    fn task(name: &str, state: State, attempts: u32, created: i64) -> (TaskId, KnownTask) {
        let now = Versioned { status: Status { state, attempts }, version: 0 };
        let known = KnownTask {
            now,
            created: Zxid(created),
            changed: Zxid(created),
            lacks_assignment: false,
        };
        (id(name), known)
    }

    fn with(worker: &str, incarnation: i64) -> State {
        State::Assigned { worker: worker.into(), incarnation, nonce: String::new() }
    }

    fn worker(id: &str, incarnation: i64, limit: usize) -> (String, KnownWorker) {
        (id.to_owned(), KnownWorker { incarnation, limit })
    }

    fn assign(task: &str, worker: &str) -> Step {
        Step::Assign { task: id(task), worker: worker.into() }
    }

    fn check(
        tasks: impl IntoIterator<Item = (TaskId, KnownTask)>,
        workers: impl IntoIterator<Item = (String, KnownWorker)>,
        expected: &[Step],
    ) {
        let (tasks, workers) = (tasks.into_iter().collect(), workers.into_iter().collect());
        assert_eq!(plan_steps(&tasks, &workers, &LIMITS), expected);
    }

    #[test]
    fn the_oldest_go_first_and_to_the_least_loaded() {
        let waiting = |name, created| task(name, State::Waiting, 0, created);
        let busy = task("x", with("w1", 1), 1, 1);
        check(
            [waiting("a", 30), waiting("b", 20), waiting("c", 10), waiting("d", 40), busy],
            [worker("w1", 1, 9), worker("w2", 2, 9)],
            // w1 has one already, and no worker may have more than two.
            &[assign("c", "w2"), assign("b", "w1"), assign("a", "w2")],
        );
    }

    #[test]
    fn a_worker_gets_no_more_than_it_takes() {
        let waiting = |name, created| task(name, State::Waiting, 0, created);
        let workers = [worker("w1", 1, 1), worker("w2", 2, 0)];
        check([waiting("a", 1), waiting("b", 2)], workers, &[assign("a", "w1")]);
        check([waiting("a", 1)], [], &[]);
    }

    #[test]
    fn tasks_of_workers_that_left_are_handed_back_until_their_last_attempt() {
        check(
            [task("a", with("w1", 1), 2, 1), task("b", with("w1", 1), 3, 2)],
            [worker("w2", 2, 9)],
            &[Step::HandBack(id("a")), Step::GiveUp(id("b"))],
        );
    }

    #[test]
    fn a_worker_that_registers_again_is_another_one() {
        let tasks = [task("a", with("w1", 1), 1, 1), task("b", with("w1", 7), 1, 2)];
        check(tasks, [worker("w1", 7, 9)], &[Step::HandBack(id("a"))]);
    }

    #[test]
    fn the_oldest_endings_are_forgotten() {
        let ended = [
            task("a", State::Done, 1, 3),
            task("b", State::Failed, 1, 1),
            task("c", State::Cancelled, 0, 2),
        ];
        check(ended, [], &[Step::Forget(id("b"))]);
    }
}
