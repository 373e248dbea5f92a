//! The connections between a leader and its learners, both accepted ones and those
//! that `connect` opened. Apache: `Leader.LearnerCnxAcceptor`, `LearnerHandler`, `Learner`.
//!
//! A link has two threads. The reader reports all inputs of the link, from the first to the last; the
//! writer sends what the socket does not accept at once when a sender flushes. The thread that
//! finds the link broken shuts the socket down and records the reason, and the reader reports it: so the loss of a
//! link is reported exactly once, and by one thread.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use herdsman_proto::QuorumPacket;
use herdsman_zab::{Input, LearnerPort, LinkId};
use parking_lot::Mutex;
use tracing::debug;

mod fetches;
mod link;
mod reader;
mod traffic;
mod writer;

use super::connection_slots::{ConnectionSlot, ConnectionSlots, ServerLimits};
use super::context::{Context, NoDelay};
use super::incoming::Incoming;
use super::receiver::{ConnectResult, Receiver, StreamSource};
use super::stream::PeerStream;
use fetches::FetchSlots;
use herdsman_runtime::LimitedLog;
use link::{Ended, Link, Loss, Origin};
use reader::{LinkReader, LinkUsage};
pub use traffic::LinkReport;

/// Limit of accepted links that have not identified themselves.
const UNIDENTIFIED_MAX: usize = 32;
/// Limits of accepted links by claimed server. A member has one, or two if it reconnects before the first is
/// known to be lost; the rest are for other hosts that claim to be this member.
pub(super) const SERVER_LIMITS: ServerLimits = ServerLimits { per_member_max: 4, unlisted_max: 32 };
/// Size of a link's read buffer.
pub(crate) const ROOM_BYTES: usize = 64 * 1024;

pub(crate) struct Links {
    context: Arc<Context>,
    table: Mutex<BTreeMap<LinkId, Arc<Link>>>,
    next_id: AtomicU64,
    slots: Arc<ConnectionSlots>,
    fetch_slots: Arc<FetchSlots>,
    warnings: LimitedLog,
    losses: LimitedLog,
}

impl Links {
    pub fn new(context: Arc<Context>) -> Self {
        Links {
            context,
            table: Mutex::default(),
            next_id: AtomicU64::new(1),
            slots: Arc::default(),
            fetch_slots: Arc::default(),
            warnings: LimitedLog::default(),
            losses: LimitedLog::default(),
        }
    }

    /// Returns a new link id.
    pub fn next_id(&self) -> LinkId {
        LinkId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    fn get(&self, id: LinkId) -> Option<Arc<Link>> {
        self.table.lock().get(&id).cloned()
    }

    pub fn send(&self, id: LinkId, packet: &QuorumPacket) {
        if let Some(link) = self.get(id) {
            link.send(packet);
        }
    }

    /// Flushes queued packets.
    pub fn flush(&self) {
        let unflushed: Vec<_> = {
            let table = self.table.lock();
            table.values().filter(|link| link.take_unflushed()).cloned().collect()
        };
        for link in unflushed {
            link.flush();
        }
    }

    pub fn send_stream(&self, id: LinkId, source: Box<dyn StreamSource>) {
        if let Some(link) = self.get(id) {
            link.send_stream(source);
        }
    }

    pub fn set_idle_limit(&self, id: LinkId, limit_ms: u64) {
        if let Some(link) = self.get(id) {
            link.set_idle_limit(limit_ms);
        }
    }

    pub fn close(&self, id: LinkId) {
        if let Some(link) = self.get(id) {
            link.close();
        }
    }

    /// Marks the learner as synchronizing or synchronized: its link is not closed when there are too many.
    pub fn keep(&self, id: LinkId) {
        if let Some(Origin::Accepted { slot }) = self.get(id).map(|link| link.origin) {
            self.slots.keep(slot);
        }
    }

    pub fn report_of(&self, id: LinkId) -> Option<LinkReport> {
        self.get(id).map(|link| link.report())
    }

    pub fn reset_counters(&self) {
        for link in self.table.lock().values() {
            link.traffic.reset();
        }
    }

    /// Wakes all threads that wait for something to write.
    pub fn wake(&self) {
        for link in self.table.lock().values() {
            link.wake();
        }
    }

    /// Handles a new connection to a learner port.
    pub fn accept(self: &Arc<Self>, port: LearnerPort, stream: TcpStream, peer: SocketAddr) {
        let Some(receiver) = self.context.receiver() else { return };
        let socket = Arc::new(stream);
        self.context.threads.watch(&socket);
        let ServerLimits { per_member_max, unlisted_max } = SERVER_LIMITS;
        // A link in use does not count as a mere claim.
        let per_member_max = per_member_max + 1;
        let members = self.context.membership().members.len();
        let connections_max = members * per_member_max + unlisted_max + UNIDENTIFIED_MAX;
        let Some(slot) = self.slots.take(&socket, peer, connections_max) else { return };
        self.context.set_options(&socket, NoDelay::from(self.context.settings.leader_no_delay));
        let id = self.next_id();
        let links = Arc::clone(self);
        let run = move || {
            debug!("link {} is from {peer}", id.0);
            match links.handshake(socket, peer) {
                Ok(incoming) => links.run_accepted(id, port, incoming, peer, slot, &receiver),
                Err(problem) => links.complain(peer, &problem),
            }
        };
        if let Err(error) = self.context.threads.spawn(format!("link-{}", id.0), run) {
            self.warnings
                .warn(format_args!("cannot start a thread for a learner at {peer}: {error}"));
        }
    }

    /// Does the TLS handshake and the login of a new connection.
    fn handshake(&self, socket: Arc<TcpStream>, peer: SocketAddr) -> io::Result<Incoming> {
        let by = Instant::now() + self.context.settings.init_limit;
        let stream = self.context.protect(socket, peer, by)?;
        let mut incoming = Incoming::new(Arc::new(stream), ROOM_BYTES);
        let members = self.context.membership();
        self.context.settings.protection.check_login(&mut incoming, &members, by)?;
        Ok(incoming)
    }

    fn complain(&self, peer: SocketAddr, problem: &io::Error) {
        if problem.kind() == io::ErrorKind::UnexpectedEof {
            // Port probes end like this.
            debug!("connection to the learner port from {peer} closed without data");
            return;
        }
        self.warnings
            .warn(format_args!("closed connection to the learner port from {peer}: {problem}"));
    }

    fn run_accepted(
        &self,
        id: LinkId,
        port: LearnerPort,
        incoming: Incoming,
        peer: SocketAddr,
        slot: ConnectionSlot,
        receiver: &Arc<dyn Receiver>,
    ) {
        let stream = Arc::clone(incoming.stream());
        if let Some(link) = self.open(id, stream, peer, Some(&slot)) {
            self.run(&link, incoming, Some(slot), LinkUsage::Undecided(port), receiver);
        }
    }

    /// Serves a connection that `connect` has opened, until it ends.
    pub fn run_connected(&self, id: LinkId, incoming: Incoming, receiver: &Arc<dyn Receiver>) {
        let stream = Arc::clone(incoming.stream());
        let no_delay = NoDelay::from(self.context.settings.follower_no_delay);
        self.context.set_options(stream.socket(), no_delay);
        let link = match stream.socket().peer_addr() {
            Ok(peer) => self.open(id, stream, peer, None),
            // Not fatal: the connection was reset already.
            Err(_) => None,
        };
        let Some(link) = link else {
            receiver.handle_connect(id, ConnectResult::Failed);
            return;
        };
        debug!("link {} is connected to {}", id.0, link.peer);
        receiver.handle_connect(id, ConnectResult::Connected);
        self.run(&link, incoming, None, LinkUsage::Agreement, receiver);
    }

    /// Registers a link and starts its writer.
    fn open(
        &self,
        id: LinkId,
        stream: Arc<PeerStream>,
        peer: SocketAddr,
        slot: Option<&ConnectionSlot>,
    ) -> Option<Arc<Link>> {
        let origin = match slot {
            Some(slot) => Origin::Accepted { slot: slot.id() },
            None => Origin::Connected,
        };
        let link = Arc::new(Link::new(id, stream, peer, origin, &self.context.settings));
        self.table.lock().insert(id, Arc::clone(&link));
        let (context, writing) = (Arc::clone(&self.context), Arc::clone(&link));
        let write = move || writer::run(&writing, &context.threads);
        match self.context.threads.spawn(format!("link-{}-out", id.0), write) {
            Ok(()) => Some(link),
            Err(error) => {
                self.warnings
                    .warn(format_args!("cannot start a thread to write to {peer}: {error}"));
                self.table.lock().remove(&id);
                None
            }
        }
    }

    /// Reads until the link ends, and reports that unless it was closed here.
    fn run(
        &self,
        link: &Arc<Link>,
        incoming: Incoming,
        slot: Option<ConnectionSlot>,
        usage: LinkUsage,
        receiver: &Arc<dyn Receiver>,
    ) {
        let (link, context) = (Arc::clone(link), Arc::clone(&self.context));
        let receiver = Arc::clone(receiver);
        let usage = (usage, Arc::clone(&self.fetch_slots));
        let mut reader = LinkReader::new(
            Arc::clone(&link),
            incoming,
            slot,
            context,
            Arc::clone(&receiver),
            usage,
        );
        let loss = reader.run();
        match link.end(loss) {
            Ended::Closed { by } => reader.drain(by),
            Ended::Lost(loss) if self.context.threads.is_stopping() => debug!("{loss}"),
            Ended::Lost(loss) => {
                self.report(&link, &loss, &reader);
                if reader.is_announced() {
                    receiver.handle(&mut vec![Input::LinkLost { link: link.id }]);
                }
            }
        }
        link.shut_down();
        self.table.lock().remove(&link.id);
    }

    fn report(&self, link: &Link, loss: &Loss, reader: &LinkReader) {
        let peer = link.peer;
        if let (Loss::Ended, false) = (loss, reader.is_announced()) {
            // Port probes end like this, and so do servers that have fetched all their missing records.
            debug!("connection to the learner port from {peer} closed");
        } else if link.origin == Origin::Connected {
            self.losses.warn(format_args!("lost the link to the leader at {peer}: {loss}"));
        } else if let Some(server) = reader.server() {
            // A server that cannot join reconnects several times a second.
            self.losses.warn(format_args!("lost the link to server {server} at {peer}: {loss}"));
        } else if let Loss::IdentityMismatch(problem) = loss {
            self.complain(peer, problem);
        } else {
            // Any host can trigger this line.
            self.warnings.warn(format_args!(
                "closed connection to the learner port from {peer} before a valid first packet: {loss}"
            ));
        }
    }
}
