//! What servers tell each other: votes, which may be lost, and links, which keep their order or break.
//!
//! Everything goes through the real codec. While the way between two servers is blocked, what is on a link
//! stalls, as in TCP, until the way is free again or somebody gives up.

use herdsman_proto::{JuteReader, Notification, QuorumPacket, ServerId, ServerState, Zxid};
use herdsman_store::receive_snapshot;
use herdsman_zab::{Input, LearnerPort, LinkId};

use super::pipe::Pipe;
use super::sending::Sending;
use super::{Event, Mirror, Process, ServerIndex, World};

/// How often a server tries to connect, and how long it waits in between.
const DIAL_TRIES: u64 = 5;
const DIAL_GAP_MS: u64 = 100;
/// The epoch in an exaggerated vote.
const EXAGGERATED_EPOCH: i64 = 1 << 20;
/// No field of a tree may be longer.
const FIELD_BYTES_MAX: usize = 1 << 20;

/// One piece of a stream.
#[derive(Clone, Debug)]
pub enum Message {
    /// A packet.
    Packet(Vec<u8>),
    /// A piece of a tree.
    Tree(Vec<u8>),
    /// The last piece; and for the world's memory, what the sender had logged.
    TreeEnd(Vec<u8>, Mirror),
    /// The other end has closed, or crashed.
    End,
}

/// One end of a link.
#[derive(Debug)]
pub(super) struct End {
    pub(super) place: ServerIndex,
    pub(super) life: u64,
    pub(super) open: bool,
    /// A tree being received: the zxid of its SNAP, and its bytes so far.
    receiving: Option<(Zxid, Vec<u8>)>,
}

/// A connection between two servers: end 0 has made it.
pub struct Link {
    pub(super) ends: [End; 2],
    /// What each end has sent.
    pipes: [Pipe<Message>; 2],
    /// A tree or a part of the log that is being sent by end 1.
    pub(super) sending: Option<Sending>,
    broken: bool,
    /// It broke while a tree was sent: whoever writes notices it, even if nothing comes through.
    broken_while_sending: bool,
}

impl Link {
    /// Who gets what an end has sent, as long as he is there.
    pub(super) fn receiver(&self, from_end: usize) -> Option<ServerIndex> {
        let end = &self.ends[1 - from_end];
        end.open.then_some(end.place)
    }
}

impl World {
    pub(super) fn send_vote(&mut self, place: ServerIndex, to: ServerId, message: &Notification) {
        let Some(to) = self.place_of(to) else { return };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        // A newer one takes the place of one that is not out yet.
        if self.votes.insert((place, to), bytes).is_none() {
            let delay_ms = self.latency_ms();
            self.later(delay_ms, Event::Vote { from: place, to });
        }
    }

    pub(super) fn vote_arrives(&mut self, from: ServerIndex, to: ServerIndex) {
        let Some(bytes) = self.votes.remove(&(from, to)) else { return };
        let lost = self.random.per_mille(self.loss_per_mille());
        if lost || self.blocked.contains(&(from, to)) || self.servers[to].process.is_none() {
            return;
        }
        let mut message = Notification::decode(&bytes).expect("our own words");
        if self.favourite().is_some_and(|place| self.servers[place].id == message.vote.leader)
            && message.state == ServerState::Looking
        {
            message.vote.epoch = EXAGGERATED_EPOCH;
        }
        self.note(|| {
            let vote = message.vote;
            format!(
                "{to} hears {:?} {} {} {} from {from}",
                message.state, vote.leader, vote.zxid, vote.epoch
            )
        });
        let from = self.servers[from].id;
        self.step_peer(to, Input::Notification { from, message });
    }

    pub(super) fn request_connect(
        &mut self,
        place: ServerIndex,
        process: &mut Process,
        to: ServerId,
        port: LearnerPort,
    ) {
        process.connect_attempt += 1;
        let Some(to) = self.place_of(to) else { return };
        let (life, connect_attempt) = (self.servers[place].life, (process.connect_attempt, port));
        let delay_ms = self.latency_ms();
        self.later(delay_ms, Event::Dial { place, life, to, connect_attempt, tries: 0 });
    }

    pub(super) fn dial(
        &mut self,
        place: ServerIndex,
        life: u64,
        to: ServerIndex,
        connect_attempt: (u64, LearnerPort),
        tries: u64,
    ) {
        let wanted = self.servers[place]
            .process
            .as_ref()
            .is_some_and(|p| p.connect_attempt == connect_attempt.0);
        if !wanted || !self.alive(place, life) {
            return;
        }
        let reachable =
            !self.blocked.contains(&(place, to)) && !self.blocked.contains(&(to, place));
        if reachable && self.servers[to].process.is_some() {
            return self.open_link(place, to, connect_attempt.1);
        }
        if tries + 1 < DIAL_TRIES {
            let tries = tries + 1;
            self.later(DIAL_GAP_MS, Event::Dial { place, life, to, connect_attempt, tries });
        } else {
            self.step_peer(place, Input::ConnectFailed);
        }
    }

    fn open_link(&mut self, place: ServerIndex, to: ServerIndex, port: LearnerPort) {
        let link = LinkId(self.fresh_id());
        let end = |place: ServerIndex| End {
            place,
            life: self.servers[place].life,
            open: true,
            receiving: None,
        };
        let ends = [end(place), end(to)];
        let pipes = [Pipe::default(), Pipe::default()];
        self.links.insert(
            link,
            Link { ends, pipes, sending: None, broken: false, broken_while_sending: false },
        );
        self.note(|| format!("{place} connects to {to} by link {}", link.0));
        self.step_peer(to, Input::LinkOpened { link, port });
        self.step_peer(place, Input::Connected { link });
    }

    pub(super) fn send_packet(&mut self, place: ServerIndex, link: LinkId, packet: &QuorumPacket) {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        self.send_message(place, link, Message::Packet(bytes));
    }

    fn send_message(&mut self, place: ServerIndex, link: LinkId, message: Message) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        let Some(end) = entry.ends.iter().position(|end| end.place == place && end.open) else {
            return;
        };
        if let Some(sending) = &mut entry.sending
            && end == 1
        {
            return sending.held.push_back(message);
        }
        self.put(link, end, message);
    }

    pub(super) fn put(&mut self, link: LinkId, end: usize, message: Message) {
        let at_ms = self.now_ms + self.latency_ms();
        let Some(entry) = self.links.get_mut(&link) else { return };
        if !entry.broken {
            let at_ms = entry.pipes[end].push(at_ms, message);
            self.at(at_ms, Event::Arrive { link, from_end: end });
        }
    }

    pub(super) fn arrive(&mut self, link: LinkId, from_end: usize) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        let (from, to) = (entry.ends[from_end].place, entry.ends[1 - from_end].place);
        let noticed = entry.broken_while_sending && from_end == 0;
        if self.blocked.contains(&(from, to)) && !noticed {
            return;
        }
        let Some(message) = entry.pipes[from_end].pop(self.now_ms) else { return };
        let end = &mut entry.ends[1 - from_end];
        let alive = self.servers[to].life == end.life && self.servers[to].process.is_some();
        if !end.open || !alive {
            return self.forget_link_if_over(link);
        }
        match message {
            Message::Packet(bytes) => self.packet_arrives(link, to, 1 - from_end, &bytes),
            Message::Tree(piece) => {
                if let Some((_, bytes)) = &mut end.receiving {
                    bytes.extend_from_slice(&piece);
                    self.step_peer(to, Input::Heard { link });
                }
            }
            Message::TreeEnd(piece, mirror) => {
                if let Some((zxid, mut bytes)) = end.receiving.take() {
                    bytes.extend_from_slice(&piece);
                    self.tree_arrives(link, to, zxid, &bytes, mirror);
                }
            }
            Message::End => {
                end.open = false;
                self.note(|| format!("{to} loses link {}", link.0));
                self.step_peer(to, Input::LinkLost { link });
                self.forget_link_if_over(link);
            }
        }
    }

    fn packet_arrives(&mut self, link: LinkId, to: ServerIndex, end: usize, bytes: &[u8]) {
        self.mix(crate::chronicle::fingerprint(bytes));
        let packet = QuorumPacket::decode(&mut JuteReader::new(bytes)).expect("our own words");
        self.note(|| format!("{to} gets {packet:?} on link {}", link.0));
        if let QuorumPacket::Snap { zxid } = packet
            && let Some(entry) = self.links.get_mut(&link)
        {
            entry.ends[end].receiving = Some((zxid, Vec::new()));
            return;
        }
        self.step_peer(to, Input::Packet { link, packet });
    }

    fn tree_arrives(
        &mut self,
        link: LinkId,
        to: ServerIndex,
        zxid: Zxid,
        bytes: &[u8],
        mirror: Mirror,
    ) {
        let options = self.plan.tree_options();
        let received = receive_snapshot(&mut &bytes[..], zxid, options, FIELD_BYTES_MAX);
        let received = received.expect("a tree that a server of ours has sent");
        if let Some(process) = &mut self.servers[to].process {
            process.received.insert(link, (received.tree, mirror));
        }
        self.step_peer(to, Input::Packet { link, packet: QuorumPacket::Snap { zxid } });
    }

    pub(super) fn close_link(&mut self, place: ServerIndex, link: LinkId) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        let Some(end) = entry.ends.iter().position(|end| end.place == place && end.open) else {
            return;
        };
        entry.ends[end].open = false;
        if end == 1 {
            entry.sending = None;
        }
        self.put(link, end, Message::End);
        self.forget_link_if_over(link);
    }

    /// A server has crashed: what it sent last may or may not be on its way.
    pub(super) fn lose_links_of(&mut self, place: ServerIndex) {
        self.intruders.retain(|_, other| *other != place);
        let links: Vec<_> = self.links.keys().copied().collect();
        for link in links {
            for end in 0..2 {
                let Some(entry) = self.links.get_mut(&link) else { break };
                if entry.ends[end].place == place && entry.ends[end].open {
                    entry.ends[end].open = false;
                    if end == 1 {
                        entry.sending = None;
                    }
                    let kept = self.random.index(entry.pipes[end].len() + 1);
                    entry.pipes[end].lose_after(kept);
                    self.put(link, end, Message::End);
                }
            }
            self.forget_link_if_over(link);
        }
    }

    /// A link breaks: part of what is on its way is lost, and both ends notice some time.
    pub(super) fn break_link(&mut self, link: LinkId) {
        self.note(|| format!("link {} breaks", link.0));
        let sending = self.links.get(&link).is_some_and(|entry| entry.sending.is_some());
        for end in 0..2 {
            let Some(entry) = self.links.get_mut(&link) else { return };
            let kept = self.random.index(entry.pipes[end].len() + 1);
            entry.pipes[end].lose_after(if sending && end == 0 { 0 } else { kept });
            if end == 1 {
                entry.sending = None;
            }
            self.put(link, end, Message::End);
        }
        if let Some(entry) = self.links.get_mut(&link) {
            entry.broken = true;
            entry.broken_while_sending = sending;
        }
    }

    /// The links that stand.
    pub(super) fn open_links(&self) -> Vec<(LinkId, ServerIndex, ServerIndex)> {
        let open = self.links.iter().filter(|(_, link)| !link.broken);
        open.map(|(id, link)| (*id, link.ends[0].place, link.ends[1].place)).collect()
    }

    /// What was stalled moves again.
    pub(super) fn unblock(&mut self) {
        self.blocked.clear();
        let links: Vec<_> = self.links.keys().copied().collect();
        for link in links {
            for end in 0..2 {
                let waiting = self.links.get(&link).map_or(0, |entry| entry.pipes[end].len());
                for _ in 0..waiting {
                    self.at(self.now_ms, Event::Arrive { link, from_end: end });
                }
            }
        }
    }

    fn forget_link_if_over(&mut self, link: LinkId) {
        if self.links.get(&link).is_some_and(|entry| entry.ends.iter().all(|end| !end.open)) {
            self.links.remove(&link);
        }
    }
}
