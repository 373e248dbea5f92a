//! What a recipe does after a failed call: send it again, read again, start again in the next session, or fail.
//!
//! A recipe must finish what it has begun. A client's deadline and retry policy are meant for the single calls of a
//! program; they must not end the maintenance of a lock, a registration or a cache because a failover took longer.
//!
//! | the call | then |
//! |---|---|
//! | [`reply_lost`] | send the same call again, if it is harmless when applied twice, or can be applied only once |
//! | [`is_overtaken`] | another client has changed what the call depends on: read again |
//! | [`may_succeed_later`] | the call may be made again, in this session or the next |
//! | [`must_restart`] | what was held is lost: start again in the next session |
//! | none of these | fail |

use std::time::Duration;

use herdsman_client::{Client, ErrorKind, Outcome, RetryPolicy};

use crate::error::Error;

/// The pause between attempts while the connection is lost.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// The deadline of calls that need none: longer than any program waits.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns the same client, whose calls end only with their reply, with the session or with the client.
pub(crate) fn retrying(client: &Client) -> Client {
    client.with_retry(RetryPolicy::forever(PAUSE)).with_deadline(NO_DEADLINE)
}

/// Returns whether the reply was lost, so that it is not known whether the call was applied.
pub(crate) fn reply_lost(error: &herdsman_client::Error) -> bool {
    error.outcome() == Outcome::Unknown && error.is_retriable()
}

/// Returns whether a write was rejected because another client has changed a node since it was read.
pub(crate) fn is_overtaken(error: &herdsman_client::Error) -> bool {
    matches!(error.kind(), ErrorKind::NoNode | ErrorKind::NodeExists | ErrorKind::BadVersion)
}

/// Returns the error of a write of which an earlier attempt may have been applied. That another client has changed
/// something since says nothing about that attempt.
pub(crate) fn unknown(error: &herdsman_client::Error) -> herdsman_client::Error {
    let kind = if is_overtaken(error) { &ErrorKind::ConnectionLoss } else { error.kind() };
    herdsman_client::Error::unknown(kind.clone())
}

/// Returns whether a call that failed may succeed when it is made again: in the same session or, with a managed client,
/// in the next one. Whether it may be made again is another question.
pub(crate) fn may_succeed_later(client: &Client, error: &herdsman_client::Error) -> bool {
    error.is_retriable() && (client.is_managed() || !error.is_session_expired())
}

/// Returns whether a recipe that promises to continue starts again after this error: what it held is lost, with its
/// session or without, and the client continues in another session. A lost connection means the same here, because a
/// retrying client reports it only when the session has ended meanwhile.
pub(crate) fn must_restart(client: &Client, error: &Error) -> bool {
    let is_lost = match error {
        Error::Lost => true,
        Error::Client(error) => error.is_retriable() || *error.kind() == ErrorKind::Deposed,
        _ => false,
    };
    is_lost && client.is_managed()
}
