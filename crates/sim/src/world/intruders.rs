//! A host that is no member, on the ports between servers: it introduces itself with any number and any epoch, sends
//! packets that make no sense there, and votes.
//!
//! It does not do all that a voter does. Who acknowledges what it has not logged, with a voter's number, can lose
//! what it has acknowledged; only TLS or SASL between servers keep such a host out.

use herdsman_proto::quorum::fetch::FetchRequest;
use herdsman_proto::quorum::{LearnerInfo, PROTOCOL_VERSION};
use herdsman_proto::{
    EPOCH_MAX, JuteReader, LearnerKind, Notification, QuorumPacket, ServerId, ServerState,
    SessionId, Vote, Zxid,
};
use herdsman_zab::{Input, LearnerPort, LinkId, Zab};

use super::{Event, ServerIndex, World};

/// A number that no member has.
const UNLISTED: ServerId = ServerId(99);
/// A server has so many places for links that have not become learners.
const LINKS_MAX: usize = 8;

impl World {
    /// Lets the intruder come.
    pub fn start_intruders(&mut self) {
        if self.plan.intruders {
            let delay_ms = self.random.between(1, self.plan.tick_ms);
            self.later(delay_ms, Event::Intruder);
        }
    }

    /// It does something, until all is to be well.
    pub(super) fn intruder_acts(&mut self) {
        if self.fault_state.is_calm() {
            return self.end_intruders();
        }
        self.start_intruders();
        let links: Vec<_> = self.intruders.keys().copied().collect();
        match self.random.below(10) {
            0..3 if links.len() < LINKS_MAX => self.intruder_connects(),
            3 if !links.is_empty() => {
                let link = *self.random.pick(&links);
                self.intruder_leaves(link);
            }
            4 => self.intruder_votes(),
            5 if self.random.per_mille(300) => self.intruder_fetches(),
            _ if !links.is_empty() => {
                let link = *self.random.pick(&links);
                self.intruder_sends(link);
            }
            _ => {}
        }
    }

    fn intruder_connects(&mut self) {
        let Some(place) = self.some_running_server() else { return };
        let link = LinkId(self.fresh_id());
        let port = *self.random.pick(&[
            LearnerPort::Quorum,
            LearnerPort::Quorum,
            LearnerPort::ObserverMaster,
        ]);
        self.intruders.insert(link, place);
        self.note(|| format!("an intruder connects to {place} by link {}", link.0));
        self.step_peer(place, Input::LinkOpened { link, port });
        if self.intruders.contains_key(&link) {
            let packet = self.some_introduction(place);
            self.intruder_says(link, &packet);
        }
    }

    fn intruder_sends(&mut self, link: LinkId) {
        let place = self.intruders[&link];
        let zxid = self.some_zxid(place);
        let session = SessionId(self.random.draw() as i64);
        let epoch = zxid.epoch();
        let body = bytes::Bytes::from_static(b"garbage");
        let packet = match self.random.below(12) {
            0..3 => self.some_introduction(place),
            3..5 => QuorumPacket::AckEpoch { last_zxid: zxid, current_epoch: Some(epoch) },
            5 => QuorumPacket::AckEpoch { last_zxid: zxid, current_epoch: None },
            // Of no epoch that is led.
            6 => QuorumPacket::Ack { zxid: Zxid::start_of(EPOCH_MAX - 1) },
            7 => QuorumPacket::Proposal { zxid, payload: body },
            8 => QuorumPacket::Commit { zxid },
            9 => QuorumPacket::Revalidate { session, timeout_ms: 1000 },
            10 => QuorumPacket::Fetch(FetchRequest {
                from: self.some_number(),
                after: Zxid::ZERO,
                before: zxid,
            }),
            _ => QuorumPacket::LeaderInfo { epoch, protocol_version: PROTOCOL_VERSION },
        };
        self.intruder_says(link, &packet);
    }

    /// Some of what it says is garbled.
    fn intruder_says(&mut self, link: LinkId, packet: &QuorumPacket) {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        if self.random.per_mille(200) {
            let index = self.random.index(bytes.len());
            bytes[index] ^= 1 << self.random.index(8);
        }
        let place = self.intruders[&link];
        match QuorumPacket::decode(&mut JuteReader::new(&bytes)) {
            // Not what would lose an acknowledged write.
            Ok(QuorumPacket::Ack { zxid }) if zxid.epoch() != EPOCH_MAX - 1 => {}
            // The reader of a link that agreement knows does not pass it on.
            Ok(QuorumPacket::Fetch(_)) => self.intruder_leaves(link),
            Ok(packet) => {
                self.note(|| format!("{place} gets {packet:?} of an intruder on link {}", link.0));
                self.step_peer(place, Input::Packet { link, packet });
            }
            Err(_) => self.intruder_leaves(link),
        }
    }

    /// It reads records on a link of its own, which only the reader of that link knows.
    fn intruder_fetches(&mut self) {
        let Some(place) = self.some_running_server() else { return };
        let zxids = [self.some_zxid(place), self.some_zxid(place)];
        let (after, before) = (zxids[0].min(zxids[1]), zxids[0].max(zxids[1]));
        self.note(|| format!("{place} is asked by an intruder for records after {after}"));
        if let Ok(mut records) = self.servers[place].storage.records(after, before) {
            while let Ok(Some(_)) = records.next_record() {}
        }
    }

    fn intruder_votes(&mut self) {
        let Some(place) = self.some_running_server() else { return };
        let zxid = self.some_zxid(place);
        let states = [ServerState::Looking, ServerState::Following, ServerState::Leading];
        let state = *self.random.pick(&states);
        let leader = self.some_number();
        let vote = Vote { leader, zxid, epoch: i64::from(zxid.epoch()) };
        let round = self.random.below(1 << 20) as i64;
        let message = Notification { state, vote, round, config: String::new() };
        self.step_peer(place, Input::Notification { from: UNLISTED, message });
    }

    fn intruder_leaves(&mut self, link: LinkId) {
        if let Some(place) = self.intruders.remove(&link) {
            self.step_peer(place, Input::LinkLost { link });
        }
    }

    fn end_intruders(&mut self) {
        let links: Vec<_> = self.intruders.keys().copied().collect();
        for link in links {
            self.intruder_leaves(link);
        }
    }

    fn some_introduction(&mut self, place: ServerIndex) -> QuorumPacket {
        let kind = *self.random.pick(&[LearnerKind::Follower, LearnerKind::Observer]);
        let server = self.some_number();
        let info = LearnerInfo { server, protocol_version: PROTOCOL_VERSION, config_version: 0 };
        let accepted_epoch = self.some_zxid(place).epoch();
        QuorumPacket::Info { kind, accepted_epoch, info: Some(info) }
    }

    fn some_number(&mut self) -> ServerId {
        let member = self.random.index(self.servers.len());
        if self.random.per_mille(300) { UNLISTED } else { self.servers[member].id }
    }

    /// One that a server of this one's epoch might name, or that is far beyond.
    fn some_zxid(&mut self, place: ServerIndex) -> Zxid {
        let zab = self.servers[place].process.as_ref().and_then(|process| process.node.zab());
        let epoch = zab.map(Zab::epochs).map_or(0, |epochs| epochs.accepted);
        let epoch = match self.random.below(10) {
            0..4 => epoch,
            4..6 => epoch + 1,
            6 => epoch.saturating_sub(1),
            7 => epoch + (1 << 16) + 1,
            8 => 1 << 30,
            _ => EPOCH_MAX - 1,
        };
        Zxid(Zxid::start_of(epoch).0 | self.random.below(1000) as i64)
    }

    fn some_running_server(&mut self) -> Option<ServerIndex> {
        let place = self.random.index(self.servers.len());
        let server = &self.servers[place];
        (server.process.is_some() && server.stopped_until_ms.is_none()).then_some(place)
    }
}
