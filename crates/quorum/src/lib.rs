//! The network of an ensemble's member: the election port, the ports for learners and the connections
//! to the other servers. Sockets and threads, and no decision of the protocol.
//!
//! In: votes to tell, packets to send, links to open and close, from the thread that steps the core;
//! none of these calls blocks. Out: [`herdsman_zab::Input`]s through a [`Receiver`], from network
//! threads, which do block: a handful of peers need no event loop, and a thread per direction can be
//! read from top to bottom. Deliberately not here: who leads, what a packet means, when to connect,
//! how a tree is encoded.
//!
//! The code map: [`settings`] and [`receiver`] are the interface. `threads` knows every thread and
//! socket, so that all of them can be ended; `port` listens, `connection_slots` limits connections,
//! `security` says how connections are protected, `address` finds and dials others, `stream` is a
//! connection and `incoming` buffers what comes over it. `member_connection` is for fetching records.
//! `election` keeps one connection per peer, with one message waiting at the most. `links` are the connections
//! between a leader and its learners, `connect` opens one.
//!
//! Invariants: everything about one link comes from one thread, in order, beginning with `LinkOpened`, which comes
//! with the first packet of a learner,
//! or [`Receiver::handle_connect`] and ending with `LinkLost` unless it was closed from here. A peer
//! that is away, slow or hostile costs the others nothing.
//!
//! Limits:
//!
//! | what | limit | when it is reached |
//! |---|---|---|
//! | votes waiting for a peer | 1 | the newer replaces the older |
//! | peers that are not members | 32 | the newcomer is refused |
//! | connections for votes of one member | 1, kept while it works | the newcomer is refused |
//! | accepted election connections | members + 64 | the oldest unidentified one is closed |
//! | accepted links | members × 5 + 64 | the oldest unidentified one is closed |
//! | accepted links that claim to be one member | 4, and the one in use | one from the address with most is closed |
//! | accepted links of servers that are not listed | 32 | the newcomer is refused |
//! | members that records are read for at a time | 2 | the newcomer is told to come back |
//! | packet of a learner | twice `jute.maxbuffer`, its extra and 128 KiB (`proto::limits`) | the link is lost |
//! | bytes queued on a link | 64 MiB, and what clients of a server may have in flight | the link is lost |
//! | attempts to connect under way | 8 | the next one waits; only the newest is kept |
//! | log lines about errors of other hosts | 10 per minute and kind | counted |
//! | log lines about connections opened and closed | 100 per minute and kind | counted |
//!
//! Apache: `QuorumCnxManager`, `Learner.connectToLeader`, `Leader.LearnerCnxAcceptor`, the two threads of
//! `LearnerHandler`. `ObserverMaster`. How we differ: the ports for
//! learners are open all the time, not only in the role that they are for; a
//! vote that could not be sent is tried again without being asked; every wait has an end.

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

    /// Opens the ports and starts to talk. A port that cannot be opened yet is tried again in the
    /// background: see [`Receiver::handle_port_failed`].
    ///
    /// # Errors
    /// The membership does not name this server, or the system gives no threads. Then
    /// [`QuorumNetwork::stop`] ends those that were started.
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

    /// Open all the time, like the others. At an observer nobody would look for it.
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

    /// Where to listen, given where others reach this server.
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

    /// The addresses of a kind of port that are open by now.
    #[must_use]
    pub fn open_addresses(&self, kind: PortKind) -> Vec<SocketAddr> {
        let ports = self.ports.lock();
        let of_kind = ports.iter().filter(|(other, _)| *other == kind);
        of_kind.filter_map(|(_, port)| port.address()).collect()
    }

    /// Tells another server our vote, connecting to it if need be. A newer message replaces one that is
    /// not sent yet. Nothing happens if nobody knows where that server is.
    pub fn notify(&self, to: ServerId, message: &Notification) {
        self.election.notify(to, message);
    }

    /// Begins to connect to one of a server's ports for learners, and forgets any older attempt. The result comes
    /// through [`Receiver::handle_connect`] with the id that is returned here, and nothing comes about
    /// an attempt that was forgotten, unless it was on its way already.
    pub fn connect(&self, to: ServerId, port: LearnerPort) -> LinkId {
        self.connector.connect(to, port)
    }

    /// Connects to another member's port for learners without a link, for questions to that member. Waits for the
    /// connection up to `limit`; an answer to a question may take `initLimit` ticks without a byte.
    ///
    /// # Errors
    /// The member is not known, not reachable, or refuses this server.
    pub fn dial_member(&self, to: ServerId, limit: Duration) -> io::Result<MemberConnection> {
        let incoming = self.connector.dial(to, LearnerPort::Quorum, limit)?;
        let NetworkSettings { field_bytes_max, init_limit, .. } = self.context.settings;
        Ok(MemberConnection::new(incoming, field_bytes_max, init_limit))
    }

    /// Forgets the attempt to connect, if there is one.
    pub fn cancel_connect(&self) {
        self.connector.cancel();
    }

    /// Sees to it that what was sent goes out. Never waits for the other side.
    pub fn flush(&self) {
        self.links.flush();
    }

    /// Sends a packet, with the next flush. Nothing happens on a link that is gone or closed.
    pub fn send(&self, link: LinkId, packet: &QuorumPacket) {
        self.links.send(link, packet);
    }

    /// Sends something long; what is sent later waits behind it.
    pub fn send_stream(&self, link: LinkId, source: Box<dyn StreamSource>) {
        self.links.send_stream(link, source);
    }

    /// Loses the link when nothing is heard on it, or nothing can be written to it, for so long.
    /// `initLimit` ticks until this is called.
    pub fn set_idle_limit(&self, link: LinkId, limit_ms: u64) {
        self.links.set_idle_limit(link, limit_ms);
    }

    /// The learner at the other end of a link is being brought up to date, or is: others are cut if there are too many.
    pub fn keep(&self, link: LinkId) {
        self.links.keep(link);
    }

    /// What has gone to and fro on a link; `None` if it is gone.
    #[must_use]
    pub fn link_report(&self, link: LinkId) -> Option<LinkReport> {
        self.links.report_of(link)
    }

    /// Sets the counters of all links to 0.
    pub fn reset_link_counters(&self) {
        self.links.reset_counters();
    }

    /// Closes a link once what was sent before is out, or after two seconds. Its inputs end here,
    /// except those that are on their way already.
    pub fn close(&self, link: LinkId) {
        self.connector.forget(link);
        self.links.close(link);
    }

    /// Also talks to members of a list that is only pending: they have a say in whether it is taken.
    pub fn add_members(&self, pending: &Membership) {
        let mut both = (*self.context.membership()).clone();
        for (id, member) in &pending.members {
            both.members.entry(*id).or_insert_with(|| member.clone());
        }
        self.set_membership(Arc::new(both));
    }

    /// Goes by a new membership: its addresses, and how many connections are welcome. The ports stay
    /// where they were opened.
    pub fn set_membership(&self, membership: Arc<Membership>) {
        if let Err(error) = self.election.set_membership(&membership) {
            tracing::error!("cannot start a thread for a new member: {error}");
        }
        self.context.set_membership(membership);
    }

    /// Ends everything and waits for it: what is queued is lost, and no `LinkLost` is reported. Must
    /// not be called by a network thread, nor by one that holds what the receiver needs.
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
