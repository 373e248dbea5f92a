//! Whether a session may have ended, judged by the last contact with its servers.
//!
//! The state of the connection does not show it: a connection may stay open while no request is answered, and a program
//! that was paused, or has blocked its thread, does not know the state yet. The servers end a session when they have
//! not heard from it for its timeout, so what counts is when the last request that got a reply was sent.

use herdsman_client::{Client, Session};
use tokio::time::{Instant, sleep, sleep_until};

use crate::retrying::PAUSE;

/// Returns the moment from which on the session may have ended, unless there is contact before.
fn silent_at(session: &Session) -> Instant {
    session.last_contact() + session.timeout()
}

/// Returns whether there was no contact for a session timeout, so that the session may have ended.
pub(crate) fn is_silent(session: &Session) -> bool {
    silent_at(session) <= Instant::now()
}

/// Resolves when there was no contact for a session timeout.
pub(crate) async fn silent(session: &Session) {
    while !is_silent(session) {
        sleep_until(silent_at(session)).await;
    }
}

/// Resolves when nothing that depends on this session can be trusted any more: there was no contact for a session
/// timeout, or the session has ended.
pub(crate) async fn session_lost(session: &Session) {
    tokio::select! {
        () = silent(session) => {}
        _ = session.ended() => {}
    }
}

/// Waits for a session that is connected and not silent.
pub(crate) async fn live_session(client: &Client) -> herdsman_client::Result<Session> {
    loop {
        let session = client.connected_session().await?;
        if !is_silent(&session) {
            return Ok(session);
        }
        // It is connected to a read-only server, or to one that no longer receives from us.
        sleep(PAUSE).await;
    }
}
