//! A call: an operation in execution, with its deadline and its retries.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::Span;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::operation::{self, Operation, Repeatable};
use crate::report::{self, CallReport};
use crate::request_queue::Answer;
use crate::retry::{Attempts, RetryPolicy};
use crate::session::{Session, SubmitResult};

/// The future of a call that was sent. The request already has its position in the session's order; dropping the future
/// does not change that, and never harms the connection.
pub type Reply<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// An operation that is ready to be sent: await it, or [`Call::send`] it and await the reply later.
///
/// The moment of `send` or `.await` decides the order: requests of one client reach the server in
/// that order, however their replies are awaited. Only a call that has to be retried, or that finds
/// the maximum number of requests in flight, gets a later position.
#[must_use = "nothing is sent until the call is awaited or sent"]
#[derive(Clone)]
pub struct Call<O> {
    pub(crate) client: Client,
    pub(crate) op: O,
    pub(crate) deadline: Option<Duration>,
}

impl<O: fmt::Debug> fmt::Debug for Call<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("op", &self.op).field("deadline", &self.deadline).finish()
    }
}

impl<O> Call<O> {
    pub(crate) fn new(client: &Client, op: O) -> Self {
        Call { client: client.clone(), op, deadline: client.deadline() }
    }

    /// Fails after this time, retries included. A write that was sent then has an unknown outcome.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    pub(crate) fn map<P>(self, change: impl FnOnce(O) -> P) -> Call<P> {
        Call { client: self.client, op: change(self.op), deadline: self.deadline }
    }
}

impl<O: Operation> Call<O> {
    /// Sends the request now; the reply can be awaited later, or never.
    pub fn send(self) -> Reply<O::Output> {
        match self.start() {
            Ok((attempt, deadline)) => attempt.into_reply(deadline),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// Sends the request now, or fails with [`ErrorKind::Busy`] if too many requests are in flight.
    pub fn try_send(self) -> Result<Reply<O::Output>> {
        let (attempt, deadline) = self.start()?;
        if attempt.submitted.is_none() {
            let busy = operation::locate(&attempt.op, Error::not_applied(ErrorKind::Busy));
            attempt.report(&attempt.span(), Err(&busy));
            return Err(busy);
        }
        Ok(attempt.into_reply(deadline))
    }

    /// Queues the request now, if not too many are in flight.
    fn start(self) -> Result<(Attempt<O>, Option<Duration>)> {
        let Call { client, op, deadline } = self;
        let session = client.session();
        if let Err(error) = op.check() {
            let error = operation::locate(&op, error);
            let attempt = Attempt::new(client, op, session, None);
            attempt.report(&attempt.span(), Err(&error));
            return Err(error);
        }
        let submitted = session.try_submit(&operation::submission(&op, &client));
        Ok((Attempt::new(client, op, session, submitted), deadline))
    }
}

impl<O: Operation> IntoFuture for Call<O> {
    type Output = Result<O::Output>;
    type IntoFuture = Reply<O::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send()
    }
}

/// A call in execution.
struct Attempt<O> {
    client: Client,
    op: O,
    session: Session,
    /// `None` if too many requests were in flight.
    submitted: Option<SubmitResult>,
    /// A request is queued or sent, and has no reply yet.
    is_out: bool,
    /// The number of requests that were queued.
    attempts: u32,
    started: Instant,
}

impl<O: Operation> Attempt<O> {
    fn new(client: Client, op: O, session: Session, submitted: Option<SubmitResult>) -> Self {
        let is_out = submitted.is_some();
        let attempts = u32::from(is_out);
        Attempt { client, op, session, submitted, is_out, attempts, started: Instant::now() }
    }

    fn into_reply(mut self, deadline: Option<Duration>) -> Reply<O::Output> {
        let span = self.span();
        match deadline {
            _ if !span.is_disabled() => Box::pin(self.run_in(span, deadline)),
            None => Box::pin(async move {
                let result = self.run().await;
                self.report(&Span::none(), result.as_ref().map(drop));
                result
            }),
            Some(deadline) => Box::pin(async move {
                let result = self.run_until(deadline).await;
                self.report(&Span::none(), result.as_ref().map(drop));
                result
            }),
        }
    }

    /// Runs the call inside its span.
    async fn run_in(mut self, span: Span, deadline: Option<Duration>) -> Result<O::Output> {
        let states = self.client.client_shared().states.subscribe();
        let run = async {
            match deadline {
                None => self.run().await,
                Some(deadline) => self.run_until(deadline).await,
            }
        };
        let result = report::run_in(span.clone(), states, run).await;
        self.report(&span, result.as_ref().map(drop));
        result
    }

    async fn run_until(&mut self, deadline: Duration) -> Result<O::Output> {
        let timed = timeout_at(self.started + deadline, self.run()).await;
        timed.unwrap_or_else(|_| Err(self.late()))
    }

    fn span(&self) -> Span {
        report::span(self.op.op(), self.op.shown_path())
    }

    /// Returns the error for an exceeded deadline.
    fn late(&self) -> Error {
        // A request that is queued or sent cannot be withdrawn; one that waits for a permit or for its
        // next attempt will never be sent.
        let outcome = match self.op.repeatable() {
            Repeatable::No if self.is_out => Outcome::Unknown,
            _ => Outcome::NotApplied,
        };
        operation::locate(&self.op, Error::new(ErrorKind::DeadlineExceeded, outcome))
    }

    /// Reports the end of the call to the span, the log and the hook.
    fn report(&self, span: &Span, result: Result<(), &Error>) {
        let hook = self.session.shared().options.on_call.as_ref();
        if hook.is_none() && span.is_disabled() && !report::is_logged() {
            return;
        }
        let report = CallReport {
            op: self.op.op().name(),
            path: report::shown(self.op.shown_path()),
            result,
            elapsed: self.started.elapsed(),
            attempts: self.attempts,
        };
        report::record(span, &report);
        report::publish(hook, &report);
    }

    /// Runs the call. Rare paths are boxed, so that the future of every call is small.
    async fn run(&mut self) -> Result<O::Output> {
        let submitted = match self.submitted.take() {
            Some(submitted) => submitted,
            None => Box::pin(self.submit()).await,
        };
        let answered = receive(submitted).await;
        match self.decode(answered) {
            Ok(output) => Ok(output),
            Err(error) => Box::pin(self.retry(error)).await,
        }
    }

    async fn submit(&mut self) -> SubmitResult {
        let submitted = self.session.submit(&operation::submission(&self.op, &self.client)).await;
        self.is_out = true;
        self.attempts = self.attempts.saturating_add(1);
        submitted
    }

    fn decode(&mut self, answered: Result<Answer>) -> Result<O::Output> {
        self.is_out = false;
        let decoded = answered.and_then(|answer| self.op.decode(answer).map_err(Error::from));
        decoded.map_err(|error| operation::locate(&self.op, error))
    }

    async fn retry(&mut self, mut error: Error) -> Result<O::Output> {
        let mut retries = Retries::since(self.started, self.client.retry_policy());
        while self.may_retry(&error) && retries.pause(&error).await {
            self.session = self.client.session();
            let submitted = self.submit().await;
            let answered = receive(submitted).await;
            match self.decode(answered) {
                Ok(output) => return Ok(output),
                Err(next) => error = next,
            }
        }
        Err(error)
    }

    fn may_retry(&self, error: &Error) -> bool {
        let is_safe = error.outcome() == Outcome::NotApplied
            || (self.op.repeatable() == Repeatable::Yes && error.outcome() == Outcome::Unknown);
        // A call with a limited number of retries does not wait for a quorum, which may take days.
        let waits_for_quorum = || self.client.retry_policy().is_endless();
        let may_pass =
            error.is_retriable() || (*error.kind() == ErrorKind::ReadOnly && waits_for_quorum());
        may_pass && is_safe && self.client.may_still_succeed(error)
    }
}

async fn receive(submitted: SubmitResult) -> Result<Answer> {
    // The session's task disappears without a reply only together with its runtime.
    let lost = |_| Err(Error::unknown(ErrorKind::ConnectionLoss));
    submitted?.await.unwrap_or_else(lost)
}

/// The retries of a call, or of several calls that appear as one to the user.
pub(crate) struct Retries {
    attempts: Attempts,
    failed: u32,
    started: Instant,
}

impl Retries {
    /// Creates the retries of a call that begins now.
    pub(crate) fn begin(policy: RetryPolicy) -> Self {
        Retries::since(Instant::now(), policy)
    }

    fn since(started: Instant, policy: RetryPolicy) -> Self {
        Retries { attempts: Attempts::new(policy, Rng::new()), failed: 0, started }
    }

    /// Waits until the next attempt is due; returns false if there is to be none.
    pub(crate) async fn pause(&mut self, error: &Error) -> bool {
        self.failed = self.failed.saturating_add(1);
        let Some(pause) = self.attempts.pause_after(self.failed, self.started.elapsed()) else {
            return false;
        };
        tracing::debug!(%error, ?pause, "trying again");
        sleep(pause).await;
        true
    }
}
