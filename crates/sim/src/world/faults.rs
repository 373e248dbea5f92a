//! Things break, and are mended again.
//!
//! Every fault ends: a crashed server is started again, a partition heals, a full disk gets room. How many
//! are under way at a time is not limited, so an ensemble may lose its majority for a while. Damage that can cost a
//! server all it has is the exception: a quorum's disks stay sound. What others can repair may happen to all servers
//! ([`super::rot`]).

use std::collections::BTreeSet;

use herdsman_node::Input;
use herdsman_proto::{ServerState, SessionId, Zxid};
use herdsman_store::dir_bytes;
use herdsman_tree::StepLimit;
use herdsman_tree::sweep::{SweepPosition, SweepTime};
use herdsman_zab::quorum::Electorate;

use super::{Event, Server, ServerIndex, World};
use crate::checkers::Fact;
use crate::client::{Client, Op, Stage};
use crate::plan::WALL_MS;
use crate::storage::Storage;

/// A sync that nobody will live to see.
const NEVER: u64 = 1 << 60;

/// What is broken at the moment.
#[derive(Debug, Default)]
pub struct FaultState {
    over: bool,
    calm: bool,
    favourite: Option<ServerIndex>,
    /// Clients whose sessions ended though nothing was wrong.
    pub expired_in_calm: Vec<(usize, SessionId)>,
}

impl FaultState {
    /// All is well again.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.calm
    }

    /// Nothing more breaks.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }
}

impl FaultState {
    /// Votes for this server are exaggerated.
    pub(super) fn favour(&mut self, place: Option<ServerIndex>) {
        self.favourite = place;
    }
}

impl World {
    /// Lets faults begin.
    pub fn start_faults(&mut self) {
        let delay_ms = self.random.between(1, self.plan.fault_gap_ms);
        self.later(delay_ms, Event::Fault);
    }

    pub(super) fn loss_per_mille(&self) -> u64 {
        if self.fault_state.over { 0 } else { self.plan.loss_per_mille }
    }

    pub(super) fn next_fault(&mut self) {
        if self.fault_state.over {
            return;
        }
        self.start_faults();
        let kinds = self.plan.faults;
        if self.plan.rot_per_mille > 0 && self.random.per_mille(self.plan.rot_per_mille) {
            return self.rot_everywhere();
        }
        let place = self.random.index(self.servers.len());
        match self.random.below(109) {
            0..17 if kinds.crashes => self.crash(place),
            17..25 if kinds.crashes => self.crash_many(),
            25..35 if kinds.crashes => {
                let outputs = self.random.below(40);
                self.servers[place].crash_after = Some(outputs);
            }
            35..50 if kinds.partitions => self.split(),
            50..60 => self.heal_network(),
            // Where links do not break, processes stand still more often.
            60..87 if kinds.pauses && !kinds.breaks => self.stop_some_server(place),
            60..67 if kinds.breaks => self.break_some_link(),
            67..74 if kinds.breaks => self.disturb_client(),
            74..79 if kinds.full_disks => self.change_room(place),
            79..83 if kinds.failed_syncs => {
                let syncs = self.random.below(4);
                self.note(|| format!("{place} will fail a sync"));
                self.servers[place].sync_fails = true;
                self.servers[place].storage.disk.fail_sync(syncs);
                self.restart_some_time(place);
            }
            83..87 if kinds.slow_disks => self.servers[place].slow ^= true,
            87..91 if kinds.lost_disks => self.lose_some_disk(),
            87..91 if kinds.emptied_voters => self.empty_some_voter(),
            87..91 if kinds.rot && self.plan.rots_everywhere() => self.rot_everywhere(),
            87..91 if kinds.rot => self.rot(place),
            91..95 if kinds.pauses => self.stop_some_server(place),
            95..97 if kinds.clock_jumps => self.servers[place].clock.jump(&mut self.random),
            97..103 if kinds.client_cuts => self.cut_clients_off(),
            103..109 if kinds.favourites => {
                self.note(|| format!("{place} is the favourite"));
                self.fault_state.favourite = self.random.per_mille(600).then_some(place);
            }
            _ => {}
        }
    }

    /// A process stands still for a while, with all that is on its way to it. Often it is a leader, for so long that
    /// there may be another one when it goes on.
    fn stop_some_server(&mut self, place: ServerIndex) {
        let state = |server: &Server| Some(server.process.as_ref()?.node.zab()?.state());
        let leads = |server: &Server| state(server) == Some(ServerState::Leading);
        let leader = self.servers.iter().position(leads);
        let leader = leader.filter(|_| self.random.per_mille(500));
        let sync_limit_ticks = self.plan.sync_limit_ticks;
        let (place, ticks) = match leader {
            Some(leader) => (leader, sync_limit_ticks..sync_limit_ticks + 24),
            None => (place, 0..8),
        };
        let ms =
            self.random.between(ticks.start * self.plan.tick_ms + 1, ticks.end * self.plan.tick_ms);
        let is_one_stopped = self.servers.iter().any(|server| server.stopped_until_ms.is_some());
        if self.servers[place].process.is_some() && !is_one_stopped {
            self.note(|| format!("{place} stands still for {ms} ms"));
            self.servers[place].stopped_until_ms = Some(self.now_ms + ms);
            self.later(ms, Event::Resume { place });
            self.later(ms.saturating_sub(self.plan.tick_ms), Event::AskStopped { place });
        }
    }

    /// Clients that have waited for this server want to see all that others have been told meanwhile.
    pub(super) fn ask_stopped(&mut self, place: ServerIndex) {
        for client in 0..self.clients.len() {
            let Client { stage, conn, .. } = &self.clients[client];
            let is_there = conn.and_then(|conn| self.place_of_conn(conn)) == Some(place);
            if is_there && *stage == Stage::Connected {
                self.client_sends(client, Op::Sync);
            }
        }
    }

    /// It goes on, and notices that time has passed, as `server::ticker` does.
    pub(super) fn resume(&mut self, place: ServerIndex) {
        if self.servers[place]
            .stopped_until_ms
            .take_if(|until_ms| *until_ms <= self.now_ms)
            .is_some()
        {
            self.note(|| format!("{place} goes on"));
            self.step(place, Input::ProcessPaused);
        }
    }

    /// Each client cannot reach some of the servers from now on.
    fn cut_clients_off(&mut self) {
        let mut cut_off = BTreeSet::new();
        for client in 0..self.clients.len() {
            for place in 0..self.servers.len() {
                if self.random.per_mille(300) {
                    cut_off.insert((client, place));
                }
            }
        }
        self.note(|| format!("clients are cut off: {cut_off:?}"));
        self.cut_off = cut_off;
    }

    /// A leader is established: a bad moment to lose the power, since much depends on what is durable.
    pub(super) fn maybe_fail_power(&mut self) {
        if self.plan.faults.crashes && !self.fault_state.over && self.random.per_mille(150) {
            let delay_ms = self.random.between(0, self.plan.latency_ms.1 + self.plan.disk_ms.1);
            self.later(delay_ms, Event::PowerFails);
        }
    }

    /// The power fails in more than one place.
    pub(super) fn crash_many(&mut self) {
        if self.fault_state.over {
            return;
        }
        for place in 0..self.servers.len() {
            if self.random.per_mille(700) {
                self.crash(place);
            }
        }
    }

    /// The server whose votes are exaggerated.
    pub(super) fn favourite(&self) -> Option<ServerIndex> {
        self.fault_state.favourite
    }

    /// A server that has crashed starts again, while faults go on.
    pub(super) fn restart_unless_over(&mut self, place: ServerIndex) {
        if self.plan.faults.crashes && !self.fault_state.over {
            self.restart_some_time(place);
        }
    }

    /// A server that is down by then, or cannot write any more, starts again.
    fn restart_some_time(&mut self, place: ServerIndex) {
        let delay_ms = self.random.between(1, self.plan.tick_ms * 10);
        self.later(delay_ms, Event::Start { place });
    }

    /// Cuts the servers into two sides. Sometimes only one direction is cut.
    fn split(&mut self) {
        let side: Vec<bool> = (0..self.servers.len()).map(|_| self.random.per_mille(500)).collect();
        let one_way = self.random.per_mille(300);
        let mut blocked = BTreeSet::new();
        for from in 0..side.len() {
            for to in 0..side.len() {
                let crosses = side[from] != side[to];
                if crosses && (!one_way || side[from]) {
                    blocked.insert((from, to));
                }
            }
        }
        self.block(blocked);
        if self.random.per_mille(500) {
            for (link, from, to) in self.open_links() {
                if side[from] != side[to] {
                    self.break_link(link);
                }
            }
        }
    }

    /// Ordered pairs of servers that cannot reach each other from now on; those before can again.
    pub fn block(&mut self, pairs: BTreeSet<(ServerIndex, ServerIndex)>) {
        self.unblock();
        self.note(|| format!("blocked: {pairs:?}"));
        self.blocked = pairs;
    }

    /// Everybody can reach everybody.
    pub fn heal_network(&mut self) {
        self.note(|| "the network heals".to_owned());
        self.cut_off.clear();
        self.unblock();
    }

    fn break_some_link(&mut self) {
        let links = self.open_links();
        if !links.is_empty() {
            let (link, ..) = *self.random.pick(&links);
            self.break_link(link);
        }
    }

    fn disturb_client(&mut self) {
        let client = self.random.index(self.clients.len());
        if self.random.per_mille(300) {
            self.client_leaves(client);
        } else {
            self.client_gives_up(client);
        }
    }

    fn change_room(&mut self, place: ServerIndex) {
        let room = self.random.below(4096);
        self.limit_room(place, Some(room).filter(|_| !self.servers[place].full));
    }

    /// A disk has room for so many bytes more, or for everything.
    pub(super) fn limit_room(&mut self, place: ServerIndex, bytes: Option<u64>) {
        let server = &mut self.servers[place];
        server.full = bytes.is_some();
        let Storage { disk, dirs } = &server.storage;
        let used = [&dirs.data, &dirs.log].map(|dir| dir_bytes(disk, dir).unwrap_or(0));
        disk.set_capacity(bytes.map(|bytes| bytes + used.iter().sum::<u64>()));
        self.note(|| format!("{place} has room: {bytes:?}"));
    }

    /// Some server that is down will come back with an empty disk. It is not sound before it may vote again.
    fn lose_some_disk(&mut self) {
        let places: Vec<_> =
            (0..self.servers.len()).filter(|place| self.may_be_damaged(*place)).collect();
        if !places.is_empty() {
            let place = *self.random.pick(&places);
            self.note(|| format!("{place} loses its disk"));
            self.lose_disk(place);
            self.servers[place].lost = true;
        }
    }

    /// Whether a server is down, and a quorum is sound without it.
    pub(super) fn may_be_damaged(&self, place: ServerIndex) -> bool {
        let is_voter = self.plan.membership.voters().any(|id| id == self.servers[place].id);
        let me = self.servers[place].id;
        // A voter without a history needs to hear all others.
        let sound = |id| id != me && self.place_of(id).is_some_and(|other| self.may_vote(other));
        let too_many = !Electorate::of(&self.plan.membership).is_quorum(sound);
        self.servers[place].process.is_none() && !too_many && is_voter
    }

    /// A server crashes, and finds a rotten disk when it starts again.
    fn rot(&mut self, place: ServerIndex) {
        self.crash(place);
        if !self.may_be_damaged(place) {
            return;
        }
        let storage = self.servers[place].storage.clone();
        let damaged = storage.rot(&mut self.random);
        if damaged > 0 {
            self.note(|| format!("{place} rots"));
            self.servers[place].rotten += damaged;
        }
    }

    /// No fault happens any more, and all that is broken is mended; servers that cannot write, or would
    /// not start, are left to [`World::restart_all`] and [`World::replace_rotten`].
    pub fn end_faults(&mut self) {
        self.note(|| "faults end".to_owned());
        self.fault_state.over = true;
        self.fault_state.favourite = None;
        self.heal_network();
        for place in 0..self.servers.len() {
            self.servers[place].stopped_until_ms = self.servers[place].stopped_until_ms.map(|_| 0);
            self.resume(place);
        }
        for server in &mut self.servers {
            server.clock.set_right();
            server.slow = false;
            server.full = false;
            server.crash_after = None;
            server.storage.disk.set_capacity(None);
            server.storage.disk.fail_sync(NEVER);
        }
    }

    /// Servers without which there is just a quorum, and not one voter more; `None` if a change of membership is
    /// under way that the others may not be able to complete. Whoever has lost his disk is among them.
    pub fn all_but_a_quorum(&mut self) -> Option<Vec<ServerIndex>> {
        let mut order: Vec<ServerIndex> = (0..self.servers.len()).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, self.random.index(index + 1));
        }
        let is_needed =
            |place: &ServerIndex| self.may_vote(*place) && self.servers[*place].pending().is_none();
        order.sort_by_key(is_needed);
        let mut present: BTreeSet<ServerIndex> = order.iter().copied().collect();
        let voters = self.plan.membership.voters().collect::<BTreeSet<_>>();
        // Observers stay: they take no part in a quorum. Where the membership changes, everybody may be a voter.
        let may_go =
            |place: &ServerIndex| self.plan.reconfig || voters.contains(&self.servers[*place].id);
        let mut absent = Vec::new();
        for place in order.into_iter().filter(may_go) {
            present.remove(&place);
            if self.have_quorums(&present) {
                absent.push(place);
            } else {
                present.insert(place);
            }
        }
        let is_changing = present.iter().any(|place| self.servers[*place].pending().is_some());
        // Servers without any data may not vote without all others.
        let voting = present.iter().copied().filter(|place| self.may_vote(*place)).collect();
        (!is_changing && self.have_quorums(&voting)).then_some(absent)
    }

    /// Whether a server is sound, and not empty while others have a history.
    fn may_vote(&self, place: ServerIndex) -> bool {
        let is_empty = |server: &Server| server.flushed == Zxid::ZERO && server.followed == 0;
        let server = &self.servers[place];
        server.is_sound() && (!is_empty(server) || self.servers.iter().all(is_empty))
    }

    /// Whether some servers are a quorum of every membership that one of them goes by.
    fn have_quorums(&self, present: &BTreeSet<ServerIndex>) -> bool {
        let ids: BTreeSet<_> = present.iter().map(|place| self.servers[*place].id).collect();
        let is_quorum = |place: &ServerIndex| {
            let electorate = Electorate::of(&self.servers[*place].membership);
            electorate.is_quorum(|id| ids.contains(&id))
        };
        !present.is_empty() && present.iter().all(is_quorum)
    }

    /// These servers are down, or cannot reach anybody, until [`World::bring_back`].
    pub fn leave_out(&mut self, absent: &[ServerIndex]) {
        self.note(|| format!("only without {absent:?}"));
        self.counts.quorum_only += 1;
        let all = 0..self.servers.len();
        let pairs = |place: ServerIndex| {
            all.clone().flat_map(move |other| [(place, other), (other, place)])
        };
        let blocked = absent.iter().flat_map(|place| pairs(*place)).collect();
        self.block(blocked);
        for place in absent {
            if self.random.per_mille(500) {
                self.crash(*place);
            }
            self.servers[*place].left_out = true;
            self.cut_off.extend((0..self.clients.len()).map(|client| (client, *place)));
        }
    }

    /// All servers can reach each other again.
    pub fn bring_back(&mut self) {
        self.heal_network();
        for server in &mut self.servers {
            server.left_out = false;
        }
    }

    /// Some znode should have been swept.
    #[must_use]
    pub fn has_idle_znode(&self) -> bool {
        let wall_ms = WALL_MS + i64::try_from(self.now_ms).expect("short histories");
        // Clocks may have been ahead when a znode was written.
        let time = SweepTime { now_ms: wall_ms - 1000, never_used_ms_max: None };
        let mut place = SweepPosition::Start;
        let limit = StepLimit { znodes: usize::MAX, bytes: usize::MAX };
        !self.chronicle.tree().sweep_candidates(time, &mut place, limit).is_empty()
    }

    /// Every server that is down, or cannot write, starts again, if it is not left out.
    pub fn restart_all(&mut self) {
        for place in 0..self.servers.len() {
            if self.servers[place].left_out {
                continue;
            }
            self.start(place);
        }
    }

    /// Servers that refused to start come back with an empty disk. The others must have a leader by
    /// now: it is their history that the newcomers take.
    pub fn replace_rotten(&mut self) {
        for place in 0..self.servers.len() {
            if self.servers[place].refusal.take().is_some() {
                self.note(|| format!("{place} gets a new disk"));
                self.servers[place].storage = Storage::new();
                self.servers[place].rotten = 0;
                self.servers[place].mirror.reset(Zxid::ZERO);
                self.servers[place].flushed = Zxid::ZERO;
                (self.servers[place].promised, self.servers[place].followed) = (0, 0);
                self.report(&Fact::LostDisk { place });
                self.start(place);
            }
        }
    }

    /// There is a leader again, and everybody follows: from now on nothing may end by itself.
    pub fn begin_calm(&mut self) {
        self.fault_state.calm = true;
    }

    /// Sessions that ended though nothing was wrong.
    #[must_use]
    pub fn expired_in_calm(&self) -> &[(usize, SessionId)] {
        &self.fault_state.expired_in_calm
    }
}
