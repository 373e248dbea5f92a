//! A server for tests: in this process, on a free port, with its own directory.
//!
//! ```
//! let server = herdsman_testing::TestServer::start();
//! let address = server.address(); // for any ZooKeeper client
//! # assert!(std::net::TcpStream::connect(address).is_ok());
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use herdsman_proto::SessionId;
use tempfile::TempDir;

use crate::expire_session::expire_session;
use herdsman_config::{Config, Endpoint, SystemProperties};
use herdsman_server::Server;
use herdsman_server::ServerHandle;
use herdsman_server::StartError;
use herdsman_server::operators::log_level::LogLevel;

/// How often to check whether something has happened.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running server and its temporary directory, which is removed on drop.
///
/// Methods panic if the server cannot be started, which is the failure that a test needs.
pub struct TestServer {
    server: Option<Server>,
    config: Config,
    directory: TempDir,
}

impl TestServer {
    /// Starts an empty server with default settings, except for a short tick and all four-letter words.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// Starts an empty server; `adjust` may change its settings.
    #[must_use]
    pub fn start_with(adjust: impl FnOnce(&mut Config)) -> Self {
        let directory =
            TempDir::with_prefix("herdsman-test-").expect("a temporary directory can be created");
        let loaded = Config::standalone_default(&SystemProperties::default());
        let mut config = loaded.expect("the default configuration is valid").config;
        config.listen.client = Some(Endpoint { host: Some("127.0.0.1".to_owned()), port: 0 });
        config.storage.data_dir = directory.path().to_owned();
        config.storage.log_dir = directory.path().to_owned();
        config.storage.preallocate_bytes = 1 << 20;
        config.four_letter_words.all = true;
        adjust(&mut config);
        let mut server = TestServer { server: None, config, directory };
        server.start_again();
        server
    }

    /// The handle of the running server, as its other interfaces use it.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.server.as_ref().and_then(Server::handle).expect("the server is running")
    }

    /// Sets the log level that operators can change; for tests of that.
    pub fn use_log_level(&self, level: LogLevel) {
        self.server.as_ref().expect("the server is running").use_log_level(level);
    }

    /// The client address. The port stays the same across restarts.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.as_ref().and_then(Server::address).expect("the server is running")
    }

    /// The address for clients with TLS; the server must have such a port.
    #[must_use]
    pub fn secure_address(&self) -> SocketAddr {
        self.server.as_ref().and_then(Server::secure_address).expect("there is a TLS port")
    }

    /// The address as a connect string.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// The data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.directory.path()
    }

    /// The directory of logs and snapshots.
    #[must_use]
    pub fn version_dir(&self) -> PathBuf {
        self.directory.path().join("version-2")
    }

    /// Changes settings for the next start.
    pub fn configure(&mut self, adjust: impl FnOnce(&mut Config)) {
        adjust(&mut self.config);
    }

    /// Shuts the server down cleanly.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    /// Stops the server as `kill -9` would: nothing more is written or answered.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Starts it again with the same directory and port.
    pub fn start_again(&mut self) {
        self.try_start().expect("the server starts");
    }

    /// Does the same, but returns the error if it fails.
    pub fn try_start(&mut self) -> Result<(), StartError> {
        let server = Server::start(self.config.clone())?;
        if let (Some(address), Some(client)) = (server.address(), &mut self.config.listen.client) {
            client.port = address.port();
        }
        let secure_client = &mut self.config.listen.secure_client;
        if let (Some(address), Some(client)) = (server.secure_address(), secure_client) {
            client.port = address.port();
        }
        self.server = Some(server);
        Ok(())
    }

    /// Stops and starts it.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Expires a client's session: its ephemerals are deleted when this returns, and its client loses its
    /// connection and learns of the expiry when it reconnects. Blocks for a few round trips.
    pub fn expire_session(&self, session: SessionId) {
        expire_session(self.address(), session).expect("the session can be expired");
        // A session that is about to end is refused before the log has its end.
        while self.has_session(session) {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// How many watches are set, for all clients. Those of a connection are removed shortly after it
    /// closes. A persistent watch that is not recursive counts twice, as in `zk_watch_count`: once for data
    /// and once for children.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.handle().core().tree().watches().count()
    }

    /// How many sessions there are, with or without a connection.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.handle().core().tree().sessions().count()
    }

    /// Whether there is such a session, with or without a connection.
    #[must_use]
    pub fn has_session(&self, session: SessionId) -> bool {
        self.handle().core().tree().has_session(session)
    }

    /// The paths of all ephemerals of a session, sorted.
    #[must_use]
    pub fn ephemerals(&self, session: SessionId) -> Vec<String> {
        let mut paths: Vec<_> =
            self.handle().core().tree().ephemerals(session).map(|path| path.to_string()).collect();
        paths.sort_unstable();
        paths
    }
}
