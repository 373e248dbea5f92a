//! The views, against real servers and real recipes in this process.

mod ensemble;
mod history;
mod log_level;
mod recipes;
mod server;
mod sessions;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use herdsman_client::{Acl, Client, Id, Perms};
use herdsman_tree::auth::{DIGEST, DigestAlgorithm, digest_id};
use serde_json::Value;

use crate::api::rest::{ALICE, Ask, Rest, WAIT_MAX};

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An ACL that grants permissions only to Alice.
fn alice_only() -> Vec<Acl> {
    let id = Id::new(DIGEST, &digest_id(ALICE, DigestAlgorithm::Sha1));
    vec![Acl { perms: Perms::ALL, id }]
}

/// Returns the current recipes: a caller that has not asked before gets no cached response.
fn recipes(rest: &Rest) -> Value {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let user = format!("reader-{}:x", ASKED.fetch_add(1, Ordering::Relaxed));
    rest.ask(&Ask::get("/api/v1/recipes").user(&user)).ok()
}

/// Polls until `look` returns a value.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, found).await.unwrap_or_else(|_| panic!("no {what}"))
}

/// Waits until a znode has this many children.
async fn until_children(client: &Client, path: &str, count: usize) {
    let enough = async {
        loop {
            let children = client.children(path).await;
            if children.is_ok_and(|children| children.names.len() >= count) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let waited = tokio::time::timeout(WAIT_MAX, enough).await;
    waited.unwrap_or_else(|_| panic!("{path} never had {count} children"));
}

/// The session of a client, as the views write it.
fn session_of(client: &Client) -> String {
    client.session().id().to_string()
}

/// Returns the element of a list with this path.
fn at<'v>(list: &'v Value, path: &str) -> &'v Value {
    let found = list.as_array().and_then(|list| list.iter().find(|one| one["path"] == path));
    found.unwrap_or_else(|| panic!("{path} is not in {list}"))
}

/// Returns one field of every element of a list.
fn each<'v>(list: &'v Value, field: &str) -> Vec<&'v Value> {
    list.as_array().map(|list| list.iter().map(|one| &one[field]).collect()).unwrap_or_default()
}
