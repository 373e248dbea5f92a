//! Why a connection ended, and how that is counted and logged.

use std::io;

use herdsman_node::io::CloseReason;
use herdsman_node::passwords::PasswordFault;
use herdsman_proto::SessionId;
use herdsman_tree::events::NOTIFICATIONS_MAX;

use super::Connection;
use crate::clients::intake::BadLength;
use crate::clients::outbox::CloseCause;
use crate::operators::stats::Counter;
use herdsman_runtime::LimitedLog;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndReason {
    #[error("closed by the client")]
    ByClient,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    BadLength(#[from] BadLength),
    #[error("the first frame, of {0} bytes, is not a connect request")]
    NoConnectRequest(i32),
    #[error("cannot decode the {0}")]
    Undecodable(&'static str),
    #[error("{}", wording(.0))]
    ByServer(CloseCause),
    #[error("no session within the time limit (nio.sessionlessCnxnTimeout)")]
    Sessionless,
    #[error("four-letter word answered")]
    Word,
    #[error("too many new sessions at once (connection_throttle_tokens)")]
    TooManySessions,
    #[error("large requests in flight exceed largeRequestMaxBytes")]
    TooManyLargeBytes,
    #[error("the client re-registered more watches than herdsman.watchesPerSessionMax allows")]
    TooManyWatches,
    /// Logged where it happened.
    #[error("{0}")]
    Refused(&'static str),
}

impl EndReason {
    /// Whether the core will answer none of the requests in flight.
    pub(super) fn ends_answers(&self) -> bool {
        let EndReason::ByServer(why) = self else { return false };
        let lost = [CloseReason::NotServing, CloseReason::StorageUnavailable].map(CloseCause::Core);
        lost.contains(why) || matches!(why, CloseCause::Shutdown | CloseCause::Restored)
    }
}

fn wording(closing: &CloseCause) -> String {
    match closing {
        CloseCause::Core(CloseReason::TooManyEvents) => format!(
            "one transaction caused more than {NOTIFICATIONS_MAX} notifications of watchers; the client lost events and \
             must set its watches again"
        ),
        CloseCause::Core(CloseReason::WrongPassword { session, fault: PasswordFault::Wrong }) => {
            format!(
                "wrong password for session {session}. If clients lose sessions when they move between servers, \
             herdsman.sessionKeyFile or herdsman.sessionPasswords differs between them"
            )
        }
        CloseCause::Core(CloseReason::WrongPassword { session, fault: PasswordFault::Apache }) => {
            format!(
                "the password of session {session} is Apache's, and only those made with the key are accepted \
             (herdsman.sessionPasswords=keyed-only): if clients lose sessions, set issue-keyed on all servers and wait \
             for the longest session timeout; otherwise someone may be trying to take over the session"
            )
        }
        closing => closing.to_string(),
    }
}

impl Connection {
    /// Counts the end of a connection, and logs the reason unless the client closed it.
    pub(super) fn note_end(&self, ended: &EndReason) {
        let Some((counter, reports)) = self.counted_as(ended) else { return };
        counter.add(1);
        let Some(reports) = reports else { return };
        let peer = self.client.peer;
        match self.session {
            SessionId::NONE => {
                reports.warn(format_args!("connection from {peer} closed: {ended}"));
            }
            session => {
                reports.warn(format_args!(
                    "connection from {peer} in session {session} closed: {ended}"
                ));
            }
        }
    }

    /// The counter and the kind of log line of this reason.
    fn counted_as(&self, ended: &EndReason) -> Option<(&Counter, Option<&LimitedLog>)> {
        let stats = &self.shared.core.stats;
        let reports = &self.shared.limit_reports;
        let (counter, report) = match ended {
            EndReason::ByClient | EndReason::Io(_) => {
                return Some((&stats.connections_dropped, None));
            }
            EndReason::Sessionless => (&stats.sessionless_expired, &reports.sessionless),
            EndReason::BadLength(_)
            | EndReason::NoConnectRequest(_)
            | EndReason::Undecodable(_) => (&stats.frames_refused, &reports.frames),
            EndReason::ByServer(
                CloseCause::SlowReader
                | CloseCause::MostUnread
                | CloseCause::Core(CloseReason::TooManyEvents),
            ) => (&stats.slow_readers_closed, &reports.slow_readers),
            EndReason::ByServer(CloseCause::Core(CloseReason::WrongPassword { .. })) => {
                (&stats.connections_rejected, &reports.passwords)
            }
            EndReason::TooManySessions => (&stats.connections_rejected, &reports.refusals),
            EndReason::TooManyLargeBytes => {
                (&stats.large_requests_rejected, &reports.large_requests)
            }
            // Counted like every rejected watch.
            EndReason::TooManyWatches
            | EndReason::ByServer(_)
            | EndReason::Word
            | EndReason::Refused(_) => {
                return None;
            }
        };
        Some((counter, Some(report)))
    }
}
