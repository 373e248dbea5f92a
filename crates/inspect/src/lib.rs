//! Offline tools for data directories: `herdsman inspect`, `repair`,
//! `backup` and `restore`.
//!
//! In: the arguments of a command, and files that a server (Herdsman, or Apache ZooKeeper 3.4 to 3.9)
//! has written. Out: text or JSON, an exit code, and for the last three commands new files.
//! The file formats are in `herdsman_store`; this crate is what an operator sees of them.
//!
//! Invariants:
//! - [`inspect`] opens files for reading only. It creates no file, takes no lock and can be pointed at the
//!   directory of a running server or at a read-only mount.
//! - [`repair`], [`backup`] and [`restore`] leave the old state or the new one, wherever they are stopped: they write
//!   a new file, sync it, and rename it. Files that they remove are kept, and they print where. All changes go
//!   through `durable`, and a test stops them at each.
//! - The content of a file is data: no control character in it reaches a terminal.
//!
//! Apache: `TxnLogToolkit`, `SnapshotFormatter`, `SnapshotComparer`, `SnapshotRecursiveSummary`, and the
//! commands `snapshot` and `restore` of its AdminServer, of which only the first can change a file.

pub mod backup;
mod console;
mod counts;
mod durable;
mod http;
mod identity;
pub mod inspect;
mod kept_files;
mod location;
mod log_file;
mod pending;
mod point;
mod progress;
pub mod repair;
pub mod restore;
mod show;
mod snapshot_file;
#[cfg(test)]
mod sweep_tests;
mod verify;

use std::process::ExitCode;

pub use backup::BackupArguments;
pub use console::{Console, Outcome, describe};
pub use inspect::InspectArguments;
pub use repair::RepairArguments;
pub use restore::RestoreArguments;

/// Runs `herdsman inspect`.
#[must_use]
pub fn run_inspect(arguments: &InspectArguments) -> ExitCode {
    console::run(|console| arguments.execute(console))
}

/// Runs `herdsman repair`.
#[must_use]
pub fn run_repair(arguments: &RepairArguments) -> ExitCode {
    console::run(|console| arguments.execute(console))
}

/// Runs `herdsman backup`.
#[must_use]
pub fn run_backup(arguments: &BackupArguments) -> ExitCode {
    console::run(|console| arguments.execute(console))
}

/// Runs `herdsman restore`.
#[must_use]
pub fn run_restore(arguments: &RestoreArguments) -> ExitCode {
    console::run(|console| arguments.execute(console))
}
