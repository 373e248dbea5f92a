//! The children of a znode, by name, a page at a time.
//!
//! The tree keeps children in no order, so each page looks at all of them and keeps the first names
//! behind the last page's: with a heap of one page that is cheap, and nothing has to be remembered
//! between two pages. So a page is as right as the tree at its moment: a child that is there all the
//! time is listed exactly once, whatever comes and goes around it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use axum::Json;
use axum::extract::State;
use herdsman_tree::{Listing, VisibleZnode};
use serde::{Deserialize, Serialize};

use super::callers::Reader;
use super::needle::Needle;
use super::query::{Parameters, ZnodePath};
use super::shapes::{NodeType, owner_shape};
use super::steps::{Looker, ZNODES_PER_STEP};
use crate::error::ApiError;
use crate::state::AdminState;

const PAGE_DEFAULT: usize = 200;
/// More are never given at once; asking for more gives this many.
const PAGE_MAX: usize = 1000;

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
    /// How many children the filter lets through, if there is one.
    matched: Option<usize>,
    children: Vec<Child>,
    /// What the next page comes after.
    next: Option<String>,
}

/// One child. Of one that may not be read only the name is told, as the client port does; the rest is
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

/// `GET /children`. Needs the right to read the parent.
pub(super) async fn list(
    State(state): State<AdminState>,
    Reader(identity): Reader,
    Parameters(parameters): Parameters<ListParameters>,
) -> Result<Json<Page>, ApiError> {
    let path = parameters.path.as_str();
    let limit = parameters.limit.unwrap_or(PAGE_DEFAULT).min(PAGE_MAX);
    if limit == 0 {
        return Err(ApiError::bad_request("limit must be at least 1"));
    }
    let filter = parameters.filter.as_deref().filter(|filter| !filter.is_empty()).map(Needle::new);
    let looker = Looker::new(&state.server, &identity.ids);
    let listing = looker.look(|sight| Listing::start(sight, path))?;
    let mut listing = listing.map_err(|code| ApiError::refused(code, path))?;
    let mut first = FirstNames::new(parameters.after, limit, filter);
    while looker.look(|sight| {
        listing.step(sight, ZNODES_PER_STEP, &mut |name, znode| first.consider(name, znode))
    })? {
        looker.pause().await;
    }
    Ok(Json(first.into_page(path, listing.total())))
}

/// The first names behind a given one.
struct FirstNames {
    after: Option<String>,
    limit: usize,
    filter: Option<Needle>,
    /// The last of them on top.
    kept: BinaryHeap<Child>,
    matched: usize,
    /// Names that match and come after the page before.
    behind: usize,
}

impl FirstNames {
    fn new(after: Option<String>, limit: usize, filter: Option<Needle>) -> Self {
        FirstNames { after, limit, filter, kept: BinaryHeap::new(), matched: 0, behind: 0 }
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
        if self.kept.len() < self.limit {
            self.kept.push(Child::new(name, znode));
        } else if let Some(mut last) = self.kept.peek_mut().filter(|last| name < last.name.as_str())
        {
            *last = Child::new(name, znode);
        }
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
