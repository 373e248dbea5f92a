//! Servers, proxies and clients with short times, and waits that end.

use std::future::{Future, IntoFuture};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use herdsman_client::{Client, ConnectionEvent, ConnectionEvents, Error, ErrorKind, Options};
use herdsman_config::Config;
use herdsman_testing::{TestProxy, TestServer};
use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// Long enough for the slowest machine; a test that runs into it has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at something that nobody announces.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits, but not for ever.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}

/// Waits until `look` is satisfied.
pub async fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let looking = async {
        while !look() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, looking).await;
    assert!(seen.is_ok(), "waited in vain for: {what}");
}

/// A session timeout that no pause of a busy machine reaches.
pub fn options() -> Options {
    Client::options().session_timeout(Duration::from_secs(30))
}

pub async fn connect(servers: &str) -> Client {
    within(options().connect(servers)).await.expect("the server takes clients")
}

/// A server that grants sessions of a few hundred milliseconds.
pub fn server_with_short_sessions() -> TestServer {
    TestServer::start_with(short_sessions)
}

pub fn short_sessions(config: &mut Config) {
    config.sessions.tick_ms = 50;
    config.sessions.timeout_min_ms = 100;
}

/// A server, a proxy in front of it, and a client behind that. The second client goes straight to
/// the server: it is the rest of the world.
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

/// The next event of a connection.
pub async fn next(events: &mut ConnectionEvents) -> ConnectionEvent {
    within(events.next()).await.expect("the stream goes on")
}

/// The kind of a failure.
pub fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("it fails").kind().clone()
}

/// Names in order.
pub async fn children(zk: &Client, path: &str) -> Vec<String> {
    let mut names = within(zk.children(path).into_future()).await.expect("it can be listed").names;
    names.sort();
    names
}

/// Keeps what is logged.
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
    /// Keeps what this thread logs, as long as the guard lives.
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
