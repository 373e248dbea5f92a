//! Master–worker: tasks are submitted, a master assigns them to workers, and each task gets one result.
//!
//! In: payloads from [`Submitter`]s. Out: an [`Ending`] for each. Any number of [`Master`]s stand by and one is
//! active; [`Worker`]s join and leave. A task is carried out *at least* once and ends *exactly* once: a master or
//! worker that dies at any moment loses no task, and one that was disconnected without knowing it can no longer
//! write.
//!
//! # Nodes
//! ```text
//! <root>/master/_c_<uuid>-latch-<n>   the masters in line, as Curator's LeaderLatch has them; or
//! <root>/master                       ephemeral; the one active master, optionally (Master::single_node)
//! <root>/master-epoch                 {"epoch":7,…}: with that, counts the masters
//! <root>/workers/<worker>             ephemeral; {"limit":4}: how many tasks it takes at once
//! <root>/tasks/<task>                 the payload; exists until the task ends
//! <root>/status/<task>                {"state":"assigned","worker":…,"nonce":…,…,"attempts":1}
//! <root>/assign/<worker>/<task>@<nonce>   {"attempt":1,…,"progress":{…}}; the worker's node is a container
//! <root>/results/<task>               {"outcome":"done"}\n<result>; exists when the task has ended
//! <root>/dead/<task>                  the payload of a task that was given up
//! ```
//! The id of a task is chosen by the submitter (a UUID of version 7, or `key-<key>`) and is not a number assigned by
//! the server, so a submission whose reply was lost is simply sent again. Tasks are assigned in the order of their
//! creation (czxid).
//!
//! # Why nothing is lost
//! Every step of a task is one transaction, which takes the status node from one known version to the next: submit
//! (task + status), assign (assignment + status), end (assignment, task, status, result), hand back, cancel. So
//! whatever process dies, the tree is between two steps and the next master continues from there. A step whose reply
//! was lost is read back or repeated; it cannot be applied twice.
//! * A master's steps also check its own node in line, or its epoch: a deposed master changes nothing.
//! * A worker's steps are sent in the session of its registration, delete the assignment and expect the version of
//!   the status that belongs to it. A worker that was given up, or whose session has ended, cannot report a result.
//! * No two assignments have the same name, and the status names the one that counts. So if a task is forgotten and
//!   submitted again with the same key, whereby its versions start again, attempts at the former task have no effect
//!   on it.
//! * An assignment names the incarnation of the worker (the czxid of its registration), so when a worker joins again
//!   under its old name, an assignment of the old incarnation is not carried out as if it were new: it counts as an
//!   attempt.
//!
//! # Watches
//! The active master has one recursive watch on `status` and one on `workers`, and so is not woken by progress. A
//! worker watches its own directory of assignments and its own registration; a submitter watches the one result it
//! waits for. Recursive watches need ZooKeeper 3.6.
//!
//! # Limits
//! Names of all children of `status` (tasks that wait, run, or have ended and are kept) must fit into one reply of 1
//! MiB: some 20,000. The backlog is limited by [`Submitter::backlog_max`], ended tasks by [`Master::keep_ended`].
//! Payloads and results are data of a znode: below 1 MiB together.

mod execution;
mod follow;
mod master;
mod mastership;
mod nodes;
mod plan;
mod registration;
mod role;
mod steps;
mod submitter;
mod task;
mod view;
mod worker;

pub use master::Master;
pub use role::Role;
pub use submitter::Submitter;
pub use task::{Ending, Failure, TaskId, TaskState, TaskStatus};
pub use worker::{Task, Worker};
