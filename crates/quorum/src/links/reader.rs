//! Reads one link: packets, as many at a time as were received, and the tree after SNAP.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use herdsman_proto::quorum::fetch::FetchRequest;
use herdsman_proto::{DecodeError, JuteReader, QuorumPacket, ServerId};
use herdsman_zab::{Input, LearnerPort};

use super::SERVER_LIMITS;
use super::fetches::{self, FetchSlots};
use super::link::{Link, Loss, Origin};
use crate::connection_slots::ConnectionSlot;
use crate::context::Context;
use crate::incoming::{Fill, Incoming};
use crate::receiver::{ReadPermission, Receiver};
use herdsman_runtime::millis;

/// How often a waiting reader checks whether it should stop.
const LOOK: Duration = Duration::from_millis(250);

pub(super) struct LinkReader {
    link: Arc<Link>,
    context: Arc<Context>,
    receiver: Arc<dyn Receiver>,
    incoming: Incoming,
    /// The minimum size of the next packet, which is not decoded before: an attempt costs as much as there is
    /// of it, and the peer decides how often bytes arrive.
    packet_bytes_min: usize,
    inputs: Vec<Input>,
    slot: Option<ConnectionSlot>,
    /// `None` once the first packet was received.
    first_packet_by: Option<Instant>,
    /// The id that the peer claims to have.
    server: Option<ServerId>,
    usage: LinkUsage,
    fetch_slots: Arc<FetchSlots>,
}

/// What a link is used for, which the first packet decides. Other links are not announced to the protocol core: a
/// server that does not lead would close them, and one that fetches records may connect to any server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkUsage {
    /// Nothing was received yet on a link that was accepted at this port.
    Undecided(LearnerPort),
    /// The protocol core knows the link.
    Agreement,
    /// The peer fetches records.
    Fetching,
}

impl LinkReader {
    pub fn new(
        link: Arc<Link>,
        incoming: Incoming,
        slot: Option<ConnectionSlot>,
        context: Arc<Context>,
        receiver: Arc<dyn Receiver>,
        (usage, fetch_slots): (LinkUsage, Arc<FetchSlots>),
    ) -> Self {
        let first_packet_by = Some(Instant::now() + context.settings.init_limit);
        LinkReader {
            link,
            context,
            receiver,
            incoming,
            packet_bytes_min: 0,
            inputs: Vec::new(),
            slot,
            first_packet_by,
            server: None,
            usage,
            fetch_slots,
        }
    }

    /// Whether the protocol core knows the link.
    pub fn is_announced(&self) -> bool {
        self.usage == LinkUsage::Agreement
    }

    /// The id of the learner, if it has introduced itself.
    pub fn server(&self) -> Option<ServerId> {
        self.server
    }

    /// Reads until the link ends, and returns why.
    pub fn run(&mut self) -> Loss {
        loop {
            let read = self.read_packets();
            // Packets that were decoded before the error are delivered.
            self.deliver();
            let waited = read.and_then(|()| self.wait_for_room()).and_then(|()| self.wait());
            if let Err(loss) = waited {
                return loss;
            }
        }
    }

    /// Decodes all complete packets of the buffer.
    fn read_packets(&mut self) -> Result<(), Loss> {
        let field_bytes_max = self.context.settings.field_bytes_max;
        loop {
            let bytes = self.incoming.bytes();
            if bytes.len() < self.packet_bytes_min {
                return Ok(());
            }
            let mut reader = JuteReader::with_limit(bytes, field_bytes_max);
            match QuorumPacket::decode(&mut reader) {
                Ok(packet) => {
                    let packet_bytes = bytes.len() - reader.rest().len();
                    self.incoming.consume(packet_bytes);
                    self.packet_bytes_min = 0;
                    self.first_packet_by = None;
                    self.take(packet)?;
                }
                Err(DecodeError::Truncated { wanted, available }) => {
                    let packet_bytes_max = QuorumPacket::bytes_max(field_bytes_max);
                    self.packet_bytes_min = bytes.len().saturating_add(wanted - available);
                    if self.packet_bytes_min > packet_bytes_max {
                        return Err(Loss::PacketTooLong(packet_bytes_max));
                    }
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_accepted(&self) -> bool {
        matches!(self.link.origin, Origin::Accepted { .. })
    }

    /// Handles the claimed id of the peer, which any host can claim, and takes a slot for it.
    fn introduce(&mut self, server: ServerId) -> Result<(), Loss> {
        if self.server.replace(server).is_some() {
            return Ok(());
        }
        let membership = self.context.membership();
        if self.is_accepted() {
            let protection = &self.context.settings.protection;
            let checked = protection.check_caller(self.incoming.stream(), server, &membership);
            checked.map_err(Loss::IdentityMismatch)?;
        }
        let Some(slot) = &self.slot else { return Ok(()) };
        if membership.members.contains_key(&server) {
            slot.claim(server, SERVER_LIMITS);
        } else if !slot.claim_unlisted(SERVER_LIMITS) {
            return Err(Loss::TooManyUnlisted(SERVER_LIMITS.unlisted_max));
        }
        Ok(())
    }

    fn take(&mut self, packet: QuorumPacket) -> Result<(), Loss> {
        self.link.traffic.count_received(&packet);
        if let QuorumPacket::Fetch(request) = packet {
            return self.serve_fetch(request);
        }
        let is_from_server =
            matches!(packet, QuorumPacket::Record { .. } | QuorumPacket::Fetched(_));
        if is_from_server || self.usage == LinkUsage::Fetching {
            return Err(Loss::UnexpectedFetch);
        }
        self.announce();
        if let QuorumPacket::Info { info: Some(info), .. } = &packet {
            self.introduce(info.server)?;
        }
        if let QuorumPacket::Snap { zxid } = packet {
            // The size of a tree is not limited, so only the leader that this server chose may send one.
            if self.is_accepted() {
                return Err(Loss::TreeFromLearner);
            }
            self.deliver();
            let receiver = Arc::clone(&self.receiver);
            let link = self.link.id;
            receiver.receive_tree(link, zxid, &mut TreeInput(self)).map_err(Loss::Tree)?;
        }
        self.inputs.push(Input::Packet { link: self.link.id, packet });
        Ok(())
    }

    /// Announces the link to the protocol core.
    fn announce(&mut self) {
        if let LinkUsage::Undecided(port) = self.usage {
            self.usage = LinkUsage::Agreement;
            self.inputs.push(Input::LinkOpened { link: self.link.id, port });
        }
    }

    /// Sends records of the log to another member. Reads nothing else meanwhile.
    fn serve_fetch(&mut self, request: FetchRequest) -> Result<(), Loss> {
        let is_at_quorum_port =
            matches!(self.usage, LinkUsage::Undecided(LearnerPort::Quorum) | LinkUsage::Fetching);
        let is_same = self.server.is_none_or(|server| server == request.from);
        if !is_at_quorum_port || !is_same {
            return Err(Loss::UnexpectedFetch);
        }
        if !self.context.membership().members.contains_key(&request.from) {
            return Err(Loss::FetchByNonMember(request.from));
        }
        self.introduce(request.from)?;
        self.usage = LinkUsage::Fetching;
        fetches::serve(
            &self.link,
            &self.context.threads,
            &self.fetch_slots,
            &*self.receiver,
            request,
        )
    }

    fn deliver(&mut self) {
        if !self.inputs.is_empty() && self.link.is_open() {
            self.receiver.handle(&mut self.inputs);
        }
        self.inputs.clear();
    }

    /// While this server catches up, it reads the leader's packets only as fast as the disk is. After that the link
    /// is lost if the disk is too far behind: clients then move to other servers, and none of their sessions expires.
    fn wait_for_room(&self) -> Result<(), Loss> {
        if self.is_accepted() {
            return Ok(());
        }
        // The receiver must know well before the link would count as idle.
        let wait = LOOK.min(self.link.idle_limit() / 2);
        loop {
            match self.receiver.wait_for_room(self.link.id, wait) {
                ReadPermission::Free => return Ok(()),
                ReadPermission::Active { queued_bytes } => {
                    let is_behind = queued_bytes > self.context.settings.queue_bytes_max;
                    return if is_behind { Err(Loss::DiskBehind(queued_bytes)) } else { Ok(()) };
                }
                ReadPermission::Full
                    if self.context.threads.is_stopping() || !self.link.is_open() =>
                {
                    return Err(Loss::Closed);
                }
                ReadPermission::Full => {}
            }
        }
    }

    /// Waits for bytes, up to the idle limit of the link. A learner that has introduced itself may be silent for as
    /// long as the protocol core permits: while it receives a large tree, it sends nothing.
    fn wait(&mut self) -> Result<(), Loss> {
        let mut quiet = Duration::ZERO;
        loop {
            if self.context.threads.is_stopping() || !self.link.is_open() {
                return Err(Loss::Closed);
            }
            if self.is_first_packet_late() {
                return Err(Loss::FirstPacketLate);
            }
            let limit = self.link.idle_limit();
            let look = LOOK.min(limit);
            match self.incoming.fill(Some(look))? {
                Fill::Bytes => return Ok(()),
                Fill::End => return Err(Loss::Ended),
                // Only waiting counts: a pause of this process is not the peer's fault.
                Fill::Nothing => quiet += look,
            }
            let may_be_silent = self.usage == LinkUsage::Agreement
                && self.is_accepted()
                && self.first_packet_by.is_none();
            if quiet >= limit && !may_be_silent {
                return Err(Loss::Silent(millis(quiet)));
            }
        }
    }

    /// A learner sends first. One that sends a byte at a time is not idle, but late. On a link
    /// that was opened here, the peer may have to wait for other servers first.
    fn is_first_packet_late(&self) -> bool {
        self.is_accepted() && self.first_packet_by.is_some_and(|by| Instant::now() >= by)
    }

    /// After a close: lets the peer read what was sent and close too.
    pub fn drain(&mut self, by: Instant) {
        while Instant::now() < by && !self.context.threads.is_stopping() {
            match self.incoming.fill(Some(LOOK)) {
                Ok(Fill::Bytes) => self.incoming.consume(self.incoming.bytes().len()),
                Ok(Fill::Nothing) => {}
                Ok(Fill::End) | Err(_) => return,
            }
        }
    }
}

/// The bytes after SNAP.
struct TreeInput<'a>(&'a mut LinkReader);

impl Read for TreeInput<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let TreeInput(reader) = self;
        while reader.incoming.bytes().is_empty() {
            match reader.wait() {
                Ok(()) => {}
                Err(Loss::Ended) => return Ok(0),
                Err(Loss::Io(error)) => return Err(error),
                Err(loss) => return Err(io::Error::other(loss)),
            }
        }
        let count = reader.incoming.bytes().len().min(out.len());
        out[..count].copy_from_slice(&reader.incoming.bytes()[..count]);
        reader.incoming.consume(count);
        Ok(count)
    }
}
