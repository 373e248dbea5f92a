//! What is reported for each call: a span and, when it has ended, an event of `tracing`, both at level DEBUG with the
//! target `herdsman_client::call`, and the program's own hook, for metrics.
//!
//! The fields and events of the span are described in the documentation of the crate. The event at the end repeats
//! them, with `elapsed` in place of `elapsed_us`, for logs that show no spans; it is not in the span.
//!
//! When nobody asks for any of them, all together cost three branches: not even the clock is read, and the future of
//! the call is no larger.

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

/// The span of a call; disabled if nobody wants it.
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

/// Adds to the span of a call how it has ended.
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

/// Runs a call in its span, and logs there what becomes of the connection meanwhile.
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
            // What has happened to the connection comes before what it means for the call.
            biased;
            never = log_states => match never {},
            result = call => result,
        }
    };
    call.instrument(span).await
}

/// The path for reports: none if the operation has none.
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
    // The call may belong to a task that must go on, such as a deletion in the background.
    if panic::catch_unwind(AssertUnwindSafe(|| hook(report))).is_err() {
        tracing::error!(
            op,
            path,
            "the hook of Options::on_call panicked; the call is not affected"
        );
    }
}
