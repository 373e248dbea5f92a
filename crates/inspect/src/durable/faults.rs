//! Disk faults on command, for this thread: the tools make all their changes on the thread that runs them.

use std::cell::Cell;
use std::io;

use rustix::io::Errno;

/// The fault of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The process is killed: this change and all later ones do not happen.
    Kill,
    /// The system refuses it once.
    Once(Errno),
    /// The system refuses it and all later ones, as on a file system that has become read-only.
    FromThenOn(Errno),
}

thread_local! {
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    static PLAN: Cell<Option<(u64, Fault)>> = const { Cell::new(None) };
}

/// Runs something whose change with this number, counted from 0, has a fault. Also returns how many changes were
/// attempted.
pub(crate) fn with_fault<T>(fault: Option<(u64, Fault)>, run: impl FnOnce() -> T) -> (T, u64) {
    CHANGES.set(0);
    PLAN.set(fault);
    let result = run();
    PLAN.set(None);
    (result, CHANGES.get())
}

/// Counts a change, and fails it if that was planned.
pub(super) fn before_change() -> io::Result<()> {
    let number = CHANGES.replace(CHANGES.get() + 1);
    match PLAN.get() {
        Some((at, Fault::Kill)) if number >= at => Err(io::Error::other("killed")),
        Some((at, Fault::FromThenOn(errno))) if number >= at => Err(errno.into()),
        Some((at, Fault::Once(errno))) if number == at => Err(errno.into()),
        _ => Ok(()),
    }
}
