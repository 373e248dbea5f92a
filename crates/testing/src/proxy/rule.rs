//! Rules of a proxy: which fault applies to which requests; and the handles that tests keep on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use herdsman_proto::OpCode;

use super::frames::SeenRequest;
use super::shared::ProxyState;

/// A fault of a request or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Drops the request and cuts its connection. The server never receives it: it is not carried out.
    CutBeforeRequest,
    /// Forwards the request, drops the reply and cuts the connection. It is carried out, but the client
    /// cannot know.
    CutBeforeReply,
    /// Holds the request, and everything that the client sends after it, in the proxy until
    /// [`ActiveRule::release`].
    HoldRequest,
    /// Holds the reply, and everything that the server sends after it, in the proxy until
    /// [`ActiveRule::release`]: replies and events never overtake each other. Without a release, the server
    /// appears to hang.
    HoldReply,
    /// Delays the request, and what follows it cannot overtake it.
    DelayRequest(Duration),
    /// Delays the reply, and what follows it cannot overtake it.
    DelayReply(Duration),
}

/// Which [`Fault`] applies to which requests.
///
/// As made by [`Rule::new`] it matches any request except heartbeats and handshakes, once.
///
/// ```
/// use herdsman_proto::OpCode;
/// use herdsman_testing::proxy::{Fault, Rule};
///
/// // The second and third create below /locks are carried out, but their replies are lost.
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
    /// Matches any request except heartbeats and handshakes, once. Those two depend on the client's clock
    /// and the network, so tests that count requests usually exclude them; include them with [`Rule::on`].
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Rule { fault, ops: Vec::new(), path_part: None, skips_left: 0, turns_left: 1 }
    }

    /// Matches only requests of this kind. Repeated calls add kinds. [`OpCode::CreateSession`] is the
    /// handshake, for a new or a resumed session.
    #[must_use]
    pub fn on(mut self, op: OpCode) -> Self {
        self.ops.push(op);
        self
    }

    /// Matches only requests that name a path containing this text. For a multi, one such path is enough.
    #[must_use]
    pub fn path_containing(mut self, part: impl Into<String>) -> Self {
        self.path_part = Some(part.into());
        self
    }

    /// Skips the first `count` matching requests.
    #[must_use]
    pub fn skip(mut self, count: usize) -> Self {
        self.skips_left = count;
        self
    }

    /// Applies to this many requests instead of one.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.turns_left = count;
        self
    }

    /// Applies to every matching request.
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

    /// Returns the fault for a request, if the rule applies, and counts the request.
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

/// Progress of a rule. Changed only under the lock of [`ProxyState`], so that no waiter misses a change.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub fired: AtomicUsize,
    pub is_released: AtomicBool,
}

/// A rule in force. Dropping this handle does not end the rule.
pub struct ActiveRule {
    pub(super) shared: Arc<ProxyState>,
    pub(super) progress: Arc<Progress>,
}

impl ActiveRule {
    /// How often the fault has occurred: requests dropped, replies dropped, held or delayed. A request
    /// whose reply never arrives uses one of the rule's turns but is not counted here.
    #[must_use]
    pub fn fired(&self) -> usize {
        self.progress.fired.load(Ordering::Acquire)
    }

    /// Blocks until it has occurred at least once; false if it has not within this time. In an async test,
    /// where the client may need this very thread, use [`ActiveRule::until_fired`].
    #[must_use = "it may not have happened"]
    pub fn wait_fired(&self, timeout: Duration) -> bool {
        self.shared.wait_until(timeout, || self.fired() > 0)
    }

    /// Waits until it has occurred at least once.
    pub async fn until_fired(&self) {
        self.until_fired_times(1).await;
    }

    /// Waits until it has occurred this often.
    pub async fn until_fired_times(&self, count: usize) {
        self.shared.until_recorded(|| self.fired() >= count).await;
    }

    /// Releases what it holds and ends the rule: nothing more is held, even if nothing was held yet.
    pub fn release(&self) {
        self.shared.end_rule(&self.progress);
    }

    /// Ends the rule and releases what it holds.
    pub fn remove(self) {
        self.release();
    }
}
