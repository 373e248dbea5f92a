//! Calls that go on while the connection is gone.
//!
//! What a recipe has begun it must bring to an end. A client's deadline and retry policy are meant for the single calls
//! of a program; they must not end the care for a lock, a registration or a cache because a failover took longer.

use std::time::Duration;

use herdsman_client::{Client, ConnectionState, ErrorKind, RetryPolicy, Session};

use crate::error::Error;

/// Between attempts while the connection is gone.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// For calls that have no deadline of their own: longer than anybody waits.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The same client, whose calls end only with their reply, with the session or with the client.
pub(crate) fn patient(client: &Client) -> Client {
    client.with_retry(RetryPolicy::forever(PAUSE)).with_deadline(NO_DEADLINE)
}

/// Whether a recipe that promises to go on begins again after this error: what it held is gone, with its session or
/// without, and the client goes on in another session. A lost connection says the same here, because a patient client
/// reports it only when the session has ended meanwhile.
pub(crate) fn begins_again(client: &Client, error: &Error) -> bool {
    let is_lost = match error {
        Error::Lost => true,
        Error::Client(error) => error.is_retriable() || *error.kind() == ErrorKind::Deposed,
        _ => false,
    };
    is_lost && client.is_managed()
}

/// Resolves when what rests on this session cannot be trusted any more: no server was heard of for a session timeout,
/// or the session is over.
pub(crate) async fn session_lost(session: &Session) {
    let is_lost = |state: ConnectionState| state == ConnectionState::Lost || state.is_final();
    session.wait_for(is_lost).await;
}
