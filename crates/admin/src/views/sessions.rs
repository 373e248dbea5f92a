//! `GET /api/v1/sessions`, `GET /api/v1/sessions/0x…`: sessions, their ephemerals and their watches.
//!
//! Every server knows all sessions of the ensemble, but only the leader knows when one expires, and
//! only the server to which a client is connected knows its connection and its watches. What this
//! server does not know is null or empty. A caller who may not see ids gets masked ones, and uses them in requests.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use herdsman_node::Now;
use herdsman_proto::{ErrorCode, Id, SessionId, path};
use herdsman_server::clients::Client;
use herdsman_server::core::Core;
use herdsman_server::operators::words::last_op;
use herdsman_tree::watches::{TableKind, WatchEntry};
use herdsman_tree::{StepLimit, Tree, WatchMode};
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::identity::Identity;
use crate::masks::{IdView, MASKED_DIGITS, Masks, PREFIX};
use crate::state::AdminState;
use crate::views::rendered::Rendered;

/// Default number of sessions on a page.
const PAGE: usize = 200;
const PAGE_MAX: usize = 1000;
/// Most ephemerals of one session that are read, and most watches: the tree is locked meanwhile.
const PATHS_MAX: usize = 1000;
/// Most bytes of their paths, for each of the two.
const PATH_BYTES_MAX: usize = 2 << 20;

/// The query parameters of a page.
#[derive(Debug, Deserialize)]
pub struct Paging {
    /// The last session of the previous page.
    after: Option<String>,
    /// Sessions on a page.
    limit: Option<usize>,
}

/// A page of sessions.
#[derive(Debug, Serialize)]
pub struct SessionsView {
    total: usize,
    sessions: Vec<SessionView>,
    next: Option<String>,
}

/// A session.
#[derive(Debug, Serialize)]
pub struct SessionView {
    id: String,
    timeout_ms: i32,
    local: bool,
    ephemerals: usize,
    watches: usize,
    connection: Option<ConnectionView>,
    expires_ms: Option<i64>,
}

/// A session's connection to this server.
#[derive(Debug, Serialize)]
pub struct ConnectionView {
    peer: String,
    established_ms: i64,
    last_op: &'static str,
    received: u64,
    sent: u64,
    queued: usize,
    latency_avg_ms: f64,
    latency_max_ms: u64,
}

/// A session with its paths.
#[derive(Debug, Serialize)]
pub struct SessionPathsView {
    #[serde(flatten)]
    session: SessionView,
    ephemeral_paths: Vec<String>,
    watch_paths: Vec<WatchView>,
    hidden: usize,
    truncated: bool,
}

/// A watch.
#[derive(Debug, Serialize)]
pub struct WatchView {
    path: String,
    kind: &'static str,
}

/// One page.
///
/// # Errors
/// Fails if the parameters are invalid.
pub async fn sessions(
    State(state): State<AdminState>,
    identity: Identity,
    Query(paging): Query<Paging>,
) -> Result<Response, ApiError> {
    let address = identity.peer.ip();
    let ids = state.ids_seen_by(&identity);
    let after = match &paging.after {
        Some(text) => read_id(&state, &identity, text, ids).await?,
        None => SessionId(i64::MIN),
    };
    let limit = paging.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let server = state.clone();
    // This reads all connections.
    Rendered::on_thread(&state, address, move || Ok(page(&server, &identity, after, limit))).await
}

fn page(state: &AdminState, identity: &Identity, after: SessionId, limit: usize) -> SessionsView {
    let (core, ids) = (state.server.core(), state.ids_seen_by(identity));
    let clients = clients_by_session(core);
    let mut known = known_after(core, after, limit + 1);
    let more = known.len() > limit;
    known.truncate(limit);
    let total = {
        let local = core.with_node(|node| node.sessions().local_len());
        core.tree().session_count() + local
    };
    let next = known.last().filter(|_| more).map(|last| ids.text(last.id));
    let tree = core.tree();
    let now = core.clock.now();
    let sessions = known.iter().map(|one| one.view(&tree, clients.get(&one.id), now, ids));
    let sessions = sessions.collect();
    SessionsView { total, sessions, next }
}

/// One session.
///
/// # Errors
/// Fails if the session does not exist.
pub async fn session(
    State(state): State<AdminState>,
    identity: Identity,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let address = identity.peer.ip();
    let ids = state.ids_seen_by(&identity);
    let text = id;
    // A whole id may be known from an ephemeral znode. The client port also reveals whether it exists.
    let id = match text.starts_with(PREFIX) {
        true => read_id(&state, &identity, &text, ids).await?,
        false => parse_id(&text)?,
    };
    let server = state.clone();
    Rendered::on_thread(&state, address, move || with_paths(&server, &identity, id, &text)).await
}

fn with_paths(
    state: &AdminState,
    identity: &Identity,
    id: SessionId,
    text: &str,
) -> Result<SessionPathsView, ApiError> {
    let (core, ids) = (state.server.core(), state.ids_seen_by(identity));
    let known = known(core, id).ok_or_else(|| no_session(text))?;
    let client = client_of(core, id);
    let tree = core.tree();
    let session = known.view(&tree, client.as_ref(), core.clock.now(), ids);
    let ephemerals = tree.ephemerals(id).cloned();
    let watches = client.map(|client| {
        // One more than are shown, to detect whether there are more.
        let limit = StepLimit { znodes: PATHS_MAX + 1, bytes: PATH_BYTES_MAX + 1 };
        tree.watches().of_watcher(client.id.watcher(), limit)
    });
    let watches = watches.unwrap_or_default();
    let mut shown = Shown { tree: &tree, ids: &identity.ids, hidden: 0, truncated: false };
    let ephemeral_paths = shown.those(ephemerals, |path| path);
    let ephemeral_paths = ephemeral_paths.iter().map(ToString::to_string).collect();
    let watch_paths = shown.those(watches.into_iter(), |watch| &watch.path);
    let Shown { hidden, truncated, .. } = shown;
    let watch_paths = watch_paths
        .into_iter()
        .map(|watch| WatchView { kind: watch_kind(&tree, &watch), path: watch.path.to_string() });
    let watch_paths = watch_paths.collect();
    Ok(SessionPathsView { session, ephemeral_paths, watch_paths, hidden, truncated })
}

fn no_session(id: &str) -> ApiError {
    let message = format!("session {id} does not exist; it may have ended");
    ApiError::new(StatusCode::NOT_FOUND, "NoSession", message)
}

/// Finds the session after which a page begins. Callers who may not see ids must not pass a whole one: the page
/// after it would reveal which ids exist.
async fn read_id(
    state: &AdminState,
    identity: &Identity,
    text: &str,
    ids: IdView<'_>,
) -> Result<SessionId, ApiError> {
    match ids {
        IdView::Whole => parse_id(text),
        IdView::Masked(masks) if text.starts_with(PREFIX) => {
            let _permit = state.limits.walk(identity.peer.ip())?;
            let found = find_masked(state.server.core(), text, masks).await;
            found.ok_or_else(|| no_session(text))
        }
        IdView::Masked(_) => {
            let message = "log in with all permissions on the root znode to page by whole ids, or use the masked \
                           id in `next`";
            parse_id(text)?;
            Err(ApiError::new(StatusCode::FORBIDDEN, "NoAuth", message))
        }
    }
}

/// Masks the ids of all sessions until one matches, in steps between which other requests are served.
async fn find_masked(core: &Core, text: &str, masks: &Masks) -> Option<SessionId> {
    let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == MASKED_DIGITS)?;
    let digits = u64::from_str_radix(digits, 16).ok()?;
    let mut after = SessionId(i64::MIN);
    loop {
        let page = known_after(core, after, PAGE_MAX);
        if let Some(known) = page.iter().find(|known| masks.is_of(digits, known.id)) {
            return Some(known.id);
        }
        after = page.last()?.id;
        tokio::task::yield_now().await;
    }
}

/// Parses an id in hexadecimal.
fn parse_id(text: &str) -> Result<SessionId, ApiError> {
    let digits = text.strip_prefix("0x").unwrap_or_default();
    let id = u64::from_str_radix(digits, 16).ok().map(|id| SessionId(id.cast_signed()));
    id.ok_or_else(|| {
        ApiError::bad_request(format!("{text:?} is not a session id, such as 0x1001f2e3"))
    })
}

/// A session as node and tree know it.
struct KnownSession {
    id: SessionId,
    timeout_ms: i32,
    local: bool,
    deadline_ms: Option<u64>,
}

impl KnownSession {
    fn view(
        &self,
        tree: &Tree,
        client: Option<&Arc<Client>>,
        now: Now,
        ids: IdView<'_>,
    ) -> SessionView {
        let wall_ms =
            |at_ms: u64| now.wall_ms + at_ms.cast_signed() - now.monotonic_ms.cast_signed();
        SessionView {
            id: ids.text(self.id),
            timeout_ms: self.timeout_ms,
            local: self.local,
            ephemerals: tree.ephemerals_of(self.id),
            watches: client.map_or(0, |client| tree.watches().count_of(client.id.watcher())),
            connection: client.map(|client| connection(client)),
            expires_ms: self.deadline_ms.map(wall_ms),
        }
    }
}

/// Global sessions are in the tree, local sessions of this server in the node.
fn known_after(core: &Core, after: SessionId, count: usize) -> Vec<KnownSession> {
    let global: Vec<_> = core.tree().sessions_after(after).take(count).collect();
    core.with_node(|node| {
        let sessions = node.sessions();
        let global = global.into_iter().map(|(id, timeout_ms)| KnownSession {
            id,
            timeout_ms,
            local: false,
            deadline_ms: sessions.get(id).and_then(|session| session.deadline_ms()),
        });
        let local = sessions.local_after(after).take(count).map(|(id, session)| KnownSession {
            id,
            timeout_ms: session.timeout_ms,
            local: true,
            deadline_ms: session.deadline_ms(),
        });
        let mut known: Vec<_> = global.chain(local).collect();
        known.sort_by_key(|one| (one.id, one.local));
        // A session that is being upgraded is in both for a moment.
        known.dedup_by_key(|one| one.id);
        known.truncate(count);
        known
    })
}

fn known(core: &Core, id: SessionId) -> Option<KnownSession> {
    let just_before = SessionId(id.0.checked_sub(1)?);
    known_after(core, just_before, 1).pop().filter(|known| known.id == id)
}

fn clients_by_session(core: &Core) -> HashMap<SessionId, Arc<Client>> {
    let clients = core.clients.all().into_iter();
    let of_session = clients.map(|client| {
        let session = client.stats.lock().session;
        (session, client)
    });
    of_session.filter(|(session, _)| *session != SessionId::NONE).collect()
}

fn client_of(core: &Core, id: SessionId) -> Option<Arc<Client>> {
    core.clients.all().into_iter().find(|client| client.stats.lock().session == id)
}

fn connection(client: &Client) -> ConnectionView {
    let stats = *client.stats.lock();
    ConnectionView {
        peer: client.peer.to_string(),
        established_ms: client.established_ms,
        last_op: last_op(stats.last_op),
        received: stats.received,
        sent: stats.sent,
        queued: stats.queued,
        latency_avg_ms: stats.latency.mean(),
        latency_max_ms: stats.latency.max,
    }
}

/// Selects the paths that may be shown.
struct Shown<'a> {
    tree: &'a Tree,
    ids: &'a [Id],
    hidden: usize,
    truncated: bool,
}

impl Shown<'_> {
    fn those<T>(&mut self, all: impl Iterator<Item = T>, path_of: impl Fn(&T) -> &str) -> Vec<T> {
        let mut those = Vec::new();
        let mut bytes = 0;
        for (i, one) in all.enumerate() {
            bytes += path_of(&one).len();
            if i == PATHS_MAX || (bytes > PATH_BYTES_MAX && i > 0) {
                self.truncated = true;
                break;
            }
            if self.may_show(path_of(&one)) {
                those.push(one);
            } else {
                self.hidden += 1;
            }
        }
        those
    }

    /// A znode that does not exist has no ACL, but a caller who may not list its would-be parent should not
    /// learn what other clients expect there.
    fn may_show(&self, wanted: &str) -> bool {
        let visible = self.tree.visible_to(self.ids);
        let existing = match visible.existing_prefix(wanted) {
            0 => path::ROOT,
            end => &wanted[..end],
        };
        visible.znode(existing).is_ok()
    }
}

/// Watches set by exists and by getData are one kind: if there is no znode, the client waits for its
/// creation.
fn watch_kind(tree: &Tree, watch: &WatchEntry) -> &'static str {
    match (watch.mode, watch.table) {
        (WatchMode::Persistent, _) => "persistent",
        (WatchMode::PersistentRecursive, _) => "recursive",
        (WatchMode::Standard, TableKind::Child) => "child",
        (WatchMode::Standard, TableKind::Data) => match tree.visible_to(&[]).znode(&watch.path) {
            Err(ErrorCode::NoNode) => "exist",
            _ => "data",
        },
    }
}

#[cfg(test)]
mod tests {
    use herdsman_proto::{StatPersisted, Zxid};

    use super::*;

    /// All connections used to be read on the thread that answers health checks.
    #[tokio::test]
    async fn sessions_are_read_by_counted_threads() {
        let server = herdsman_testing::TestServer::start();
        let state = AdminState::new(server.handle(), crate::AdminSettings::default());
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let status = async || {
            let headers = axum::http::HeaderMap::new();
            let identity = Identity::prove(state.server.schemes(), &headers, peer, None).unwrap();
            let paging = Paging { after: None, limit: None };
            let answer = sessions(State(state.clone()), identity, Query(paging)).await;
            answer.map_or_else(|error| error.status.as_u16(), |_| 200)
        };
        let threads: Vec<_> =
            std::iter::from_fn(|| state.limits.blocking(peer.ip()).ok()).collect();
        assert_eq!(status().await, 429);
        drop(threads);
        assert_eq!(status().await, 200);
    }

    /// Takes a moment; it took more than ten seconds when each missing ancestor was looked up from the root.
    #[test]
    fn a_path_of_which_most_is_missing_is_looked_up_once() {
        let mut loader = herdsman_tree::Loader::new(herdsman_tree::TreeOptions::default());
        loader.acl(1, vec![herdsman_proto::Acl::world(herdsman_proto::Perms::ALL)]);
        let depth = |depth| "/a".repeat(depth);
        for depth in (0..1000).map(depth) {
            loader.node(&depth, None, 1, StatPersisted::default()).unwrap();
        }
        loader.node("/shut", None, 2, StatPersisted::default()).unwrap();
        let tree = loader.finish(Zxid(1)).unwrap();
        let shown = Shown { tree: &tree, ids: &[], hidden: 0, truncated: false };
        assert!(shown.may_show(&depth(500_000)));
        for (path, may_show) in
            [("/", true), ("/a", true), ("/b/c", true), ("/shut", false), ("/shut/b/c", false)]
        {
            assert_eq!(shown.may_show(path), may_show, "{path}");
        }
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        for id in [1, 0x1001_f2e3_0000_0000, -2, i64::MIN] {
            let id = SessionId(id);
            assert_eq!(parse_id(&id.to_string()).unwrap(), id);
        }
        for wrong in ["", "1", "0x", "0xg", "0x10000000000000000", "-0x1"] {
            assert_eq!(parse_id(wrong).unwrap_err().status, StatusCode::BAD_REQUEST, "{wrong}");
        }
    }
}
