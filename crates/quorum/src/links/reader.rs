//! Reads what comes in on one link: packets, as many at a time as are there, and the tree behind SNAP.

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

/// How often a reader that waits for the other side looks whether it should go on.
const LOOK: Duration = Duration::from_millis(250);

pub(super) struct LinkReader {
    link: Arc<Link>,
    context: Arc<Context>,
    receiver: Arc<dyn Receiver>,
    incoming: Incoming,
    /// The next packet has this many bytes at least, so it is not looked at before: to look costs as much as there is
    /// of it, and the other side decides how often bytes come.
    packet_bytes_min: usize,
    inputs: Vec<Input>,
    slot: Option<ConnectionSlot>,
    /// `None` once the first packet is there.
    first_packet_by: Option<Instant>,
    /// Who the other side says that it is.
    server: Option<ServerId>,
    usage: LinkUsage,
    fetch_slots: Arc<FetchSlots>,
}

/// What a link is used for; the first packet decides. Agreement learns of a link only when it is one of its own: a
/// server that does not lead would close it, and one that fetches records may connect to any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkUsage {
    /// Nothing was received yet on a link that was accepted at this port.
    Undecided(LearnerPort),
    /// Agreement knows the link.
    Agreement,
    /// The other side fetches records.
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

    /// Whether agreement knows the link.
    pub fn is_announced(&self) -> bool {
        self.usage == LinkUsage::Agreement
    }

    /// The learner at the other side, if it has introduced itself.
    pub fn server(&self) -> Option<ServerId> {
        self.server
    }

    /// Reads until there is a reason not to.
    pub fn run(&mut self) -> Loss {
        loop {
            let read = self.read_packets();
            // What was understood before something went wrong did happen.
            self.deliver();
            let waited = read.and_then(|()| self.wait_for_room()).and_then(|()| self.wait());
            if let Err(loss) = waited {
                return loss;
            }
        }
    }

    /// Takes all whole packets out of the buffer.
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

    /// The other side says who it is, which anybody can say. It gets one of the places that there are for it.
    fn introduce(&mut self, server: ServerId) -> Result<(), Loss> {
        if self.server.replace(server).is_some() {
            return Ok(());
        }
        let membership = self.context.membership();
        if self.is_accepted() {
            let protection = &self.context.settings.protection;
            let checked = protection.check_caller(self.incoming.stream(), server, &membership);
            checked.map_err(Loss::Impostor)?;
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
            // A tree takes memory without limit. Only the leader that this server chose may ask for it.
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

    /// Lets agreement know of the link.
    fn announce(&mut self) {
        if let LinkUsage::Undecided(port) = self.usage {
            self.usage = LinkUsage::Agreement;
            self.inputs.push(Input::LinkOpened { link: self.link.id, port });
        }
    }

    /// Sends records of the log to another member. Nothing else is read meanwhile.
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

    /// While this server catches up, a leader is read only as fast as the disk takes what it sends. After that its link
    /// is lost if the disk is too far behind: clients go to other servers then, and none of their sessions expires.
    fn wait_for_room(&self) -> Result<(), Loss> {
        if self.is_accepted() {
            return Ok(());
        }
        // The receiver has to hear well before the link would count as silent.
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

    /// Waits for bytes, no longer than the link may be idle. A learner that has introduced itself may be silent for as
    /// long as agreement lets it: while it takes a large tree, it has nothing to say.
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
                // Only waiting counts: when this process itself stood still, the peer is not to blame.
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

    /// A learner speaks first. One that sends a byte now and then is not idle, but late. On a link
    /// that was opened here the other side may have to wait for others first.
    fn is_first_packet_late(&self) -> bool {
        self.is_accepted() && self.first_packet_by.is_some_and(|by| Instant::now() >= by)
    }

    /// The link is closed: lets the other side read what is on its way and close too.
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

/// The bytes behind SNAP.
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
