//! Changes as they happen, as server-sent events.
//!
//! A stream is a persistent watch of the asker's stand-in session, so it shows what a client of the
//! asker would hear. First comes `ready`: from then on nothing is missed. Then `change` for each
//! change, and `gap` where some may have been missed, because the connection to the server was gone
//! or the reader was slow; after it one reads anew. At most 1024 changes wait for a slow reader. The
//! stream ends with the server, and when the reader goes the watch goes too.

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

use super::callers::Reader;
use super::limits::Permit;
use super::query::{Parameters, ZnodePath};
use crate::error::ApiError;
use crate::stand_ins::StandIn;
use crate::state::AdminState;

/// A comment is sent when there was nothing else for so long, so that nobody on the way gives up.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often a stream without a connection looks whether the server is ending.
const LOOK_AFTER_SERVER: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchParameters {
    path: ZnodePath,
    recursive: Option<bool>,
}

/// `GET /watch`.
pub(super) async fn watch(
    State(state): State<AdminState>,
    Reader(identity): Reader,
    Parameters(WatchParameters { path, recursive }): Parameters<WatchParameters>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let permit = state.limits.stream(identity.peer.ip())?;
    let stand_in = state.stand_ins.of(&identity).await?;
    let call = stand_in.client().watch(path.as_str());
    let call = if recursive == Some(true) { call.recursive() } else { call };
    let watch = call.await?;
    let following = Following {
        connection: stand_in.client().events(),
        watch,
        server: state.server,
        is_ready: false,
        _stand_in: stand_in,
        _permit: permit,
    };
    let events = stream::unfold(following, |mut following| async {
        let event = following.next().await?;
        Some((Ok(event), following))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// A stream under way.
struct Following {
    watch: PersistentWatch,
    connection: ConnectionEvents,
    server: ServerHandle,
    is_ready: bool,
    _stand_in: StandIn,
    _permit: Permit,
}

impl Following {
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
                // Whatever it is: the server may be ending.
                changed = self.connection.next() => {
                    changed?;
                }
                () = tokio::time::sleep(LOOK_AFTER_SERVER) => {}
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
        // Whatever else the client may have to report one day, reading anew is right.
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
