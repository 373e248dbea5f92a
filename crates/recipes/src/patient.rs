//! Calls that go on while the connection is gone.
//!
//! What a recipe has begun it must bring to an end. A client's deadline and retry policy are meant for the single calls
//! of a program; they must not end the care for a lock, a registration or a cache because a failover took longer.

use std::time::Duration;

use herdsman_client::{Client, ConnectionState, RetryPolicy, Session};

/// Between attempts while the connection is gone.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// For calls that have no deadline of their own: longer than anybody waits.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The same client, whose calls end only with their reply, with the session or with the client.
pub(crate) fn patient(client: &Client) -> Client {
    client.with_retry(RetryPolicy::forever(PAUSE)).with_deadline(NO_DEADLINE)
}

/// Resolves when what rests on this session cannot be trusted any more: no server was heard of for a session timeout,
/// or the session is over.
pub(crate) async fn session_lost(session: &Session) {
    let is_lost = |state: ConnectionState| state == ConnectionState::Lost || state.is_final();
    session.wait_for(is_lost).await;
}
