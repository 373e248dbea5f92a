//! Streams changes as server-sent events.
//!
//! A stream is a persistent watch of the session on behalf of the caller, so it shows what a client of the
//! caller would get. It begins with `ready`: after that no change is missed. Then `change` for each
//! change, and `gap` if some may have been missed, because the connection to the server was lost or the
//! client read too slowly; the client should then read again. Up to 1024 changes are queued for a slow
//! client. The stream ends with the server; when the client leaves, the watch is removed.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_core::Stream;
use futures_util::stream;
use herdsman_client::{ConnectionEvents, EventType, PersistentWatch, WatchEvent, WatchUpdate};
use herdsman_server::ServerHandle;
use serde::Deserialize;
use serde_json::json;

use super::callers::ReadAccess;
use super::limits::Permit;
use super::query::{Parameters, ZnodePath};
use crate::caller_sessions::CallerSession;
use crate::error::ApiError;
use crate::state::AdminState;

/// A comment is sent after this time without an event, so that proxies do not close the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often a stream without a connection checks whether the server is stopping.
const SERVER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchParameters {
    path: ZnodePath,
    recursive: Option<bool>,
}

/// `GET /watch`.
pub(super) async fn watch(
    State(state): State<AdminState>,
    ReadAccess(identity): ReadAccess,
    Parameters(WatchParameters { path, recursive }): Parameters<WatchParameters>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let permit = state.limits.stream(identity.peer.ip())?;
    let session = state.caller_sessions.of(&identity).await?;
    let call = session.client().watch(path.as_str());
    let call = if recursive == Some(true) { call.recursive() } else { call };
    let watch = call.await?;
    let following = EventStream {
        connection: session.client().events(),
        watch,
        server: state.server,
        is_ready: false,
        _stand_in: session,
        _permit: permit,
    };
    let events = stream::unfold(following, |mut following| async {
        let event = following.next().await?;
        Some((Ok(event), following))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// An open stream.
struct EventStream {
    watch: PersistentWatch,
    connection: ConnectionEvents,
    server: ServerHandle,
    is_ready: bool,
    _stand_in: CallerSession,
    _permit: Permit,
}

impl EventStream {
    async fn next(&mut self) -> Option<Event> {
        if !self.is_ready {
            self.is_ready = true;
            return Some(Event::default().event("ready").data("{}"));
        }
        loop {
            if self.server.is_stopping() {
                return None;
            }
            tokio::select! {
                update = self.watch.next() => return event(&update?),
                // Whatever the event is: the server may be stopping.
                changed = self.connection.next() => {
                    changed?;
                }
                () = tokio::time::sleep(SERVER_CHECK_INTERVAL) => {}
            }
        }
    }
}

fn event(update: &WatchUpdate) -> Option<Event> {
    Some(match update {
        WatchUpdate::Event(WatchEvent { kind, path, .. }) => {
            let change = json!({ "type": kind_name(*kind), "path": path });
            Event::default().event("change").data(change.to_string())
        }
        // For any other update that the client library may add, reading again is right.
        _ => Event::default().event("gap").data("{}"),
    })
}

fn kind_name(kind: EventType) -> &'static str {
    match kind {
        EventType::NodeCreated => "created",
        EventType::NodeDeleted => "deleted",
        EventType::NodeDataChanged => "changed",
        EventType::NodeChildrenChanged => "children",
    }
}
