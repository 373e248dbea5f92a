//! Lists the children of a znode, by name, a page at a time.
//!
//! The tree does not order children, so each page reads all of them and keeps the first names after the last
//! page's: with a heap of one page that is cheap, and no state is needed between pages. Each page is correct
//! at its moment: a child that exists all the time is listed exactly once, whatever changes around it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use axum::extract::State;
use axum::response::Response;
use herdsman_tree::{ChildListing, VisibleZnode};
use serde::{Deserialize, Serialize};

use super::callers::ReadAccess;
use super::needle::Needle;
use super::query::{Parameters, ZnodePath};
use super::shapes::{NodeType, owner_shape};
use super::steps::{STEP, TreeReader};
use crate::error::ApiError;
use crate::state::AdminState;
use crate::views::rendered::Rendered;

const PAGE_DEFAULT: usize = 200;
/// Most children on a page; a larger limit counts as this one.
const PAGE_MAX: usize = 1000;
/// Most bytes of the names on a page, unless it has only one.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// The approximate size of a child in a response, without its name.
const CHILD_BYTES: usize = 160;
/// Most bytes of a filter.
const FILTER_BYTES_MAX: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParameters {
    path: ZnodePath,
    after: Option<String>,
    limit: Option<usize>,
    filter: Option<String>,
}

/// A page of children.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    path: String,
    total: usize,
    /// The number of children that match the filter, if there is one.
    matched: Option<usize>,
    children: Vec<Child>,
    /// The name after which the next page begins.
    next: Option<String>,
}

/// One child. If it may not be read, only the name is shown, as on the client port; the rest is
/// null.
#[derive(Debug, Serialize)]
struct Child {
    name: String,
    readable: bool,
    r#type: Option<NodeType>,
    data_length: Option<i32>,
    num_children: Option<i32>,
    version: Option<i32>,
    mtime_ms: Option<i64>,
    ephemeral_owner: Option<String>,
}

/// `GET /children`. Needs permission to read the parent.
pub(super) async fn list(
    State(state): State<AdminState>,
    ReadAccess(identity): ReadAccess,
    Parameters(parameters): Parameters<ListParameters>,
) -> Result<Response, ApiError> {
    let (path, address) = (parameters.path, identity.peer.ip());
    let limit = parameters.limit.unwrap_or(PAGE_DEFAULT).min(PAGE_MAX);
    if limit == 0 {
        return Err(ApiError::bad_request("limit must be at least 1"));
    }
    if parameters.filter.as_ref().is_some_and(|filter| filter.len() > FILTER_BYTES_MAX) {
        let message = format!("filter must have at most {FILTER_BYTES_MAX} bytes");
        return Err(ApiError::bad_request(message));
    }
    let filter = parameters.filter.as_deref().filter(|filter| !filter.is_empty()).map(Needle::new);
    let permit = filter.is_some().then(|| state.limits.walk(address)).transpose()?;
    let reader = TreeReader::new(&state.server, &identity.ids);
    let listing = reader.read(|visible| ChildListing::start(visible, path.as_str()))?;
    let mut listing = listing.map_err(|code| ApiError::refused(code, path.as_str()))?;
    let mut first = FirstNames::new(parameters.after, limit, filter);
    let mut step = move |first: &mut FirstNames| {
        reader
            .read(|visible| {
                listing.step(visible, STEP, &mut |name, znode| first.consider(name, znode))
            })
            .map(|has_more| (has_more, listing.total()))
    };
    let (has_more, total) = step(&mut first)?;
    if !has_more {
        let (bytes, page) = (first.answer_bytes(), first.into_page(path.as_str(), total));
        return Rendered::by_size(&state, address, bytes, move || page).await;
    }
    // More than one step takes long, and pages with long names are large.
    let page = move || {
        let _permit = permit;
        while step(&mut first)?.0 {}
        Ok(first.into_page(path.as_str(), total))
    };
    Rendered::on_thread(&state, address, page).await
}

/// Collects the first names after a given one.
struct FirstNames {
    after: Option<String>,
    limit: usize,
    filter: Option<Needle>,
    /// The names; the last one is on top.
    kept: BinaryHeap<Child>,
    /// Bytes of their names.
    bytes: usize,
    /// The first name that did not fit on the page; no later name is kept.
    end: Option<String>,
    matched: usize,
    /// The number of names that match and come after the previous page.
    behind: usize,
}

impl FirstNames {
    fn new(after: Option<String>, limit: usize, filter: Option<Needle>) -> Self {
        FirstNames {
            after,
            limit,
            filter,
            kept: BinaryHeap::new(),
            bytes: 0,
            end: None,
            matched: 0,
            behind: 0,
        }
    }

    fn consider(&mut self, name: &str, znode: Option<VisibleZnode<'_>>) {
        if self.filter.as_ref().is_some_and(|filter| !filter.is_in(name)) {
            return;
        }
        self.matched += 1;
        if self.after.as_deref().is_some_and(|after| name <= after) {
            return;
        }
        self.behind += 1;
        if self.end.as_deref().is_some_and(|end| name >= end) {
            return;
        }
        if self.kept.len() < self.limit {
            self.bytes += name.len();
            self.kept.push(Child::new(name, znode));
        } else if let Some(mut last) = self.kept.peek_mut().filter(|last| name < last.name.as_str())
        {
            self.bytes = self.bytes - last.name.len() + name.len();
            *last = Child::new(name, znode);
        }
        while self.bytes > PAGE_BYTES_MAX && self.kept.len() > 1 {
            let Some(last) = self.kept.pop() else { break };
            self.bytes -= last.name.len();
            self.end = Some(last.name);
        }
    }

    fn answer_bytes(&self) -> usize {
        self.bytes + self.kept.len() * CHILD_BYTES
    }

    fn into_page(self, path: &str, total: usize) -> Page {
        let children = self.kept.into_sorted_vec();
        let has_more = self.behind > children.len();
        let last = children.last().filter(|_| has_more).map(|child| child.name.clone());
        Page {
            path: path.to_owned(),
            total,
            matched: self.filter.map(|_| self.matched),
            children,
            next: last,
        }
    }
}

impl Child {
    fn new(name: &str, znode: Option<VisibleZnode<'_>>) -> Self {
        let stat = znode.map(VisibleZnode::stat);
        let stat = stat.as_ref();
        Child {
            name: name.to_owned(),
            readable: znode.is_some(),
            r#type: znode.map(|znode| znode.owner().into()),
            data_length: stat.map(|stat| stat.data_length),
            num_children: stat.map(|stat| stat.num_children),
            version: stat.map(|stat| stat.version),
            mtime_ms: stat.map(|stat| stat.mtime),
            ephemeral_owner: stat.and_then(owner_shape),
        }
    }
}

impl PartialEq for Child {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Child {}

impl PartialOrd for Child {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Child {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::http::HeaderMap;
    use herdsman_client::{Client, Op};
    use herdsman_testing::TestServer;

    use super::*;
    use crate::identity::Identity;
    use crate::settings::AdminSettings;

    /// A page of long names used to need up to a gigabyte.
    #[test]
    fn a_page_is_limited_in_bytes_and_skips_nothing() {
        let name = |n: u8| format!("{n:02}{}", "n".repeat(1 << 20));
        let mut after = None;
        let mut pages = Vec::new();
        loop {
            let mut first = FirstNames::new(after, 1000, None);
            for n in [7, 2, 9, 1, 8, 3, 0, 6, 5, 4] {
                first.consider(&name(n), None);
            }
            let page = first.into_page("/", 10);
            let names = page.children.iter().map(|child| child.name[..2].to_owned());
            pages.push(names.collect::<Vec<_>>());
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected: [Vec<&str>; 4] =
            [vec!["00", "01", "02"], vec!["03", "04", "05"], vec!["06", "07", "08"], vec!["09"]];
        assert_eq!(pages, expected);
        // A name that is too long is alone on its page.
        let mut first = FirstNames::new(None, 1000, None);
        first.consider(&"n".repeat(PAGE_BYTES_MAX + 1), None);
        assert_eq!(first.into_page("/", 1).children.len(), 1);
    }

    #[tokio::test]
    async fn a_filter_is_short_and_counts_as_a_search() {
        let server = TestServer::start();
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let status = async |filter: Option<String>| {
            let identity =
                Identity::prove(state.server.schemes(), &HeaderMap::new(), peer, None).unwrap();
            let path = ZnodePath::root();
            let parameters = ListParameters { path, after: None, limit: None, filter };
            let answer =
                list(State(state.clone()), ReadAccess(identity), Parameters(parameters)).await;
            answer.map_or_else(|error| error.status.as_u16(), |_| 200)
        };
        assert_eq!(status(Some("z".repeat(FILTER_BYTES_MAX))).await, 200);
        assert_eq!(status(Some("z".repeat(FILTER_BYTES_MAX + 1))).await, 400);
        let walks: Vec<_> = std::iter::from_fn(|| state.limits.walk(peer.ip()).ok()).collect();
        assert_eq!(status(Some("z".to_owned())).await, 429);
        assert_eq!(status(None).await, 200);
        drop(walks);
        assert_eq!(status(Some("z".to_owned())).await, 200);
    }

    /// Pages with many or long names used to be made for any number of requests concurrently.
    #[tokio::test]
    async fn long_lists_are_made_by_counted_threads() {
        let server = TestServer::start();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        client.create("/wide", "").await.unwrap();
        for block in 0..2 {
            let names = (0..=STEP.znodes / 2).map(|n| format!("/wide/{block}-{n:04}"));
            client.transaction(names.map(|name| Op::create(&name, ""))).await.unwrap();
        }
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let status = async |parameters: &str| {
            let identity =
                Identity::prove(state.server.schemes(), &HeaderMap::new(), peer, None).unwrap();
            let parameters = serde_json::from_str(parameters).unwrap();
            let answer =
                list(State(state.clone()), ReadAccess(identity), Parameters(parameters)).await;
            answer.map_or_else(|error| error.status.as_u16(), |_| 200)
        };
        let threads: Vec<_> =
            std::iter::from_fn(|| state.limits.blocking(peer.ip()).ok()).collect();
        let (short, long) = (r#"{"path":"/"}"#, r#"{"path":"/wide","limit":1}"#);
        assert_eq!((status(short).await, status(long).await), (200, 429));
        drop(threads);
        assert_eq!(status(long).await, 200);
    }
}
