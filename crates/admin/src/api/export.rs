//! Exports a subtree as lines of JSON, in the format of `herdsman shell export`: a header, a line for each
//! znode, and a last line that marks the export as complete.
//!
//! ```text
//! {"format":"herdsman-subtree","version":1,"root":"/app","zxid":"0x2a","time":"2026-01-01T00:00:00.000Z"}
//! {"path":".","data":"","acl":[…],"type":"persistent","stat":{…}}
//! {"path":"config","data":"host=a",…}
//! {"end":true,"znodes":2,"zxid":"0x29"}
//! ```
//! A partial export is not useful: if a znode may not be read, the request is rejected before the first
//! line, unless it has `unreadable=skip`. The last line then has the number of skipped znodes. An export
//! without a last line is incomplete. Unlike the shell, which sees only what clients do, this includes
//! containers and times to live.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream;
use herdsman_proto::path::{ROOT, ZOOKEEPER};
use herdsman_proto::{Acl, ErrorCode, Stat, Zxid};
use herdsman_tree::owner::Owner;
use herdsman_tree::{StepLimit, VisitedZnode, WalkAction};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::callers::ReadAccess;
use super::limits::Permit;
use super::query::{Parameters, ZnodePath};
use super::shapes::{AclEntry, NodeType, acl_bytes, acl_shape, hex, ttl_ms};
use super::steps::SteppedWalk;
use crate::error::ApiError;
use crate::identity::Identity;
use crate::large_answers::LARGE_BYTES;
use crate::state::AdminState;

const FORMAT: &str = "herdsman-subtree";
const VERSION: u32 = 1;
/// Lines are collected up to this size before they are sent.
const CHUNK_BYTES: usize = 64 << 10;
/// Znodes that are read ahead of sending: a slow reader keeps their paths, data and ACLs in memory, even if they have
/// been changed in the tree by now.
const READ_AHEAD: StepLimit = StepLimit { znodes: 64, bytes: 1 << 20 };

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportParameters {
    path: ZnodePath,
    #[serde(default)]
    unreadable: Unreadable,
}

/// What to do about znodes that may not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unreadable {
    #[default]
    Fail,
    Skip,
}

/// `GET /export`.
pub(super) async fn export(
    State(state): State<AdminState>,
    ReadAccess(identity): ReadAccess,
    Parameters(ExportParameters { path, unreadable }): Parameters<ExportParameters>,
) -> Result<Response, ApiError> {
    let root = path.as_str();
    let permit = state.limits.stream(identity.peer.ip())?;
    let newest = {
        let tree = state.server.core().tree();
        let znode = tree.visible_to(&identity.ids).znode(root);
        newest_zxid(&znode.map_err(|code| ApiError::refused(code, root))?.stat())
    };
    if unreadable == Unreadable::Fail {
        check_readable(&state, &identity, root).await?;
    }
    let walk = SteppedWalk::start(&state.server, &identity.ids, root)?;
    let export = Export::new(root, newest, walk, permit);
    let chunks = stream::try_unfold(export, |mut export| async {
        Ok::<_, ApiErrorText>(export.next_chunk().await?.map(|chunk| (chunk, export)))
    });
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson"),
        (CONTENT_DISPOSITION, "attachment; filename=\"export.ndjson\""),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

/// Why a stream was cut off; the client only sees that it was.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ApiErrorText(String);

impl From<ApiError> for ApiErrorText {
    fn from(error: ApiError) -> Self {
        ApiErrorText(error.message)
    }
}

async fn check_readable(
    state: &AdminState,
    identity: &Identity,
    root: &str,
) -> Result<(), ApiError> {
    let _permit = state.limits.walk(identity.peer.ip())?;
    let mut walk = SteppedWalk::start(&state.server, &identity.ids, root)?;
    let mut unreadable = None;
    let mut look = |visit: VisitedZnode<'_>| {
        if is_left_out(root, visit.path) {
            return WalkAction::SkipSubtree;
        }
        if visit.znode.is_none() && unreadable.is_none() {
            unreadable = Some(visit.path.to_owned());
        }
        WalkAction::Descend
    };
    while walk.step(&mut look).await? {}
    match unreadable {
        None => Ok(()),
        Some(path) => {
            let mut error = ApiError::refused(ErrorCode::NoAuth, &path);
            error.message.push_str("; add unreadable=skip to skip such znodes");
            Err(error)
        }
    }
}

/// Whether a znode is skipped: an export of the root does not include the service's own znodes.
fn is_left_out(root: &str, path: &str) -> bool {
    root == ROOT && path == ZOOKEEPER
}

/// An export in progress.
struct Export {
    root: String,
    walk: SteppedWalk,
    has_more: bool,
    has_ended: bool,
    /// Znodes that were read and not written yet. Large data is shared with the tree.
    seen: VecDeque<Znode>,
    written: u64,
    unreadable: u64,
    newest: Zxid,
    chunk: Vec<u8>,
    /// The permit, shared with the thread that makes a large line.
    permit: Arc<Permit>,
}

/// A znode that was read.
struct Znode {
    path: String,
    data: Option<Arc<[u8]>>,
    acl: Vec<Acl>,
    owner: Owner,
    stat: Stat,
}

#[derive(Serialize)]
struct Header<'a> {
    format: &'a str,
    version: u32,
    root: &'a str,
    zxid: String,
    time: String,
}

#[derive(Serialize)]
struct End {
    end: bool,
    znodes: u64,
    zxid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<u64>,
}

#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
    acl: Vec<AclEntry>,
    r#type: NodeType,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<i64>,
    stat: StatLine,
}

#[derive(Serialize)]
struct StatLine {
    czxid: String,
    mzxid: String,
    pzxid: String,
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeral_owner: String,
    data_length: i32,
    num_children: i32,
}

impl Export {
    fn new(root: &str, newest: Zxid, walk: SteppedWalk, permit: Permit) -> Self {
        let header = Header {
            format: FORMAT,
            version: VERSION,
            root,
            zxid: hex(newest.0),
            time: format!("{:.3}", Timestamp::now()),
        };
        let mut chunk = Vec::new();
        write_line(&mut chunk, &header);
        Export {
            root: root.to_owned(),
            walk,
            has_more: true,
            has_ended: false,
            seen: VecDeque::new(),
            written: 0,
            unreadable: 0,
            newest: Zxid::ZERO,
            chunk,
            permit: Arc::new(permit),
        }
    }

    /// The next lines; `None` after the last.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        while self.chunk.len() < CHUNK_BYTES {
            if let Some(znode) = self.seen.pop_front() {
                self.write_znode(znode).await?;
            } else if self.has_more {
                self.read_ahead().await?;
            } else if self.has_ended {
                break;
            } else {
                self.write_end();
                self.has_ended = true;
            }
        }
        let chunk = std::mem::take(&mut self.chunk);
        Ok((!chunk.is_empty()).then(|| Bytes::from(chunk)))
    }

    async fn read_ahead(&mut self) -> Result<(), ApiError> {
        let Export { root, seen, unreadable, .. } = self;
        let note = |visit: VisitedZnode<'_>| {
            if is_left_out(root, visit.path) {
                return WalkAction::SkipSubtree;
            }
            match visit.znode {
                Some(znode) => seen.push_back(Znode {
                    path: visit.path.to_owned(),
                    data: znode.to_data(),
                    acl: znode.acl().into_owned(),
                    owner: znode.owner(),
                    stat: znode.stat(),
                }),
                None => *unreadable += 1,
            }
            WalkAction::Descend
        };
        self.has_more = self.walk.step_by(READ_AHEAD, note).await?;
        Ok(())
    }

    /// Adds the line of a znode. A large one is made on a blocking thread, which holds this export's permit.
    async fn write_znode(&mut self, znode: Znode) -> Result<(), ApiError> {
        self.written += 1;
        self.newest = self.newest.max(newest_zxid(&znode.stat));
        if znode.bytes() <= LARGE_BYTES {
            znode.write(&self.root, &mut self.chunk);
            return Ok(());
        }
        let (root, permit) = (self.root.clone(), Arc::clone(&self.permit));
        let mut chunk = std::mem::take(&mut self.chunk);
        let making = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            znode.write(&root, &mut chunk);
            chunk
        });
        self.chunk = making.await.map_err(|_| {
            let message = "the line of a znode could not be made";
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Failed", message)
        })?;
        Ok(())
    }

    fn write_end(&mut self) {
        let unreadable = (self.unreadable > 0).then_some(self.unreadable);
        let (znodes, zxid) = (self.written, hex(self.newest.0));
        write_line(&mut self.chunk, &End { end: true, znodes, zxid, unreadable });
    }
}

impl Znode {
    /// The minimum size of its line.
    fn bytes(&self) -> usize {
        self.path.len() + self.data.as_ref().map_or(0, |data| data.len()) + acl_bytes(&self.acl)
    }

    fn write(&self, root: &str, out: &mut Vec<u8>) {
        let data = self.data.as_deref().unwrap_or_default();
        let text = as_text(data);
        let line = Line {
            path: relative(root, &self.path),
            data: text,
            data_base64: text.is_none().then(|| STANDARD.encode(data)),
            acl: acl_shape(&self.acl),
            r#type: self.owner.into(),
            ttl_ms: ttl_ms(self.owner),
            stat: StatLine::from(&self.stat),
        };
        write_line(out, &line);
    }
}

fn write_line(out: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *out, line)
        .expect("texts, numbers and lists always have a JSON form");
    out.push(b'\n');
}

impl From<&Stat> for StatLine {
    fn from(stat: &Stat) -> Self {
        StatLine {
            czxid: hex(stat.czxid.0),
            mzxid: hex(stat.mzxid.0),
            pzxid: hex(stat.pzxid.0),
            ctime: stat.ctime,
            mtime: stat.mtime,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            ephemeral_owner: hex(stat.ephemeral_owner),
            data_length: stat.data_length,
            num_children: stat.num_children,
        }
    }
}

fn newest_zxid(stat: &Stat) -> Zxid {
    stat.czxid.max(stat.mzxid).max(stat.pzxid)
}

/// The data as text, if it can be written to JSON and to a terminal unchanged.
fn as_text(data: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(data).ok()?;
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(is_plain).then_some(text)
}

/// The path relative to the root of the export, which is `.` itself.
fn relative<'p>(root: &str, path: &'p str) -> &'p str {
    let rest = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    if rest.is_empty() { "." } else { rest }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::http::HeaderMap;
    use herdsman_client::{Client, Perms};
    use herdsman_proto::Id;
    use herdsman_testing::TestServer;

    use super::*;
    use crate::settings::AdminSettings;

    fn export_of(state: &AdminState, root: &str) -> Export {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let identity =
            Identity::prove(state.server.schemes(), &HeaderMap::new(), peer, None).unwrap();
        let walk = SteppedWalk::start(&state.server, &identity.ids, root).unwrap();
        let permit = state.limits.stream(peer.ip()).unwrap();
        Export::new(root, Zxid::ZERO, walk, permit)
    }

    /// Copies of long ACLs used to wait for a slow reader, 64 at a time.
    #[tokio::test]
    async fn data_waiting_for_a_slow_reader_is_bounded_in_bytes() {
        let server = TestServer::start();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let id = |n: usize| Id::new("digest", &format!("{n}{}:hash", "u".repeat(5000)));
        let mut acl: Vec<_> = (0..100).map(|n| Acl { perms: Perms::ALL, id: id(n) }).collect();
        acl.push(Acl::world(Perms::ALL));
        for n in 0..40 {
            client.create(&format!("/{n:02}"), "").acl(acl.clone()).await.unwrap();
        }
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let mut export = export_of(&state, "/");
        let mut znodes = 0;
        while export.has_more {
            export.read_ahead().await.unwrap();
            let entries = export.seen.iter().flat_map(|znode| &znode.acl);
            let bytes: usize = entries.map(|entry| entry.id.id.len()).sum();
            assert!(bytes < 2 << 20, "{bytes} bytes");
            znodes += export.seen.drain(..).len();
        }
        assert_eq!(znodes, 41);
    }

    /// Its line used to be made on the thread that answers health checks.
    #[test]
    fn the_line_of_a_large_znode_is_made_by_another_thread() {
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = Client::connect(&server.connect_string()).await.unwrap();
            client.create("/large", vec![0; LARGE_BYTES + 1]).await.unwrap();
            client.create("/small", "x").await.unwrap();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let blocked = tokio::task::spawn_blocking(move || ended.recv());
            let mut small = export_of(&state, "/small");
            assert!(small.next_chunk().await.unwrap().is_some());
            let mut large = export_of(&state, "/large");
            let mut chunk = Box::pin(large.next_chunk());
            // The walk yields, but does not wait.
            for _ in 0..1000 {
                assert!(futures_util::poll!(&mut chunk).is_pending());
            }
            drop(end);
            _ = blocked.await;
            assert!(chunk.await.unwrap().is_some_and(|chunk| chunk.len() > LARGE_BYTES));
        });
    }
}
