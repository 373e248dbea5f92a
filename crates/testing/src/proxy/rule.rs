//! What a proxy is told to do to which requests, and the hold a test keeps on that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use herdsman_proto::OpCode;

use super::frames::SeenRequest;
use super::shared::Shared;

/// What happens to a request or to its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request is swallowed and its connection cut. The server never sees it: it was not
    /// carried out.
    CutBeforeRequest,
    /// The server gets the request and answers; the reply is swallowed and the connection cut. It
    /// was carried out, and the client cannot know.
    CutBeforeReply,
    /// The request waits in the proxy until [`ActiveRule::release`], and with it all that the client
    /// sends behind it.
    HoldRequest,
    /// The reply waits in the proxy until [`ActiveRule::release`], and with it all that the server
    /// sends behind it: replies and events never overtake each other. Never released, it is a server
    /// that has gone silent.
    HoldReply,
    /// The request takes this much longer, and what follows it cannot overtake it.
    DelayRequest(Duration),
    /// The reply takes this much longer, and what follows it cannot overtake it.
    DelayReply(Duration),
}

/// Which requests meet with which [`Fault`].
///
/// As made by [`Rule::new`] it means any request except heartbeats and handshakes, once.
///
/// ```
/// use herdsman_proto::OpCode;
/// use herdsman_testing::proxy::{Fault, Rule};
///
/// // The second and third of all creates below /locks are carried out, but nobody is told.
/// let rule = Rule::new(Fault::CutBeforeReply)
///     .on(OpCode::Create)
///     .on(OpCode::Create2)
///     .path_containing("/locks/")
///     .skip(1)
///     .times(2);
/// # let _ = rule;
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    fault: Fault,
    ops: Vec<OpCode>,
    path_part: Option<String>,
    skips_left: usize,
    turns_left: usize,
}

impl Rule {
    /// Any request except heartbeats and handshakes, once. Those two come when a client's clock or
    /// the network wants it, so whoever counts requests does not want to count them; name them with
    /// [`Rule::on`] if they are meant.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Rule { fault, ops: Vec::new(), path_part: None, skips_left: 0, turns_left: 1 }
    }

    /// Only requests of this kind. Called again, of that kind too. [`OpCode::CreateSession`] is the
    /// handshake, for a new session or for one that is taken up again.
    #[must_use]
    pub fn on(mut self, op: OpCode) -> Self {
        self.ops.push(op);
        self
    }

    /// Only requests that name a path with this in it. Of a multi, one of its paths is enough.
    #[must_use]
    pub fn path_containing(mut self, part: impl Into<String>) -> Self {
        self.path_part = Some(part.into());
        self
    }

    /// Lets the first `count` of the requests that match pass.
    #[must_use]
    pub fn skip(mut self, count: usize) -> Self {
        self.skips_left = count;
        self
    }

    /// Happens to this many requests instead of one.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.turns_left = count;
        self
    }

    /// Happens to every request that matches.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    fn matches(&self, request: &SeenRequest) -> bool {
        let Some(op) = request.op else {
            return false;
        };
        let is_meant = if self.ops.is_empty() {
            !matches!(op, OpCode::Ping | OpCode::CreateSession)
        } else {
            self.ops.contains(&op)
        };
        let part = self.path_part.as_deref();
        is_meant && part.is_none_or(|part| request.paths.iter().any(|path| path.contains(part)))
    }

    /// What this rule does to a request, if anything. Takes one of its turns.
    pub(super) fn judge(&mut self, request: &SeenRequest) -> Option<Fault> {
        if self.turns_left == 0 || !self.matches(request) {
            return None;
        }
        if self.skips_left > 0 {
            self.skips_left -= 1;
            return None;
        }
        self.turns_left -= 1;
        Some(self.fault)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.turns_left == 0
    }
}

/// How far a rule has come. Changed under the lock of [`Shared`] only, so that nobody who waits for
/// it misses a change.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub fired: AtomicUsize,
    pub is_released: AtomicBool,
}

/// A rule that a proxy follows. Dropping this changes nothing: the rule stays in force.
pub struct ActiveRule {
    pub(super) shared: Arc<Shared>,
    pub(super) progress: Arc<Progress>,
}

impl ActiveRule {
    /// How often it has happened: requests swallowed, replies swallowed, held or delayed. A request
    /// whose reply never comes takes one of the rule's turns but is not counted here.
    #[must_use]
    pub fn fired(&self) -> usize {
        self.progress.fired.load(Ordering::Acquire)
    }

    /// Blocks until it has happened at least once; false if it has not within this time. In an async
    /// test, where the client may need this very thread, use [`ActiveRule::until_fired`].
    #[must_use = "it may not have happened"]
    pub fn wait_fired(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, || self.fired() > 0)
    }

    /// Waits until it has happened at least once.
    pub async fn until_fired(&self) {
        self.until_fired_times(1).await;
    }

    /// Waits until it has happened this often.
    pub async fn until_fired_times(&self, count: usize) {
        self.shared.until_noted(|| self.fired() >= count).await;
    }

    /// Lets go of what it holds, and ends the rule: nothing more is held, even if this comes before
    /// there was anything to hold.
    pub fn release(&self) {
        self.shared.end_rule(&self.progress);
    }

    /// Ends the rule. What it holds is let go.
    pub fn remove(self) {
        self.release();
    }
}
