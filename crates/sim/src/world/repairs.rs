//! Servers with damaged logs fetch what they lack from other servers before they take part in anything.
//!
//! What `server::start::repair` does with sockets is done here at once: a server asks one other server at a time for
//! its missing records, which that one reads from its files, whether it runs or is being repaired itself. When all are
//! found, they are spliced into the log, and the server starts. If a leader has a quorum meanwhile, it joins without a
//! vote instead, and takes a tree.

use herdsman_node::ServesAs;
use herdsman_proto::Zxid;
use herdsman_store::repair::{Answer, Damage, Repair};

use super::{Event, Mirror, Server, ServerIndex, World};

/// Writes, syncs and renames of a splice before which the power may fail.
const SPLICE_STEPS_MAX: u64 = 20;

/// More changes of a disk than there are.
pub(super) const NEVER: u64 = 1 << 60;

/// What a server had logged before it joined with unusable files: these are untouched until a tree replaces them.
pub struct SetAside {
    mirror: Mirror,
    flushed: Zxid,
    lost: bool,
}

impl World {
    /// A server finds damage that others may help to repair.
    pub(super) fn begin_repair(&mut self, place: ServerIndex, damage: Damage) {
        self.note(|| format!("{place} has to be repaired: {damage:?}"));
        self.counts.repairs += 1;
        self.servers[place].repair = Some(Repair::new(damage));
        self.later(1, Event::Repair { place });
    }

    /// A server asks another one for what it lacks.
    pub(super) fn repair_step(&mut self, place: ServerIndex) {
        let Some(mut repair) = self.servers[place].repair.take() else { return };
        let peer = self.random.index(self.servers.len());
        if self.can_ask(place, peer) {
            self.ask(peer, &mut repair);
            if repair.is_complete() {
                return self.finish_repair(place, &repair);
            }
            if self.has_quorum(peer) {
                return self.join_without_vote(place);
            }
        }
        self.servers[place].repair = Some(repair);
        let delay_ms = self.random.between(1, self.plan.tick_ms);
        self.later(delay_ms, Event::Repair { place });
    }

    /// Whether a server answers another one: it runs, or is being repaired.
    fn can_ask(&self, place: ServerIndex, peer: ServerIndex) -> bool {
        let is_cut = |pair| self.blocked.contains(&pair);
        let server = &self.servers[peer];
        let is_up = server.process.is_some() || server.repair.is_some();
        place != peer
            && !is_cut((place, peer))
            && !is_cut((peer, place))
            && is_up
            && server.stopped_until_ms.is_none()
    }

    fn ask(&self, peer: ServerIndex, repair: &mut Repair) {
        let server = &self.servers[peer];
        for (after, before) in repair.wanted() {
            let mut offer = repair.offer_of(server.id, (after, before));
            let Ok(mut records) = server.storage.records(after, before) else { continue };
            while let Ok(Some((zxid, payload))) = records.next_record() {
                if !offer.push(zxid, payload) {
                    break;
                }
            }
            let unbroken = records.is_unbroken();
            repair.offer(offer, Answer { unbroken, damaged: Vec::new() });
        }
    }

    /// Whether a server leads with a quorum, or follows such a leader.
    fn has_quorum(&self, place: ServerIndex) -> bool {
        let process = self.servers[place].process.as_ref();
        let role = process.and_then(|process| process.node.serves_as());
        matches!(role, Some(ServesAs::Leader | ServesAs::Follower))
    }

    /// All is found: splices it into the log, and starts. The power may fail meanwhile.
    fn finish_repair(&mut self, place: ServerIndex, repair: &Repair) {
        let storage = self.servers[place].storage.clone();
        let mut cut = self.servers[place].power_fails_in_repair.take();
        if !self.fault_state.is_over() && self.random.per_mille(300) {
            cut = Some(self.random.below(SPLICE_STEPS_MAX));
        }
        if let Some(changes) = cut {
            storage.disk.cut_power_after(changes);
        }
        let spliced = storage.splice(&self.plan, repair);
        storage.disk.cut_power_after(NEVER);
        self.note(|| format!("{place} is repaired: {spliced:?}"));
        // A file that is made anew does not say what came before it.
        self.servers[place].footers_rot = true;
        match spliced {
            Ok(()) => self.start(place),
            Err(_) => {
                self.counts.interrupted_repairs += 1;
                storage.crash(&mut self.random);
                self.later(1000, Event::Start { place });
            }
        }
    }

    /// Joins with files that cannot be used, and that stay as they are until a leader's tree replaces them.
    fn join_without_vote(&mut self, place: ServerIndex) {
        let found = self.servers[place].storage.open_unusable(&self.plan);
        self.note(|| format!("{place} joins without a vote"));
        let server = &mut self.servers[place];
        let (mirror, flushed) = (std::mem::take(&mut server.mirror), server.flushed);
        server.set_aside = Some(SetAside { mirror, flushed, lost: server.lost });
        server.flushed = Zxid::ZERO;
        server.lost = true;
        self.join(place, found);
    }

    /// A server starts again with the damaged files that it had: no tree has replaced them.
    pub(super) fn take_back(&mut self, place: ServerIndex) {
        let server = &mut self.servers[place];
        if let Some(SetAside { mirror, flushed, lost }) = server.set_aside.take() {
            (server.mirror, server.flushed, server.lost) = (mirror, flushed, lost);
        }
    }

    /// Whether no voter has lost something. An observer that keeps its log in memory cannot show that it has all.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        let may_vote = |server: &Server| !server.lost && !server.needs_leader;
        let votes = |server: &Server| server.membership.voters().any(|id| id == server.id);
        self.servers.iter().all(|server| may_vote(server) || !votes(server))
    }

    /// Whether no server waits for records of others.
    #[must_use]
    pub fn is_repaired(&self) -> bool {
        self.servers.iter().all(|server| server.repair.is_none())
    }
}
