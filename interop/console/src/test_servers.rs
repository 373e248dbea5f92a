//! Three servers in this process, each with its admin port, and an ordinary client that reads the tree
//! independently of the console.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use herdsman_admin::{Admin, AdminSettings};
use herdsman_client::{Client, ErrorKind};
use herdsman_server::operators::log_level::LogLevel;
use herdsman_testing::TestEnsemble;

/// The servers and their admin ports.
pub struct TestServers {
    ensemble: TestEnsemble,
    admins: Vec<Option<Admin>>,
    addresses: Vec<SocketAddr>,
}

/// A log level that is only stored: this process has no log.
fn stored_level() -> LogLevel {
    let level = Arc::new(Mutex::new("info".to_owned()));
    let lock = |level: &Mutex<String>, new: Option<&str>| {
        let mut level = level.lock().unwrap_or_else(PoisonError::into_inner);
        new.into_iter().for_each(|new| new.clone_into(&mut level));
        level.clone()
    };
    let kept = Arc::clone(&level);
    LogLevel::new(
        move || lock(&kept, None),
        move |new| {
            lock(&level, Some(new));
            Ok(())
        },
    )
}

impl TestServers {
    /// Starts everything and waits for a leader.
    pub fn start() -> Result<Self> {
        let ensemble = TestEnsemble::start_with_client_ports();
        ensemble.await_leader();
        let mut test_servers = TestServers { ensemble, admins: Vec::new(), addresses: Vec::new() };
        for id in test_servers.ensemble.ids() {
            test_servers.ensemble.use_log_level(id, stored_level());
            let admin = Admin::start(test_servers.ensemble.handle(id), AdminSettings::default())?;
            test_servers.addresses.push(admin.address());
            test_servers.admins.push(Some(admin));
        }
        Ok(test_servers)
    }

    /// The URL of a server's console.
    pub fn console(&self, id: usize) -> String {
        format!("http://{}", self.addresses[id - 1])
    }

    /// Clients connect to these.
    pub fn connect_string(&self) -> String {
        let addresses = self.ensemble.ids().map(|id| self.ensemble.address(id).to_string());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Clients of one server connect to this.
    pub fn address(&self, id: usize) -> String {
        self.ensemble.address(id).to_string()
    }

    /// A follower other than this server.
    pub fn other_follower(&self, than: usize) -> Result<usize> {
        let follows =
            |id: &usize| self.ensemble.serves_as(*id) == Some(herdsman_server::ServesAs::Follower);
        self.ensemble
            .ids()
            .filter(|id| *id != than)
            .find(follows)
            .context("there is no other follower")
    }

    /// A follower.
    pub fn follower(&self) -> usize {
        self.ensemble.follower()
    }

    /// Stops a server as `kill -9` would, and its admin port.
    pub fn kill(&mut self, id: usize) {
        self.admins[id - 1] = None;
        self.ensemble.kill(id);
    }

    /// Restarts a server, without an admin port, and waits until all are serving.
    pub fn revive(&mut self, id: usize) {
        self.ensemble.start_again(id);
        self.ensemble.await_leader();
    }

    /// Closes an admin port; the server keeps running.
    pub fn close_admin(&mut self, id: usize) {
        self.admins[id - 1] = None;
    }

    /// Opens an admin port again, at the same address.
    pub fn open_admin(&mut self, id: usize) -> Result<()> {
        let settings =
            AdminSettings { address: self.addresses[id - 1], ..AdminSettings::default() };
        self.admins[id - 1] = Some(Admin::start(self.ensemble.handle(id), settings)?);
        Ok(())
    }
}

/// The tree as an ordinary client sees it.
#[derive(Clone)]
pub struct Tree(pub Client);

impl Tree {
    /// The data of a znode as text.
    pub async fn text(&self, path: &str) -> Result<String> {
        self.0.sync(path).await?;
        let node = self.0.get(path).await.with_context(|| format!("reading {path}"))?;
        Ok(String::from_utf8_lossy(&node.data).into_owned())
    }

    /// Fails unless a znode has this data.
    pub async fn expect(&self, path: &str, data: &str) -> Result<()> {
        let found = self.text(path).await?;
        if found != data {
            bail!("{path} is {found:?}, not {data:?}");
        }
        Ok(())
    }

    /// Fails if a znode exists.
    pub async fn expect_none(&self, path: &str) -> Result<()> {
        self.0.sync("/").await?;
        match self.0.get(path).await {
            Err(error) if *error.kind() == ErrorKind::NoNode => Ok(()),
            other => bail!("{path} should not exist: {other:?}"),
        }
    }
}
