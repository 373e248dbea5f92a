//! An ensemble for tests: several servers in this process, on free ports and with their own directories.
//!
//! ```
//! let ensemble = herdsman_testing::TestEnsemble::start();
//! let leader = ensemble.await_leader();
//! let address = ensemble.address(leader); // for any ZooKeeper client
//! # assert!(std::net::TcpStream::connect(address).is_ok());
//! ```

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use herdsman_node::ServesAs;
use herdsman_proto::SessionId;
use tempfile::TempDir;

use crate::expire_session::expire_session;
use crate::proxy::{Direction, TestProxy};
use herdsman_config::{Config, Endpoint, SystemProperties};
use herdsman_server::ServerHandle;
use herdsman_server::operators::log_level::LogLevel;
use herdsman_server::{Server, StartError, StopSignal};

/// The range for ports between servers. Operating systems assign ephemeral ports above it; if one of those
/// were used, a restarted server could find its port taken.
const PORTS: std::ops::Range<u16> = 10_000..20_000;
/// Polling interval of the methods that wait.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Enough for the slowest machine; a test that reaches this limit has failed.
const POLLS_MAX: u32 = 12_000;

/// Several servers and their temporary directory, which is removed on drop.
///
/// Methods panic if a server cannot be started or if what they wait for does not happen, which is the
/// failure that a test needs. Servers are numbered 1, 2, ….
pub struct TestEnsemble {
    members: Vec<Member>,
    observer_master_port: Option<NonZeroU16>,
    /// Proxies in front of the voters' quorum ports, for the other voters; see
    /// [`TestEnsemble::start_with_links`].
    links: Vec<TestProxy>,
    _directory: TempDir,
}

struct Member {
    config: Config,
    server: Option<Server>,
}

impl TestEnsemble {
    /// Starts three empty voters with default settings, except for a short tick and all four-letter words.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("", |_, _| {})
    }

    /// Starts three empty voters. `lines` are added to every zoo.cfg; `adjust` may then change each
    /// server's configuration.
    #[must_use]
    pub fn start_with(lines: &str, adjust: impl Fn(usize, &mut Config)) -> Self {
        Self::start_many(3, lines, adjust)
    }

    /// Starts three empty voters whose server lines include their client ports, so that each server knows
    /// the client addresses of the others.
    #[must_use]
    pub fn start_with_client_ports() -> Self {
        let endpoint = |port| Endpoint { host: Some("127.0.0.1".to_owned()), port };
        let clients: Vec<_> = free_ports(3).into_iter().map(endpoint).collect();
        Self::start_with("", |id, config| {
            let members = config.quorum.membership.members.values_mut();
            for (member, client) in members.zip(&clients) {
                member.client = Some(client.clone());
            }
            config.listen.client = Some(clients[id - 1].clone());
        })
    }

    /// Starts three empty voters and an observer, number 4. The observer has no server to learn from before
    /// [`TestEnsemble::serve_observers`].
    #[must_use]
    pub fn start_with_observer() -> Self {
        let port = free_ports(1).first().copied().and_then(NonZeroU16::new);
        let mut ensemble = Self::start_many(4, "", |id, config| {
            if id == 4 {
                config.quorum.observer_master_port = port;
            }
        });
        ensemble.observer_master_port = port;
        ensemble
    }

    /// Starts three empty voters and an observer, number 4, which learns from the leader directly. The
    /// voters reach the leader through a proxy, which can hold their messages: see
    /// [`TestEnsemble::hold_acks`].
    #[must_use]
    pub fn start_with_links() -> Self {
        let links: RefCell<Vec<TestProxy>> = RefCell::default();
        // A voter whose messages are held for a while stays in the quorum.
        let mut ensemble = Self::start_many(4, "syncLimit=60", |id, config| {
            let mut links = links.borrow_mut();
            let voters = config.quorum.membership.members.values_mut().take(3);
            for (index, voter) in voters.enumerate() {
                let port = &mut voter.addresses[0].quorum_port;
                if id == 1 {
                    let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                    links.push(TestProxy::start_for_bytes(upstream));
                }
                if id <= 3 && id != index + 1 {
                    *port = links[index].address().port();
                }
            }
        });
        ensemble.links = links.into_inner();
        ensemble
    }

    /// Holds the messages from the other voters to this leader until [`TestEnsemble::release_acks`].
    /// Meanwhile the leader proposes requests, but nothing is committed, so all servers lag behind what
    /// clients have requested. Clients of the observer can still resume their sessions and read there.
    /// Requires [`TestEnsemble::start_with_links`]; must be shorter than the session timeouts of the
    /// voters' clients.
    pub fn hold_acks(&self, leader: usize) {
        self.links[leader - 1].partition_one_way(Direction::ToServer);
    }

    /// Ends [`TestEnsemble::hold_acks`] and delivers the held messages.
    pub fn release_acks(&self) {
        self.links.iter().for_each(TestProxy::heal);
    }

    /// Restarts a voter as a follower that serves observers. All servers have the same address and use the
    /// same port for this, so only one at a time can do it.
    pub fn serve_observers(&mut self, id: usize) {
        self.stop(id);
        self.members[id - 1].config.quorum.observer_master_port = self.observer_master_port;
        self.start_again(id);
    }

    /// Servers after the third are observers.
    fn start_many(count: usize, lines: &str, adjust: impl Fn(usize, &mut Config)) -> Self {
        let directory =
            TempDir::with_prefix("herdsman-test-").expect("a temporary directory can be created");
        let ports = free_ports(2 * count);
        let server = |(i, pair): (usize, &[u16])| {
            let role = if i < 3 { "participant" } else { "observer" };
            format!("server.{}=127.0.0.1:{}:{}:{role}\n", i + 1, pair[0], pair[1])
        };
        let servers: String = ports.chunks_exact(2).enumerate().map(server).collect();
        let members = (1..=count).map(|id| {
            let folder = directory.path().join(id.to_string());
            let mut config = config(id, &folder, &format!("{servers}{lines}\n"));
            adjust(id, &mut config);
            Member { config, server: None }
        });
        let members = members.collect();
        let links = Vec::new();
        let mut ensemble =
            TestEnsemble { members, observer_master_port: None, links, _directory: directory };
        for id in 1..=count {
            ensemble.start_again(id);
        }
        ensemble
    }

    /// The servers' ids.
    pub fn ids(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.members.len()
    }

    /// The client address of a running server. The port stays the same across restarts.
    #[must_use]
    pub fn address(&self, id: usize) -> SocketAddr {
        let server = self.members[id - 1].server.as_ref();
        server.and_then(Server::address).expect("the server is running")
    }

    /// The handle of a running server, as its other interfaces use it.
    #[must_use]
    pub fn handle(&self, id: usize) -> ServerHandle {
        let server = self.members[id - 1].server.as_ref();
        server.and_then(Server::handle).expect("the server is running")
    }

    /// Sets the log level that a server's operators can change; for tests of that.
    pub fn use_log_level(&self, id: usize, level: LogLevel) {
        let server = self.members[id - 1].server.as_ref();
        server.expect("the server is running").use_log_level(level);
    }

    /// The role in which a server serves; `None` if it is stopped or has no leader.
    #[must_use]
    pub fn serves_as(&self, id: usize) -> Option<ServesAs> {
        self.members[id - 1].server.as_ref().and_then(Server::serves_as)
    }

    /// Waits until every running server serves, one of them as leader, and returns the leader's id.
    pub fn await_leader(&self) -> usize {
        let running = || self.ids().filter(|id| self.members[id - 1].server.is_some());
        self.await_that("a leader", || {
            let leads = |id: &usize| self.serves_as(*id) == Some(ServesAs::Leader);
            let leader = running().find(leads)?;
            let joined = |id| {
                let role = self.serves_as(id);
                role.is_some_and(|role| role != ServesAs::ReadOnly)
            };
            running().all(joined).then_some(leader)
        })
    }

    /// Waits until a server serves in this role.
    pub fn await_role(&self, id: usize, role: ServesAs) {
        self.await_that("a role", || (self.serves_as(id) == Some(role)).then_some(()));
    }

    /// Polls until `look` returns a value.
    pub fn await_that<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        for _ in 0..POLLS_MAX {
            if let Some(found) = look() {
                return found;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        panic!("timed out waiting for {what}");
    }

    /// Expires a client's session through one of the servers. When this returns, the session has ended
    /// there; its client loses its connection and learns of the expiry when it reconnects.
    pub fn expire_session(&self, id: usize, session: SessionId) {
        expire_session(self.address(id), session).expect("the session can be expired");
        // A session that is about to end is refused before the log has its end.
        self.await_that("the end of the session", || {
            (!self.handle(id).core().tree().has_session(session)).then_some(())
        });
    }

    /// How many transactions a server has proposed as leader.
    #[must_use]
    pub fn proposals(&self, id: usize) -> u64 {
        self.handle(id).core().stats.ensemble.proposals.get()
    }

    /// How many watches are set on a server; see [`TestServer::watch_count`].
    ///
    /// [`TestServer::watch_count`]: crate::TestServer::watch_count
    #[must_use]
    pub fn watch_count(&self, id: usize) -> usize {
        self.handle(id).core().tree().watches().count()
    }

    /// Returns a follower.
    #[must_use]
    pub fn follower(&self) -> usize {
        let follows = |id: &usize| self.serves_as(*id) == Some(ServesAs::Follower);
        self.ids().find(follows).expect("there is a follower")
    }

    /// Shuts a server down cleanly.
    pub fn stop(&mut self, id: usize) {
        if let Some(server) = self.members[id - 1].server.take() {
            server.stop();
        }
    }

    /// Stops a server as `kill -9` would.
    pub fn kill(&mut self, id: usize) {
        if let Some(server) = self.members[id - 1].server.take() {
            server.kill();
        }
    }

    /// The dataDir of a server.
    #[must_use]
    pub fn data_dir(&self, id: usize) -> &Path {
        &self.members[id - 1].config.storage.data_dir
    }

    /// Begins to start a server again, without waiting for it: one whose files are damaged waits for the others.
    /// [`TestEnsemble::finish_start`] completes the start.
    #[must_use]
    pub fn begin_start(&self, id: usize) -> Starting {
        let (config, stop) = (self.members[id - 1].config.clone(), StopSignal::default());
        let (signal, span) = (stop.clone(), tracing::info_span!("server", id));
        let thread = std::thread::spawn(move || {
            let _entered = span.entered();
            Server::start_until(config, &signal)
        });
        Starting { id, stop, thread }
    }

    /// Waits until a server has started.
    pub fn finish_start(&mut self, starting: Starting) {
        let id = starting.id;
        let server = starting.finish().expect("the server starts");
        self.put_into_place(id, server);
    }

    /// Starts servers again at the same time, and waits for all of them.
    pub fn start_together(&mut self, ids: &[usize]) {
        let starting: Vec<_> = ids.iter().map(|id| self.begin_start(*id)).collect();
        for starting in starting {
            self.finish_start(starting);
        }
    }

    /// Changes a server's configuration for its next start.
    pub fn configure(&mut self, id: usize, adjust: impl FnOnce(&mut Config)) {
        adjust(&mut self.members[id - 1].config);
    }

    /// Starts a server again with the same directory and ports.
    pub fn start_again(&mut self, id: usize) {
        let server = Server::start(self.members[id - 1].config.clone());
        self.put_into_place(id, server.expect("the server starts"));
    }

    fn put_into_place(&mut self, id: usize, server: Server) {
        let member = &mut self.members[id - 1];
        if let (Some(address), Some(client)) = (server.address(), &mut member.config.listen.client)
        {
            client.port = address.port();
        }
        member.server = Some(server);
    }
}

/// A server that is being started.
pub struct Starting {
    id: usize,
    stop: StopSignal,
    thread: JoinHandle<Result<Server, StartError>>,
}

impl Starting {
    /// Whether it has started, or failed to.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks it to give up, if it waits for other servers, and waits for that.
    pub fn give_up(self) -> Result<Server, StartError> {
        self.stop.stop();
        self.finish()
    }

    fn finish(self) -> Result<Server, StartError> {
        self.thread.join().expect("a start does not panic")
    }
}

fn config(id: usize, folder: &Path, lines: &str) -> Config {
    std::fs::create_dir_all(folder).expect("a directory can be created");
    std::fs::write(folder.join("myid"), id.to_string()).expect("a writable directory");
    let file = folder.join("zoo.cfg");
    let text = format!(
        "tickTime=1000\ninitLimit=10\nsyncLimit=5\nclientPort=2181\npreAllocSize=64\n\
         4lw.commands.whitelist=*\ndataDir={}\n{lines}",
        folder.display()
    );
    std::fs::write(&file, text).expect("a writable directory");
    let loaded = Config::load(&file, &SystemProperties::default());
    let mut config = loaded.expect("a valid configuration").config;
    config.listen.client = Some(Endpoint { host: Some("127.0.0.1".to_owned()), port: 0 });
    config
}

/// Returns ports on which nothing listens. Each is returned once in this process; other processes start
/// elsewhere in the range.
fn free_ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let start = std::process::id().wrapping_mul(613) % u32::from(span);
    let mut held = Vec::new();
    for _ in 0..span {
        let offset = (start + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(span);
        let port = PORTS.start + u16::try_from(offset).expect("less than the span");
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            held.push((port, listener));
        }
        if held.len() == count {
            return held.into_iter().map(|(port, _)| port).collect();
        }
    }
    panic!("no free ports");
}
