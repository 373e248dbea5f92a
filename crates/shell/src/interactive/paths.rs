//! The children of a znode, for completion: fast, or not at all.
//!
//! Tab must respond at once. So lists are cached for two seconds, a server gets less than one second to
//! reply, and without a connection nothing is requested.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herdsman_client::Client;
use tokio::runtime::Handle;

/// A source of the names of children.
pub(crate) trait ListChildren {
    /// The names of a znode's children that begin with `prefix`, sorted, up to [`NAMES_MAX`]; none if
    /// there is no reply in time.
    fn children(&self, path: &str, prefix: &str) -> Vec<String>;
}

/// Children from the server, or from a short-lived cache. Clones share the cache.
#[derive(Clone, Default)]
pub(crate) struct LivePaths {
    cache: Arc<Mutex<Cache>>,
}

#[derive(Default)]
struct Cache {
    source: Option<(Client, Handle)>,
    lists: VecDeque<CachedList>,
}

struct CachedList {
    path: String,
    at: Instant,
    names: Arc<Vec<String>>,
}

const ANSWER_MAX: Duration = Duration::from_millis(800);
const FRESH: Duration = Duration::from_secs(2);
const LISTS_KEPT: usize = 16;
/// Most names offered; more would not be useful.
const NAMES_MAX: usize = 2000;

impl LivePaths {
    /// Uses this client from now on. Must be called on the client's runtime.
    pub(crate) fn use_client(&self, client: Option<Client>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = match (&cache.source, &client) {
            (Some((old, _)), Some(new)) => old.session().id() == new.session().id(),
            _ => false,
        };
        if !is_same {
            cache.lists.clear();
        }
        cache.source = client.map(|client| (client, Handle::current()));
    }

    fn cached(&self, path: &str) -> Option<Arc<Vec<String>>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let list =
            cache.lists.iter().find(|list| list.path == path && list.at.elapsed() < FRESH)?;
        Some(list.names.clone())
    }

    fn store(&self, path: &str, names: &Arc<Vec<String>>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.lists.retain(|list| list.path != path);
        cache.lists.truncate(LISTS_KEPT - 1);
        let (path, at) = (path.to_owned(), Instant::now());
        cache.lists.push_front(CachedList { path, at, names: names.clone() });
    }

    /// Requests a list. Blocks for a moment; must not be called on the client's runtime.
    fn request(&self, path: &str) -> Option<Arc<Vec<String>>> {
        let source = self.cache.lock().unwrap_or_else(PoisonError::into_inner).source.clone();
        let (client, runtime) = source.filter(|(client, _)| client.state().is_connected())?;
        let answer = runtime.block_on(client.children(path).deadline(ANSWER_MAX).send());
        let mut names = answer.ok()?.names;
        names.sort_unstable();
        let names = Arc::new(names);
        self.store(path, &names);
        Some(names)
    }
}

impl ListChildren for LivePaths {
    fn children(&self, path: &str, prefix: &str) -> Vec<String> {
        let Some(names) = self.cached(path).or_else(|| self.request(path)) else {
            return Vec::new();
        };
        let first = names.partition_point(|name| name.as_str() < prefix);
        let matching = names[first..].iter().take_while(|name| name.starts_with(prefix));
        matching.take(NAMES_MAX).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use herdsman_testing::TestServer;

    use super::*;

    /// The runtime on one thread, the completer on another, as at a prompt.
    fn children_of(servers: &str, path: &'static str, prefix: &'static str) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be started");
        runtime.block_on(async {
            let client = Client::options().start(servers).expect("the address is valid");
            // Nothing listens on the other address, so there is nothing to wait for.
            if !servers.ends_with(":1") {
                for name in ["/app", "/app/web-1", "/app/web-2", "/app/x"] {
                    client.create(name, "").await.expect("it can be created");
                }
            }
            let paths = LivePaths::default();
            paths.use_client(Some(client));
            tokio::task::spawn_blocking(move || paths.children(path, prefix))
                .await
                .expect("the completer does not panic")
        })
    }

    #[test]
    fn children_come_from_the_server() {
        let server = TestServer::start();
        let names = children_of(&server.connect_string(), "/app", "web");
        assert_eq!(names, ["web-1", "web-2"]);
    }

    #[test]
    fn without_a_server_there_is_no_completion_and_no_wait() {
        assert!(children_of("127.0.0.1:1", "/", "").is_empty());
    }
}
