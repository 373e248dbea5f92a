//! The children of a znode, for completion: quick, or not at all.
//!
//! Tab must answer at once. So a list is remembered for two seconds, a server gets less than one
//! second to answer, and without a connection nobody is asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herdsman_client::Client;
use tokio::runtime::Handle;

/// Something that knows children.
pub(crate) trait ListChildren {
    /// The names of a znode's children that begin with `prefix`, sorted, as many as fit on a screen or
    /// two; none if there is no answer in time.
    fn children(&self, path: &str, prefix: &str) -> Vec<String>;
}

/// The children as the server sees them now, or saw them a moment ago. Clones share the cache.
#[derive(Clone, Default)]
pub(crate) struct LivePaths {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    source: Option<(Client, Handle)>,
    lists: VecDeque<Remembered>,
}

struct Remembered {
    path: String,
    at: Instant,
    names: Arc<Vec<String>>,
}

const ANSWER_MAX: Duration = Duration::from_millis(800);
const FRESH: Duration = Duration::from_secs(2);
const LISTS_KEPT: usize = 16;
/// More names than that help nobody.
const NAMES_MAX: usize = 2000;

impl LivePaths {
    /// Asks this client from now on. To be called where the client's runtime runs.
    pub(crate) fn look_through(&self, client: Option<Client>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = match (&seen.source, &client) {
            (Some((old, _)), Some(new)) => old.session().id() == new.session().id(),
            _ => false,
        };
        if !is_same {
            seen.lists.clear();
        }
        seen.source = client.map(|client| (client, Handle::current()));
    }

    fn remembered(&self, path: &str) -> Option<Arc<Vec<String>>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let list = seen.lists.iter().find(|list| list.path == path && list.at.elapsed() < FRESH)?;
        Some(list.names.clone())
    }

    fn remember(&self, path: &str, names: &Arc<Vec<String>>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.lists.retain(|list| list.path != path);
        seen.lists.truncate(LISTS_KEPT - 1);
        let (path, at) = (path.to_owned(), Instant::now());
        seen.lists.push_front(Remembered { path, at, names: names.clone() });
    }

    /// Blocks for a moment; must not be called where the client's runtime runs.
    fn ask(&self, path: &str) -> Option<Arc<Vec<String>>> {
        let source = self.seen.lock().unwrap_or_else(PoisonError::into_inner).source.clone();
        let (client, runtime) = source.filter(|(client, _)| client.state().is_connected())?;
        let answer = runtime.block_on(client.children(path).deadline(ANSWER_MAX).send());
        let mut names = answer.ok()?.names;
        names.sort_unstable();
        let names = Arc::new(names);
        self.remember(path, &names);
        Some(names)
    }
}

impl ListChildren for LivePaths {
    fn children(&self, path: &str, prefix: &str) -> Vec<String> {
        let Some(names) = self.remembered(path).or_else(|| self.ask(path)) else {
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
            paths.look_through(Some(client));
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
