//! Servers, proxies and clients with short timeouts, and bounded waits.

use std::future::{Future, IntoFuture};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use herdsman_client::{Client, ConnectionEvent, ConnectionEvents, Error, ErrorKind, Options};
use herdsman_config::Config;
use herdsman_testing::{TestProxy, TestServer};
use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// Enough for the slowest machine; a test that reaches this limit has failed.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits, but not forever.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WAIT_MAX, future).await.expect("it happens in time")
}

/// Polls until `look` returns true.
pub async fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let looking = async {
        while !look() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let seen = tokio::time::timeout(WAIT_MAX, looking).await;
    assert!(seen.is_ok(), "timed out waiting for: {what}");
}

/// A session timeout longer than any pause of a busy machine.
pub fn options() -> Options {
    Client::options().session_timeout(Duration::from_secs(30))
}

pub async fn connect(servers: &str) -> Client {
    within(options().connect(servers)).await.expect("the server accepts clients")
}

/// A server that grants sessions of a few hundred milliseconds.
pub fn server_with_short_sessions() -> TestServer {
    TestServer::start_with(short_sessions)
}

pub fn short_sessions(config: &mut Config) {
    config.sessions.tick_ms = 50;
    config.sessions.timeout_min_ms = 100;
}

/// A server, a proxy in front of it, and a client behind that. The second client is connected to the server
/// directly and stands for all other clients.
pub struct World {
    pub zk: Client,
    pub other: Client,
    pub proxy: TestProxy,
    pub server: TestServer,
}

impl World {
    pub async fn start() -> Self {
        World::start_with(options()).await
    }

    pub async fn start_with(options: Options) -> Self {
        let server = TestServer::start();
        let proxy = TestProxy::start(server.address());
        let zk = within(options.connect(&proxy.connect_string())).await.expect("it connects");
        let other = connect(&server.connect_string()).await;
        World { zk, other, proxy, server }
    }
}

/// Returns the next event of a connection.
pub async fn next(events: &mut ConnectionEvents) -> ConnectionEvent {
    within(events.next()).await.expect("the stream continues")
}

/// The kind of an error.
pub fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("it fails").kind().clone()
}

/// The names of the children, sorted.
pub async fn children(zk: &Client, path: &str) -> Vec<String> {
    let mut names = within(zk.children(path).into_future()).await.expect("it can be listed").names;
    names.sort();
    names
}

/// Captures the log.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Captures what this thread logs while the guard lives.
    pub fn keep(&self, level: Level) -> DefaultGuard {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}
