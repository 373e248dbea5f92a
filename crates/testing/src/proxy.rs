//! A proxy for tests: it sits between clients and one server and injects faults.
//!
//! It understands the frames of the client protocol, so a test can specify *what* goes wrong without
//! depending on timing: the reply to the next create is lost, the second getData is never sent, the reply
//! to a delete is held until the test releases it. It also counts messages, which shows how many round
//! trips a recipe takes and how many clients a change wakes up.
//!
//! ```
//! use herdsman_proto::OpCode;
//! use herdsman_testing::proxy::Fault;
//! use herdsman_testing::{TestProxy, TestServer};
//!
//! let server = TestServer::start();
//! let proxy = TestProxy::start(server.address());
//! let lost = proxy.once(OpCode::Create, Fault::CutBeforeReply);
//! let connect_string = proxy.connect_string(); // for any ZooKeeper client
//! # let _ = connect_string;
//! // … a create is now carried out, but the client only sees its connection close …
//! assert_eq!(lost.fired(), 0); // 1 after that create
//! assert_eq!(proxy.traffic().requests(OpCode::Create), 0);
//! ```
//!
//! It runs on its own thread, so blocking and async tests can use it alike. Connections that do not start
//! with a frame, a four-letter word for instance, are passed through unchanged. Settings take effect before
//! the method returns. Memory is bounded: see [`TestProxy::log`].

mod connection;
mod frames;
mod queue;
mod rule;
mod shared;
mod traffic;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

pub use herdsman_proto::OpCode;
pub use rule::{ActiveRule, Fault, Rule};
pub use traffic::{Observed, ObservedFrame, Traffic};

use connection::{Connection, reset};
use rule::Progress;
use shared::{Ending, ProxyState, State};

/// More simultaneous connections are refused.
const CONNECTIONS_MAX: usize = 4096;
/// Pause when the system has no sockets left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A direction through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server: requests.
    ToServer,
    /// From the server to clients: replies and events.
    ToClient,
}

/// A proxy in front of one server. Dropping it closes its port and its connections.
///
/// Starting panics on failure, which is what a test needs.
pub struct TestProxy {
    shared: Arc<ProxyState>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestProxy {
    /// Starts a proxy on a free port that forwards to this server.
    #[must_use]
    pub fn start(upstream: SocketAddr) -> Self {
        Self::start_with(ProxyState::new(upstream))
    }

    /// Starts a proxy for another protocol, for instance the one between servers: bytes are forwarded as
    /// they arrive. Connections can be cut, partitioned and delayed, but rules do not apply and only
    /// connections are counted.
    #[must_use]
    pub fn start_for_bytes(upstream: SocketAddr) -> Self {
        Self::start_with(ProxyState::for_bytes(upstream))
    }

    fn start_with(shared: ProxyState) -> Self {
        let shared = Arc::new(shared);
        let (runtime, listener) = open().expect("a free port can be bound");
        let address = listener.local_addr().expect("an open port has an address");
        let (stop, stopped) = oneshot::channel();
        let serving = serve(Arc::clone(&shared), listener, stopped);
        let thread = thread::Builder::new()
            .name("test-proxy".to_owned())
            .spawn(move || runtime.block_on(serving));
        let thread = Some(thread.expect("a thread can be started"));
        TestProxy { shared, address, stop: Some(stop), thread }
    }

    /// The address for clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a connect string.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// Directs new connections to another server. Open connections stay; to move them,
    /// [`cut`](TestProxy::cut) them afterwards.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.shared.configure(|state| state.upstream = upstream);
    }

    /// Closes all connections on both sides. Data still in the proxy is lost.
    pub fn cut(&self) {
        self.end_all(Ending::Close);
    }

    /// Resets all connections (RST) on both sides.
    pub fn reset(&self) {
        self.end_all(Ending::Reset);
    }

    fn end_all(&self, ending: Ending) {
        self.shared.configure(|state| {
            state.cuts += 1;
            state.last_cut = ending;
        });
    }

    /// Resets new connections immediately, until [`accept_connections`](TestProxy::accept_connections).
    /// Open connections stay open.
    pub fn refuse_connections(&self) {
        self.shared.configure(|state| state.refuses = true);
    }

    /// Accepts new connections again.
    pub fn accept_connections(&self) {
        self.shared.configure(|state| state.refuses = false);
    }

    /// Simulates a network partition: connections stay open, but nothing passes in either direction until
    /// [`heal`](TestProxy::heal), not even the end of a connection. New connections are accepted, as the
    /// operating system does that, but get no response.
    pub fn partition(&self) {
        self.shared.configure(|state| state.blocks = [true; 2]);
    }

    /// Does the same in one direction: the server receives from its clients but they do not receive from
    /// it, or the other way round. With [`cut`](TestProxy::cut) afterwards, a test can lose an event that
    /// the server has sent.
    pub fn partition_one_way(&self, direction: Direction) {
        self.shared.configure(|state| state.blocks[direction as usize] = true);
    }

    /// Ends a partition. Data sent meanwhile arrives now, as if a network healed before TCP gave up. To
    /// lose it instead, [`cut`](TestProxy::cut) first.
    pub fn heal(&self) {
        self.shared.configure(|state| state.blocks = [false; 2]);
    }

    /// Delays everything that the server sends from now on; zero ends it. The delay of each frame starts
    /// when it arrives, so throughput is not reduced.
    pub fn delay_replies(&self, delay: Duration) {
        self.delay(Direction::ToClient, delay);
    }

    /// Does the same for requests.
    pub fn delay_requests(&self, delay: Duration) {
        self.delay(Direction::ToServer, delay);
    }

    fn delay(&self, direction: Direction, delay: Duration) {
        self.shared.configure(|state| state.delays[direction as usize] = delay);
    }

    /// Injects this fault into the next request of a kind.
    pub fn once(&self, op: OpCode, fault: Fault) -> ActiveRule {
        self.add_rule(Rule::new(fault).on(op))
    }

    /// Adds a rule. If several match a request, only the rule that was added first applies.
    pub fn add_rule(&self, rule: Rule) -> ActiveRule {
        let progress = Arc::new(Progress::default());
        self.shared.configure(|state| state.rules.push((rule, Arc::clone(&progress))));
        ActiveRule { shared: Arc::clone(&self.shared), progress }
    }

    /// Removes all rules. Held messages stay held; see [`ActiveRule::release`].
    pub fn clear_rules(&self) {
        self.shared.configure(|state| state.rules.clear());
    }

    /// Returns the counters.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.read(|state| state.traffic.clone())
    }

    /// Blocks until the counters satisfy `done`; false if this takes longer than the timeout. In an async
    /// test, where the client may need this very thread, use [`TestProxy::until`].
    #[must_use = "it may not have happened"]
    pub fn wait_until(&self, timeout: Duration, wanted: impl Fn(&Traffic) -> bool) -> bool {
        self.shared.wait_until(timeout, || wanted(&self.traffic()))
    }

    /// Waits until the counters satisfy `done`.
    pub async fn until(&self, wanted: impl Fn(&Traffic) -> bool) {
        self.shared.until_recorded(|| wanted(&self.traffic())).await;
    }

    /// The last 4096 requests and events, in order of arrival.
    #[must_use]
    pub fn log(&self) -> Vec<Observed> {
        self.shared.read(|state| state.log.entries())
    }

    /// Clears the log; counters keep their values.
    pub fn clear_log(&self) {
        self.shared.configure(|state| state.log.clear());
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        // Both fail only if the thread has already ended.
        _ = self.stop.take().map(|stop| stop.send(()));
        _ = self.thread.take().map(JoinHandle::join);
    }
}

fn open() -> io::Result<(Runtime, std::net::TcpListener)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    Ok((runtime, listener))
}

async fn serve(
    shared: Arc<ProxyState>,
    listener: std::net::TcpListener,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = TcpListener::from_std(listener).expect("the listener does not block");
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((client, _)) => admit(&shared, client),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn admit(shared: &Arc<ProxyState>, client: TcpStream) {
    let admitted = shared.record(|state| {
        let State { traffic, cuts, refuses, .. } = state;
        if *refuses || traffic.connections_open >= CONNECTIONS_MAX {
            return None;
        }
        traffic.connections_accepted += 1;
        traffic.connections_open += 1;
        Some((traffic.connections_accepted, *cuts))
    });
    let Some((number, cuts_before)) = admitted else {
        return reset(&client);
    };
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        Connection::new(Arc::clone(&shared), number, cuts_before).run(client).await;
        shared.record(|state| state.traffic.connections_open -= 1);
    });
}
