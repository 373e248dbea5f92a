//! The connections over which servers exchange votes: one for each pair of servers.
//!
//! Two servers may connect to each other at the same time, so only the connection that the
//! server with the larger id has opened is kept. A server with the smaller id that wants to send
//! a vote connects, sends its id ([`Hello`]) and closes; the other server drops its old connection and
//! connects back. Apache: `QuorumCnxManager`.
//!
//! Any host can claim to be a member. So a member's connection is kept while it works; this server connects to a
//! member's listed addresses before any address in a hello; and if a connection comes from an unlisted address, the
//! member is asked at its listed address to connect.
//!
//! How we differ: a pending vote is retried, with growing pauses, for a minute, while Apache
//! waits for its next vote; votes of a broken connection are sent again. Messages that are not votes
//! are ignored in both.
//!
//! Servers that are not in the membership may connect too, because a joining server is not listed yet. Their
//! number is limited.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_proto::membership::Endpoint;
use herdsman_proto::notification::Hello;
use herdsman_proto::{DecodeError, JuteReader, Membership, Notification, ServerId};
use parking_lot::Mutex;
use tracing::debug;

mod connection;
mod dialer;
mod peer;

#[cfg(test)]
pub(crate) use connection::frame as frame_of;

use super::address::{election_endpoints, endpoints_in_hello, resolve};
use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::context::{Context, NoDelay};
use super::incoming::{Fill, Incoming};
use super::receiver::Receiver;
use herdsman_runtime::LimitedLog;
use peer::Peer;

/// Limit of peers that are not in the membership.
const UNLISTED_PEERS_MAX: usize = 32;
/// Limit of accepted connections beyond one for each member.
const UNLISTED_CONNECTIONS_MAX: usize = 64;
const ROOM_BYTES: usize = 4 * 1024;
/// TCP user timeout of a member's connection while another host claims the member's id.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for that timeout, which the kernel detects somewhat late.
const ALIVE_WAIT: Duration = Duration::from_secs(3);

/// Whether host names of members are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// They are resolved, which may take long.
    LookedUp,
    /// Only numeric addresses are compared.
    Skipped,
}

pub(crate) struct Election {
    context: Arc<Context>,
    peers: Mutex<BTreeMap<ServerId, Arc<Peer>>>,
    slots: Arc<ConnectionSlots>,
    warnings: LimitedLog,
    news: LimitedLog,
}

impl Election {
    pub fn new(context: Arc<Context>) -> Self {
        Election {
            context,
            peers: Mutex::default(),
            slots: Arc::default(),
            warnings: LimitedLog::default(),
            news: LimitedLog::news(),
        }
    }

    pub fn notify(&self, to: ServerId, message: &Notification) {
        match self.peers.lock().get(&to) {
            Some(peer) => peer.put(connection::frame(message), Instant::now()),
            None => debug!("no address known for server {to}; vote not sent"),
        }
    }

    /// Wakes all threads that wait for a message to send.
    pub fn wake(&self) {
        for peer in self.peers.lock().values() {
            peer.wake();
        }
    }

    /// Replaces the list of members. Peers that are no longer listed are dropped
    /// when their connection ends.
    pub fn set_membership(self: &Arc<Self>, membership: &Membership) -> io::Result<()> {
        let Some(receiver) = self.context.receiver() else { return Ok(()) };
        let mut peers = self.peers.lock();
        for (&id, member) in &membership.members {
            if id != self.context.settings.my_id {
                let peer = self.peer(&mut peers, id, &receiver)?;
                peer.set_addresses(election_endpoints(member));
            }
        }
        for (id, peer) in &*peers {
            if !membership.members.contains_key(id) {
                peer.set_addresses(Vec::new());
            }
        }
        peers.retain(|_, peer| !peer.retire_if_idle());
        Ok(())
    }

    /// Returns the peer with this id, creating it if necessary. While the lock is held it is not retired
    /// for being unlisted and idle.
    fn peer(
        self: &Arc<Self>,
        peers: &mut BTreeMap<ServerId, Arc<Peer>>,
        id: ServerId,
        receiver: &Arc<dyn Receiver>,
    ) -> io::Result<Arc<Peer>> {
        if let Some(peer) = peers.get(&id) {
            return Ok(Arc::clone(peer));
        }
        let peer = Arc::new(Peer::new(id));
        dialer::start(self, &peer, Arc::clone(receiver))?;
        peers.insert(id, Arc::clone(&peer));
        Ok(peer)
    }

    /// Returns the peer for an incoming connection, or why it is rejected. This server connects back to a peer with the
    /// smaller id.
    fn caller(
        self: &Arc<Self>,
        hello: &Hello,
        receiver: &Arc<dyn Receiver>,
    ) -> io::Result<Arc<Peer>> {
        let id = hello.server;
        let mut peers = self.peers.lock();
        peers.retain(|other, peer| *other == id || !peer.retire_if_idle());
        let unlisted = peers.values().filter(|peer| peer.is_unlisted()).count();
        if unlisted >= UNLISTED_PEERS_MAX && !peers.contains_key(&id) {
            return Err(io::Error::other(format!(
                "too many connections from servers that are not in the membership ({unlisted})"
            )));
        }
        let peer = self.peer(&mut peers, id, receiver)?;
        if id < self.context.settings.my_id {
            peer.call_back(endpoints_in_hello(&hello.addresses), Instant::now());
        }
        Ok(peer)
    }

    /// Forgets an unlisted peer whose connection has ended.
    fn forget_if_idle(&self, id: ServerId) {
        let mut peers = self.peers.lock();
        if peers.get(&id).is_some_and(|peer| peer.retire_if_idle()) {
            peers.remove(&id);
        }
    }

    /// Handles a new connection to the election port.
    pub fn accept(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let Some(receiver) = self.context.receiver() else { return };
        let socket = Arc::new(stream);
        self.context.threads.watch(&socket);
        let members = self.context.membership().members.len();
        let connections_max = members + UNLISTED_CONNECTIONS_MAX;
        let Some(slot) = self.slots.take(&socket, from, connections_max) else { return };
        self.context.set_options(&socket, NoDelay::On);
        let election = Arc::clone(self);
        let handshake = move || {
            if let Err(problem) = election.handshake(socket, from, &slot, receiver) {
                election.complain(from, &problem);
            }
        };
        if let Err(error) = self.context.threads.spawn("election-in".to_owned(), handshake) {
            self.warnings.warn(format_args!("cannot start a thread for a peer at {from}: {error}"));
        }
    }

    fn complain(&self, from: SocketAddr, problem: &io::Error) {
        if problem.kind() == io::ErrorKind::UnexpectedEof {
            // Port probes end like this.
            debug!("connection to the election port from {from} closed without data");
            return;
        }
        self.warnings
            .warn(format_args!("closed connection to the election port from {from}: {problem}"));
    }

    /// Identifies the peer, then serves the connection or asks the peer to be connected to. Returns errors of the
    /// handshake; errors of an established connection are logged where they happen.
    fn handshake(
        self: &Arc<Self>,
        socket: Arc<TcpStream>,
        from: SocketAddr,
        slot: &ConnectionSlot,
        receiver: Arc<dyn Receiver>,
    ) -> io::Result<()> {
        let by = Instant::now() + self.context.settings.hello_timeout;
        let stream = Arc::new(self.context.protect(socket, from, by)?);
        let mut incoming = Incoming::new(Arc::clone(&stream), ROOM_BYTES);
        let hello = self.read_hello(&mut incoming, by)?;
        let members = self.context.membership();
        self.context.settings.protection.check_login(&mut incoming, &members, by)?;
        let my_id = self.context.settings.my_id;
        let id = hello.server;
        // Old observers all used the largest number as their id.
        if id.0 < 0 || id.0 == i64::MAX {
            return Err(io::Error::other(format!("invalid server id {id}")));
        }
        if id == my_id {
            return Err(io::Error::other(format!(
                "it claims to be server {id}, which is this server's own id: check myid on both"
            )));
        }
        self.context.settings.protection.check_caller(&stream, id, &members)?;
        self.check_claim(id, from)?;
        let peer = self.caller(&hello, &receiver)?;
        if !peer.is_unlisted() {
            slot.keep();
        }
        if id < my_id {
            debug!("server {id} at {from} requests a connection from this server");
            return Ok(());
        }
        if !peer.is_unlisted() {
            self.verify_address(&peer, from)?;
        }
        connection::serve_accepted(self, &peer, incoming, &stream, receiver)
    }

    /// Rejects a connection that claims to be a member whose existing connection still works, because any host can make
    /// that claim. A member that reconnects has closed the old connection, or its host no longer knows it. A peer that
    /// connects from a listed address of the member immediately replaces one that does not.
    fn check_claim(&self, id: ServerId, from: SocketAddr) -> io::Result<()> {
        let known = self.peers.lock().get(&id).cloned();
        let Some(peer) = known.filter(|peer| !peer.is_unlisted()) else { return Ok(()) };
        let Some((serial, stream)) = peer.connection() else { return Ok(()) };
        let Ok(at) = stream.socket().peer_addr() else { return Ok(()) };
        if self.is_listed(id, from, Names::Skipped) && !self.is_listed(id, at, Names::Skipped) {
            return Ok(());
        }
        // One check at a time: a flood of such claims must not fill this port with waiting threads.
        let is_free = peer.begin_check();
        let is_replaced = is_free && {
            let hello_timeout = self.context.settings.hello_timeout;
            connection::give_up_after(ALIVE_TIMEOUT.min(hello_timeout), stream.socket());
            let is_alive = peer.is_alive(serial, ALIVE_WAIT, &self.context.threads);
            connection::give_up_after(hello_timeout, stream.socket());
            let is_its_own = || {
                self.is_listed(id, from, Names::LookedUp)
                    && !self.is_listed(id, at, Names::LookedUp)
            };
            let is_replaced = !is_alive || is_its_own();
            peer.end_check();
            is_replaced
        };
        if is_replaced {
            return Ok(());
        }
        let problem = format!(
            "it claims to be server {id}, which is already connected from {at}: two servers may have the same myid"
        );
        Err(io::Error::new(io::ErrorKind::AlreadyExists, problem))
    }

    /// Checks whether a member's connection comes from one of its addresses. Resolving names may take long,
    /// so this happens in a separate thread.
    fn verify_address(self: &Arc<Self>, peer: &Arc<Peer>, from: SocketAddr) -> io::Result<()> {
        if !peer.begin_look() {
            return Ok(());
        }
        let (election, looked_for) = (Arc::clone(self), Arc::clone(peer));
        let started = self.context.threads.spawn(format!("election-at-{}", peer.id), move || {
            if !election.is_listed(looked_for.id, from, Names::LookedUp) {
                looked_for.doubt(Instant::now());
            }
            looked_for.end_look();
        });
        started.inspect_err(|_| peer.end_look())
    }

    /// Whether the membership lists an address for a member, as its names resolve at this moment.
    fn is_listed(&self, id: ServerId, address: SocketAddr, names: Names) -> bool {
        let membership = self.context.membership();
        let own = membership.members.get(&id).map(election_endpoints).unwrap_or_default();
        let is_there = |at: &SocketAddr| at.ip().to_canonical() == address.ip().to_canonical();
        let is_wanted = |endpoint: &&Endpoint| {
            let is_address =
                || endpoint.host.as_ref().is_some_and(|it| it.parse::<IpAddr>().is_ok());
            names == Names::LookedUp || is_address()
        };
        let mut own = own.iter().filter(is_wanted);
        own.any(|endpoint| resolve(endpoint).is_ok_and(|found| found.iter().any(is_there)))
    }

    fn read_hello(&self, incoming: &mut Incoming, by: Instant) -> io::Result<Hello> {
        loop {
            let bytes = incoming.bytes();
            let mut reader = JuteReader::new(bytes);
            match Hello::decode(&mut reader) {
                Ok(hello) => {
                    let hello_bytes = bytes.len() - reader.rest().len();
                    incoming.consume(hello_bytes);
                    return Ok(hello);
                }
                Err(DecodeError::Truncated { .. }) => {}
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
            let rest = by.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "timed out waiting for the hello",
                ));
            }
            if incoming.fill(Some(rest.max(peer::MILLISECOND)))? == Fill::End {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
