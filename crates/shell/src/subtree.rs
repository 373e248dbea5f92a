//! Work on whole subtrees: walk them, draw them, search them, weigh them, write them to a file and
//! read them back, compare them, copy them, follow their changes.
//!
//! In: a [`Client`](herdsman_client::Client) and a path. Out: values, a piece at a time, so that a
//! tree of a million znodes never has to be in memory. Nothing here prints, asks or exits: that is
//! what the shell's commands do with it.
//!
//! A walk is not a snapshot. Others may write while it runs; what vanishes meanwhile is counted, and
//! what appears behind the walk's back is not seen. Apache's `zkCli` has `ls -R` and `deleteall`, and
//! asks for one znode after the other; here many requests are under way at a time.

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
