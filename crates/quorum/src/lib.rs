//! The network of an ensemble member: the election port, the learner ports and the connections
//! to the other servers. It makes no protocol decisions.
//!
//! In: votes and packets to send and links to open and close, from the thread that steps the core;
//! none of these calls blocks. Out: [`herdsman_zab::Input`]s through a [`Receiver`], from network
//! threads, which may block: with so few peers an event loop is unnecessary, and a function that serves
//! one direction of a connection can be read from top to bottom. Deliberately not here: who leads,
//! what a packet means, when to connect, how a tree is encoded.
//!
//! The code map: [`settings`] and [`receiver`] are the interface. `threads` registers every thread and
//! socket, so that all of them can be stopped; `port` listens, `connection_slots` limits connections,
//! `security` does TLS and logins, `address` resolves and dials other servers, `stream` is a
//! connection and `incoming` its receive buffer. `member_connection` fetches records.
//! `election` keeps one connection per peer, with at most one pending message. `links` are the connections
//! between a leader and its learners, `connect` opens one.
//!
//! Invariants: all inputs of one link come from one thread, in order. The first is `LinkOpened`
//! (together with the first packet of a learner) or [`Receiver::handle_connect`]; the last is `LinkLost`,
//! unless this server closed the link. A peer that is unreachable, slow or hostile does not affect the others.
//!
//! Limits:
//!
//! | what | limit | when it is reached |
//! |---|---|---|
//! | votes waiting for a peer | 1 | the newer replaces the older |
//! | peers that are not members | 32 | the new connection is refused |
//! | connections for votes of one member | 1, kept while it works | the new connection is refused |
//! | accepted election connections | members + 64 | the oldest unidentified one is closed |
//! | accepted links | members × 5 + 64 | the oldest unidentified one is closed |
//! | accepted links that claim to be one member | 4, and the one in use | one from the address with most is closed |
//! | accepted links of servers that are not listed | 32 | the new connection is refused |
//! | concurrent FETCH readers | 2 | the request is answered with Busy |
//! | packet of a learner | twice `jute.maxbuffer`, its extra and 128 KiB (`proto::limits`) | the link is lost |
//! | bytes queued on a link | 64 MiB, and what clients of a server may have in flight | the link is lost |
//! | connection attempts in progress | 8 | the next one waits; only the newest is kept |
//! | log lines about errors of other hosts | 10 per minute and kind | the rest are counted |
//! | log lines about connections opened and closed | 100 per minute and kind | the rest are counted |
//!
//! Apache: `QuorumCnxManager`, `Learner.connectToLeader`, `Leader.LearnerCnxAcceptor`, `ObserverMaster`, the two
//! threads of `LearnerHandler`. How we differ: the learner ports are always open, not only in the role that
//! they serve; a vote that could not be sent is retried without a new request; every wait has a limit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use herdsman_proto::membership::{Endpoint, Role};
use herdsman_proto::{Member, Membership, Notification, QuorumPacket, ServerId};
use herdsman_zab::{LearnerPort, LinkId};
use parking_lot::Mutex;

mod address;
mod connect;
mod connection_slots;
mod context;
mod election;
mod incoming;
mod links;
pub mod login;
pub mod logins;
mod member_connection;
mod port;
pub mod receiver;
pub mod security;
pub mod settings;
mod stream;
mod threads;

pub use links::LinkReport;
pub use member_connection::{IsWanted, MemberConnection};
pub use receiver::{
    ConnectResult, MemberReport, PortFailure, PortKind, ReadPermission, Receiver, SendRecord,
    StreamSource, StreamStep,
};
pub use settings::NetworkSettings;

use connect::Connector;
use context::Context;
use election::Election;
use links::Links;
use port::{AddressesLeft, Port};

/// The network of one member.
pub struct QuorumNetwork {
    context: Arc<Context>,
    election: Arc<Election>,
    links: Arc<Links>,
    connector: Arc<Connector>,
    ports: Mutex<Vec<(PortKind, Arc<Port>)>>,
}

impl QuorumNetwork {
    /// Creates a network that is not started, so that its receiver can refer to it before the first input.
    /// Requests before the start are lost, except for the membership and a request to connect.
    #[must_use]
    pub fn new(settings: NetworkSettings) -> Self {
        let context = Arc::new(Context::new(settings));
        let election = Arc::new(Election::new(Arc::clone(&context)));
        let links = Arc::new(Links::new(Arc::clone(&context)));
        let connector = Arc::new(Connector::new(Arc::clone(&context), Arc::clone(&links)));
        QuorumNetwork { context, election, links, connector, ports: Mutex::default() }
    }

    /// Opens the ports and starts connecting. A port that cannot be opened yet is retried in the
    /// background: see [`Receiver::handle_port_failed`].
    ///
    /// # Errors
    /// The membership does not name this server, or the system cannot start a thread. Then
    /// [`QuorumNetwork::stop`] stops those that were started.
    pub fn start(&self, receiver: Arc<dyn Receiver>) -> io::Result<()> {
        self.context.set_receiver(receiver);
        let membership = self.context.membership();
        self.election.set_membership(&membership)?;
        self.connector.start()?;
        self.open_ports(&membership)
    }

    fn open_ports(&self, membership: &Membership) -> io::Result<()> {
        let own = membership.members.get(&self.context.settings.my_id).ok_or_else(|| {
            let id = self.context.settings.my_id;
            io::Error::new(io::ErrorKind::InvalidInput, format!("there is no server.{id}"))
        })?;
        let endpoints = self.listening(address::election_endpoints(own));
        let addresses_left = AddressesLeft::new(endpoints.len().into());
        for endpoint in endpoints {
            let election = Arc::clone(&self.election);
            let accept = move |stream, peer| election.accept(stream, peer);
            self.open_port(PortKind::Election, endpoint, Box::new(accept), &addresses_left)?;
        }
        let endpoints = self.listening(address::quorum_endpoints(own));
        let addresses_left = AddressesLeft::new(endpoints.len().into());
        for endpoint in endpoints {
            let links = Arc::clone(&self.links);
            let accept = move |stream, peer| links.accept(LearnerPort::Quorum, stream, peer);
            self.open_port(PortKind::Quorum, endpoint, Box::new(accept), &addresses_left)?;
        }
        self.open_observer_master_port(own)
    }

    /// Opens the observer-master port, which is always open like the others. Observers do not have one.
    fn open_observer_master_port(&self, own: &Member) -> io::Result<()> {
        let port = self.context.settings.observer_master_port;
        let Some(port) = port.filter(|_| own.role == Role::Participant) else { return Ok(()) };
        let endpoints = self.listening(address::observer_master_endpoints(own, port));
        let addresses_left = AddressesLeft::new(endpoints.len().into());
        for endpoint in endpoints {
            let links = Arc::clone(&self.links);
            let accept =
                move |stream, peer| links.accept(LearnerPort::ObserverMaster, stream, peer);
            self.open_port(PortKind::ObserverMaster, endpoint, Box::new(accept), &addresses_left)?;
        }
        Ok(())
    }

    fn open_port(
        &self,
        kind: PortKind,
        endpoint: Endpoint,
        accept: Box<port::Accept>,
        addresses_left: &AddressesLeft,
    ) -> io::Result<()> {
        let port = Port::open(&self.context, kind, endpoint, accept, Arc::clone(addresses_left))?;
        self.ports.lock().push((kind, port));
        Ok(())
    }

    /// The endpoints to listen on, derived from the advertised ones.
    fn listening(&self, mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
        if self.context.settings.listen_on_all_addresses {
            for endpoint in &mut endpoints {
                endpoint.host = None;
            }
            endpoints.sort_unstable_by_key(|endpoint| endpoint.port);
            endpoints.dedup();
        }
        endpoints
    }

    /// The addresses of the open ports of a kind.
    #[must_use]
    pub fn open_addresses(&self, kind: PortKind) -> Vec<SocketAddr> {
        let ports = self.ports.lock();
        let of_kind = ports.iter().filter(|(other, _)| *other == kind);
        of_kind.filter_map(|(_, port)| port.address()).collect()
    }

    /// Sends our vote to another server, connecting first if necessary. A newer message replaces one that is
    /// not sent yet. Does nothing if no address is known for that server.
    pub fn notify(&self, to: ServerId, message: &Notification) {
        self.election.notify(to, message);
    }

    /// Starts connecting to a learner port of a server, and cancels any older attempt. The result is reported
    /// through [`Receiver::handle_connect`] with the returned id. Nothing is reported about a cancelled attempt,
    /// unless the report was already under way.
    pub fn connect(&self, to: ServerId, port: LearnerPort) -> LinkId {
        self.connector.connect(to, port)
    }

    /// Connects to another member's learner port without a link, to send requests to that member. Waits for the
    /// connection up to `limit`; an answer may take `initLimit` ticks without a byte.
    ///
    /// # Errors
    /// The member is not known, not reachable, or rejects this server.
    pub fn dial_member(&self, to: ServerId, limit: Duration) -> io::Result<MemberConnection> {
        let incoming = self.connector.dial(to, LearnerPort::Quorum, limit)?;
        let NetworkSettings { field_bytes_max, init_limit, .. } = self.context.settings;
        Ok(MemberConnection::new(incoming, field_bytes_max, init_limit))
    }

    /// Cancels the current connection attempt, if there is one.
    pub fn cancel_connect(&self) {
        self.connector.cancel();
    }

    /// Flushes queued packets. Never blocks on the peer.
    pub fn flush(&self) {
        self.links.flush();
    }

    /// Sends a packet, with the next flush. Does nothing if the link is lost or closed.
    pub fn send(&self, link: LinkId, packet: &QuorumPacket) {
        self.links.send(link, packet);
    }

    /// Queues a stream; packets sent later wait until it is complete.
    pub fn send_stream(&self, link: LinkId, source: Box<dyn StreamSource>) {
        self.links.send_stream(link, source);
    }

    /// Sets the idle limit: the link is lost when nothing is received or nothing can be written for this long.
    /// The limit is `initLimit` ticks until this is called.
    pub fn set_idle_limit(&self, link: LinkId, limit_ms: u64) {
        self.links.set_idle_limit(link, limit_ms);
    }

    /// Marks the learner of a link as synchronizing or synchronized: if there are too many links, others are closed.
    pub fn keep(&self, link: LinkId) {
        self.links.keep(link);
    }

    /// Traffic counters of a link; `None` if it is closed.
    #[must_use]
    pub fn link_report(&self, link: LinkId) -> Option<LinkReport> {
        self.links.report_of(link)
    }

    /// Sets the counters of all links to 0.
    pub fn reset_link_counters(&self) {
        self.links.reset_counters();
    }

    /// Closes a link after the queued packets were sent, or after two seconds. Reports no further inputs,
    /// except those that are already under way.
    pub fn close(&self, link: LinkId) {
        self.connector.forget(link);
        self.links.close(link);
    }

    /// Also connects to the members of a pending membership, whose quorum is needed to commit it.
    pub fn add_members(&self, pending: &Membership) {
        let mut both = (*self.context.membership()).clone();
        for (id, member) in &pending.members {
            both.members.entry(*id).or_insert_with(|| member.clone());
        }
        self.set_membership(Arc::new(both));
    }

    /// Applies a new membership: addresses and connection limits. The ports stay
    /// where they were opened.
    pub fn set_membership(&self, membership: Arc<Membership>) {
        if let Err(error) = self.election.set_membership(&membership) {
            tracing::error!("cannot start a thread for a new member: {error}");
        }
        self.context.set_membership(membership);
    }

    /// Stops all threads and waits for them: queued data is lost, and no `LinkLost` is reported. Must
    /// not be called by a network thread, nor while holding a lock that the receiver needs.
    pub fn stop(&self) {
        self.context.threads.stop(|| {
            self.election.wake();
            self.links.wake();
            self.connector.wake();
            for (_, port) in &*self.ports.lock() {
                port.wake();
            }
        });
        self.context.forget_receiver();
    }
}

impl Drop for QuorumNetwork {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests;
