//! Searches names and data of a subtree.
//!
//! A search finds only what the caller could find with a client: nothing below an unreadable znode, and
//! not its data. Matches are in the order of the walk, by name. The search ends early, and reports that,
//! when there are enough matches or enough bytes of them, or when it has scanned too much or too long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use herdsman_tree::{VisibleZnode, VisitedZnode, WalkAction};
use serde::{Deserialize, Serialize};

use super::callers::ReadAccess;
use super::needle::Needle;
use super::query::{Parameters, ZnodePath};
use super::steps::SteppedWalk;
use crate::error::ApiError;
use crate::state::AdminState;
use crate::views::rendered::Rendered;

const MATCHES_DEFAULT: usize = 100;
const MATCHES_MAX: usize = 1000;
/// Most bytes of paths and excerpts of all matches, and of paths that one step collects.
const PATH_BYTES_MAX: usize = 4 << 20;
/// Most bytes of the text to search for.
const QUERY_BYTES_MAX: usize = 1000;
/// Most znodes that one search scans.
const SCANNED_MAX: usize = 5_000_000;
/// How long one search may take.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Bytes of data shown on each side of a match.
const EXCERPT_BYTES: usize = 40;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchParameters {
    q: String,
    path: Option<ZnodePath>,
    #[serde(default)]
    r#in: SearchIn,
    limit: Option<usize>,
}

/// Where to search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SearchIn {
    Names,
    Data,
    #[default]
    Both,
}

/// The result.
#[derive(Debug, Default, Serialize)]
pub(super) struct Found {
    matches: Vec<Match>,
    scanned: usize,
    truncated: bool,
    #[serde(skip)]
    bytes: usize,
}

impl Found {
    fn push(&mut self, found: Match) {
        self.bytes += found.path.len() + found.excerpt.len();
        self.matches.push(found);
    }

    /// Whether the limit of matches is reached.
    fn is_full(&self, limit: usize) -> bool {
        self.matches.len() > limit || self.bytes > PATH_BYTES_MAX
    }
}

#[derive(Debug, Serialize)]
struct Match {
    path: String,
    r#where: MatchIn,
    excerpt: String,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum MatchIn {
    Name,
    Data,
}

/// `GET /search`.
pub(super) async fn search(
    State(state): State<AdminState>,
    ReadAccess(identity): ReadAccess,
    Parameters(parameters): Parameters<SearchParameters>,
) -> Result<Response, ApiError> {
    if parameters.q.is_empty() || parameters.q.len() > QUERY_BYTES_MAX {
        let message = format!("q must have 1 to {QUERY_BYTES_MAX} bytes");
        return Err(ApiError::bad_request(message));
    }
    let _permit = state.limits.walk(identity.peer.ip())?;
    let started = Instant::now();
    let path = parameters.path.clone().unwrap_or_else(ZnodePath::root);
    let mut walk = SteppedWalk::start(&state.server, &identity.ids, path.as_str())?;
    let limit = parameters.limit.unwrap_or(MATCHES_DEFAULT).clamp(1, MATCHES_MAX);
    let mut search = Search::new(&parameters);
    let mut found = Found::default();
    let mut has_more = true;
    while has_more && !found.truncated {
        has_more = walk.step(|visit| search.visit(visit, &mut found)).await?;
        search.search_data(&mut found, limit);
        let is_enough = found.scanned >= SCANNED_MAX || started.elapsed() >= TIME_MAX;
        found.truncated = found.is_full(limit) || search.is_cut_short || (has_more && is_enough);
    }
    found.matches.truncate(limit);
    Rendered::by_size(&state, identity.peer.ip(), found.bytes, move || found).await
}

struct Search {
    needle: Needle,
    places: SearchIn,
    /// Whether to search paths: names have no slash, so a text with one means paths.
    in_paths: bool,
    /// Znodes to search when the tree is unlocked again, in the order of the walk.
    candidates: Vec<Candidate>,
    candidate_bytes: usize,
    /// One step had more paths than may be collected.
    is_cut_short: bool,
}

struct Candidate {
    path: String,
    in_name: bool,
    data: Option<Arc<[u8]>>,
}

impl Search {
    fn new(parameters: &SearchParameters) -> Self {
        Search {
            needle: Needle::new(&parameters.q),
            places: parameters.r#in,
            in_paths: parameters.q.contains('/'),
            candidates: Vec::new(),
            candidate_bytes: 0,
            is_cut_short: false,
        }
    }

    /// Visits a znode while the tree is locked; its data is only collected.
    fn visit(&mut self, visit: VisitedZnode<'_>, found: &mut Found) -> WalkAction {
        if self.is_cut_short {
            return WalkAction::SkipSubtree;
        }
        found.scanned += 1;
        let name = visit.path.rsplit('/').next().unwrap_or_default();
        let text = if self.in_paths { visit.path } else { name };
        let in_name = self.places != SearchIn::Data && self.needle.is_in(text);
        let wants_data = self.places != SearchIn::Names;
        let is_long_enough = |data: &[u8]| data.len() >= self.needle.len();
        let data = visit
            .znode
            .filter(|znode| wants_data && znode.data().is_some_and(is_long_enough))
            .and_then(VisibleZnode::to_data);
        if in_name || data.is_some() {
            self.candidate_bytes += visit.path.len();
            self.is_cut_short = self.candidate_bytes > PATH_BYTES_MAX;
            self.candidates.push(Candidate { path: visit.path.to_owned(), in_name, data });
        }
        WalkAction::Descend
    }

    /// Searches the collected data, until there are more matches than requested. A step of the walk bounds its
    /// amount.
    fn search_data(&mut self, found: &mut Found, limit: usize) {
        self.candidate_bytes = 0;
        for Candidate { path, in_name, data } in self.candidates.drain(..) {
            if found.is_full(limit) {
                return;
            }
            let at = data.as_deref().and_then(|data| self.needle.find(data));
            if in_name {
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                found.push(Match { path: path.clone(), r#where: MatchIn::Name, excerpt: name });
            }
            if let (Some(at), Some(data)) = (at, data) {
                let excerpt = excerpt(&data, at, self.needle.len());
                found.push(Match { path, r#where: MatchIn::Data, excerpt });
            }
        }
    }
}

/// The text around a match, on one line, with an ellipsis where something is cut off.
fn excerpt(data: &[u8], at: usize, len: usize) -> String {
    let start = at.saturating_sub(EXCERPT_BYTES);
    let end = (at + len).saturating_add(EXCERPT_BYTES).min(data.len());
    let text = String::from_utf8_lossy(&data[start..end]);
    // A character that was cut in two at either end is dropped.
    let text = if start > 0 { text.trim_start_matches('\u{fffd}') } else { &text };
    let text = if end < data.len() { text.trim_end_matches('\u{fffd}') } else { text };
    let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if end < data.len() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_readable() {
        assert_eq!(excerpt(b"host=a\nport=1", 7, 4), "host=a port=1");
        let long = format!("{}needle{}", "é".repeat(100), "\u{7}".repeat(100));
        let at = long.find("needle").unwrap();
        let shown = excerpt(long.as_bytes(), at, 6);
        assert_eq!(shown, format!("…{}needle{}…", "é".repeat(20), " ".repeat(40)));
        let shown = excerpt(long.as_bytes(), at + 1, 5);
        assert!(shown.starts_with("…éé") && !shown.contains('\u{fffd}'), "{shown}");
    }
}
