//! Operations on whole subtrees: walk, draw, search, measure, export, import, compare, copy and watch.
//!
//! In: a [`Client`](herdsman_client::Client) and a path. Out: values, a piece at a time, so that a
//! tree of a million znodes never has to be in memory. Nothing here prints, asks or exits: the
//! shell's commands do that.
//!
//! A walk is not a snapshot. Other clients may write while it runs: znodes that vanish meanwhile are
//! counted, and znodes that appear behind the walk are missed. Apache's `zkCli` has `ls -R` and
//! `deleteall`, which request one znode after the other; here many requests are in flight at a time.

pub mod apply;
pub mod copy;
pub mod diff;
pub mod du;
pub mod edit;
pub mod error;
pub mod export;
pub mod file;
pub mod find;
pub mod human;
pub mod import;
pub mod lifetime;
pub mod location;
mod markers;
pub mod path;
pub mod pattern;
pub mod record;
pub mod sequence_numbers;
pub mod tree;
pub mod walk;
pub mod watch;
mod znode_version;

pub use error::{Result, SubtreeError};
pub use walk::{Fetch, SystemZnodes, Visit, Walk, WalkOptions, Znode};
pub use znode_version::ZnodeVersion;
