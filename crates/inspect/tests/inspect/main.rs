//! The commands as an operator runs them, on directories that Apache has written, whole and damaged.

#![expect(clippy::unwrap_used, reason = "a test fails where a file is not as it should be")]

mod archive;
mod backup;
mod compare;
mod data_dir;
mod harness;
mod history;
mod links;
mod log;
mod modes;
mod output;
mod owners;
mod reads_only;
mod refusals;
mod repair;
mod restore;
mod separate_log;
mod snapshot;
mod stub_server;
