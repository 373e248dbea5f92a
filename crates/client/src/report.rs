//! Reports of calls: a span and, when the call has ended, an event of `tracing`, both at level DEBUG with the target
//! `herdsman_client::call`, and a call of the program's own hook, for metrics.
//!
//! The fields and events of the span are described in the documentation of the crate. The event at the end repeats
//! them, with `elapsed` in place of `elapsed_us`, for logs that show no spans; it is not in the span.
//!
//! If none of them is enabled, they cost three branches: not even the clock is read, and the future of the call is not
//! larger.

use std::convert::Infallible;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use herdsman_proto::OpCode;
use tokio::sync::watch;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::error::{Error, Result};
use crate::state::ConnectionState;

/// A call that has ended, for the hook of [`Options::on_call`](crate::Options::on_call).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallReport<'a> {
    /// The name of the operation as in errors: `getData`, `create2`, `multi`, ….
    pub op: &'static str,
    /// The path as the caller wrote it, if the operation has one; of a transaction, that of its first
    /// write.
    pub path: Option<&'a str>,
    /// The result; an error says whether the operation was applied.
    pub result: Result<(), &'a Error>,
    /// The time from the call until its result was taken. For a call that was sent first and awaited
    /// later, this includes the time between the reply and the await.
    pub elapsed: Duration,
    /// How often the request was queued for a server: 1 without retries, and 0 if it was never queued,
    /// for instance because an argument is not valid.
    pub attempts: u32,
}

/// A program's hook for reports of calls.
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

/// The target of spans and events.
const TARGET: &str = "herdsman_client::call";

/// Whether events of calls are enabled.
pub(crate) fn is_logged() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
}

/// Creates the span of a call, which may be disabled.
pub(crate) fn span(op: OpCode, path: &str) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "call",
        op = op.name(),
        path = shown(path),
        outcome = Empty,
        error = Empty,
        elapsed_us = Empty,
        attempts = Empty,
    )
}

/// Records the result in the span of a call.
pub(crate) fn record(span: &Span, report: &CallReport<'_>) {
    match report.result {
        Ok(()) => span.record("outcome", "ok"),
        Err(error) => span
            .record("outcome", tracing::field::debug(error.outcome()))
            .record("error", tracing::field::display(error.kind())),
    };
    let elapsed_us = u64::try_from(report.elapsed.as_micros()).unwrap_or(u64::MAX);
    span.record("elapsed_us", elapsed_us).record("attempts", report.attempts);
}

/// Runs a call in its span, and logs changes of the connection there.
pub(crate) async fn run_in<T>(
    span: Span,
    mut states: watch::Receiver<ConnectionState>,
    call: impl Future<Output = T>,
) -> T {
    let log_states = async {
        while states.changed().await.is_ok() {
            let state = *states.borrow_and_update();
            tracing::debug!(target: TARGET, ?state, "connection state changed");
        }
        std::future::pending::<Infallible>().await
    };
    let call = async {
        tokio::select! {
            // A change of the connection is logged before its effect on the call.
            biased;
            never = log_states => match never {},
            result = call => result,
        }
    };
    call.instrument(span).await
}

/// Returns the path for reports; `None` if the operation has no path.
pub(crate) fn shown(path: &str) -> Option<&str> {
    (!path.is_empty()).then_some(path)
}

/// Logs the call and runs the hook.
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
    // The call may belong to a task that must continue, such as a deletion in the background.
    if panic::catch_unwind(AssertUnwindSafe(|| hook(report))).is_err() {
        tracing::error!(
            op,
            path,
            "the hook of Options::on_call panicked; the call is not affected"
        );
    }
}
