//! What is told of each call when it has ended: one event of `tracing` at level DEBUG, with the target
//! `herdsman_client::call`, and the program's own hook, for metrics.
//!
//! When nobody asks for them, both together cost two branches: not even the clock is read.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};

/// A call that has ended, for the hook of [`Options::on_call`](crate::Options::on_call).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallReport<'a> {
    /// The operation, by the name it has in errors: `getData`, `create2`, `multi`, ….
    pub op: &'static str,
    /// The path as the caller wrote it, if the operation has one; of a transaction, that of its first
    /// write.
    pub path: Option<&'a str>,
    /// How it ended; the error says whether it happened all the same.
    pub result: Result<(), &'a Error>,
    /// From the moment of the call until its result was taken. For a call that was sent first and awaited
    /// later, this includes the time between the reply and the await.
    pub elapsed: Duration,
    /// How often the request was queued for a server: 1 unless it was tried again, and 0 if it never
    /// was, for instance because an argument is not valid.
    pub attempts: u32,
}

/// The hook of a program.
#[derive(Clone)]
pub(crate) struct OnCall(Arc<dyn Fn(&CallReport<'_>) + Send + Sync>);

impl OnCall {
    pub(crate) fn new(hook: impl Fn(&CallReport<'_>) + Send + Sync + 'static) -> Self {
        OnCall(Arc::new(hook))
    }
}

impl fmt::Debug for OnCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCall")
    }
}

/// The target of the log lines.
const TARGET: &str = "herdsman_client::call";

/// Whether log lines of calls are wanted.
pub(crate) fn is_logged() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
}

/// Tells whoever asked for it.
pub(crate) fn publish(hook: Option<&OnCall>, report: &CallReport<'_>) {
    let CallReport { op, path, result, elapsed, attempts } = *report;
    match result {
        Ok(()) => {
            tracing::debug!(target: TARGET, op, path, ?elapsed, attempts, outcome = "ok");
        }
        Err(error) => {
            let outcome = error.outcome();
            tracing::debug!(
                target: TARGET,
                op, path, ?elapsed, attempts, ?outcome, error = %error.kind(),
            );
        }
    }
    let Some(OnCall(hook)) = hook else {
        return;
    };
    // The call may belong to a task that must go on, such as a deletion in the background.
    if panic::catch_unwind(AssertUnwindSafe(|| hook(report))).is_err() {
        tracing::error!(
            op,
            path,
            "the hook of Options::on_call panicked; the call is not affected"
        );
    }
}
