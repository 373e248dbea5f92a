//! The steps of a task, each as the writes of one transaction.
//!
//! In: what is known about the task. Out: writes; nothing is sent here. Invariants: every step but the first replaces
//! the status at the version that it was read at, so of two steps from the same state one fails; a task is assigned
//! if and only if its assignment exists; it has ended if and only if its result exists, and then its payload has been
//! deleted. Versions start again when a task is forgotten and its key is used for another one; the name of an
//! assignment is never used again.

use bytes::Bytes;
use herdsman_client::{Lifetime, Op};
use uuid::Uuid;

use super::nodes::{Assignment, Paths, State, Status, Versioned};
use super::task::{Ending, TaskId};
use crate::messaging::envelope::to_json;

/// A worker, as a step needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignee {
    pub(super) worker: String,
    pub(super) incarnation: i64,
    pub(super) attempts_max: u32,
}

/// The index of the write of [`assign`] that creates the assignment, and so fails if its directory is missing.
pub(super) const ASSIGN_CREATES: usize = 1;
/// The index of the write of [`hand_back`] and [`end`] that deletes the assignment, if there is one.
pub(super) const DELETES_ASSIGNMENT: usize = 0;

pub(super) fn submit(paths: &Paths, task: &TaskId, payload: Bytes) -> Vec<Op> {
    let status = Status { state: State::Waiting, attempts: 0 };
    vec![Op::create(&paths.status(task), to_json(&status)), Op::create(&paths.task(task), payload)]
}

/// Assigns a waiting task to a worker.
pub(super) fn assign(paths: &Paths, task: &TaskId, now: &Versioned, to: &Assignee) -> Vec<Op> {
    let Assignee { worker, incarnation, attempts_max } = to.clone();
    let attempt = now.status.attempts + 1;
    let status_version = now.version.wrapping_add(1);
    let assignment =
        Assignment { attempt, attempts_max, incarnation, status_version, progress: None };
    let nonce = Uuid::new_v4().to_string();
    let next = assignment.status(&worker, &nonce).status;
    vec![
        Op::check(&paths.worker(&worker)),
        Op::create(&paths.assignment(&worker, task, &nonce), to_json(&assignment)),
        replace_status(paths, task, now, &next),
    ]
}

/// Creates the directory of a worker's assignments; the server deletes it after the last one was deleted.
pub(super) fn create_directory(paths: &Paths, worker: &str) -> Vec<Op> {
    vec![Op::create(&paths.assignments(worker), "").lifetime(Lifetime::Container)]
}

/// The nodes of a task besides its status. All of them exist, unless some were deleted by hand; then the task must
/// end all the same.
#[derive(Clone, Debug)]
pub(super) struct TaskNodes {
    pub(super) has_assignment: bool,
    pub(super) payload: Option<Bytes>,
}

/// Makes an assigned task wait again.
pub(super) fn hand_back(
    paths: &Paths,
    task: &TaskId,
    now: &Versioned,
    task_nodes: &TaskNodes,
) -> Vec<Op> {
    let next = Status { state: State::Waiting, attempts: now.status.attempts };
    let mut ops = drop_assignment(paths, task, now, task_nodes);
    ops.push(replace_status(paths, task, now, &next));
    ops
}

/// Ends the task. The payload of a failed task is kept in `dead`.
pub(super) fn end(
    paths: &Paths,
    task: &TaskId,
    now: &Versioned,
    task_nodes: &TaskNodes,
    ending: &Ending,
) -> Vec<Op> {
    let next = Status { state: ending.state_record(), attempts: now.status.attempts };
    let mut ops = drop_assignment(paths, task, now, task_nodes);
    ops.push(replace_status(paths, task, now, &next));
    ops.push(Op::create(&paths.result(task), ending.encode()));
    if let Some(payload) = &task_nodes.payload {
        ops.push(Op::delete(&paths.task(task)));
        if matches!(ending, Ending::Failed { .. }) {
            ops.push(Op::create(&paths.dead(task), payload.clone()));
        }
    }
    ops
}

/// Deletes everything that is left of an ended task.
pub(super) fn forget(
    paths: &Paths,
    task: &TaskId,
    now: &Versioned,
    has_dead_letter: bool,
) -> Vec<Op> {
    let mut ops =
        vec![Op::delete(&paths.status(task)).version(now.version), Op::delete(&paths.result(task))];
    if has_dead_letter {
        ops.push(Op::delete(&paths.dead(task)));
    }
    ops
}

fn drop_assignment(
    paths: &Paths,
    task: &TaskId,
    now: &Versioned,
    task_nodes: &TaskNodes,
) -> Vec<Op> {
    match &now.status.state {
        State::Assigned { worker, nonce, .. } if task_nodes.has_assignment => {
            vec![Op::delete(&paths.assignment(worker, task, nonce))]
        }
        _ => Vec::new(),
    }
}

fn replace_status(paths: &Paths, task: &TaskId, now: &Versioned, next: &Status) -> Op {
    Op::set(&paths.status(task), to_json(next)).version(now.version)
}
