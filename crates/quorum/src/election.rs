//! The connections over which servers exchange votes: one for each pair of servers.
//!
//! Two servers may call each other at the same time, so there is a rule: only the connection that the
//! server with the larger id has opened is kept. A server with the smaller id that wants to say
//! something calls, says who it is ([`Hello`]) and hangs up; the other one drops what it had, and
//! calls back. Apache: `QuorumCnxManager`.
//!
//! Any host can claim to be a member. So a member's connection is kept while it works; a member is called at its
//! listed addresses before any address it is said to have; and if a connection comes from an unlisted address, the
//! member is asked at its listed address to connect.
//!
//! How we differ: a vote that waits is tried again, with growing pauses, for a minute, while Apache
//! waits for its next vote; votes of a connection that broke are sent again; a message that is no vote
//! is ignored in both.
//!
//! Servers that the membership does not name may talk too: one that joins is not known yet. Their
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

/// Peers that are no members.
const STRANGERS_MAX: usize = 32;
/// Accepted connections beyond one for each member.
const STRANGER_CONNECTIONS_MAX: usize = 64;
const ROOM_BYTES: usize = 4 * 1024;
/// TCP user timeout of a member's connection while another host claims the member's number.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for that timeout, which the kernel detects somewhat late.
const ALIVE_WAIT: Duration = Duration::from_secs(3);

/// What is done about members that are listed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// They are looked up, which may take long.
    LookedUp,
    /// Only addresses count.
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
            None => debug!("no address is known for server {to}: our vote is not sent to it"),
        }
    }

    /// Wakes all threads that wait for something to say.
    pub fn wake(&self) {
        for peer in self.peers.lock().values() {
            peer.wake();
        }
    }

    /// Knows these members from now on. Those that are no longer among them are strangers, and leave
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

    /// The peer with this id, made if need be. Until the lock is given back nobody takes it for a
    /// stranger without a purpose.
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

    /// The same for one that has called; an error says why it cannot be talked to. With the smaller id
    /// it is called back.
    fn caller(
        self: &Arc<Self>,
        hello: &Hello,
        receiver: &Arc<dyn Receiver>,
    ) -> io::Result<Arc<Peer>> {
        let id = hello.server;
        let mut peers = self.peers.lock();
        peers.retain(|other, peer| *other == id || !peer.retire_if_idle());
        let strangers = peers.values().filter(|peer| peer.is_stranger()).count();
        if strangers >= STRANGERS_MAX && !peers.contains_key(&id) {
            return Err(io::Error::other(format!("{strangers} that are no members are here")));
        }
        let peer = self.peer(&mut peers, id, receiver)?;
        if id < self.context.settings.my_id {
            peer.call_back(endpoints_in_hello(&hello.addresses), Instant::now());
        }
        Ok(peer)
    }

    /// A stranger's connection has ended: nothing of it is kept.
    fn forget_if_idle(&self, id: ServerId) {
        let mut peers = self.peers.lock();
        if peers.get(&id).is_some_and(|peer| peer.retire_if_idle()) {
            peers.remove(&id);
        }
    }

    /// Somebody has connected to the election port.
    pub fn accept(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let Some(receiver) = self.context.receiver() else { return };
        let socket = Arc::new(stream);
        self.context.threads.watch(&socket);
        let members = self.context.membership().members.len();
        let connections_max = members + STRANGER_CONNECTIONS_MAX;
        let Some(slot) = self.slots.take(&socket, from, connections_max) else { return };
        self.context.set_options(&socket, NoDelay::On);
        let election = Arc::clone(self);
        let welcome = move || {
            if let Err(problem) = election.welcome(socket, from, &slot, receiver) {
                election.complain(from, &problem);
            }
        };
        if let Err(error) = self.context.threads.spawn("election-in".to_owned(), welcome) {
            self.warnings.warn(format_args!("cannot start a thread for a peer at {from}: {error}"));
        }
    }

    fn complain(&self, from: SocketAddr, problem: &io::Error) {
        if problem.kind() == io::ErrorKind::UnexpectedEof {
            // Probes of the port do so all the time.
            debug!("a connection to the election port from {from} was closed without data");
            return;
        }
        self.warnings
            .warn(format_args!("closed a connection to the election port from {from}: {problem}"));
    }

    /// Finds out who has called, and talks to it or calls back. An error is about how it began; what
    /// happens on a connection that is kept is reported there.
    fn welcome(
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
        // The largest number is what observers of long ago called themselves, all of them.
        if id.0 < 0 || id.0 == i64::MAX {
            return Err(io::Error::other(format!("{id} is no server's id")));
        }
        if id == my_id {
            return Err(io::Error::other(format!(
                "it says that it is server {id}, as this one is"
            )));
        }
        self.context.settings.protection.check_caller(&stream, id, &members)?;
        self.check_newcomer(id, from)?;
        let peer = self.caller(&hello, &receiver)?;
        if !peer.is_stranger() {
            slot.keep();
        }
        if id < my_id {
            debug!("server {id} at {from} asks us to connect to it");
            return Ok(());
        }
        if !peer.is_stranger() {
            self.doubt_if_elsewhere(&peer, from)?;
        }
        connection::serve_accepted(self, &peer, incoming, &stream, receiver)
    }

    /// Refuses somebody who says that it is a member with which there is a connection that works: anybody can say so.
    /// A member that connects again has closed the old connection, or its host knows nothing of it. Only who
    /// calls from an address of the member's replaces one that does not, at once.
    fn check_newcomer(&self, id: ServerId, from: SocketAddr) -> io::Result<()> {
        let known = self.peers.lock().get(&id).cloned();
        let Some(peer) = known.filter(|peer| !peer.is_stranger()) else { return Ok(()) };
        let Some((serial, stream)) = peer.connection() else { return Ok(()) };
        let Ok(at) = stream.socket().peer_addr() else { return Ok(()) };
        if self.is_listed(id, from, Names::Skipped) && !self.is_listed(id, at, Names::Skipped) {
            return Ok(());
        }
        // One at a time: a flood of such claims must not fill this port with threads that wait.
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

    /// Finds out whether a member's connection comes from where the member is. That may take long if names are looked
    /// up, so the connection does not wait for it.
    fn doubt_if_elsewhere(self: &Arc<Self>, peer: &Arc<Peer>, from: SocketAddr) -> io::Result<()> {
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

    /// Whether the membership lists an address for a member, as names resolve at the moment.
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
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not say who it is"));
            }
            if incoming.fill(Some(rest.max(peer::MILLISECOND)))? == Fill::End {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
