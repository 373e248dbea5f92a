//! Calls that continue while the connection is lost.
//!
//! A recipe must finish what it has begun. A client's deadline and retry policy are meant for the single calls of a
//! program; they must not end the maintenance of a lock, a registration or a cache because a failover took longer.

use std::time::Duration;

use herdsman_client::{Client, ErrorKind, RetryPolicy};

use crate::error::Error;

/// The pause between attempts while the connection is lost.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// The deadline of calls that need none: longer than any program waits.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns the same client, whose calls end only with their reply, with the session or with the client.
pub(crate) fn retrying(client: &Client) -> Client {
    client.with_retry(RetryPolicy::forever(PAUSE)).with_deadline(NO_DEADLINE)
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
