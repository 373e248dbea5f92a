//! A proxy for tests: it stands between clients and one server, and misbehaves when told to.
//!
//! It knows the frames of the client protocol, so a test can say *what* is to go wrong and need not
//! be lucky with timing: the reply to the next create is lost, the second getData is never sent,
//! the answer to a delete waits until the test lets it go. It counts what passes, which shows how many
//! round trips a recipe takes and how many clients a change wakes up.
//!
//! ```
//! use herdsman_proto::OpCode;
//! use herdsman_testing::proxy::Fault;
//! use herdsman_testing::{TestProxy, TestServer};
//!
//! let server = TestServer::start();
//! let proxy = TestProxy::start(server.address());
//! let lost = proxy.once(OpCode::Create, Fault::CutBeforeReply);
//! let connect_string = proxy.connect_string(); // give this to any ZooKeeper client
//! # let _ = connect_string;
//! // … a create now takes place, and the client hears nothing but the end of its connection …
//! assert_eq!(lost.fired(), 0); // 1, behind that create
//! assert_eq!(proxy.traffic().requests(OpCode::Create), 0);
//! ```
//!
//! It works on a thread of its own, so blocking and async tests can use it alike. Connections that
//! do not speak in frames, a four-letter word for instance, are passed through as they are. Orders
//! are in force when the method returns. What it remembers is limited: see [`TestProxy::log`].

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
use shared::{Ending, Shared, State};

/// More connections at a time are refused.
const CONNECTIONS_MAX: usize = 4096;
/// How long to wait when the system has no sockets left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// One way through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server: requests.
    ToServer,
    /// From the server to clients: replies and events.
    ToClient,
}

/// A proxy in front of one server. Dropping it closes its port and its connections.
///
/// Starting panics when it cannot be done: in a test that is the message one wants.
pub struct TestProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestProxy {
    /// A proxy on a free port, which carries everything to this server and back.
    #[must_use]
    pub fn start(upstream: SocketAddr) -> Self {
        Self::start_with(Shared::new(upstream))
    }

    /// The same for another protocol than that of clients, for instance that between servers: bytes are carried as they
    /// come. It can be cut, partitioned and delayed, but no rule applies and nothing is counted but connections.
    #[must_use]
    pub fn start_for_bytes(upstream: SocketAddr) -> Self {
        Self::start_with(Shared::for_bytes(upstream))
    }

    fn start_with(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let (runtime, listener) = open().expect("a free port can be opened");
        let address = listener.local_addr().expect("an open port has an address");
        let (stop, stopped) = oneshot::channel();
        let serving = serve(Arc::clone(&shared), listener, stopped);
        let thread = thread::Builder::new()
            .name("test-proxy".to_owned())
            .spawn(move || runtime.block_on(serving));
        let thread = Some(thread.expect("a thread can be started"));
        TestProxy { shared, address, stop: Some(stop), thread }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a connect string.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// Leads new connections to another server. Those that are open stay where they are; to move
    /// them, [`cut`](TestProxy::cut) them behind this.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.shared.tell(|state| state.upstream = upstream);
    }

    /// Closes all connections, on both sides. What the proxy still had of them is lost.
    pub fn cut(&self) {
        self.end_all(Ending::Close);
    }

    /// Ends all connections with a reset (RST), on both sides.
    pub fn reset(&self) {
        self.end_all(Ending::Reset);
    }

    fn end_all(&self, ending: Ending) {
        self.shared.tell(|state| {
            state.cuts += 1;
            state.last_cut = ending;
        });
    }

    /// Ends new connections as soon as they are made, with a reset, until
    /// [`accept_connections`](TestProxy::accept_connections). Those that are open stay open.
    pub fn refuse_connections(&self) {
        self.shared.tell(|state| state.refuses = true);
    }

    /// Takes new connections again.
    pub fn accept_connections(&self) {
        self.shared.tell(|state| state.refuses = false);
    }

    /// A black hole: connections stay open, but nothing passes in either direction until
    /// [`heal`](TestProxy::heal), not even the end of a connection. New connections can be made, as
    /// the system answers for us, and get no answer.
    pub fn partition(&self) {
        self.shared.tell(|state| state.blocks = [true; 2]);
    }

    /// The same in one direction: the server hears its clients but they do not hear it, or the
    /// other way round. With [`cut`](TestProxy::cut) behind it, a test can lose an event that the
    /// server has sent.
    pub fn partition_one_way(&self, direction: Direction) {
        self.shared.tell(|state| state.blocks[direction as usize] = true);
    }

    /// Ends a partition. What was sent meanwhile arrives now, as it does when a network heals before
    /// TCP gives up. To lose it instead, [`cut`](TestProxy::cut) before this.
    pub fn heal(&self) {
        self.shared.tell(|state| state.blocks = [false; 2]);
    }

    /// From now on, whatever the server sends arrives this much later; zero ends it. The time of
    /// each frame counts from when it came, so replies are late, not fewer.
    pub fn delay_replies(&self, delay: Duration) {
        self.delay(Direction::ToClient, delay);
    }

    /// The same for what clients send.
    pub fn delay_requests(&self, delay: Duration) {
        self.delay(Direction::ToServer, delay);
    }

    fn delay(&self, direction: Direction, delay: Duration) {
        self.shared.tell(|state| state.delays[direction as usize] = delay);
    }

    /// Does this to the next request of a kind.
    pub fn once(&self, op: OpCode, fault: Fault) -> ActiveRule {
        self.add_rule(Rule::new(fault).on(op))
    }

    /// Follows a rule from now on. Of several that mean the same request, the one that was added
    /// first has its way and the others do not see that request.
    pub fn add_rule(&self, rule: Rule) -> ActiveRule {
        let progress = Arc::new(Progress::default());
        self.shared.tell(|state| state.rules.push((rule, Arc::clone(&progress))));
        ActiveRule { shared: Arc::clone(&self.shared), progress }
    }

    /// Forgets all rules. What they hold stays held; see [`ActiveRule::release`].
    pub fn clear_rules(&self) {
        self.shared.tell(|state| state.rules.clear());
    }

    /// What it has seen so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.look(|state| state.traffic.clone())
    }

    /// Blocks until its counters are as wanted; false if they are not within this time. In an async
    /// test, where the client may need this very thread, use [`TestProxy::until`].
    #[must_use = "it may not have happened"]
    pub fn wait_until(&self, timeout: Duration, wanted: impl Fn(&Traffic) -> bool) -> bool {
        self.shared.wait_until(timeout, || wanted(&self.traffic()))
    }

    /// Waits until its counters are as wanted.
    pub async fn until(&self, wanted: impl Fn(&Traffic) -> bool) {
        self.shared.until_noted(|| wanted(&self.traffic())).await;
    }

    /// The last 4096 requests and events, in the order in which they came.
    #[must_use]
    pub fn log(&self) -> Vec<Observed> {
        self.shared.look(|state| state.log.entries())
    }

    /// Forgets the log; counters stay.
    pub fn clear_log(&self) {
        self.shared.tell(|state| state.log.clear());
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        // Both fail only if the thread has ended already.
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
    shared: Arc<Shared>,
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

fn admit(shared: &Arc<Shared>, client: TcpStream) {
    let admitted = shared.note(|state| {
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
        shared.note(|state| state.traffic.connections_open -= 1);
    });
}
